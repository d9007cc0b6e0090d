#include "layout/Machine.h"

#include "layout/NcclTimes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

using namespace meshc::layout;

const char *meshc::layout::getName(Made made) {
  switch (made) {
  case Made::Measured:
    return "measured";
  case Made::Interpolated:
    return "interpolated";
  case Made::DataSheet:
    return "data_sheet";
  case Made::Assumed:
    return "assumed";
  }
  std::abort();
}

const char *meshc::layout::getName(Machine::Bound bound) {
  switch (bound) {
  case Machine::Bound::Flops:
    return "flops";
  case Machine::Bound::Memory:
    return "memory";
  case Machine::Bound::Launch:
    return "launch";
  }
  std::abort();
}

const char *meshc::layout::getName(MatmulType type) {
  switch (type) {
  case MatmulType::F64:
    return "f64";
  case MatmulType::F32:
    return "f32";
  case MatmulType::F16:
    return "f16";
  case MatmulType::Bf16:
    return "bf16";
  }
  std::abort();
}

std::vector<MachineConstant> Machine::getConstants() const {
  if (const auto *host = std::get_if<HostConstants>(&constants))
    return {host->arithmetic, host->copyRate, host->transferUs,
            host->roundUs,    host->wireRate, host->exchangeFactor};
  if (const WorkerConstants *w = getWorkerConstants()) {
    std::vector<MachineConstant> all = {w->workers};
    for (const ProductConstants *product :
         {&w->matmul32, &w->matmulBf16, &w->matmul16, &w->convolution})
      all.insert(all.end(), {product->rate, product->byteRate,
                             product->farByteRate, product->callUs});
    all.insert(all.end(), {w->arithmetic, w->nearRate, w->farRate, w->nearBytes,
                           w->farBytes, w->commandUs, w->collectiveUs,
                           w->collectiveRate, w->collectiveFarRate,
                           w->collectiveNearBytes, w->collectiveFarBytes});
    return all;
  }
  const auto &c = std::get<Constants>(constants);
  std::vector<MachineConstant> all = {
      c.memoryBytes, c.devicesPerHost, c.matmul32, c.matmul16,
      c.vector32,    c.memoryRate,     c.launchUs, c.multiprocessors,
      c.insideRate,  c.networkRate};
  for (const auto &constant :
       {c.matmul64, c.matmulBf16, c.pcieRate, c.switchPart})
    if (constant)
      all.push_back(*constant);
  return all;
}

std::optional<int64_t> Machine::getMemoryBytes() const {
  if (const Constants *gpu = getGpuConstants())
    return int64_t(gpu->memoryBytes.value);
  return std::nullopt;
}

//===-- Groups ------------------------------------------------------------===//

namespace {
/// A digit of the numbers of devices.
struct Digit {
  int64_t stride, size;
};
} // namespace

/// The digits that `axes` are, and those of all else, from major to minor.
static void splitDigits(const Mesh &mesh, std::span<const AxisRef> axes,
                        std::vector<Digit> &inside,
                        std::vector<Digit> &outside) {
  std::vector<AxisRef> parts(axes.begin(), axes.end());
  std::sort(parts.begin(), parts.end());
  int64_t minor = mesh.getNumDevices();
  auto part = parts.begin();
  for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis) {
    const int64_t size = mesh.getAxisSize(axis);
    minor /= size;
    int64_t pre = 1;
    auto skipTo = [&](int64_t next) {
      if (next > pre)
        outside.push_back({size / next * minor, next / pre});
    };
    for (; part != parts.end() && part->axis == axis; ++part) {
      skipTo(part->pre);
      pre = part->pre * part->size;
      inside.push_back({size / pre * minor, part->size});
    }
    skipTo(size);
  }
}

/// Adds every value of the digit to every number.
static std::vector<int64_t> addDigit(const std::vector<int64_t> &numbers,
                                     Digit digit) {
  std::vector<int64_t> sums;
  sums.reserve(numbers.size() * size_t(digit.size));
  for (int64_t number : numbers)
    for (int64_t value = 0; value < digit.size; ++value)
      sums.push_back(number + value * digit.stride);
  return sums;
}

