#include "runtime/app/TraceJson.h"

#include "runtime/exec/PlanIds.h"
#include "runtime/io/Json.h"

#include "layout/Sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

using namespace meshc;
using namespace meshc::runtime;

using Part = TraceEvent::Part;

namespace {

/// What the trace says of a command wherever it is.
struct CommandText {
  std::string ids; ///< "c2, c3"; not as JSON, as the others are
  std::string id;  ///< the first of them
  std::string name;
  std::string category;
  std::string arguments; ///< members of an object
};

/// A track: what one device does in one queue, and nothing that overlaps.
struct Track {
  int64_t device;
  exec::Queue queue;
  size_t lane;

  auto operator<=>(const Track &) const = default;
};

class TraceWriter {
public:
  TraceWriter(const Executable &executable, const exec::ProgramT &program,
              const std::vector<TracedStep> &steps);

  std::string write(std::optional<double> stepUs);

private:
  std::string describeMeta(std::optional<double> stepUs) const;
  void addStep(const TracedStep &step, size_t rank);
  void addDevice(const TracedStep &step, size_t rank,
                 std::vector<TraceEvent> events);
  void addWaits(const TracedStep &step, size_t rank,
                const std::vector<TraceEvent> &commands);
  /// The lane of a command; opens one if it overlaps with all there are.
  size_t findLane(std::vector<int64_t> &ends, const TraceEvent &event) const;
  void addEvent(size_t rank, int64_t thread, int64_t begin, int64_t end,
                const std::string &name, const std::string &category,
                const std::string &arguments);
  void addMetadata(size_t rank, int64_t thread, const char *kind,
                   const std::string &arguments);
  int64_t getThread(size_t rank, const Track &track);

  const Executable &executable;
  const exec::ProgramT &program;
  const std::vector<TracedStep> &steps;
  std::vector<CommandText> commands;
  /// Tracks by process, with their numbers.
  std::map<std::pair<size_t, Track>, int64_t> threads;
  int64_t origin = 0; ///< nanoseconds
  std::string text;   ///< of all events
};

} // namespace

TraceWriter::TraceWriter(const Executable &executable,
                         const exec::ProgramT &program,
                         const std::vector<TracedStep> &steps)
    : executable(executable), program(program), steps(steps) {
  origin = INT64_MAX;
  for (const TracedStep &step : steps)
    for (const RunTrace &run : step.ranks)
      origin = std::min(origin, run.begin);
  const auto ids = getPlanIds(program, executable.getSources(program));
  for (size_t number = 0; number < program.commands.size(); ++number) {
    const exec::CommandT &command = *program.commands[number];
    CommandText &text = commands.emplace_back();
    text.ids = fmt::format("{}", fmt::join(ids[number], ", "));
    const char *kind = getPlanKind(command);
    text.category = toJson(std::string_view(kind));
    text.id = toJson(ids[number][0]);
    text.arguments = "\"id\": " + text.id;
    if (ids[number].size() > 1) {
      std::vector<std::string> quoted;
      for (const std::string &id : ids[number])
        quoted.push_back(toJson(id));
      text.arguments += fmt::format(", \"ids\": [{}]", fmt::join(quoted, ", "));
    }
    text.arguments += fmt::format(", \"kind\": \"{}\", \"phase\": \"{}\"", kind,
                                  exec::EnumNamePhase(command.phase));
    if (isMessage(command)) {
      const auto &collective = *command.action.AsCollective();
      std::vector<layout::AxisRef> axes;
      for (const exec::AxisRef &axis : collective.axes)
        axes.push_back(getAxisRef(axis));
      text.name = toJson(fmt::format("{} {} over {}", text.ids, kind,
                                     layout::toString(executable.mesh, axes)));
      int64_t payload = 0, wire = 0;
      for (const exec::CollectiveT *member : getMembers(collective)) {
        payload += member->payload_bytes;
        wire += member->wire_bytes;
      }
      text.arguments +=
          fmt::format(", \"payload_bytes\": {}, \"wire_bytes_per_device\": {}",
                      payload, wire);
    } else {
      text.name = toJson(command.name);
      text.arguments +=
          fmt::format(", \"flops_per_device\": {}, \"bytes_per_device\": {}",
                      command.flops, command.bytes);
    }
    const exec::Span *span = command.span.get();
    if (span && span->file() >= 0)
      text.arguments +=
          fmt::format(", \"line\": {}",
                      toJson(fmt::format(
                          "{}:{}", executable.data.files[size_t(span->file())],
                          span->line())));
  }
}

