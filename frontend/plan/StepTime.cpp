#include "frontend/plan/StepTime.h"

#include "frontend/plan/kinds/PlannedKind.h"
#include "layout/ReshardStep.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/Loops.h"
#include "runtime/plans/CpuPieces.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace meshc;
using namespace meshc::plan;

static layout::CollectiveKind getKind(exec::CollectiveKind kind) {
  static_assert(int(exec::CollectiveKind::slice) ==
                int(layout::CollectiveKind::Slice));
  return layout::CollectiveKind(int(kind));
}

std::vector<int> plan::findUnpriced(const Plan &plan,
                                    const layout::Machine &machine) {
  std::vector<int> unpriced;
  for (size_t index = 0; index < plan.commands.size(); ++index)
    if (!plan.commands[index].collective &&
        !getPlannedKind(*plan.commands[index].command)
             .findPrice(*plan.commands[index].command, machine))
      unpriced.push_back(int(index));
  return unpriced;
}

const char *plan::getMatmulTypeName(const exec::CommandT &command) {
  return layout::getName(findMatmulType(command).value());
}

namespace {
/// Prices of the commands of one plan.
class Prices {
public:
  Prices(const Plan &plan, const layout::Machine &machine)
      : plan(plan), machine(machine), numDevices(plan.mesh.getNumDevices()) {}

  layout::Machine::Price get(const exec::CommandT &command) {
    const exec::CollectiveT *collective = command.action.AsCollective();
    if (machine.getWorkerConstants())
      return collective ? layout::Machine::Price{machine.getSharedCollectiveUs(
                                                     command.bytes, numDevices),
                                                 layout::Machine::Bound::Memory}
                        : getShared(command);
    if (collective)
      return {getTransferUs(*collective), layout::Machine::Bound::Memory};
    return *getPlannedKind(command).findPrice(command, machine);
  }

private:
  /// Of all devices, whose pieces worker threads take.
  layout::Machine::Price getShared(const exec::CommandT &command) {
    const auto workers = int(machine.getWorkerConstants()->workers.value);
    const int64_t pieces = runtime::countPieces(command, numDevices, workers);
    if (pieces == 0) // empty on every device
      return {};
    return machine.shareAmongWorkers(
        *getPlannedKind(command).findPrice(command, machine), pieces,
        numDevices);
  }

  /// Bytes of a device's block before or after it, the larger of both.
  static int64_t getLocalBytes(const exec::CollectiveT &collective) {
    if (collective.payload_elements == 0)
      return 0;
    int64_t elements = 1;
    for (size_t dim = 0; dim < collective.target->dims.size(); ++dim)
      elements *= getLocalSize(*collective.target, dim);
    return std::max(elements, collective.payload_elements) *
           (collective.payload_bytes / collective.payload_elements);
  }

  /// Collectives that go together are one message; where one of them is no call
  /// of the machine's library, none is.
  double getTransferUs(const exec::CollectiveT &collective) {
    int64_t payload = 0, wire = 0, exchanged = 0, local = 0;
    bool isExchanged = false;
    for (const exec::CollectiveT *member : runtime::getMembers(collective)) {
      payload += member->payload_bytes;
      local += getLocalBytes(*member);
      if (member->payload_elements == 0)
        continue;
      const layout::ReshardStep step = getStep(*member);
      const int64_t bytes = member->payload_bytes / member->payload_elements;
      const layout::StepSending sending =
          layout::getSending(step, bytes, machine);
      wire += sending.wireBytes;
      exchanged += step.exchangedElements * bytes;
      isExchanged |= sending.kind != step.kind;
    }
    return machine.getCollectiveUs(isExchanged
                                       ? layout::CollectiveKind::Exchange
                                       : getKind(collective.kind),
                                   getReach(collective.axes), payload,
                                   isExchanged ? exchanged : wire, local);
  }

  layout::ReshardStep getStep(const exec::CollectiveT &collective) const {
    std::vector<int64_t> sizes;
    for (const auto &dim : collective.target->dims)
      sizes.push_back(dim->size);
    return layout::getReshardStep(plan.mesh, sizes, getKind(collective.kind),
                                  runtime::getSharding(*collective.source),
                                  runtime::getSharding(*collective.target));
  }