bool Machine::hasSeveralHosts(const Mesh &mesh) const {
  const Constants *gpu = getGpuConstants();
  return gpu && mesh.getNumDevices() > int64_t(gpu->devicesPerHost.value);
}

GroupReach Machine::getReach(const Mesh &mesh,
                             std::span<const AxisRef> axes) const {
  GroupReach reach;
  for (const AxisRef &axis : axes)
    reach.ranks *= axis.size;
  reach.perHost = reach.ranks;
  if (!hasSeveralHosts(mesh))
    return reach;
  const auto perHost = int64_t(getGpuConstants()->devicesPerHost.value);
  std::vector<Digit> inside, outside;
  splitDigits(mesh, axes, inside, outside);
  std::vector<int64_t> members = {0}, starts = {0};
  for (Digit digit : inside)
    members = addDigit(members, digit); // ascending
  // Groups that begin at the same place of a host reach alike.
  for (Digit digit : outside) {
    starts = addDigit(starts, {digit.stride, std::min(digit.size, perHost)});
    for (int64_t &start : starts)
      start %= perHost;
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  }
  for (int64_t start : starts) {
    int64_t hosts = 0, most = 0, count = 0, last = -1;
    for (int64_t member : members) {
      const int64_t host = (start + member) / perHost;
      hosts += host != last;
      count = host == last ? count + 1 : 1;
      most = std::max(most, count);
      last = host;
    }
    if (hosts > reach.hosts)
      reach = {reach.ranks, hosts, most};
    else if (hosts == reach.hosts) // the one that shares the network less
      reach.perHost = std::min(reach.perHost, most);
  }
  return reach;
}

//===-- Computing ---------------------------------------------------------===//

namespace {
/// What part of a machine's rate is reached from this size on.
struct Efficiency {
  double size, part;
};
} // namespace

/// Linear between the points of `curve`, so that more takes longer.
template <size_t N>
static double getEfficiency(const std::array<Efficiency, N> &curve,
                            double size) {
  for (size_t i = 1; i < N; ++i)
    if (size < curve[i].size)
      return curve[i - 1].part + (curve[i].part - curve[i - 1].part) *
                                     (size - curve[i - 1].size) /
                                     (curve[i].size - curve[i - 1].size);
  return curve.back().part;
}

/// By the microseconds that a matmul would take at the machine's rate: between
/// f32 and bf16 as bench/gpu.sh measured them on an H200, times without a
/// launch. f32: 6 us 0.37, 15 us 0.56, 64 us 0.71; bf16: 20 us 0.67, 78 us
/// 0.79, 139 us and 1.3 ms 0.82.
static constexpr std::array<Efficiency, 5> matmulEfficiency = {
    {{0, 0.1}, {6, 0.37}, {20, 0.62}, {70, 0.76}, {140, 0.82}}};
// Source: Calculon (Isaev et al., SC 2023), its description of the A100.
static constexpr std::array<Efficiency, 4> memoryEfficiency = {
    {{0, 0.3}, {1e6, 0.6}, {10e6, 0.75}, {100e6, 0.9}}};

/// The time of bytes of which one rate was measured for so many, which stay in
/// the caches, and one for more of them. Between the two it grows linearly, so
/// that the rate falls.
static double getMemoryUs(double bytes, double nearRate, double nearBytes,
                          double farRate, double farBytes) {
  if (bytes <= nearBytes)
    return bytes / nearRate;
  if (bytes >= farBytes)
    return bytes / farRate;
  const double nearUs = nearBytes / nearRate, farUs = farBytes / farRate;
  return nearUs +
         (bytes - nearBytes) / (farBytes - nearBytes) * (farUs - nearUs);
}

/// Of a command on a thread, by these rates.
static double getWorkerMemoryUs(const Machine::WorkerConstants &worker,
                                double bytes, const MachineConstant &nearRate,
                                const MachineConstant &farRate) {
  return getMemoryUs(bytes, nearRate.value, worker.nearBytes.value,
                     farRate.value, worker.farBytes.value);
}

