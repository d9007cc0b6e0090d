#include "frontend/plan/ScopeSums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

using namespace meshc;
using namespace meshc::plan;

ScopeSums::Amounts &
ScopeSums::Amounts::operator+=(const ScopeSums::Amounts &other) {
  flops += other.flops;
  wireBytes += other.wireBytes;
  computeNs += other.computeNs;
  exposedNs += other.exposedNs;
  for (size_t index = 0; index < numMemoryCategories; ++index)
    bytes[index] += other.bytes[index];
  return *this;
}

int64_t ScopeSums::Amounts::getBytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

//===-- Parts -------------------------------------------------------------===//

namespace {
/// Finds the parts of a model.
class PartFinder {
public:
  PartFinder(const exec::ExecutableT &executable, const EqualScopes &equal,
             std::vector<ScopeSums::Part> &parts)
      : executable(executable), parts(parts),
        models(executable.scopes.size(), -1),
        known(executable.scopes.size(), -1) {
    for (const EqualScopes::Scope &scope : equal.scopes)
      models[size_t(scope.entry)] = equal.scopes[size_t(scope.model)].entry;
    for (size_t scope = 0; scope < executable.scopes.size(); ++scope) {
      const exec::ScopeT &entry = *executable.scopes[scope];
      named.try_emplace({entry.parent, entry.name}, int(scope));
      if (entry.iteration >= 0)
        loops.insert({entry.parent, entry.name});
    }
    parts.push_back({});
    parts[0].count = 1;
  }

  int find(const exec::OriginT *origin) {
    if (!origin)
      return 0;
    const auto result = named.find({origin->scope, origin->name});
    return getPart(result == named.end() ? origin->scope : result->second);
  }

  /// The part of the scope itself, whatever has the name in it.
  int findOuter(const exec::OriginT &origin) { return getPart(origin.scope); }

  /// Once all are found.
  void count() {
    for (size_t scope = 0; scope < known.size(); ++scope)
      if (known[scope] >= 0 && !isShared(int(scope)))
        ++parts[size_t(known[scope])].count;
    // Of a loop that is not written out nothing has an iteration.
    for (ScopeSums::Part &part : parts)
      part.count = std::max<int64_t>(part.count, 1);
  }

private:
  int getPart(int scope) {
    if (scope < 0)
      return 0;
    int &part = known[size_t(scope)];
    if (part >= 0)
      return part;
    const exec::ScopeT &entry = *executable.scopes[size_t(scope)];
    const int model = models[size_t(scope)];
    if (model >= 0 && model != scope)
      return part = getPart(model);
    const int parent = getPart(entry.parent);
    const auto [place, isNew] =
        numbers.try_emplace({parent, entry.name}, int(parts.size()));
    if (isNew) {
      const std::string &outer = parts[size_t(parent)].name;
      ScopeSums::Part added;
      added.name = outer.empty() ? entry.name : outer + "/" + entry.name;
      added.parent = parent;
      parts.push_back(std::move(added));
    }
    return known[size_t(scope)] = place->second;
  }

  /// Whether it is, or is in, what all iterations of a loop share: a loop's
  /// scope without an iteration.
  bool isShared(int scope) const {
    for (; scope >= 0; scope = executable.scopes[size_t(scope)]->parent) {
      const exec::ScopeT &entry = *executable.scopes[size_t(scope)];
      if (entry.iteration < 0 && loops.contains({entry.parent, entry.name}))
        return true;
    }
    return false;
  }

  const exec::ExecutableT &executable;
  std::vector<ScopeSums::Part> &parts;
  std::vector<int> models; ///< by scope: that it is alike; -1: not compared
  std::vector<int> known;  ///< by scope: its part; -1: nothing asked for it
  /// By scope and name, the call or the first iteration that has the name
  /// there.
  std::map<std::pair<int, std::string>, int> named;
  std::set<std::pair<int, std::string>> loops;        ///< those with iterations
  std::map<std::pair<int, std::string>, int> numbers; ///< by part and name
};

} // namespace

/// Of a command itself, or else of the value that it leads to; null of none.
static const exec::OriginT *findOrigin(const Plan &plan,
                                       const PlannedCommand &planned) {
  const exec::OriginT *own = planned.collective
                                 ? planned.collective->origin.get()
                                 : planned.command->origin.get();
  return own || planned.tensor < 0
             ? own
             : plan.getTensor(planned.tensor).origin.get();
}

//===-- Commands ----------------------------------------------------------===//

namespace {
/// Finds the parts of commands.
class CommandParts {
public:
  CommandParts(const Plan &plan, PartFinder &finder,
               const std::vector<ScopeSums::Part> &parts)
      : plan(plan), finder(finder), parts(parts) {}

