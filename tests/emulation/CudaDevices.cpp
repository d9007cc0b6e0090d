// Initialization, devices and contexts of the emulated driver.

#include "Driver.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

using namespace meshc::emulation;

namespace {

bool isDevice(CUdevice device) {
  return device >= 0 && device < getEnvironment().devices;
}

/// Those of an H200 where nothing else is asked for, except memory.
bool getAttribute(int attribute, CUdevice device, int &value) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    value = maxBlockThreads;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    value = INT32_MAX;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    value = 48 * 1024;
    return true;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    value = 32;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    value = 65536;
    return true;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    value = 1980000;
    return true;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    value = 132;
    return true;
  case CU_DEVICE_ATTRIBUTE_INTEGRATED:
  case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
  case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    value = 0;
    return true;
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    value = 1;
    return true;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    value = getEnvironment().visible[device] + 1;
    return true;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    value = 3201000;
    return true;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
    value = 6144;
    return true;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    value = 60 * 1024 * 1024;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    value = 2048;
    return true;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    value = 3;
    return true;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    value = getEnvironment().major;
    return true;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    value = getEnvironment().minor;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    value = maxSharedBytes + 1024;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    value = maxSharedBytes;
    return true;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
    value = 32;
    return true;
  default:
    return false;
  }
}

CUresult copyText(char *to, int size, const std::string &text) {
  if (!to || size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(to, size, "%s", text.c_str());
  return CUDA_SUCCESS;
}

std::shared_ptr<Context> makeContext(CUdevice device) {
  auto context = std::make_shared<Context>();
  context->id = ++getDriver().lastContext;
  context->device = device;
  context->legacy.context = context.get();
  context->legacy.id = -context->id;
  return context;
}

CUcontext findHandle(const Context *context) {
  for (const auto &[handle, object] : getDriver().contexts.objects)
    if (object.get() == context)
      return reinterpret_cast<CUcontext>(handle);
  return nullptr;
}

CUresult createContext(Call &call, CUcontext *handle, CUdevice device) {
  if (!handle)
    return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  auto context = makeContext(device);
  *handle = getDriver().contexts.add<CUcontext>(context);
  getContextStack().push_back(context.get());
  call.note("context", context->id);
  return CUDA_SUCCESS;
}

const char *findAddress(const std::string &name, void **address) {
  Dl_info own;
  if (!dladdr(reinterpret_cast<const void *>(&findHandle), &own))
    return nullptr;
  void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (!library)
    return nullptr;
  // A name without a version means its newest one.
  for (const char *version : {"_v4", "_v3", "_v2", ""})
    if ((*address = dlsym(library, (name + version).c_str())))
      return version;
  return nullptr;
}

} // namespace

