// Images, kernels and launches of the emulated driver.

#include "Driver.h"

#include <cctype>
#include <cstring>
#include <elf.h>
#include <regex>
#include <sys/uio.h>
#include <unistd.h>

using namespace meshc::emulation;

namespace {

/// Machine numbers of ELF files for NVIDIA's GPUs.
constexpr int elfMachineCuda = 190;

// ---- images -----------------------------------------------------------------

size_t getElfBytes(const Elf64_Ehdr &header) {
  auto *data = reinterpret_cast<const char *>(&header);
  size_t end = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, data + header.e_shoff + i * header.e_shentsize,
                sizeof section);
    if (section.sh_type != SHT_NOBITS)
      end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, data + header.e_phoff + i * header.e_phentsize,
                sizeof segment);
    end = std::max<size_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

CUresult loadHostImage(Call &call, Module &module, const Elf64_Ehdr &header) {
  std::string error;
  module.image = HostImage::load(
      {reinterpret_cast<const char *>(&header), getElfBytes(header)}, error);
  if (!module.image)
    return call.refuse(CUDA_ERROR_INVALID_IMAGE, error);
  call.note("image", std::string("host"));
  return CUDA_SUCCESS;
}

/// Code of a GPU can be loaded, which is what chooses among images, and its
/// kernels found; running them is refused.
CUresult loadCubin(Call &call, Module &module, const Elf64_Ehdr &header) {
  const Environment &environment = getEnvironment();
  // ELF ABI 8, which toolkits write since 13.0, has the architecture in bits 8
  // to 15 of the flags, before it is in bits 0 to 7.
  bool isLater = header.e_ident[EI_ABIVERSION] >= 8;
  int architecture =
      isLater ? (header.e_flags >> 8) & 0xFF : header.e_flags & 0xFF;
  if (isLater && environment.driverVersion < 13000)
    return CUDA_ERROR_INVALID_IMAGE;
  call.note("image", "cubin for sm_" + std::to_string(architecture));
  if (architecture / 10 != environment.major ||
      architecture % 10 > environment.minor)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto *data = reinterpret_cast<const char *>(&header);
  auto section = [&](int index) {
    Elf64_Shdr section;
    std::memcpy(&section, data + header.e_shoff + index * header.e_shentsize,
                sizeof section);
    return section;
  };
  const char *names = data + section(header.e_shstrndx).sh_offset;
  for (int i = 0; i < header.e_shnum; ++i) {
    std::string name = names + section(i).sh_name;
    if (name.starts_with(".text."))
      module.entryNames.insert(name.substr(6));
  }
  return CUDA_SUCCESS;
}

/// The latest PTX that a driver compiles, as major * 10 + minor.
/// Source: PTX ISA 9.0, "Release Notes".
int getPtxVersion(int driverVersion) {
  int minor = driverVersion % 1000 / 10;
  return driverVersion >= 13000 ? 90 + minor
         : minor >= 6           ? 79 + minor
                                : 80 + minor;
}

CUresult loadPtx(Call &call, Module &module, const std::string &text) {
  const Environment &environment = getEnvironment();
  std::smatch target, version;
  static const std::regex versionLine(R"(\.version\s+(\d+)\.(\d+))");
  static const std::regex targetLine(R"(\.target\s+sm_(\d+))");
  static const std::regex entryLine(R"(\.entry\s+([\w$]+))");
  if (!std::regex_search(text, target, targetLine))
    return call.refuse(CUDA_ERROR_INVALID_PTX, "PTX without .target");
  if (!std::regex_search(text, version, versionLine))
    return call.refuse(CUDA_ERROR_INVALID_PTX, "PTX without .version");
  if (std::stoi(version[1]) * 10 + std::stoi(version[2]) >
      getPtxVersion(environment.driverVersion))
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  int architecture = std::stoi(target[1]);
  call.note("image", "PTX for sm_" + std::to_string(architecture));
  if (architecture > environment.major * 10 + environment.minor)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  for (std::sregex_iterator entry(text.begin(), text.end(), entryLine), end;
       entry != end; ++entry)
    module.entryNames.insert((*entry)[1]);
  return CUDA_SUCCESS;
}

