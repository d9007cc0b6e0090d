#include "frontend/plan/EqualScopes.h"

#include "frontend/plan/ScopeNames.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace meshc;
using namespace meshc::plan;

namespace {

/// A value or a command, and what it has in common with others like it.
struct Item {
  int scope = -1;
  std::string pattern;
  int sent = -1; ///< the tensor that a collective is of
};

/// Finds scopes in names, and numbers them.
class ScopeNumbers {
public:
  explicit ScopeNumbers(const exec::ExecutableT &executable)
      : names(findScopes(executable)) {}

  /// The number of the first scope in `name`, which is taken out of it; -1 if
  /// there is none.
  int take(std::string &name) {
    size_t position = 0;
    const std::string scope = findScope(name, names, position);
    if (scope.empty())
      return -1;
    name.erase(position, scope.size());
    auto [number, isNew] = numbers.try_emplace(scope, int(ordered.size()));
    if (isNew)
      ordered.push_back(scope);
    return number->second;
  }
  /// `text` without the scope called `scope`.
  static std::string remove(std::string text, const std::string &scope) {
    if (scope.empty())
      return text;
    for (size_t at; (at = text.find(scope + "/")) != std::string::npos;)
      text.erase(at, scope.size() + 1);
    return text;
  }
  const std::vector<std::string> &getNames() const { return ordered; }

private:
  std::set<std::string> names;
  std::map<std::string, int> numbers;
  std::vector<std::string> ordered;
};

} // namespace

static Item getItem(const Plan &plan, const exec::TensorT &tensor,
                    ScopeNumbers &scopes) {
  Item item;
  std::string name = tensor.name;
  item.scope = scopes.take(name);
  item.pattern =
      fmt::format("{}|{}|{}|{}|{}", name, int(tensor.role), int(tensor.inside),
                  getSharding(plan.mesh, *tensor.layout), tensor.bytes_global);
  return item;
}

static Item getItem(const Plan &plan, const PlannedCommand &planned,
                    ScopeNumbers &scopes) {
  const exec::CommandT &command = *planned.command;
  Item item;
  // A command that is several collectives is called like the first.
  const bool isMember = planned.collective && planned.tensor >= 0;
  std::string name =
      isMember ? plan.getTensor(planned.tensor).name : command.name;
  item.scope = scopes.take(name);
  // What is fused with an operation differs from call to call, and what goes
  // with a collective: it is the same all the same.
  item.pattern = fmt::format("{}|{}|{}", name, int(command.phase),
                             int(command.action.type));
  const exec::CollectiveT *collective = planned.collective;
  if (!collective)
    return item;
  item.sent = isMember ? planned.tensor : -1;
  const std::string scope =
      item.scope < 0 ? "" : scopes.getNames()[size_t(item.scope)];
  item.pattern +=
      fmt::format("|{}|{}", int(collective->kind), collective->payload_bytes);
  for (const exec::AxisRef &axis : collective->axes)
    item.pattern +=
        fmt::format("|{} {} {}", axis.axis(), axis.pre(), axis.size());
  for (const auto &cause : collective->causes)
    item.pattern += fmt::format(
        "|{}|{}|{}|{}", ScopeNumbers::remove(cause->consumer, scope),
        ScopeNumbers::remove(cause->operand, scope), cause->needed, cause->had);
  return item;
}

/// The model of each scope.
static std::vector<int> findModels(const std::vector<Item> &items,
                                   size_t numScopes) {
  std::vector<std::vector<std::string>> patterns(numScopes);
  for (const Item &item : items)
    if (item.scope >= 0)
      patterns[size_t(item.scope)].push_back(item.pattern);
  std::vector<int> models, found(numScopes);
  for (size_t scope = 0; scope < numScopes; ++scope) {
    found[scope] = int(scope);
    for (int model : models)
      if (compareScopes(patterns[scope], patterns[size_t(model)])) {
        found[scope] = model;
        break;
      }
    if (found[scope] == int(scope))
      models.push_back(int(scope));
  }
  return found;
}

/// The first of each that is the same but for its scope.
static std::vector<int> findFolds(const std::vector<Item> &items,
                                  const std::vector<int> &models) {
  // By scope, those that are the same in it, in order: collectives of one
  // tensor send parts of it and count as one.
  std::map<std::tuple<int, std::string>, std::vector<int>> known;
  std::map<std::tuple<int, std::string, size_t>, int> first; // by model
  std::vector<int> folds;
  for (size_t index = 0; index < items.size(); ++index) {
    const Item &item = items[index];
    if (item.scope < 0 && item.sent < 0) {
      folds.push_back(int(index));
      continue;
    }
    std::vector<int> &same = known[{item.scope, item.pattern}];
    auto place = item.sent < 0 ? same.end()
                               : std::find(same.begin(), same.end(), item.sent);
    if (place == same.end())
      place = same.insert(same.end(), item.sent);
    const int model = item.scope < 0 ? -1 : models[size_t(item.scope)];
    folds.push_back(
        first
            .try_emplace({model, item.pattern, size_t(place - same.begin())},
                         int(index))
            .first->second);
  }
  return folds;
}

EqualScopes::EqualScopes(const Plan &plan) {
  ScopeNumbers numbers(plan.executable);
  std::vector<Item> tensors, commands;
  for (const auto &tensor : plan.executable.tensors)
    tensors.push_back(getItem(plan, *tensor, numbers));
  for (const PlannedCommand &planned : plan.commands)
    commands.push_back(getItem(plan, planned, numbers));

  const size_t numScopes = numbers.getNames().size();
  // Commands differ at both ends of a chain of calls more than values do.
  const std::vector<int> models = findModels(tensors, numScopes);
  for (size_t scope = 0; scope < numScopes; ++scope)
    scopes.push_back({numbers.getNames()[scope], models[scope]});
  tensorFolds = findFolds(tensors, models);
  commandFolds = findFolds(commands, models);
  for (const Item &item : tensors)
    tensorScopes.push_back(item.scope);
  for (const Item &item : commands)
    commandScopes.push_back(item.scope);
}