extern "C" {

MESHC_EMULATION_API CUresult cuInit(unsigned flags) {
  return enter("cuInit", Needs::nothing, [&](Call &) -> CUresult {
    if (flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (getEnvironment().devices == 0)
      return CUDA_ERROR_NO_DEVICE;
    Driver &driver = getDriver();
    driver.initialized = true;
    driver.primaries.resize(getEnvironment().devices);
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuDriverGetVersion(int *version) {
  return enter("cuDriverGetVersion", Needs::nothing, [&](Call &) -> CUresult {
    if (!version)
      return CUDA_ERROR_INVALID_VALUE;
    *version = getEnvironment().driverVersion;
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuGetErrorName(CUresult result,
                                            const char **text) {
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  switch (result) {
#define MESHC_NAME(name, number, description)                                  \
  case number:                                                                 \
    *text = #name;                                                             \
    return CUDA_SUCCESS;
    MESHC_CUDA_RESULTS(MESHC_NAME)
#undef MESHC_NAME
  default:
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
  }
}

MESHC_EMULATION_API CUresult cuGetErrorString(CUresult result,
                                              const char **text) {
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  switch (result) {
#define MESHC_TEXT(name, number, description)                                  \
  case number:                                                                 \
    *text = description;                                                       \
    return CUDA_SUCCESS;
    MESHC_CUDA_RESULTS(MESHC_TEXT)
#undef MESHC_TEXT
  default:
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
  }
}

MESHC_EMULATION_API CUresult cuGetProcAddress_v2(const char *name,
                                                 void **address, int version,
                                                 uint64_t flags, int *status) {
  return enter("cuGetProcAddress_v2", Needs::nothing,
               [&](Call &call) -> CUresult {
                 if (!name || !address)
                   return CUDA_ERROR_INVALID_VALUE;
                 call.note("name", std::string(name));
                 const char *found = findAddress(name, address);
                 if (status)
                   *status = found ? CU_GET_PROC_ADDRESS_SUCCESS
                                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
                 return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
               });
}

MESHC_EMULATION_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return enter("cuDeviceGet", Needs::initialization, [&](Call &) -> CUresult {
    if (!device)
      return CUDA_ERROR_INVALID_VALUE;
    if (!isDevice(ordinal))
      return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuDeviceGetCount(int *count) {
  return enter("cuDeviceGetCount", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!count)
                   return CUDA_ERROR_INVALID_VALUE;
                 *count = getEnvironment().devices;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuDeviceGetName(char *name, int size,
                                             CUdevice device) {
  return enter("cuDeviceGetName", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 return copyText(name, size, getEnvironment().name);
               });
}

MESHC_EMULATION_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  return enter(
      "cuDeviceGetUuid_v2", Needs::initialization, [&](Call &) -> CUresult {
        if (!uuid)
          return CUDA_ERROR_INVALID_VALUE;
        if (!isDevice(device))
          return CUDA_ERROR_INVALID_DEVICE;
        std::memcpy(uuid->bytes, "meshc-emulation", 16);
        uuid->bytes[15] = static_cast<char>(getEnvironment().visible[device]);
        return CUDA_SUCCESS;
      });
}

MESHC_EMULATION_API CUresult cuDeviceGetPCIBusId(char *text, int size,
                                                 CUdevice device) {
  return enter("cuDeviceGetPCIBusId", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 char bus[16];
                 std::snprintf(bus, sizeof bus, "0000:%02X:00.0",
                               (getEnvironment().visible[device] + 1) & 0xFF);
                 return copyText(text, size, bus);
               });
}

MESHC_EMULATION_API CUresult cuDeviceTotalMem_v2(size_t *bytes,
                                                 CUdevice device) {
  return enter("cuDeviceTotalMem_v2", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!bytes)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 *bytes = getEnvironment().memoryBytes;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuDeviceGetAttribute(int *value, int attribute,
                                                  CUdevice device) {
  return enter("cuDeviceGetAttribute", Needs::initialization,
               [&](Call &call) -> CUresult {
                 call.note("attribute", attribute);
                 if (!value)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 if (getAttribute(attribute, device, *value))
                   return CUDA_SUCCESS;
                 return call.refuse(CUDA_ERROR_INVALID_VALUE,
                                    "the emulation does not know attribute " +
                                        std::to_string(attribute));
               });
}

MESHC_EMULATION_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device,
                                                   CUdevice peer) {
  return enter("cuDeviceCanAccessPeer", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!can)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (!isDevice(device) || !isDevice(peer))
                   return CUDA_ERROR_INVALID_DEVICE;
                 *can = device != peer;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuDeviceGetP2PAttribute(int *value, int attribute,
                                                     CUdevice from,
                                                     CUdevice to) {
  return enter("cuDeviceGetP2PAttribute", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (!value)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (!isDevice(from) || !isDevice(to) || from == to)
                   return CUDA_ERROR_INVALID_DEVICE;
                 switch (attribute) {
                 case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
                   *value = 0;
                   return CUDA_SUCCESS;
                 case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
                 case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
                   *value = 1;
                   return CUDA_SUCCESS;
                 default:
                   return call.refuse(CUDA_ERROR_INVALID_VALUE,
                                      "the emulation does not know attribute " +
                                          std::to_string(attribute));
                 }
               });
}

MESHC_EMULATION_API CUresult cuDevicePrimaryCtxRetain(CUcontext *handle,
                                                      CUdevice device) {
  return enter("cuDevicePrimaryCtxRetain", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (!handle)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 Driver &driver = getDriver();
                 auto &context = driver.primaries[device];
                 if (!context) {
                   context = makeContext(device);
                   context->primary = true;
                   driver.contexts.add<CUcontext>(context);
                 }
                 ++context->retained;
                 *handle = findHandle(context.get());
                 call.note("of", device);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter("cuDevicePrimaryCtxRelease_v2", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 auto &context = getDriver().primaries[device];
                 if (!context || context->retained == 0)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 call.note("of", device);
                 if (--context->retained == 0)
                   getDriver().queue.runAll(context.get(), call.lock);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device,
                                                           unsigned flags) {
  return enter("cuDevicePrimaryCtxSetFlags_v2", Needs::initialization,
               [&](Call &call) -> CUresult {
                 call.note("flags", flags);
                 return isDevice(device) ? CUDA_SUCCESS
                                         : CUDA_ERROR_INVALID_DEVICE;
               });
}

MESHC_EMULATION_API CUresult cuDevicePrimaryCtxGetState(CUdevice device,
                                                        unsigned *flags,
                                                        int *active) {
  return enter("cuDevicePrimaryCtxGetState", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!flags || !active)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (!isDevice(device))
                   return CUDA_ERROR_INVALID_DEVICE;
                 const auto &context = getDriver().primaries[device];
                 *flags = 0;
                 *active = context && context->retained > 0;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxCreate_v2(CUcontext *handle, unsigned flags,
                                            CUdevice device) {
  return enter("cuCtxCreate_v2", Needs::initialization,
               [&](Call &call) { return createContext(call, handle, device); });
}

MESHC_EMULATION_API CUresult cuCtxCreate_v4(CUcontext *handle, void *parameters,
                                            unsigned flags, CUdevice device) {
  return enter("cuCtxCreate_v4", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (parameters)
                   return call.refuse(CUDA_ERROR_NOT_SUPPORTED,
                                      "contexts have no parameters here");
                 return createContext(call, handle, device);
               });
}

MESHC_EMULATION_API CUresult cuCtxDestroy_v2(CUcontext handle) {
  return enter("cuCtxDestroy_v2", Needs::initialization,
               [&](Call &call) -> CUresult {
                 Driver &driver = getDriver();
                 auto context = driver.contexts.find(handle);
                 if (!context || context->primary)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 driver.queue.runAll(context.get(), call.lock);
                 std::erase(getContextStack(), context.get());
                 if (call.context == context.get())
                   call.context = nullptr;
                 driver.contexts.remove(handle);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxSetCurrent(CUcontext handle) {
  return enter("cuCtxSetCurrent", Needs::initialization,
               [&](Call &call) -> CUresult {
                 auto context = getDriver().contexts.find(handle);
                 if (handle && !context)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 auto &stack = getContextStack();
                 if (!stack.empty())
                   stack.pop_back();
                 if (context)
                   stack.push_back(context.get());
                 call.note("to", context ? context->device : -1);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxGetCurrent(CUcontext *handle) {
  return enter("cuCtxGetCurrent", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (!handle)
                   return CUDA_ERROR_INVALID_VALUE;
                 *handle = call.context ? findHandle(call.context) : nullptr;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return enter("cuCtxPushCurrent_v2", Needs::initialization,
               [&](Call &call) -> CUresult {
                 auto context = getDriver().contexts.find(handle);
                 if (!context)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 getContextStack().push_back(context.get());
                 call.note("to", context->device);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxPopCurrent_v2(CUcontext *handle) {
  return enter("cuCtxPopCurrent_v2", Needs::initialization,
               [&](Call &call) -> CUresult {
                 if (!call.context)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 if (handle)
                   *handle = findHandle(call.context);
                 getContextStack().pop_back();
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxGetDevice(CUdevice *device) {
  return enter("cuCtxGetDevice", Needs::context, [&](Call &call) -> CUresult {
    if (!device)
      return CUDA_ERROR_INVALID_VALUE;
    *device = call.context->device;
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuCtxSynchronize(void) {
  return enter("cuCtxSynchronize", Needs::context, [&](Call &call) -> CUresult {
    if (CUresult captured = checkNoCapture(call))
      return captured;
    getDriver().queue.runAll(call.context, call.lock);
    return call.context->error;
  });
}

MESHC_EMULATION_API CUresult cuCtxGetStreamPriorityRange(int *least,
                                                         int *greatest) {
  return enter("cuCtxGetStreamPriorityRange", Needs::context,
               [&](Call &) -> CUresult {
                 if (least)
                   *least = 0;
                 if (greatest)
                   *greatest = -5;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuCtxEnablePeerAccess(CUcontext peer,
                                                   unsigned flags) {
  return enter("cuCtxEnablePeerAccess", Needs::context,
               [&](Call &call) -> CUresult {
                 auto other = getDriver().contexts.find(peer);
                 if (!other)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 if (flags != 0)
                   return CUDA_ERROR_INVALID_VALUE;
                 if (other->device == call.context->device)
                   return CUDA_ERROR_INVALID_DEVICE;
                 call.note("peer", other->device);
                 return call.context->peers.insert(other.get()).second
                            ? CUDA_SUCCESS
                            : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
               });
}

MESHC_EMULATION_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return enter("cuCtxDisablePeerAccess", Needs::context,
               [&](Call &call) -> CUresult {
                 auto other = getDriver().contexts.find(peer);
                 if (!other)
                   return CUDA_ERROR_INVALID_CONTEXT;
                 return call.context->peers.erase(other.get())
                            ? CUDA_SUCCESS
                            : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
               });
}

} // extern "C"
