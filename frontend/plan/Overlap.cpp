#include "frontend/plan/Overlap.h"

#include "frontend/plan/Quantities.h"

#include <algorithm>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

std::vector<Transfer> plan::findTransfers(const Plan &plan) {
  std::vector<Transfer> transfers;
  const std::vector<PlannedCommand> &commands = plan.commands;
  for (int index = 0; index < int(commands.size()); ++index) {
    const PlannedCommand &planned = commands[size_t(index)];
    if (!planned.collective)
      continue;
    const bool isMember =
        index > 0 && commands[size_t(index) - 1].position == planned.position;
    if (!isMember) {
      transfers.emplace_back();
      transfers.back().id = "x" + std::to_string(transfers.size());
    }
    Transfer &transfer = transfers.back();
    transfer.collectives.push_back(index);
    transfer.payloadBytes += planned.collective->payload_bytes;
    if (transfer.largest < 0 ||
        planned.collective->payload_bytes >
            commands[size_t(transfer.largest)].collective->payload_bytes)
      transfer.largest = index;
  }
  for (Transfer &transfer : transfers) {
    const int position = commands[size_t(transfer.collectives[0])].position;
    for (int index = transfer.collectives.back() + 1;
         index < int(commands.size()); ++index) {
      const PlannedCommand &planned = commands[size_t(index)];
      if (planned.command->queue == exec::Queue::communication)
        continue;
      // Transfers run in order: who waits for a later one waits for this one.
      const std::vector<int> &waits = planned.command->waits;
      if (std::any_of(waits.begin(), waits.end(), [&](int wait) {
            return wait >= position &&
                   plan.program->commands[size_t(wait)]->queue ==
                       exec::Queue::communication;
          })) {
        transfer.reader = index;
        break;
      }
      transfer.beside.push_back(index);
      transfer.matmuls +=
          planned.command->action.type == exec::Action::Matmul ? 1 : 0;
      transfer.flops += planned.command->flops * planned.repeats;
      transfer.bytes += planned.command->bytes * planned.repeats;
    }
  }
  return transfers;
}

std::string plan::describeBeside(const Transfer &transfer) {
  const int64_t others = int64_t(transfer.beside.size()) - transfer.matmuls;
  std::string text;
  if (transfer.matmuls > 0)
    text = formatCount(transfer.matmuls, "matmul");
  if (others > 0 && !text.empty())
    return text + " and " + formatCount(others, "other command");
  return others > 0 ? formatCount(others, "command") : text;
}