CUresult load(Call &call, Module &module, const void *image) {
  if (!image)
    return CUDA_ERROR_INVALID_VALUE;
  auto *bytes = static_cast<const char *>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    const auto &inPlace = *static_cast<const Elf64_Ehdr *>(image);
    if (header.e_machine == EM_X86_64)
      return loadHostImage(call, module, inPlace);
    if (header.e_machine == elfMachineCuda)
      return loadCubin(call, module, inPlace);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  std::string start(bytes, strnlen(bytes, 9));
  if (start.starts_with("//") || start.starts_with(".version") ||
      (!start.empty() && std::isspace(static_cast<unsigned char>(start[0]))))
    return loadPtx(call, module, bytes);
  return CUDA_ERROR_INVALID_IMAGE;
}

// ---- functions --------------------------------------------------------------

template <class Handle>
CUresult find(Call &call, const std::shared_ptr<Module> &module,
              const char *name, Handle *handle) {
  if (!handle || !name)
    return CUDA_ERROR_INVALID_VALUE;
  if (!module)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such image");
  call.note("name", std::string(name));
  auto function = std::make_shared<Function>();
  function->name = name;
  function->module = module;
  if (module->image)
    function->kernel = module->image->find(name);
  if (!function->kernel && !module->entryNames.count(name))
    return CUDA_ERROR_NOT_FOUND;
  *handle = getDriver().functions.add<Handle>(function);
  return CUDA_SUCCESS;
}

CUresult getAttribute(Call &call, const Function *function, int attribute,
                      int *value) {
  if (!function)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such function");
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = maxBlockThreads;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = 0;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = 32;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = getEnvironment().major * 10 + getEnvironment().minor;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = function->maxDynamicShared;
    return CUDA_SUCCESS;
  default:
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       "the emulation does not know attribute " +
                           std::to_string(attribute));
  }
}

CUresult setAttribute(Call &call, Function *function, int attribute,
                      int value) {
  if (!function)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such function");
  call.note("name", function->name);
  call.note("value", value);
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
      value < 0 || value > maxSharedBytes)
    return CUDA_ERROR_INVALID_VALUE;
  function->maxDynamicShared = value;
  return CUDA_SUCCESS;
}

// ---- launches ---------------------------------------------------------------

/// The values of the parameters of a launch, each of 8 bytes. Images do not
/// say how many a kernel takes: the driver copies as many as can be read, and
/// what follows the last is of no meaning and never looked at.
using Parameters = std::vector<uint64_t>;

size_t readOwn(void *local, size_t localBytes,
               const std::vector<iovec> &places) {
  iovec to{local, localBytes};
  ssize_t bytes =
      process_vm_readv(getpid(), &to, 1, places.data(), places.size(), 0);
  return bytes < 0 ? 0 : bytes;
}

Parameters copyParameters(void **arguments) {
  constexpr size_t most = 4096, batch = 256, word = sizeof(uint64_t);
  Parameters read;
  while (arguments && read.size() < most) {
    // Up to the end of a page: the next one may be closed.
    auto begin = reinterpret_cast<uintptr_t>(arguments + read.size());
    size_t chunk = std::min<size_t>(batch, (4096 - begin % 4096) / word);
    uint64_t addresses[batch], values[batch];
    chunk = readOwn(addresses, chunk * word,
                    {{reinterpret_cast<void *>(begin), chunk * word}}) /
            word;
    std::vector<iovec> places;
    for (size_t i = 0; i < chunk; ++i)
      places.push_back({reinterpret_cast<void *>(addresses[i]), word});
    size_t count = chunk ? readOwn(values, chunk * word, places) / word : 0;
    read.insert(read.end(), values, values + count);
    if (count == 0 || count < chunk)
      break;
  }
  return read;
}

/// Of the form of a launch that gives one buffer for all parameters.
Parameters copyBuffer(void **extra) {
  // CU_LAUNCH_PARAM_END 0, _BUFFER_POINTER 1, _BUFFER_SIZE 2.
  const char *buffer = nullptr;
  size_t bytes = 0;
  for (; *extra; extra += 2) {
    if (*extra == reinterpret_cast<void *>(1))
      buffer = static_cast<const char *>(extra[1]);
    else if (*extra == reinterpret_cast<void *>(2))
      bytes = *static_cast<size_t *>(extra[1]);
    else
      return {};
  }
  Parameters read(bytes / 8);
  std::memcpy(read.data(), buffer, read.size() * 8);
  return read;
}

/// Moves the last of the leading addresses of GPU memory by one f32.
void shiftLastAddress(Parameters &parameters) {
  size_t pointers = 0;
  while (pointers < parameters.size() &&
         getDriver().memory.find(parameters[pointers], 0))
    ++pointers;
  if (pointers > 0)
    parameters[pointers - 1] += 4;
}