static std::string getMicroseconds(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

void TraceWriter::addEvent(size_t rank, int64_t thread, int64_t begin,
                           int64_t end, const std::string &name,
                           const std::string &category,
                           const std::string &arguments) {
  text += fmt::format(
      "{}{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, "
      "\"name\": {}, \"cat\": {}, \"args\": {{{}}}}}",
      text.empty() ? "" : ",\n", rank, thread, getMicroseconds(begin - origin),
      getMicroseconds(end - begin), name, category, arguments);
}

void TraceWriter::addMetadata(size_t rank, int64_t thread, const char *kind,
                              const std::string &arguments) {
  text += fmt::format("{}{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": "
                      "\"{}\", \"args\": {{{}}}}}",
                      text.empty() ? "" : ",\n", rank, thread, kind, arguments);
}

int64_t TraceWriter::getThread(size_t rank, const Track &track) {
  // 0 has the steps.
  const auto [place, isNew] =
      threads.emplace(std::pair{rank, track}, int64_t(threads.size()) + 1);
  const int64_t thread = place->second;
  if (isNew) {
    // By device, queue and lane; there are no more lanes than commands.
    const int64_t lanes = int64_t(program.commands.size()) + 1;
    const int64_t order = 1 + int64_t(track.lane) +
                          (track.device * 2 + int64_t(track.queue)) * lanes;
    std::string name = fmt::format("device {} {}", track.device,
                                   exec::EnumNameQueue(track.queue));
    if (track.lane > 0)
      name += fmt::format(" {}", track.lane + 1);
    addMetadata(rank, thread, "thread_name",
                fmt::format("\"name\": {}", toJson(name)));
    addMetadata(rank, thread, "thread_sort_index",
                fmt::format("\"sort_index\": {}", order));
  }
  return thread;
}

size_t TraceWriter::findLane(std::vector<int64_t> &ends,
                             const TraceEvent &event) const {
  size_t lane = 0;
  while (lane < ends.size() && ends[lane] > event.begin)
    ++lane;
  if (lane == ends.size())
    ends.push_back(0);
  ends[lane] = event.end;
  return lane;
}

/// How the part of a collective is called; null of the whole.
static const char *getPartName(Part part) {
  switch (part) {
  case Part::Command:
    return nullptr;
  case Part::Devices:
    return "wait for devices";
  case Part::Messages:
    return "wait for messages";
  case Part::Pack:
    return "pack";
  case Part::Combine:
    return "combine";
  case Part::Spread:
    return "spread";
  }
  __builtin_unreachable();
}

void TraceWriter::addWaits(const TracedStep &step, size_t rank,
                           const std::vector<TraceEvent> &ordered) {
  std::map<int32_t, int64_t> messageEnds; ///< of the device's collectives
  for (const TraceEvent &event : ordered)
    if (isMessage(*program.commands[size_t(event.command)]))
      messageEnds[event.command] = event.end;
  int64_t idleSince = step.ranks[rank].begin;
  for (const TraceEvent &event : ordered) {
    const exec::CommandT &command = *program.commands[size_t(event.command)];
    if (command.queue != exec::Queue::compute)
      continue;
    int32_t last = -1;
    for (int wait : command.waits)
      if (auto found = messageEnds.find(wait);
          found != messageEnds.end() &&
          (last < 0 || found->second > messageEnds[last]))
        last = wait;
    const int64_t end = last < 0 ? 0 : std::min(messageEnds[last], event.begin);
    if (end > idleSince)
      addEvent(rank, getThread(rank, {event.device, exec::Queue::compute, 0}),
               idleSince, end, toJson("wait for " + commands[size_t(last)].ids),
               "\"wait\"",
               fmt::format("\"for\": {}, \"before\": {}, \"step\": {}",
                           commands[size_t(last)].id,
                           commands[size_t(event.command)].id, step.number));
    idleSince = std::max(idleSince, event.end);
  }
}

void TraceWriter::addDevice(const TracedStep &step, size_t rank,
                            std::vector<TraceEvent> events) {
  // A command in front of its parts, which are in order.
  std::sort(events.begin(), events.end(),
            [](const TraceEvent &x, const TraceEvent &y) {
              return std::tuple(x.begin, x.command, x.part) <
                     std::tuple(y.begin, y.command, y.part);
            });
  std::vector<TraceEvent> ordered;
  std::vector<int64_t> ends[2];
  std::map<int32_t, int64_t> threadOf; ///< by command
  for (const TraceEvent &event : events) {
    if (event.part != Part::Command)
      continue;
    ordered.push_back(event);
    const exec::Queue queue = program.commands[size_t(event.command)]->queue;
    const size_t lane = findLane(ends[size_t(queue)], event);
    threadOf[event.command] = getThread(rank, {event.device, queue, lane});
  }
  for (const TraceEvent &event : events) {
    const CommandText &command = commands[size_t(event.command)];
    const char *part = getPartName(event.part);
    const bool isWait =
        event.part == Part::Devices || event.part == Part::Messages;
    addEvent(rank, threadOf[event.command], event.begin, event.end,
             part ? toJson(std::string_view(part)) : command.name,
             isWait ? "\"wait\""
             : part ? "\"part\""
                    : command.category,
             fmt::format("{}, \"step\": {}",
                         part ? "\"of\": " + command.id : command.arguments,
                         step.number));
  }
  addWaits(step, rank, ordered);
}

void TraceWriter::addStep(const TracedStep &step, size_t rank) {
  const RunTrace &run = step.ranks[rank];
  addEvent(rank, 0, run.begin, run.end,
           toJson(fmt::format("step {}", step.number)), "\"step\"",
           fmt::format("\"step\": {}", step.number));
  std::map<int32_t, std::vector<TraceEvent>> devices;
  for (const TraceEvent &event : run.events)
    devices[event.device].push_back(event);
  for (auto &[device, events] : devices)
    addDevice(step, rank, std::move(events));
}

std::string TraceWriter::describeMeta(std::optional<double> stepUs) const {
  const exec::ExecutableT &data = executable.data;
  std::string axes, numbers;
  for (const layout::MeshAxis &axis : executable.mesh.getAxes())
    axes += fmt::format("{}{{\"name\": {}, \"size\": {}}}",
                        axes.empty() ? "" : ", ", toJson(axis.name), axis.size);
  for (const TracedStep &step : steps)
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", step.number);
  return fmt::format(
      "{{\"schema\": \"{}\", \"producer\": {}, \"model\": {}, \"target\": "
      "\"{}\", \"mesh\": {{\"axes\": [{}]}}, \"layout\": {}, \"spec\": {}, "
      "\"spec_sha256\": {}, \"plan\": \"{}\", \"processes\": {}, \"steps\": "
      "[{}], \"step_us\": {}}}",
      traceSchema, toJson(data.producer), toJson(data.model),
      exec::EnumNameTarget(data.target), axes, toJson(describeLayout(data)),
      toJson(data.files.empty() ? std::string() : data.files[0]),
      toJson(data.spec_sha256),
      getPlanDigest(data, program, executable.getSources(program)),
      steps.empty() ? 0 : steps[0].ranks.size(), numbers,
      stepUs ? fmt::format("{:.3f}", *stepUs) : "null");
}

std::string TraceWriter::write(std::optional<double> stepUs) {
  const size_t ranks = steps.empty() ? 0 : steps[0].ranks.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::string name =
        ranks == 1 ? executable.data.model
                   : fmt::format("{}, rank {}", executable.data.model, rank);
    addMetadata(rank, 0, "process_name",
                fmt::format("\"name\": {}", toJson(name)));
    addMetadata(rank, 0, "process_sort_index",
                fmt::format("\"sort_index\": {}", rank));
    addMetadata(rank, 0, "thread_name", "\"name\": \"steps\"");
    for (const TracedStep &step : steps)
      addStep(step, rank);
  }
  return fmt::format("{{\"meta\": {},\n\"displayTimeUnit\": \"ms\",\n"
                     "\"traceEvents\": [\n{}\n]}}\n",
                     describeMeta(stepUs), text);
}

std::string runtime::renderTrace(const Executable &executable,
                                 const exec::ProgramT &program,
                                 const std::vector<TracedStep> &steps,
                                 std::optional<double> stepUs) {
  return TraceWriter(executable, program, steps).write(stepUs);
}
