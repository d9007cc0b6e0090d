#include "runtime/checkpoint/OtherModel.h"

#include "runtime/exec/Executable.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::runtime;

/// State that belongs to the precision of computation, not to the model.
static bool isOfPrecision(std::string_view name) {
  return name.starts_with("fp16/");
}

/// What Adam counted when it was not a function of the step of the training:
/// the same number.
static constexpr std::string_view stepOfAdam = "adam/step";

bool runtime::isPassedOver(const Manifest &manifest,
                           const exec::ExecutableT &model) {
  auto isIt = [](const auto &name) { return name == stepOfAdam; };
  return std::ranges::any_of(manifest.tensors, isIt, &StoredTensor::name) &&
         std::ranges::none_of(model.variables, isIt,
                              [](const auto &variable) -> const std::string & {
                                return variable->name;
                              });
}

/// Whether dimensions are the same in another order.
static bool areReordered(std::vector<StoredDim> a, std::vector<StoredDim> b) {
  if (a == b)
    return false;
  auto isLess = [](const StoredDim &x, const StoredDim &y) {
    return std::pair(std::string_view(x.name), x.size) <
           std::pair(std::string_view(y.name), y.size);
  };
  std::sort(a.begin(), a.end(), isLess);
  std::sort(b.begin(), b.end(), isLess);
  return a == b;
}

std::vector<std::string>
runtime::compareWithModel(const Manifest &manifest,
                          const exec::ExecutableT &model) {
  std::vector<std::string> differences;
  std::map<std::string_view, const StoredTensor *> stored;
  for (const StoredTensor &tensor : manifest.tensors)
    stored[tensor.name] = &tensor;
  for (const auto &variable : model.variables) {
    const exec::TensorLayoutT &layout = *variable->layout;
    const auto found = stored.find(variable->name);
    if (found == stored.end()) {
      if (!isOfPrecision(variable->name))
        differences.push_back(fmt::format("the checkpoint has no '{}', {}",
                                          variable->name, toString(layout)));
      continue;
    }
    const StoredTensor &tensor = *found->second;
    stored.erase(found);
    std::vector<StoredDim> dims;
    for (const auto &dim : layout.dims)
      dims.push_back({dim->name, dim->size});
    // A dimension may be called otherwise now.
    if (tensor.element != layout.element ||
        tensor.getSizes() != getSizes(layout) ||
        areReordered(tensor.dims, dims))
      differences.push_back(fmt::format(
          "'{}' is {} in the checkpoint, {} in the model", variable->name,
          toString(tensor.element, tensor.dims), toString(layout)));
  }
  for (const StoredTensor &tensor : manifest.tensors)
    if (stored.count(tensor.name) && !isOfPrecision(tensor.name) &&
        tensor.name != stepOfAdam)
      differences.push_back(fmt::format("the model has no '{}', {}",
                                        tensor.name,
                                        toString(tensor.element, tensor.dims)));
  return differences;
}

/// Whether another training can begin with what a checkpoint has of a model,
/// which is nothing beside what that has.
static bool canStartFrom(const Manifest &manifest,
                         const exec::ExecutableT &model) {
  return std::ranges::all_of(manifest.tensors, [&](const StoredTensor &tensor) {
    auto isSame = [&](const auto &variable) {
      return variable->name == tensor.name &&
             variable->layout->element == tensor.element &&
             getSizes(*variable->layout) == tensor.getSizes();
    };
    return !isOfModel(tensor.role) ||
           std::ranges::any_of(model.variables, isSame);
  });
}

/// State of a recipe, by the function that keeps it or "ema": of which
/// parameters it is.
using RecipeState = std::map<std::string, std::set<std::string>>;

/// `names` are those of all values, with their roles.
static RecipeState
findRecipeState(const std::map<std::string, exec::BufferRole> &names) {
  RecipeState found;
  for (const auto &[name, role] : names) {
    if (role != exec::BufferRole::state || isOfPrecision(name) ||
        name == stepOfAdam)
      continue;
    std::string parameter;
    for (const auto &[other, roleOfOther] : names)
      if (roleOfOther == exec::BufferRole::parameter &&
          name.ends_with("/" + other) && other.size() > parameter.size())
        parameter = other;
    found[name.substr(0, name.find('/'))].insert(parameter);
  }
  return found;
}

/// What one recipe keeps beside another: "adam", or "adam of 'w1', 'w2'" where
/// the other one has some of that; empty: nothing.
static std::string describeMore(const RecipeState &state,
                                const RecipeState &other) {
  std::vector<std::string> texts;
  for (const auto &[owner, parameters] : state) {
    const auto known = other.find(owner);
    if (known == other.end()) {
      texts.push_back(owner);
      continue;
    }
    std::vector<std::string> more;
    std::ranges::set_difference(parameters, known->second,
                                std::back_inserter(more));
    constexpr size_t maxListed = 4;
    if (more.size() > maxListed) {
      const size_t left = more.size() - maxListed;
      more.resize(maxListed);
      more.back() += fmt::format("' and {} more", left);
    } else if (!more.empty()) {
      more.back() += "'";
    }
    if (!more.empty())
      texts.push_back(fmt::format("{} of '{}", owner, fmt::join(more, "', '")));
  }
  return fmt::format("{}", fmt::join(texts, " and of "));
}

/// "it has state of adam and lacks that of sgd" where a checkpoint has all
/// values of the model, but for what its recipe keeps; else empty.
static std::string compareRecipes(const Manifest &manifest,
                                  const exec::ExecutableT &model) {
  std::map<std::string, exec::BufferRole> stored, own;
  for (const StoredTensor &tensor : manifest.tensors)
    stored.emplace(tensor.name, tensor.role);
  for (const auto &variable : model.variables)
    own.emplace(variable->name, variable->role);
  auto hasAll = [](const auto &values, const auto &others) {
    return std::ranges::all_of(values, [&](const auto &value) {
      return !isOfModel(value.second) || others.contains(value.first);
    });
  };
  if (!canStartFrom(manifest, model) || !hasAll(own, stored))
    return "";
  const RecipeState before = findRecipeState(stored),
                    now = findRecipeState(own);
  const std::string more = describeMore(before, now),
                    less = describeMore(now, before);
  if (more.empty())
    return less.empty() ? "" : fmt::format("it lacks state of {}", less);
  return fmt::format("it has state of {}{}", more,
                     less.empty() ? ""
                                  : fmt::format(" and lacks that of {}", less));
}

Status runtime::checkModel(const Manifest &manifest,
                           const exec::ExecutableT &model,
                           const std::string &path) {
  std::vector<std::string> differences = compareWithModel(manifest, model);
  if (differences.empty())
    return Status::success();
  if (const std::string recipe = compareRecipes(manifest, model);
      !recipe.empty())
    return Error{ErrorCode::OtherModel,
                 fmt::format("'{}' is of another recipe than '{}': {}", path,
                             model.model, recipe),
                 fmt::format("a training that begins with what it has of the "
                             "model: --from {} --init random",
                             path)};
  constexpr size_t maxListed = 8;
  const size_t count = differences.size();
  if (count > maxListed) {
    differences.resize(maxListed);
    differences.push_back(fmt::format("and {} more", count - maxListed));
  }
  std::string note = fmt::format("{}", fmt::join(differences, "; "));
  if (canStartFrom(manifest, model))
    note += fmt::format("; a training that begins with what it has: --from {} "
                        "--init random",
                        path);
  return Error{ErrorCode::OtherModel,
               fmt::format("'{}' is of another model: {} of its values differ "
                           "from those of '{}'",
                           path, count, model.model),
               std::move(note)};
}