CUresult launchKernel(Call &call, CUfunction handle, const unsigned *grid,
                      const unsigned *block, unsigned sharedBytes,
                      CUstream streamHandle, void **arguments, void **extra) {
  Driver &driver = getDriver();
  auto function = driver.functions.find(handle);
  if (!function)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such function");
  Stream *stream = findStream(call, streamHandle);
  if (!stream)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such stream");
  call.note("kernel", function->name);
  call.noteStream(*stream);
  call.note("grid", grid[0]);
  call.note("block", block[0]);
  call.note("shared", sharedBytes);
  const Context *owner = function->module->context;
  if (owner && owner != call.context)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE,
                       "the function is not of the current context");
  if (!function->kernel)
    return call.refuse(CUDA_ERROR_NOT_SUPPORTED,
                       "the emulation does not run code of GPUs");
  if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1)
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       "grids and blocks have one dimension here");
  if (grid[0] == 0 || block[0] == 0 || grid[0] > INT32_MAX ||
      block[0] > maxBlockThreads ||
      sharedBytes > static_cast<unsigned>(function->maxDynamicShared))
    return call.refuse(
        CUDA_ERROR_INVALID_VALUE,
        "grid " + std::to_string(grid[0]) + ", block " +
            std::to_string(block[0]) + ", " + std::to_string(sharedBytes) +
            " bytes of shared memory, " +
            std::to_string(function->maxDynamicShared) + " are allowed");
  if (arguments && extra)
    return CUDA_ERROR_INVALID_VALUE;
  Parameters parameters = extra ? copyBuffer(extra) : copyParameters(arguments);
  if (++driver.launches == getEnvironment().shiftOffset)
    shiftLastAddress(parameters);
  int64_t blocks = grid[0];
  auto threads = static_cast<int32_t>(block[0]);
  std::string text = "kernel '" + function->name + "', launch " +
                     std::to_string(driver.launches);
  return submit(call, *stream, text, [=]() -> Run {
    return [=]() mutable -> Progress {
      std::vector<void *> pointers;
      for (uint64_t &value : parameters)
        pointers.push_back(&value);
      std::string error =
          meshc::emulation::launch(function->kernel, function->name, blocks,
                                   threads, sharedBytes, pointers.data());
      if (error.empty())
        return {};
      return {Progress::failed, CUDA_ERROR_ILLEGAL_ADDRESS, error};
    };
  });
}

} // namespace

extern "C" {

MESHC_EMULATION_API CUresult cuModuleLoadData(CUmodule *handle,
                                              const void *image) {
  return enter("cuModuleLoadData", Needs::context, [&](Call &call) -> CUresult {
    if (!handle)
      return CUDA_ERROR_INVALID_VALUE;
    auto module = std::make_shared<Module>();
    module->context = call.context;
    CUresult result = load(call, *module, image);
    if (result == CUDA_SUCCESS)
      *handle = getDriver().modules.add<CUmodule>(module);
    return result;
  });
}

MESHC_EMULATION_API CUresult cuModuleLoadDataEx(CUmodule *handle,
                                                const void *image,
                                                unsigned count, int *options,
                                                void **values) {
  return enter("cuModuleLoadDataEx", Needs::context,
               [&](Call &call) -> CUresult {
                 if (!handle)
                   return CUDA_ERROR_INVALID_VALUE;
                 auto module = std::make_shared<Module>();
                 module->context = call.context;
                 CUresult result = load(call, *module, image);
                 if (result == CUDA_SUCCESS)
                   *handle = getDriver().modules.add<CUmodule>(module);
                 return result;
               });
}

MESHC_EMULATION_API CUresult cuModuleUnload(CUmodule handle) {
  return enter("cuModuleUnload", Needs::context, [&](Call &call) -> CUresult {
    return getDriver().modules.remove(handle) ? CUDA_SUCCESS
                                              : CUDA_ERROR_INVALID_HANDLE;
  });
}

MESHC_EMULATION_API CUresult cuModuleGetFunction(CUfunction *function,
                                                 CUmodule module,
                                                 const char *name) {
  return enter("cuModuleGetFunction", Needs::context, [&](Call &call) {
    return find(call, getDriver().modules.find(module), name, function);
  });
}

MESHC_EMULATION_API CUresult cuLibraryLoadData(
    CUlibrary *handle, const void *code, int *jitOptions, void **jitValues,
    unsigned numJitOptions, int *options, void **values, unsigned numOptions) {
  return enter("cuLibraryLoadData", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (!handle)
                   return CUDA_ERROR_INVALID_VALUE;
                 auto module = std::make_shared<Module>();
                 CUresult result = load(call, *module, code);
                 if (result == CUDA_SUCCESS)
                   *handle = getDriver().modules.add<CUlibrary>(module);
                 return result;
               });
}

