#include "frontend/plan/EqualScopes.h"

#include "frontend/plan/ScopeModels.h"
#include "runtime/exec/Origins.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace meshc;
using namespace meshc::plan;

int plan::getScopeIn(const std::vector<EqualScopes::Scope> &scopes, int outer,
                     int scope) {
  while (scope >= 0 && scopes[size_t(scope)].parent != outer)
    scope = scopes[size_t(scope)].parent;
  return scope;
}

namespace {

/// What is called after a value in a scope: its name, and where in that the
/// scope begins.
struct ScopedName {
  std::string text;
  size_t lead = 0;
  int scope = -1; ///< the innermost one that is compared

  ScopedName(const exec::OriginT *origin, std::string text, int scope)
      : text(std::move(text)),
        lead(origin ? runtime::getLead(*origin).size() : 0), scope(scope) {}
};

/// A value or a command, and what it has in common with others like it.
struct Item {
  ScopedName name;
  std::string pattern;            ///< but for names
  std::vector<ScopedName> causes; ///< names of what it is sent for
  int sent = -1;                  ///< the tensor that a collective is of
};

/// Finds the scopes that are compared, and numbers them.
class ScopeFinder {
public:
  ScopeFinder(const exec::ExecutableT &executable,
              std::vector<EqualScopes::Scope> &scopes)
      : executable(executable), scopes(scopes),
        hasValues(executable.scopes.size()),
        numbers(executable.scopes.size(), -1) {
    for (const auto &tensor : executable.tensors)
      if (tensor->role == exec::BufferRole::parameter ||
          tensor->role == exec::BufferRole::model_state ||
          tensor->role == exec::BufferRole::activation)
        for (int scope = tensor->origin ? tensor->origin->scope : -1;
             scope >= 0; scope = getEntry(scope).parent)
          hasValues[size_t(scope)] = true;
  }

  ScopedName find(const exec::OriginT *origin, std::string text) {
    return {origin, std::move(text), origin ? getNumber(origin->scope) : -1};
  }

private:
  const exec::ScopeT &getEntry(int scope) const {
    return *executable.scopes[size_t(scope)];
  }

  /// The number of the scope, or of the innermost one around it that is
  /// compared.
  int getNumber(int scope) {
    if (scope < 0)
      return -1;
    const exec::ScopeT &entry = getEntry(scope);
    const int parent = getNumber(entry.parent);
    if (!hasValues[size_t(scope)] || (entry.parent >= 0 && entry.iteration < 0))
      return parent;
    int &number = numbers[size_t(scope)];
    if (number < 0) {
      number = int(scopes.size());
      scopes.push_back({runtime::getScopeName(executable, scope), number,
                        parent, entry.iteration, scope});
    }
    return number;
  }

  const exec::ExecutableT &executable;
  std::vector<EqualScopes::Scope> &scopes;
  std::vector<bool> hasValues;
  std::vector<int> numbers;
};

/// Folds items, the outermost scopes first.
class Folding {
public:
  Folding(const EqualScopes &equal, const std::vector<Item> &items)
      : equal(equal), items(items), folds(items.size()) {
    for (int index = 0; index < int(items.size()); ++index) {
      folds[size_t(index)] = index;
      const Item &item = items[size_t(index)];
      for (int scope = item.name.scope, outer; scope >= 0; scope = outer) {
        outer = equal.scopes[size_t(scope)].parent;
        members[outer].push_back({index, scope});
      }
      if (item.name.scope < 0 && item.sent >= 0)
        members[-1].push_back({index, -1});
    }
  }

  /// What items in `scope` have, without its name; -1: those in no scope.
  std::string getPattern(const Item &item, int scope) const {
    std::string text = getNameIn(item.name, scope) + "|" + item.pattern;
    for (const ScopedName &cause : item.causes)
      text += "|" + getNameIn(cause, scope);
    return text;
  }

  /// Finds the model of each scope that is in `outer`; no scope is alike
  /// another one until then.
  void findModels(int outer, std::vector<EqualScopes::Scope> &scopes) const {
    std::map<int, std::vector<std::string>> patterns;
    for (const Member &member : getMembers(outer))
      if (member.scope >= 0)
        patterns[member.scope].push_back(
            getPattern(items[size_t(member.item)], member.scope));
    ScopeModels known;
    std::vector<int> models;
    for (auto &[scope, own] : patterns) {
      const size_t model = known.findOrAdd(std::move(own));
      if (model == models.size())
        models.push_back(scope);
      else
        scopes[size_t(scope)].model = models[model];
    }
  }

  /// Folds what is the same but for the scope in `outer`, where it has not been
  /// folded with something outside of that.
  void fold(int outer) {
    // By scope, those that are the same in it, in order: collectives of one
    // tensor send parts of it and count as one.
    std::map<std::tuple<int, std::string>, std::vector<int>> known;
    std::map<std::tuple<int, std::string, size_t>, int> first; // by model
    for (auto [index, scope] : getMembers(outer)) {
      const Item &item = items[size_t(index)];
      if (folds[size_t(index)] != index)
        continue;
      const std::string pattern = getPattern(item, scope);
      std::vector<int> &same = known[{scope, pattern}];
      auto place = item.sent < 0
                       ? same.end()
                       : std::find(same.begin(), same.end(), item.sent);
      if (place == same.end())
        place = same.insert(same.end(), item.sent);
      const int model = scope < 0 ? -1 : equal.scopes[size_t(scope)].model;
      folds[size_t(index)] =
          first
              .try_emplace({model, pattern, size_t(place - same.begin())},
                           index)
              .first->second;
    }
  }

