#include "runtime/cuda/library/DynamicLibrary.h"

#include <fmt/format.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Where libraries are looked for, in order; "" is where the system does.
static std::vector<std::string> getFolders() {
  if (const char *folder = std::getenv("MESHC_CUDA_LIBRARIES"))
    return {folder};
  std::vector<std::string> folders = {""};
  if (const char *home = std::getenv("CUDA_HOME"))
    for (const char *part : {"/lib64", "/lib"})
      folders.push_back(home + std::string(part));
  for (const char *folder : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib"})
    folders.push_back(folder);
  return folders;
}

Result<DynamicLibrary> DynamicLibrary::open(std::span<const char *const> names,
                                            std::string note) {
  std::string defect; // of one that is there
  for (const char *name : names)
    for (const std::string &folder : getFolders()) {
      const std::string file = folder.empty() ? name : folder + "/" + name;
      if (void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        link_map *map = nullptr;
        const bool isKnown =
            dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0];
        return DynamicLibrary(library, isKnown ? map->l_name : file);
      }
      const char *reason = dlerror();
      if (!folder.empty() && access(file.c_str(), F_OK) == 0)
        defect = reason;
    }
  std::string message = fmt::format("cannot find {}", fmt::join(names, " or "));
  if (!defect.empty())
    message = fmt::format("cannot load {}: {}", names.front(), defect);
  else if (const char *folder = std::getenv("MESHC_CUDA_LIBRARIES"))
    message +=
        fmt::format(" in '{}', which MESHC_CUDA_LIBRARIES names", folder);
  return Error{ErrorCode::MissingGpuLibrary, message, std::move(note)};
}

Result<void *> DynamicLibrary::find(const char *symbol) const {
  if (void *address = dlsym(library, symbol))
    return address;
  return Error{ErrorCode::OldGpuLibrary,
               fmt::format("'{}' has no function '{}'", path, symbol),
               "it is too old, or another library of the same name"};
}