  std::vector<int> find() {
    for (const PlannedCommand &planned : plan.commands)
      found.push_back(find(planned));
    return std::move(found);
  }

private:
  int find(const PlannedCommand &planned) {
    const exec::OriginT *origin = findOrigin(plan, planned);
    if (!origin)
      return 0;
    if (planned.collective)
      if (const int sent = findSent(planned, *origin); sent >= 0)
        return sent;
    if (origin->kind == exec::OriginKind::gradient)
      return findOfGradient(planned, *origin);
    const int part = finder.find(origin);
    if (origin->kind != exec::OriginKind::value)
      return part;
    // A product may have what a call gives added to something in one.
    const std::optional<int> inner = findOfParameters(planned);
    return inner && join(part, *inner) == part ? *inner : part;
  }

  /// What sends a value is of the part of what computes it; -1 of one that is
  /// there.
  int findSent(const PlannedCommand &planned,
               const exec::OriginT &origin) const {
    for (const ValueSource &source : planned.inputs)
      if (source.command >= 0) {
        const exec::OriginT *sent =
            findOrigin(plan, plan.commands[size_t(source.command)]);
        if (sent && sent->kind == origin.kind && isSame(*sent, origin))
          return found[size_t(source.command)];
      }
    return -1;
  }

  /// What computes the gradient of a value is of what reads the value: that is
  /// what has the parameters it is computed from or, without any, the gradients
  /// in the scope of the value.
  int findOfGradient(const PlannedCommand &planned,
                     const exec::OriginT &origin) {
    const int home = finder.findOuter(origin);
    if (planned.tensor >= 0)
      if (const int of = plan.getTensor(planned.tensor).of;
          of >= 0 && plan.getTensor(of).role == exec::BufferRole::parameter)
        return home;
    if (const std::optional<int> reader = findOfParameters(planned))
      return *reader;
    std::optional<int> reader;
    for (const ValueSource &source : planned.inputs) {
      if (source.command < 0)
        continue;
      const exec::OriginT *read =
          source.tensor < 0
              ? findOrigin(plan, plan.commands[size_t(source.command)])
              : plan.getTensor(source.tensor).origin.get();
      if (!read || read->kind != exec::OriginKind::gradient)
        continue;
      const int part = isSame(*read, origin) ? found[size_t(source.command)]
                                             : finder.find(read);
      if (join(home, part) == home)
        reader = join(reader, part);
    }
    return reader.value_or(home);
  }

  /// The part of the parameters that it reads: nothing but a call sees its own.
  std::optional<int> findOfParameters(const PlannedCommand &planned) const {
    std::optional<int> part;
    for (const ValueSource &source : planned.inputs)
      if (const exec::OriginT *parameter = findParameter(source))
        part = join(part, finder.findOuter(*parameter));
    return part;
  }

  /// The origin of a parameter, or of it in another element type; null of
  /// anything else.
  const exec::OriginT *findParameter(const ValueSource &source) const {
    if (source.tensor < 0)
      return nullptr;
    const exec::TensorT &tensor = plan.getTensor(source.tensor);
    const bool isCopy = tensor.of >= 0 && tensor.origin &&
                        tensor.origin->kind == exec::OriginKind::value;
    const exec::TensorT &whole = isCopy ? plan.getTensor(tensor.of) : tensor;
    return whole.role == exec::BufferRole::parameter ? whole.origin.get()
                                                     : nullptr;
  }

  static bool isSame(const exec::OriginT &one, const exec::OriginT &other) {
    return one.scope == other.scope && one.name == other.name;
  }

  /// The innermost part that both are in. A part stands behind its parent.
  int join(std::optional<int> part, int other) const {
    int joined = part.value_or(other);
    while (joined != other) {
      int &inner = joined > other ? joined : other;
      inner = parts[size_t(inner)].parent;
    }
    return joined;
  }

  const Plan &plan;
  PartFinder &finder;
  const std::vector<ScopeSums::Part> &parts;
  std::vector<int> found; ///< by command, as far as they are
};
} // namespace

//===-- Memory ------------------------------------------------------------===//

namespace {
/// Of what the value is that a buffer has in it at the peak.
class ContentFinder {
public:
  ContentFinder(const Plan &plan, const MemoryUse &memory)
      : plan(plan), origins(plan.executable.buffers.size()) {
    // Variables and inputs are what the first says that uses them as such.
    for (const PlannedCommand &planned : plan.commands)
      for (const auto &operand : planned.command->operands)
        if (isFromStart(*operand) && !origins[size_t(operand->buffer)])
          origins[size_t(operand->buffer)] =
              plan.getTensor(operand->tensor).origin.get();
    for (int index = 0; index <= memory.command; ++index)
      noteResults(plan.commands[size_t(index)], getMember(index));
  }

  /// Null of what has none.
  const exec::OriginT *get(int buffer) const { return origins[size_t(buffer)]; }

private:
  static bool isLasting(exec::BufferRole role) {
    return role == exec::BufferRole::parameter ||
           role == exec::BufferRole::model_state ||
           role == exec::BufferRole::state || role == exec::BufferRole::input;
  }