Machine::Price Machine::getPrice(double arithmeticUs, double bytes) const {
  double memoryUs = 0, launchUs = 0;
  if (const WorkerConstants *worker = getWorkerConstants()) {
    memoryUs =
        getWorkerMemoryUs(*worker, bytes, worker->nearRate, worker->farRate);
    launchUs = worker->commandUs.value;
  } else if (const auto *host = std::get_if<HostConstants>(&constants)) {
    memoryUs = bytes / host->copyRate.value;
  } else {
    const auto &gpu = std::get<Constants>(constants);
    memoryUs =
        bytes / (gpu.memoryRate.value * getEfficiency(memoryEfficiency, bytes));
    launchUs = gpu.launchUs.value;
  }
  Price price;
  price.us = launchUs + std::max(arithmeticUs, memoryUs);
  if (std::max(arithmeticUs, memoryUs) > launchUs)
    price.bound = arithmeticUs > memoryUs ? Bound::Flops : Bound::Memory;
  return price;
}

Machine::Price Machine::getKernelPrice(double flops, double bytes) const {
  if (const WorkerConstants *worker = getWorkerConstants())
    return getPrice(flops / worker->arithmetic.value, bytes);
  const Constants *gpu = getGpuConstants();
  const MachineConstant &rate =
      gpu ? gpu->vector32 : std::get<HostConstants>(constants).arithmetic;
  return getPrice(flops / rate.value, bytes);
}

double Machine::getFlopsPerByte() const {
  if (const WorkerConstants *worker = getWorkerConstants())
    return worker->arithmetic.value / worker->farRate.value;
  if (const Constants *gpu = getGpuConstants())
    return gpu->vector32.value / gpu->memoryRate.value;
  const auto &host = std::get<HostConstants>(constants);
  return host.arithmetic.value / host.copyRate.value;
}

static std::optional<MachineConstant>
findMatmulRate(const Machine::Constants &machine, MatmulType type) {
  switch (type) {
  case MatmulType::F64:
    return machine.matmul64;
  case MatmulType::F32:
    return machine.matmul32;
  case MatmulType::F16:
    return machine.matmul16;
  case MatmulType::Bf16:
    return machine.matmulBf16;
  }
  std::abort();
}

/// Null where products of the type are not the library's, and were not
/// measured.
static const Machine::ProductConstants *
findProduct(const Machine::WorkerConstants &worker, MatmulType type) {
  switch (type) {
  case MatmulType::F64:
    return nullptr;
  case MatmulType::F32:
    return &worker.matmul32;
  case MatmulType::F16:
    return &worker.matmul16;
  case MatmulType::Bf16:
    return &worker.matmulBf16;
  }
  std::abort();
}

static Machine::Price getProductPrice(const Machine::WorkerConstants &worker,
                                      const Machine::ProductConstants &product,
                                      double flops, double bytes) {
  const double arithmeticUs = flops / product.rate.value;
  const double memoryUs =
      getWorkerMemoryUs(worker, bytes, product.byteRate, product.farByteRate);
  const double startUs = product.callUs.value + worker.commandUs.value;
  Machine::Price price;
  price.us = startUs + arithmeticUs + memoryUs;
  if (std::max(arithmeticUs, memoryUs) > startUs)
    price.bound = arithmeticUs > memoryUs ? Machine::Bound::Flops
                                          : Machine::Bound::Memory;
  return price;
}

std::optional<Machine::Price>
Machine::findMatmulPrice(MatmulType type, double flops, double bytes) const {
  if (const WorkerConstants *worker = getWorkerConstants()) {
    const ProductConstants *product = findProduct(*worker, type);
    return product
               ? std::optional(getProductPrice(*worker, *product, flops, bytes))
               : std::nullopt;
  }
  const Constants *gpu = getGpuConstants();
  if (!gpu)
    return getKernelPrice(flops, bytes);
  const std::optional<MachineConstant> rate = findMatmulRate(*gpu, type);
  if (!rate)
    return std::nullopt;
  const double fullUs = flops / rate->value;
  return getPrice(fullUs / getEfficiency(matmulEfficiency, fullUs), bytes);
}

