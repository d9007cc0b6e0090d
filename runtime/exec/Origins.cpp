#include "runtime/exec/Origins.h"

#include <cstdlib>

using namespace meshc;

std::string runtime::getScopeName(const exec::ExecutableT &executable,
                                  int scope) {
  std::string name;
  for (; scope >= 0; scope = executable.scopes[size_t(scope)]->parent) {
    const exec::ScopeT &entry = *executable.scopes[size_t(scope)];
    std::string part = entry.name;
    if (entry.iteration >= 0)
      part += "/" + std::to_string(entry.iteration);
    name = name.empty() ? part : part + "/" + name;
  }
  return name;
}

std::string runtime::getLead(const exec::OriginT &origin) {
  switch (origin.kind) {
  case exec::OriginKind::value:
    return "";
  case exec::OriginKind::gradient:
    return "gradient of ";
  case exec::OriginKind::update:
    return "update of ";
  case exec::OriginKind::state:
    return origin.name.empty() ? origin.state : origin.state + "/";
  }
  std::abort();
}

std::string runtime::getOriginName(const exec::ExecutableT &executable,
                                   const exec::OriginT *origin) {
  if (!origin)
    return "";
  std::string name = getLead(*origin) + getScopeName(executable, origin->scope);
  if (origin->scope >= 0)
    name += "/";
  name += origin->name;
  return origin->element.empty() ? name : name + " as " + origin->element;
}

const char *runtime::getPartLead(exec::OriginPart part) {
  switch (part) {
  case exec::OriginPart::itself:
    return "";
  case exec::OriginPart::inside:
    return "inside ";
  case exec::OriginPart::copy:
    return "copy of ";
  case exec::OriginPart::padded:
    return "padded ";
  case exec::OriginPart::sums:
    return "partial sums of ";
  case exec::OriginPart::gathered:
    return "gathered ";
  case exec::OriginPart::order:
    return "order of terms of ";
  }
  std::abort();
}

std::string runtime::getBufferName(const exec::ExecutableT &executable,
                                   const exec::OriginT *origin) {
  return origin ? getPartLead(origin->part) + getOriginName(executable, origin)
                : "";
}