  /// What was folded with an item that is folded itself is so with that.
  std::vector<int> finish() {
    for (int &fold : folds)
      while (folds[size_t(fold)] != fold)
        fold = folds[size_t(fold)];
    return folds;
  }

private:
  /// An item, and the scope around it that is in another one itself.
  struct Member {
    int item, scope;
  };

  std::vector<Member> getMembers(int outer) const {
    const auto found = members.find(outer);
    return found == members.end() ? std::vector<Member>() : found->second;
  }

  std::string getNameIn(const ScopedName &name, int scope) const {
    std::string text = name.text;
    for (int around = name.scope; around >= 0;
         around = equal.scopes[size_t(around)].parent)
      if (around == scope)
        text.erase(name.lead, equal.scopes[size_t(scope)].name.size());
    return text;
  }

  const EqualScopes &equal;
  const std::vector<Item> &items;
  std::vector<int> folds;
  std::map<int, std::vector<Member>> members; ///< by the scope that they are in
};

} // namespace

static Item getItem(const Plan &plan, const exec::TensorT &tensor,
                    ScopeFinder &scopes) {
  return {scopes.find(tensor.origin.get(), tensor.name),
          fmt::format("{}|{}|{}|{}", int(tensor.role), int(tensor.inside),
                      getSharding(plan.mesh, *tensor.layout),
                      tensor.bytes_global),
          {}};
}

static Item getItem(const Plan &plan, const PlannedCommand &planned,
                    ScopeFinder &scopes) {
  const exec::CommandT &command = *planned.command;
  // A command that is several collectives is called like the first.
  const bool isMember = planned.collective && planned.tensor >= 0;
  const exec::TensorT *tensor =
      isMember ? &plan.getTensor(planned.tensor) : nullptr;
  Item item{tensor ? scopes.find(tensor->origin.get(), tensor->name)
                   : scopes.find(command.origin.get(), command.name),
            // What is fused with an operation differs from call to call, and
            // what goes with a collective: it is the same all the same.
            fmt::format("{}|{}", int(command.phase), int(command.action.type)),
            {}};
  const exec::CollectiveT *collective = planned.collective;
  if (!collective)
    return item;
  item.sent = isMember ? planned.tensor : -1;
  item.pattern +=
      fmt::format("|{}|{}", int(collective->kind), collective->payload_bytes);
  for (const exec::AxisRef &axis : collective->axes)
    item.pattern +=
        fmt::format("|{} {} {}", axis.axis(), axis.pre(), axis.size());
  for (const auto &cause : collective->causes) {
    item.pattern +=
        fmt::format("|{}|{}|{}|{}", cause->consumer_operation,
                    cause->operand_operation, cause->needed, cause->had);
    for (const exec::OriginT *origin :
         {cause->consumer.get(), cause->operand.get()})
      item.causes.push_back(
          scopes.find(origin, runtime::getOriginName(plan.executable, origin)));
  }
  return item;
}

/// Gives a scope, which is in one that is alike another, the model of what is
/// called so in that; its own remains if there is none.
static void followModel(std::vector<EqualScopes::Scope> &scopes,
                        EqualScopes::Scope &scope,
                        const std::map<std::string, int> &numbers) {
  const EqualScopes::Scope &parent = scopes[size_t(scope.parent)];
  const EqualScopes::Scope &model = scopes[size_t(parent.model)];
  const auto other =
      numbers.find(model.name + scope.name.substr(parent.name.size()));
  if (other != numbers.end())
    scope.model = scopes[size_t(other->second)].model;
}

EqualScopes::EqualScopes(const Plan &plan) {
  ScopeFinder finder(plan.executable, scopes);
  std::vector<Item> tensors, commands;
  for (const auto &tensor : plan.executable.tensors)
    tensors.push_back(getItem(plan, *tensor, finder));
  for (const PlannedCommand &planned : plan.commands)
    commands.push_back(getItem(plan, planned, finder));

  std::map<std::string, int> numbers;
  std::map<int, std::vector<int>> inner; // by the scope that they are in
  for (size_t scope = 0; scope < scopes.size(); ++scope) {
    numbers[scopes[scope].name] = int(scope);
    inner[scopes[scope].parent].push_back(int(scope));
  }
  // Commands differ at both ends of a chain of calls more than values do.
  Folding values(*this, tensors), actions(*this, commands);
  inner[-1]; // what is in no scope, too
  for (const auto &[outer, within] : inner) {
    if (outer < 0 || scopes[size_t(outer)].model == outer)
      values.findModels(outer, scopes);
    else
      for (int scope : within)
        followModel(scopes, scopes[size_t(scope)], numbers);
    values.fold(outer);
    actions.fold(outer);
  }
  tensorFolds = values.finish();
  commandFolds = actions.finish();
  for (const Item &item : tensors)
    tensorScopes.push_back(item.name.scope);
  for (const Item &item : commands)
    commandScopes.push_back(item.name.scope);
}
