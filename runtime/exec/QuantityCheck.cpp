/// Numbers that say something and that nothing is found by: what is computed,
/// moved and sent, what data is divided by. All of them are bounded here, by
/// what they mean.

#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/kinds/CommandKind.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

using namespace meshc;
using namespace meshc::runtime;

bool ExecutableChecker::checkQuantities(
    std::initializer_list<Quantity> quantities) {
  for (const auto &[name, value, most] : quantities)
    if (value < 0 || value > most)
      return fail(fmt::format("{} is {}, expected 0 to {}", name, value, most));
  return true;
}

/// Of a member of a collective whose layouts are sound: what it says of itself
/// follows from them.
bool ExecutableChecker::checkTraffic(const exec::CollectiveT &collective,
                                     Totals &totals) {
  for (const auto &cause : collective.causes)
    if (const auto *alternative = cause->alternative.get())
      for (double cost : {alternative->cost_us, alternative->chosen_cost_us})
        if (!std::isfinite(cost) || cost < 0)
          return fail(fmt::format("an alternative costs {} us", cost));
  // Slices only keep a part of what a device has.
  const bool isSlice = collective.kind == exec::CollectiveKind::slice;
  int64_t devices = 1;
  if (!isSlice)
    for (const exec::AxisRef &axis : collective.axes)
      devices *= axis.size(); // of the mesh
  const int64_t elements = isSlice ? 0 : getLocalElements(*collective.source);
  const int64_t bytes =
      elements * getElementBytes(collective.source->element); // checkLayout
  if (multiply(devices, bytes) < 0)
    return fail("a collective moves more than any memory");
  // A device gives each of the others all that it has, and takes from each of
  // them all that they have, at most.
  const int64_t wire = (devices - 1) * bytes;
  if (!checkQuantities(
          {{"a collective's group size", collective.group_size, devices},
           {"a collective's payload in elements", collective.payload_elements,
            elements},
           {"a collective's payload in bytes", collective.payload_bytes, bytes},
           {"what a collective sends", collective.wire_bytes, wire}}))
    return false;
  totals.payload += collective.payload_bytes;
  totals.wire += collective.wire_bytes;
  return true;
}

bool ExecutableChecker::checkCommandQuantities(const exec::CommandT &command,
                                               Totals &totals) {
  const CommandKind &kind = getKind(command);
  const int64_t mostFlops =
      kind.countMostFlops ? kind.countMostFlops(command) : maxExtent;
  if (mostFlops < 0)
    return fail(fmt::format("a {} computes more than any machine", kind.name));
  if (!checkQuantities(
          {{"the number of its operations", command.flops, mostFlops},
           {"what it reads and writes", command.bytes, maxExtent}}))
    return false;
  totals.flops += command.flops;
  totals.bytes += command.bytes;
  if (const exec::CollectiveT *collective = command.action.AsCollective())
    for (const exec::CollectiveT *member : getMembers(*collective))
      if (!checkTraffic(*member, totals))
        return false;
  // Each term is at most maxExtent or twice it, so that none has overflowed.
  return checkQuantities(
      {{"the number of all operations so far", totals.flops, maxTotal},
       {"what is read and written so far", totals.bytes, maxTotal},
       {"the payload of all collectives so far", totals.payload, maxTotal},
       {"what all collectives so far send", totals.wire, maxTotal}});
}

bool ExecutableChecker::checkTensorQuantities(const exec::TensorT &tensor) {
  const int64_t bytes = getElementBytes(tensor.layout->element);
  return checkQuantities(
      {{"its size in bytes", tensor.bytes_global,
        getGlobalElements(*tensor.layout) * bytes},
       {"its size in bytes on each device", tensor.bytes_per_device,
        getLocalElements(*tensor.layout) * bytes}});
}

bool ExecutableChecker::checkPortQuantities(const exec::PortT &port) {
  int64_t most = 0;
  switch (port.layout->element) {
  case exec::ElementType::u8:
    most = int64_t(std::numeric_limits<uint8_t>::max()) + 1;
    break;
  case exec::ElementType::i8:
    most = int64_t(std::numeric_limits<int8_t>::max()) + 1;
    break;
  case exec::ElementType::i16:
    most = int64_t(std::numeric_limits<int16_t>::max()) + 1;
    break;
  case exec::ElementType::i32:
    most = int64_t(std::numeric_limits<int32_t>::max()) + 1;
    break;
  case exec::ElementType::i64:
    most = std::numeric_limits<int64_t>::max();
    break;
  default: // which are no indices
    break;
  }
  return checkQuantities({{"its index bound", port.index_bound, most}});
}

bool ExecutableChecker::checkSourceQuantities(const exec::DataSourceT &source) {
  // Windows of readers that have some begin at multiples of it.
  const bool hasWindows = source.reader == exec::DataReader::tokens ||
                          source.reader == exec::DataReader::text;
  if (hasWindows && source.stride == 0)
    return fail("its stride is 0");
  return checkQuantities({{"its stride", source.stride, maxExtent}});
}

bool ExecutableChecker::checkTrainingQuantities(
    const exec::TrainingT &training) {
  // Small enough that steps of all epochs can be counted.
  constexpr int64_t maxEpochs = int64_t(1) << 30;
  return checkQuantities({{"the number of epochs", training.epochs, maxEpochs},
                          {"the number of steps", training.steps, maxExtent},
                          {"the number of parts", training.parts, maxEpochs}});
}