  exec::BufferRole getRole(const exec::OperandT &operand) const {
    return plan.executable.buffers[size_t(operand.buffer)]->role;
  }

  bool isFromStart(const exec::OperandT &operand) const {
    return operand.tensor >= 0 && isLasting(getRole(operand)) &&
           plan.getTensor(operand.tensor).role == getRole(operand);
  }

  /// Which of the collectives of its command a command is.
  size_t getMember(int index) const {
    size_t member = 0;
    while (index - int(member) > 0 &&
           plan.commands[size_t(index) - member - 1].command ==
               plan.commands[size_t(index)].command)
      ++member;
    return member;
  }

  /// What was written last is there.
  void noteResults(const PlannedCommand &planned, size_t member) {
    const auto &operands = planned.command->operands;
    const size_t first = operands.size() - size_t(planned.command->results) +
                         member * planned.outputs.size();
    for (size_t place = 0; place < planned.outputs.size(); ++place) {
      const exec::OperandT &operand = *operands[first + place];
      if (!isLasting(getRole(operand)))
        origins[size_t(operand.buffer)] =
            operand.tensor >= 0 ? plan.getTensor(operand.tensor).origin.get()
                                : findOrigin(plan, planned);
    }
  }

  const Plan &plan;
  std::vector<const exec::OriginT *> origins; ///< by buffer
};
} // namespace

//===-- Sums --------------------------------------------------------------===//

/// Whole nanoseconds of these microseconds that add up to those of `whole`,
/// which is their sum.
static std::vector<int64_t> roundAll(const std::vector<double> &us,
                                     double whole) {
  std::vector<int64_t> rounded;
  double sum = 0;
  int64_t before = 0;
  for (double part : us) {
    sum += part;
    rounded.push_back(std::llround(sum * 1e3) - before);
    before += rounded.back();
  }
  rounded.front() += std::llround(whole * 1e3) - before;
  return rounded;
}

static void addTimes(const Plan &plan, const std::vector<Transfer> &transfers,
                     const StepTime &time, const std::vector<int> &commandParts,
                     std::vector<ScopeSums::Part> &parts) {
  std::vector<double> computing(parts.size()), exposed(parts.size());
  for (size_t index = 0; index < plan.commands.size(); ++index)
    if (!plan.commands[index].collective)
      computing[size_t(commandParts[index])] += time.commands[index].getUs();
  for (size_t number = 0; number < transfers.size(); ++number) {
    const std::vector<int> &members = transfers[number].collectives;
    int64_t sent = 0;
    for (int member : members)
      sent += plan.commands[size_t(member)].collective->wire_bytes;
    for (int member : members) {
      const double share =
          sent > 0
              ? double(plan.commands[size_t(member)].collective->wire_bytes) /
                    double(sent)
              : 1 / double(members.size());
      exposed[size_t(commandParts[size_t(member)])] +=
          share * time.exposed[number];
    }
  }
  const std::vector<int64_t> computeNs = roundAll(computing, time.computeUs),
                             exposedNs = roundAll(exposed, time.exposedUs);
  for (size_t part = 0; part < parts.size(); ++part) {
    parts[part].own.computeNs = computeNs[part];
    parts[part].own.exposedNs = exposedNs[part];
  }
}

ScopeSums::ScopeSums(const Plan &plan, const EqualScopes &scopes,
                     const std::vector<Transfer> &transfers,
                     const MemoryUse &memory, const StepTime *time) {
  PartFinder finder(plan.executable, scopes, parts);
  commandParts = CommandParts(plan, finder, parts).find();
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const PlannedCommand &planned = plan.commands[index];
    Amounts &own = parts[size_t(commandParts[index])].own;
    own.flops += planned.command->flops * planned.repeats;
    if (planned.collective)
      own.wireBytes += planned.collective->wire_bytes * planned.repeats;
  }
  for (const auto &tensor : plan.executable.tensors)
    tensorParts.push_back(finder.find(tensor->origin.get()));
  const ContentFinder contents(plan, memory);
  parts[0].own.bytes[size_t(MemoryCategory::Workspace)] =
      memory.peakBytes - memory.arenaBytes + memory.unusedBytes;
  for (int buffer : memory.live) {
    liveParts.push_back(finder.find(contents.get(buffer)));
    const exec::BufferT &held = *plan.executable.buffers[size_t(buffer)];
    parts[size_t(liveParts.back())].own.bytes[size_t(getCategory(held.role))] +=
        int64_t(held.bytes);
  }
  finder.count();
  if (time)
    addTimes(plan, transfers, *time, commandParts, parts);
  // A part stands behind the one that it is in.
  for (size_t part = parts.size(); part-- > 0;) {
    parts[part].whole += parts[part].own;
    if (parts[part].parent >= 0)
      parts[size_t(parts[part].parent)].whole += parts[part].whole;
  }
}
