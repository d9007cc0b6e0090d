#include "Origins.h"

#include <vector>

using namespace meshc;

/// The number of a scope of the executable, which is added if it is missing.
static int findScope(exec::ExecutableT &executable, int parent,
                     const std::string &name, int64_t iteration) {
  for (size_t number = 0; number < executable.scopes.size(); ++number)
    if (const exec::ScopeT &scope = *executable.scopes[number];
        scope.parent == parent && scope.name == name &&
        scope.iteration == iteration)
      return int(number);
  executable.scopes.push_back(std::make_unique<exec::ScopeT>());
  executable.scopes.back()->parent = parent;
  executable.scopes.back()->name = name;
  executable.scopes.back()->iteration = iteration;
  return int(executable.scopes.size()) - 1;
}

std::unique_ptr<exec::OriginT> plan::makeOrigin(exec::ExecutableT &executable,
                                                std::string name) {
  auto origin = std::make_unique<exec::OriginT>();
  if (name == "sgd/step") { // of no value
    origin->kind = exec::OriginKind::state;
    origin->state = name;
    return origin;
  }
  for (auto [lead, kind] :
       {std::pair("gradient of ", exec::OriginKind::gradient),
        std::pair("update of ", exec::OriginKind::update),
        std::pair("adam/m/", exec::OriginKind::state),
        std::pair("adam/v/", exec::OriginKind::state)})
    if (name.starts_with(lead)) {
      origin->kind = kind;
      if (kind == exec::OriginKind::state)
        origin->state = std::string(lead, 6);
      name.erase(0, std::string(lead).size());
    }
  if (const size_t as = name.find(" as "); as != std::string::npos) {
    origin->element = name.substr(as + 4);
    name.resize(as);
  }
  std::vector<std::string> parts;
  for (size_t slash; (slash = name.find('/')) != std::string::npos;
       name.erase(0, slash + 1))
    parts.push_back(name.substr(0, slash));
  origin->name = name;
  for (size_t index = 0; index < parts.size(); ++index) {
    const bool isLoop =
        index + 1 < parts.size() &&
        parts[index + 1].find_first_not_of("0123456789") == std::string::npos;
    origin->scope =
        findScope(executable, origin->scope, parts[index],
                  isLoop ? std::stoll(parts[index + 1]) : int64_t(-1));
    index += isLoop;
  }
  return origin;
}

void plan::setName(exec::ExecutableT &executable, exec::TensorT &tensor,
                   const std::string &name) {
  tensor.name = name;
  tensor.origin = makeOrigin(executable, name);
  tensor.of = -1;
  const exec::OriginT &own = *tensor.origin;
  for (size_t number = 0; number < executable.tensors.size(); ++number) {
    const exec::OriginT *other = executable.tensors[number]->origin.get();
    if (other && other != &own && other->scope == own.scope &&
        other->name == own.name && other->kind == exec::OriginKind::value &&
        other->element.empty() && tensor.of < 0)
      tensor.of = int(number);
  }
}
