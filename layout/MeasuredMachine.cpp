#include "layout/MeasuredMachine.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace meshc::layout;

ProductFit meshc::layout::fitProducts(std::span<const MeasuredWork> products) {
  // Least squares of (call + flops * a + bytes * b) / us - 1 by turns over the
  // three, each the best for the others, or nothing: the sum falls with every
  // turn, and being convex has one lowest value.
  std::array<double, 3> unknowns = {}; // call, a, b
  std::vector<std::array<double, 3>> rows;
  for (const MeasuredWork &work : products)
    rows.push_back({1 / work.us, work.flops / work.us, work.bytes / work.us});
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
  fit.byteRate = 1 / std::max(least, unknowns[2]);
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
          {"matmul_f32_call_us", &host.matmul32.callUs},
          {"matmul_bf16_flops_per_us", &host.matmulBf16.rate},
          {"matmul_bf16_bytes_per_us", &host.matmulBf16.byteRate},
          {"matmul_bf16_call_us", &host.matmulBf16.callUs},
          {"matmul_f16_flops_per_us", &host.matmul16.rate},
          {"matmul_f16_bytes_per_us", &host.matmul16.byteRate},
          {"matmul_f16_call_us", &host.matmul16.callUs},
          {"convolution_flops_per_us", &host.convolution.rate},
          {"convolution_bytes_per_us", &host.convolution.byteRate},
          {"convolution_call_us", &host.convolution.callUs},
          {"kernel_flops_per_us", &host.arithmetic},
          {"near_bytes_per_us", &host.nearRate},
          {"far_bytes_per_us", &host.farRate},
          {"near_bytes", &host.nearBytes},
          {"far_bytes", &host.farBytes},
          {"command_us", &host.commandUs},
          {"collective_us", &host.collectiveUs},
          {"collective_bytes_per_us", &host.collectiveRate}};
}

static Machine makeMachine(const MeasuredHost &host, std::string_view source,
                           std::string_view label) {
  auto constant = [&](std::string_view name, std::string_view unit,
                      double value) {
    return MachineConstant{name, unit, value, Made::Measured, source};
  };
  return {
      "cpu", label,
      Machine::WorkerConstants{
          constant("worker threads", "", double(host.workers)),
          {constant("matmul f32", "flop/us", host.matmul32.rate),
           constant("matmul f32, operands", "bytes/us", host.matmul32.byteRate),
           constant("matmul f32, call", "us", host.matmul32.callUs)},
          {constant("matmul bf16", "flop/us", host.matmulBf16.rate),
           constant("matmul bf16, operands", "bytes/us",
                    host.matmulBf16.byteRate),
           constant("matmul bf16, call", "us", host.matmulBf16.callUs)},
          {constant("matmul f16", "flop/us", host.matmul16.rate),
           constant("matmul f16, operands", "bytes/us", host.matmul16.byteRate),
           constant("matmul f16, call", "us", host.matmul16.callUs)},
          {constant("convolution f32", "flop/us", host.convolution.rate),
           constant("convolution f32, operands", "bytes/us",
                    host.convolution.byteRate),
           constant("convolution f32, call", "us", host.convolution.callUs)},
          constant("other arithmetic", "flop/us", host.arithmetic),
          constant("caches", "bytes/us", host.nearRate),
          constant("memory", "bytes/us", host.farRate),
          constant("command in caches", "bytes", host.nearBytes),
          constant("command in memory", "bytes", host.farBytes),
          constant("command", "us", host.commandUs),
          constant("collective", "us", host.collectiveUs),
          constant("collective, copies", "bytes/us", host.collectiveRate)}};
}

MeasuredMachine::MeasuredMachine(const MeasuredHost &host)
    : source("meshc doctor --measure, " + host.date), label(host.processor),
      machine(makeMachine(host, source, label)) {}
