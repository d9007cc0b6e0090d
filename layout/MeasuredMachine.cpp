#include "layout/MeasuredMachine.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace meshc::layout;

ProductFit meshc::layout::fitProducts(std::span<const MeasuredWork> products,
                                      double nearBytes, double farBytes) {
  // Least squares of (call + flops * a + near * b + far * c) / us - 1 by turns
  // over the four, each the best for the others, or nothing: the sum falls with
  // every turn, and being convex has one lowest value. Between the caches and
  // memory the time grows linearly, as Machine has it.
  std::array<double, 4> unknowns = {}; // call, a, b, c
  std::vector<std::array<double, 4>> rows;
  bool hasNear = false, hasFar = false;
  for (const MeasuredWork &work : products) {
    const double part =
        std::clamp((work.bytes - nearBytes) / (farBytes - nearBytes), 0.0, 1.0);
    const double near = (1 - part) * std::min(work.bytes, nearBytes);
    const double far = part * std::max(work.bytes, farBytes);
    hasNear |= near > 0;
    hasFar |= far > 0;
    rows.push_back(
        {1 / work.us, work.flops / work.us, near / work.us, far / work.us});
  }
  constexpr int turns = 20000;
  for (int turn = 0; turn < turns; ++turn)
    for (size_t i = 0; i < unknowns.size(); ++i) {
      double product = 0, square = 0;
      for (const auto &row : rows) {
        double rest = 1;
        for (size_t j = 0; j < unknowns.size(); ++j)
          rest -= j == i ? 0 : row[j] * unknowns[j];
        product += row[i] * rest;
        square += row[i] * row[i];
      }
      unknowns[i] = square > 0 ? std::max(0.0, product / square) : 0;
    }
  constexpr double least = 1e-12; // a rate is a number
  ProductFit fit;
  fit.callUs = unknowns[0];
  fit.rate = 1 / std::max(least, unknowns[1]);
  fit.byteRate = 1 / std::max(least, unknowns[hasNear ? 2 : 3]);
  fit.farByteRate = 1 / std::max(least, unknowns[hasFar ? 3 : 2]);
  for (const auto &row : rows) {
    double part = 0;
    for (size_t j = 0; j < unknowns.size(); ++j)
      part += row[j] * unknowns[j];
    fit.worstError = std::max(fit.worstError, std::abs(part - 1));
  }
  return fit;
}

std::vector<MeasuredField> meshc::layout::getFields(MeasuredHost &host) {
  return {{"matmul_f32_flops_per_us", &host.matmul32.rate},
          {"matmul_f32_bytes_per_us", &host.matmul32.byteRate},
          {"matmul_f32_far_bytes_per_us", &host.matmul32.farByteRate},
          {"matmul_f32_call_us", &host.matmul32.callUs},
          {"matmul_bf16_flops_per_us", &host.matmulBf16.rate},
          {"matmul_bf16_bytes_per_us", &host.matmulBf16.byteRate},
          {"matmul_bf16_far_bytes_per_us", &host.matmulBf16.farByteRate},
          {"matmul_bf16_call_us", &host.matmulBf16.callUs},
          {"matmul_f16_flops_per_us", &host.matmul16.rate},
          {"matmul_f16_bytes_per_us", &host.matmul16.byteRate},
          {"matmul_f16_far_bytes_per_us", &host.matmul16.farByteRate},
          {"matmul_f16_call_us", &host.matmul16.callUs},
          {"convolution_flops_per_us", &host.convolution.rate},
          {"convolution_bytes_per_us", &host.convolution.byteRate},
          {"convolution_far_bytes_per_us", &host.convolution.farByteRate},
          {"convolution_call_us", &host.convolution.callUs},
          {"kernel_flops_per_us", &host.arithmetic},
          {"near_bytes_per_us", &host.nearRate},
          {"far_bytes_per_us", &host.farRate},
          {"near_bytes", &host.nearBytes},
          {"far_bytes", &host.farBytes},
          {"command_us", &host.commandUs},
          {"collective_us", &host.collectiveUs},
          {"collective_bytes_per_us", &host.collectiveRate},
          {"collective_far_bytes_per_us", &host.collectiveFarRate},
          {"collective_near_bytes", &host.collectiveNearBytes},
          {"collective_far_bytes", &host.collectiveFarBytes}};
}

static Machine makeMachine(const MeasuredHost &host, std::string_view source,
                           std::string_view label) {
  auto constant = [&](std::string_view name, std::string_view unit,
                      double value) {
    return MachineConstant{name, unit, value, Made::Measured, source};
  };
  auto product = [&](std::string_view rate, std::string_view operands,
                     std::string_view far, std::string_view call,
                     const ProductFit &fit) {
    return Machine::ProductConstants{
        constant(rate, "flop/us", fit.rate),
        constant(operands, "bytes/us", fit.byteRate),
        constant(far, "bytes/us", fit.farByteRate),
        constant(call, "us", fit.callUs)};
  };
  return {
      "cpu", label,
      Machine::WorkerConstants{
          constant("worker threads", "", double(host.workers)),
          product("matmul f32", "matmul f32, operands", "matmul f32, in memory",
                  "matmul f32, call", host.matmul32),
          product("matmul bf16", "matmul bf16, operands",
                  "matmul bf16, in memory", "matmul bf16, call",
                  host.matmulBf16),
          product("matmul f16", "matmul f16, operands", "matmul f16, in memory",
                  "matmul f16, call", host.matmul16),
          product("convolution f32", "convolution f32, operands",
                  "convolution f32, in memory", "convolution f32, call",
                  host.convolution),
          constant("other arithmetic", "flop/us", host.arithmetic),
          constant("caches", "bytes/us", host.nearRate),
          constant("memory", "bytes/us", host.farRate),
          constant("command in caches", "bytes", host.nearBytes),
          constant("command in memory", "bytes", host.farBytes),
          constant("command", "us", host.commandUs),
          constant("collective", "us", host.collectiveUs),
          constant("collective, copies", "bytes/us", host.collectiveRate),
          constant("collective, in memory", "bytes/us", host.collectiveFarRate),
          constant("collective in caches", "bytes", host.collectiveNearBytes),
          constant("collective in memory", "bytes", host.collectiveFarBytes)}};
}

MeasuredMachine::MeasuredMachine(const MeasuredHost &host)
    : source("meshc doctor --measure, " + host.date), label(host.processor),
      machine(makeMachine(host, source, label)) {}