std::optional<Machine::Price>
Machine::findConvolutionPrice(MatmulType type, double flops,
                              double bytes) const {
  const WorkerConstants *worker = getWorkerConstants();
  // The library computes those of 16-bit floats as f32.
  if (worker && type != MatmulType::F64)
    return getProductPrice(*worker, worker->convolution, flops, bytes);
  return findMatmulPrice(type, flops, bytes);
}

Machine::Price Machine::shareAmongWorkers(Price price, int64_t pieces,
                                          int64_t devices) const {
  const auto workers = int64_t(getWorkerConstants()->workers.value);
  const int64_t rounds = (devices * pieces + workers - 1) / workers;
  price.us *= double(rounds) / double(pieces);
  return price;
}

double Machine::getSharedCollectiveUs(int64_t bytes, int64_t devices) const {
  const WorkerConstants &worker = *getWorkerConstants();
  const double us = worker.collectiveUs.value +
                    getMemoryUs(double(bytes), worker.collectiveRate.value,
                                worker.collectiveNearBytes.value,
                                worker.collectiveFarRate.value,
                                worker.collectiveFarBytes.value);
  return us * double(devices) / worker.workers.value;
}

//===-- Sending -----------------------------------------------------------===//

static int64_t getRounds(CollectiveKind kind, int64_t groupSize) {
  const int64_t doublings = std::bit_width(uint64_t(groupSize - 1));
  switch (kind) {
  case CollectiveKind::AllReduce:
    return 2 * doublings;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll:
    return doublings;
  case CollectiveKind::Exchange:
    return 2 * doublings + 1;
  case CollectiveKind::Permute:
    return 1;
  case CollectiveKind::Slice:
    return 0;
  }
  std::abort();
}

static double getHostUs(const Machine::HostConstants &machine,
                        CollectiveKind kind, int64_t groupSize,
                        int64_t wireBytes, int64_t localBytes) {
  const double local = double(localBytes) / machine.copyRate.value;
  if (kind == CollectiveKind::Slice || groupSize <= 1)
    return local;
  double wire = double(wireBytes) / machine.wireRate.value;
  if (kind == CollectiveKind::Exchange)
    wire *= machine.exchangeFactor.value;
  return local + machine.transferUs.value +
         machine.roundUs.value * double(getRounds(kind, groupSize)) + wire;
}

double Machine::getCollectiveUs(CollectiveKind kind, const GroupReach &reach,
                                int64_t payloadBytes, int64_t wireBytes,
                                int64_t localBytes) const {
  if (const auto *host = std::get_if<HostConstants>(&constants))
    return getHostUs(*host, kind, reach.ranks, wireBytes, localBytes);
  if (getWorkerConstants())
    return getSharedCollectiveUs(payloadBytes + wireBytes + localBytes,
                                 reach.ranks);
  const auto &gpu = std::get<Constants>(constants);
  auto getCopyUs = [&](int64_t bytes) {
    return 2 * double(bytes) / gpu.memoryRate.value;
  };
  if (reach.ranks <= 1 || kind == CollectiveKind::Slice)
    return gpu.launchUs.value + getCopyUs(std::max(payloadBytes, localBytes));
  const double us = nccl::getUs(gpu, kind, reach, payloadBytes, wireBytes);
  // Boxes are packed before they are sent, and unpacked or added up behind.
  const bool isPacked =
      kind == CollectiveKind::Exchange || kind == CollectiveKind::AllToAll;
  return isPacked ? us + 2 * (gpu.launchUs.value + getCopyUs(localBytes)) : us;
}

double Machine::getAddedGatherUs(const GroupReach &reach) const {
  const double us = getCollectiveUs(CollectiveKind::AllGather, reach, 0, 0);
  const auto *host = std::get_if<HostConstants>(&constants);
  return host ? us - host->transferUs.value : us;
}

double Machine::getLeastCollectiveUs() const {
  if (const auto *host = std::get_if<HostConstants>(&constants))
    return host->transferUs.value + host->roundUs.value;
  if (const WorkerConstants *worker = getWorkerConstants())
    return worker->collectiveUs.value;
  return nccl::getLeastUs();
}
