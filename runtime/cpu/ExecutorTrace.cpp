/// The part of Executor that tells what devices did, and when.

#include "runtime/cpu/Executor.h"

#include <algorithm>
#include <map>

using namespace meshc;
using namespace meshc::runtime;

using Part = TraceEvent::Part;
using Stage = Collective::Stage;

static int64_t getNanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

void Executor::traceRuns(RunTrace *newTrace) {
  // The lock orders this before what the workers do in the next run.
  std::lock_guard<std::mutex> lock(mutex);
  trace = newTrace;
  for (Worker &worker : workers) {
    worker.isTraced = trace != nullptr;
    worker.pieces.clear();
  }
}

void Executor::beginTrace() {
  tracedGroups.assign(current->groups.size(), {});
  for (Worker &worker : workers)
    worker.pieces.clear();
}

/// What a collective was on each device of a group.
std::vector<TraceEvent> Executor::traceGroup(size_t slot) const {
  const CommandGroup &place = current->groups[slot];
  const Collective &collective = *current->commands[place.command].collective;
  const TracedGroup &group = tracedGroups[slot];
  std::vector<TraceEvent> events;
  for (const TracedGroup::Arrival &arrival : group.arrivals) {
    auto add = [&](Part part, Clock::time_point begin, Clock::time_point end) {
      if (begin < end || part == Part::Command)
        events.push_back({getNanoseconds(begin), getNanoseconds(end),
                          int32_t(arrival.device), int32_t(place.command),
                          part});
    };
    add(Part::Command, arrival.time, group.end);
    Clock::time_point last = group.arrivals.back().time;
    add(Part::Devices, arrival.time, last);
    const bool isExchanged = collective.isExchanged(place.group);
    for (auto [stage, part] : {std::pair{Stage::Pack, Part::Pack},
                               {Stage::Combine, Part::Combine},
                               {Stage::Spread, Part::Spread}}) {
      const TracedGroup::Span &span = group.stages[size_t(stage)];
      if (span.begin > span.end)
        continue;
      if (isExchanged && stage != Stage::Pack)
        add(Part::Messages, last, span.begin);
      add(part, span.begin, span.end);
      last = span.end;
    }
  }
  return events;
}

void Executor::collectTrace(Clock::time_point begin, Clock::time_point end) {
  trace->begin = getNanoseconds(begin);
  trace->end = getNanoseconds(end);
  trace->events.clear();
  // Of each command and device, from the first piece to the last.
  std::map<std::pair<size_t, int64_t>, TracedGroup::Span> spans;
  for (Worker &worker : workers) {
    for (const TracedPiece &piece : worker.pieces) {
      const size_t number = size_t(piece.command - current->commands.data());
      TracedGroup::Span &span =
          piece.device >= 0
              ? spans[{number, piece.device}]
              : tracedGroups[piece.command->firstGroup + size_t(piece.group)]
                    .stages[size_t(piece.stage)];
      span.begin = std::min(span.begin, piece.begin);
      span.end = std::max(span.end, piece.end);
    }
  }
  for (const auto &[place, span] : spans)
    trace->events.push_back({getNanoseconds(span.begin),
                             getNanoseconds(span.end), int32_t(place.second),
                             int32_t(place.first), Part::Command});
  for (size_t slot = 0; slot < tracedGroups.size(); ++slot) {
    std::vector<TraceEvent> events = traceGroup(slot);
    trace->events.insert(trace->events.end(), events.begin(), events.end());
  }
}