  const layout::GroupReach &getReach(const std::vector<exec::AxisRef> &axes) {
    std::vector<layout::AxisRef> over = getAxes(axes);
    auto [known, isNew] = reaches.try_emplace(over);
    if (isNew)
      known->second = machine.getReach(plan.mesh, over);
    return known->second;
  }

  const Plan &plan;
  const layout::Machine &machine;
  const int64_t numDevices;
  std::map<std::vector<layout::AxisRef>, layout::GroupReach> reaches;
};
} // namespace

StepTime::StepTime(const Plan &plan, const std::vector<Transfer> &transfers,
                   const layout::Machine &machine)
    : machine(machine), commands(plan.commands.size()),
      bounds(plan.commands.size()), exposed(transfers.size()) {
  if (!plan.program)
    return;
  std::vector<int> positions; // of the transfers in the program
  for (const Transfer &transfer : transfers)
    positions.push_back(
        plan.commands[size_t(transfer.collectives[0])].position);
  std::vector<Span> spans;
  std::vector<layout::Machine::Bound> boundOf;
  std::vector<int> firstOf(plan.program->commands.size(), -1);
  for (size_t index = plan.commands.size(); index-- > 0;)
    firstOf[size_t(plan.commands[index].position)] = int(index);

  const std::vector<int64_t> repeats = runtime::countRepeats(*plan.program);
  Prices prices(plan, machine);
  double computed = 0, sent = 0; // until when the queues are busy
  const bool sharesThreads = machine.getWorkerConstants() != nullptr;
  // What is under way while nothing is computed: the one waited for, and those
  // that it waited for in the queue.
  auto expose = [&](double from, double to, int command) {
    for (size_t transfer = positions.size(); transfer-- > 0;) {
      const auto at = size_t(positions[transfer]);
      if (at >= spans.size() || spans[at].start >= to)
        continue;
      const double us =
          std::min(to, spans[at].end) - std::max(from, spans[at].start);
      if (us <= 0)
        break;
      exposed[transfer] += us;
      waits.push_back({command, int(transfer), us});
    }
  };
  for (size_t at = 0; at < plan.program->commands.size(); ++at) {
    const exec::CommandT &command = *plan.program->commands[at];
    const bool communicates = command.queue == exec::Queue::communication;
    double &queue = communicates ? sent : computed;
    double start = sharesThreads ? std::max(computed, sent) : queue;
    for (int wait : command.waits)
      start = std::max(start, spans[size_t(wait)].end);
    layout::Machine::Price price = prices.get(command);
    price.us *= double(repeats[at]);
    if (!communicates) {
      computeUs += price.us;
      expose(queue, start, firstOf[at]);
    }
    queue = start + price.us;
    spans.push_back({start, queue});
    boundOf.push_back(price.bound);
  }
  stepUs = std::max(computed, sent);
  expose(computed, stepUs, -1);
  for (const Wait &wait : waits)
    exposedUs += wait.us;
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const auto position = size_t(plan.commands[index].position);
    commands[index] = spans[position];
    bounds[index] = boundOf[position];
  }
}

std::vector<StepCost> plan::findCosts(const Plan &plan,
                                      const std::vector<Transfer> &transfers,
                                      const EqualScopes &scopes,
                                      const StepTime &time) {
  std::map<std::pair<int, bool>, StepCost> costs;
  auto add = [&](int command, bool isWait, double us) {
    const int first = scopes.commandFolds[size_t(command)];
    StepCost &cost = costs[{first, isWait}];
    cost.us += us;
    ++cost.count;
    cost.first = first;
    cost.isWait = isWait;
  };
  for (size_t index = 0; index < plan.commands.size(); ++index)
    if (!plan.commands[index].collective)
      add(int(index), false, time.commands[index].getUs());
  for (size_t transfer = 0; transfer < transfers.size(); ++transfer)
    if (time.exposed[transfer] > 0)
      add(transfers[transfer].largest, true, time.exposed[transfer]);
  std::vector<StepCost> sorted;
  for (const auto &[key, cost] : costs)
    sorted.push_back(cost);
  std::sort(sorted.begin(), sorted.end(),
            [](const StepCost &left, const StepCost &right) {
              return std::tuple(-left.us, left.first, left.isWait) <
                     std::tuple(-right.us, right.first, right.isWait);
            });
  return sorted;
}