MESHC_EMULATION_API CUresult cuLibraryUnload(CUlibrary handle) {
  return enter(
      "cuLibraryUnload", Needs::initialization, [&](Call &) -> CUresult {
        return getDriver().modules.remove(handle) ? CUDA_SUCCESS
                                                  : CUDA_ERROR_INVALID_HANDLE;
      });
}

MESHC_EMULATION_API CUresult cuLibraryGetKernel(CUkernel *kernel,
                                                CUlibrary library,
                                                const char *name) {
  return enter("cuLibraryGetKernel", Needs::initialization, [&](Call &call) {
    return find(call, getDriver().modules.find(library), name, kernel);
  });
}

MESHC_EMULATION_API CUresult cuLibraryGetModule(CUmodule *handle,
                                                CUlibrary library) {
  return enter("cuLibraryGetModule", Needs::context,
               [&](Call &call) -> CUresult {
                 auto loaded = getDriver().modules.find(library);
                 if (!handle || !loaded)
                   return CUDA_ERROR_INVALID_HANDLE;
                 auto module = std::make_shared<Module>(*loaded);
                 module->context = call.context;
                 *handle = getDriver().modules.add<CUmodule>(module);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuKernelGetFunction(CUfunction *handle,
                                                 CUkernel kernel) {
  return enter("cuKernelGetFunction", Needs::context,
               [&](Call &call) -> CUresult {
                 auto found = getDriver().functions.find(kernel);
                 if (!handle || !found)
                   return CUDA_ERROR_INVALID_HANDLE;
                 auto function = std::make_shared<Function>(*found);
                 auto module = std::make_shared<Module>(*found->module);
                 module->context = call.context;
                 function->module = module;
                 *handle = getDriver().functions.add<CUfunction>(function);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuFuncGetAttribute(int *value, int attribute,
                                                CUfunction function) {
  return enter("cuFuncGetAttribute", Needs::context, [&](Call &call) {
    return getAttribute(call, getDriver().functions.find(function).get(),
                        attribute, value);
  });
}

MESHC_EMULATION_API CUresult cuFuncSetAttribute(CUfunction function,
                                                int attribute, int value) {
  return enter("cuFuncSetAttribute", Needs::context, [&](Call &call) {
    return setAttribute(call, getDriver().functions.find(function).get(),
                        attribute, value);
  });
}

MESHC_EMULATION_API CUresult cuKernelGetAttribute(int *value, int attribute,
                                                  CUkernel kernel,
                                                  CUdevice device) {
  return enter("cuKernelGetAttribute", Needs::initialization, [&](Call &call) {
    return getAttribute(call, getDriver().functions.find(kernel).get(),
                        attribute, value);
  });
}

MESHC_EMULATION_API CUresult cuKernelSetAttribute(int attribute, int value,
                                                  CUkernel kernel,
                                                  CUdevice device) {
  return enter("cuKernelSetAttribute", Needs::initialization, [&](Call &call) {
    return setAttribute(call, getDriver().functions.find(kernel).get(),
                        attribute, value);
  });
}

MESHC_EMULATION_API CUresult cuLaunchKernel(
    CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
    unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
    CUstream stream, void **parameters, void **extra) {
  return enter("cuLaunchKernel", Needs::context, [&](Call &call) {
    unsigned grid[] = {gridX, gridY, gridZ};
    unsigned block[] = {blockX, blockY, blockZ};
    return launchKernel(call, function, grid, block, sharedBytes, stream,
                        parameters, extra);
  });
}

MESHC_EMULATION_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config,
                                              CUfunction function,
                                              void **parameters, void **extra) {
  return enter("cuLaunchKernelEx", Needs::context, [&](Call &call) -> CUresult {
    if (!config)
      return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      switch (int id = config->attrs[i].id) {
      // These are allowed to have no effect.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        break;
      default:
        return call.refuse(CUDA_ERROR_NOT_SUPPORTED,
                           "the emulation does not know launch attribute " +
                               std::to_string(id));
      }
    }
    unsigned grid[] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    unsigned block[] = {config->blockDimX, config->blockDimY,
                        config->blockDimZ};
    return launchKernel(call, function, grid, block, config->sharedMemBytes,
                        config->hStream, parameters, extra);
  });
}

} // extern "C"
