// Memory of the emulated GPUs, pinned memory of the host, copies and fills.

#include "Driver.h"

#include <cstdlib>
#include <cstring>

using namespace meshc::emulation;

namespace {

/// `height` rows of `width` bytes.
struct Place {
  bool isDevice;
  char *address;
  size_t pitch;

  static Place device(CUdeviceptr address, size_t pitch = 0) {
    return {true, reinterpret_cast<char *>(address), pitch};
  }
  static Place host(const void *address, size_t pitch = 0) {
    return {false, static_cast<char *>(const_cast<void *>(address)), pitch};
  }
};

struct Shape {
  size_t width, height = 1;
  size_t span(size_t pitch) const {
    return width && height ? (height - 1) * pitch + width : 0;
  }
};

bool isInside(const Place &place, Shape shape) {
  size_t bytes = shape.span(place.pitch);
  return !place.isDevice || bytes == 0 ||
         getDriver().memory.find(reinterpret_cast<CUdeviceptr>(place.address),
                                 bytes);
}

/// By unified addressing: what is not a GPU's is the host's.
Place locate(CUdeviceptr address) {
  Place place = Place::device(address);
  place.isDevice = getDriver().memory.find(address, 0) != nullptr;
  return place;
}

void copyRows(const Place &to, const Place &from, Shape shape) {
  for (size_t row = 0; row < shape.height; ++row)
    std::memmove(to.address + row * to.pitch, from.address + row * from.pitch,
                 shape.width);
}

std::string describe(const char *what, const Place &to, const Place &from,
                     Shape shape) {
  std::string text = std::string(what) + (from.isDevice ? " from the GPU" : "");
  text += to.isDevice ? " to the GPU" : " to the host";
  text += ", " + std::to_string(shape.height * shape.width) + " bytes";
  return text;
}

/// Queues a copy; `waits`: returns when it is done.
CUresult copy(Call &call, CUstream handle, Place to, Place from, Shape shape,
              bool waits) {
  Driver &driver = getDriver();
  Stream *stream = findStream(call, handle);
  if (!stream)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such stream");
  call.noteStream(*stream);
  call.note("bytes", shape.width * shape.height);
  if (shape.height > 1 && (to.pitch < shape.width || from.pitch < shape.width))
    return call.refuse(CUDA_ERROR_INVALID_VALUE, "the rows overlap");
  if (!isInside(to, shape) || !isInside(from, shape))
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       "reaches outside an allocation");
  if (waits) {
    if (CUresult captured = checkNoCapture(call))
      return captured;
  }
  // Copies from pageable memory read it before they return, copies to it are
  // done when they return (CUDA driver API, "API synchronization behavior").
  bool readsPageable =
      !from.isDevice &&
      !driver.memory.isPinned(from.address, shape.span(from.pitch));
  bool writesPageable =
      !to.isDevice && !driver.memory.isPinned(to.address, shape.span(to.pitch));
  if (stream->capture && (readsPageable || writesPageable)) {
    stream->capture->invalid = true;
    return call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       "copies pageable memory in a capture");
  }
  std::shared_ptr<std::vector<char>> staged;
  Place source = from;
  if (readsPageable) {
    staged = std::make_shared<std::vector<char>>(shape.width * shape.height);
    source = Place::host(staged->data(), shape.width);
    copyRows(source, from, shape);
  }
  CUresult result =
      submit(call, *stream, describe(call.name, to, from, shape), [=]() -> Run {
        return [=]() -> Progress {
          (void)staged;
          if (!isInside(to, shape) || !isInside(source, shape))
            return {Progress::failed, CUDA_ERROR_ILLEGAL_ADDRESS,
                    "the allocation is gone"};
          copyRows(to, source, shape);
          return {};
        };
      });
  if (result != CUDA_SUCCESS || !(waits || writesPageable))
    return result;
  return synchronize(call, *stream);
}

CUresult fill(Call &call, CUstream handle, CUdeviceptr to, uint32_t value,
              size_t width, size_t count, bool waits) {
  Stream *stream = findStream(call, handle);
  if (!stream)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such stream");
  call.noteStream(*stream);
  call.note("bytes", width * count);
  if (to % width != 0)
    return call.refuse(CUDA_ERROR_INVALID_VALUE, "the address is misaligned");
  Place place = Place::device(to);
  Shape shape{width * count};
  if (!isInside(place, shape))
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       "reaches outside an allocation");
  if (waits) {
    if (CUresult captured = checkNoCapture(call))
      return captured;
  }
  std::string text =
      std::string(call.name) + ", " + std::to_string(width * count) + " bytes";
  CUresult result = submit(call, *stream, text, [=]() -> Run {
    return [=]() -> Progress {
      if (!isInside(place, shape))
        return {Progress::failed, CUDA_ERROR_ILLEGAL_ADDRESS,
                "the allocation is gone"};
      for (size_t i = 0; i < count; ++i)
        std::memcpy(place.address + i * width, &value, width);
      return {};
    };
  });
  if (result != CUDA_SUCCESS || !waits)
    return result;
  return synchronize(call, *stream);
}

CUresult allocatePinned(Call &call, void **address, size_t bytes) {
  call.note("bytes", bytes);
  if (!address || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  size_t space = (bytes + 4095) / 4096 * 4096;
  *address = std::aligned_alloc(4096, space);
  if (!*address)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(*address, 0xFF, space);
  getDriver().memory.pinned[reinterpret_cast<uintptr_t>(*address)] = {bytes,
                                                                      true};
  return CUDA_SUCCESS;
}

CUresult copy2D(Call &call, const CUDA_MEMCPY2D *copied, CUstream stream,
                bool waits) {
  if (!copied)
    return CUDA_ERROR_INVALID_VALUE;
  auto place = [&](int type, const void *host, CUdeviceptr device, size_t x,
                   size_t y, size_t pitch, Place &place) {
    if (pitch == 0)
      pitch = copied->WidthInBytes;
    if (type == CU_MEMORYTYPE_HOST)
      place = Place::host(host, pitch);
    else if (type == CU_MEMORYTYPE_DEVICE)
      place = Place::device(device, pitch);
    else if (type == CU_MEMORYTYPE_UNIFIED) {
      place = locate(device);
      place.pitch = pitch;
    } else {
      return false;
    }
    place.address += x + y * pitch;
    return true;
  };
  Place to, from;
  if (!place(copied->srcMemoryType, copied->srcHost, copied->srcDevice,
             copied->srcXInBytes, copied->srcY, copied->srcPitch, from) ||
      !place(copied->dstMemoryType, copied->dstHost, copied->dstDevice,
             copied->dstXInBytes, copied->dstY, copied->dstPitch, to))
    return call.refuse(CUDA_ERROR_INVALID_VALUE, "neither host nor device");
  call.note("width", copied->WidthInBytes);
  call.note("height", copied->Height);
  return copy(call, stream, to, from, {copied->WidthInBytes, copied->Height},
              waits);
}

CUresult copyPeer(Call &call, CUdeviceptr to, CUcontext toContext,
                  CUdeviceptr from, CUcontext fromContext, size_t bytes,
                  CUstream stream, bool waits) {
  const Driver &driver = getDriver();
  auto checkPlace = [&](CUdeviceptr address, CUcontext handle) {
    auto context = driver.contexts.find(handle);
    const Memory::Allocation *allocation = driver.memory.find(address, bytes);
    return context && allocation && allocation->device == context->device;
  };
  if (!checkPlace(to, toContext) || !checkPlace(from, fromContext))
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       "reaches outside an allocation of the context's GPU");
  return copy(call, stream, Place::device(to), Place::device(from), {bytes},
              waits);
}

} // namespace

extern "C" {

MESHC_EMULATION_API CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return enter("cuMemGetInfo_v2", Needs::context, [&](Call &call) -> CUresult {
    if (!free || !total)
      return CUDA_ERROR_INVALID_VALUE;
    *total = getEnvironment().memoryBytes;
    *free = *total - getDriver().memory.getUsed(call.context->device);
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return enter("cuMemAlloc_v2", Needs::context, [&](Call &call) -> CUresult {
    call.note("bytes", bytes);
    if (!address || bytes == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (CUresult captured = checkNoCapture(call))
      return captured;
    CUresult result =
        getDriver().memory.allocate(call.context->device, bytes, *address);
    if (result == CUDA_SUCCESS)
      call.note("address", *address);
    return result;
  });
}

MESHC_EMULATION_API CUresult cuMemFree_v2(CUdeviceptr address) {
  return enter("cuMemFree_v2", Needs::context, [&](Call &call) -> CUresult {
    call.note("address", address);
    if (address == 0)
      return CUDA_SUCCESS;
    if (CUresult captured = checkNoCapture(call))
      return captured;
    // Waits for the device, as the real one does.
    Driver &driver = getDriver();
    driver.queue.runAll(call.context, call.lock);
    std::string broken = driver.memory.checkGuards();
    if (!broken.empty())
      failContext(*call.context, CUDA_ERROR_ILLEGAL_ADDRESS,
                  "cuMemFree: " + broken);
    CUresult result = driver.memory.release(address);
    if (result != CUDA_SUCCESS)
      return call.refuse(result, "not the address of an allocation");
    return call.context->error;
  });
}

MESHC_EMULATION_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base,
                                                     size_t *bytes,
                                                     CUdeviceptr address) {
  return enter("cuMemGetAddressRange_v2", Needs::context,
               [&](Call &) -> CUresult {
                 CUdeviceptr begin;
                 const Memory::Allocation *allocation =
                     getDriver().memory.find(address, 1, &begin);
                 if (!allocation)
                   return CUDA_ERROR_NOT_FOUND;
                 if (base)
                   *base = begin;
                 if (bytes)
                   *bytes = allocation->bytes;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuMemAllocHost_v2(void **address, size_t bytes) {
  return enter("cuMemAllocHost_v2", Needs::context, [&](Call &call) {
    return allocatePinned(call, address, bytes);
  });
}

MESHC_EMULATION_API CUresult cuMemHostAlloc(void **address, size_t bytes,
                                            unsigned flags) {
  return enter("cuMemHostAlloc", Needs::context, [&](Call &call) {
    call.note("flags", flags);
    return allocatePinned(call, address, bytes);
  });
}

MESHC_EMULATION_API CUresult cuMemFreeHost(void *address) {
  return enter("cuMemFreeHost", Needs::context, [&](Call &call) -> CUresult {
    auto &pinned = getDriver().memory.pinned;
    auto found = pinned.find(reinterpret_cast<uintptr_t>(address));
    if (found == pinned.end() || !found->second.owned)
      return call.refuse(CUDA_ERROR_INVALID_VALUE,
                         "not the address of pinned memory");
    getDriver().queue.runAll(call.context, call.lock);
    pinned.erase(found);
    std::free(address);
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device,
                                                          void *address,
                                                          unsigned flags) {
  return enter("cuMemHostGetDevicePointer_v2", Needs::context,
               [&](Call &) -> CUresult {
                 if (!device || !getDriver().memory.isPinned(address, 1))
                   return CUDA_ERROR_INVALID_VALUE;
                 *device = reinterpret_cast<CUdeviceptr>(address);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuMemHostRegister_v2(void *address, size_t bytes,
                                                  unsigned flags) {
  return enter(
      "cuMemHostRegister_v2", Needs::context, [&](Call &call) -> CUresult {
        call.note("bytes", bytes);
        if (!address || bytes == 0)
          return CUDA_ERROR_INVALID_VALUE;
        Memory &memory = getDriver().memory;
        auto begin = reinterpret_cast<uintptr_t>(address);
        auto next = memory.pinned.lower_bound(begin);
        if (memory.isPinned(address, 1) ||
            (next != memory.pinned.end() && next->first < begin + bytes))
          return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        memory.pinned[begin] = {bytes, false};
        return CUDA_SUCCESS;
      });
}

MESHC_EMULATION_API CUresult cuMemHostUnregister(void *address) {
  return enter("cuMemHostUnregister", Needs::context,
               [&](Call &call) -> CUresult {
                 auto &pinned = getDriver().memory.pinned;
                 auto found = pinned.find(reinterpret_cast<uintptr_t>(address));
                 if (found == pinned.end() || found->second.owned)
                   return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
                 getDriver().queue.runAll(call.context, call.lock);
                 pinned.erase(found);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuPointerGetAttribute(void *value, int attribute,
                                                   CUdeviceptr address) {
  return enter(
      "cuPointerGetAttribute", Needs::context, [&](Call &call) -> CUresult {
        const Memory &memory = getDriver().memory;
        const Memory::Allocation *allocation = memory.find(address, 1);
        bool isPinned =
            memory.isPinned(reinterpret_cast<const void *>(address), 1);
        if (!value || (!allocation && !isPinned))
          return CUDA_ERROR_INVALID_VALUE;
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
          *static_cast<unsigned *>(value) =
              allocation ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
          return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          *static_cast<int *>(value) =
              allocation ? allocation->device : call.context->device;
          return CUDA_SUCCESS;
        default:
          return call.refuse(CUDA_ERROR_NOT_SUPPORTED,
                             "the emulation does not know attribute " +
                                 std::to_string(attribute));
        }
      });
}

MESHC_EMULATION_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from,
                                      size_t bytes) {
  return enter("cuMemcpy", Needs::context, [&](Call &call) {
    return copy(call, nullptr, locate(to), locate(from), {bytes}, true);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from,
                                           size_t bytes, CUstream stream) {
  return enter("cuMemcpyAsync", Needs::context, [&](Call &call) {
    return copy(call, stream, locate(to), locate(from), {bytes}, false);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext toContext,
                                          CUdeviceptr from,
                                          CUcontext fromContext, size_t bytes) {
  return enter("cuMemcpyPeer", Needs::context, [&](Call &call) {
    return copyPeer(call, to, toContext, from, fromContext, bytes, nullptr,
                    true);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyPeerAsync(CUdeviceptr to,
                                               CUcontext toContext,
                                               CUdeviceptr from,
                                               CUcontext fromContext,
                                               size_t bytes, CUstream stream) {
  return enter("cuMemcpyPeerAsync", Needs::context, [&](Call &call) {
    return copyPeer(call, to, toContext, from, fromContext, bytes, stream,
                    false);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from,
                                             size_t bytes) {
  return enter("cuMemcpyHtoD_v2", Needs::context, [&](Call &call) {
    return copy(call, nullptr, Place::device(to), Place::host(from), {bytes},
                true);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to,
                                                  const void *from,
                                                  size_t bytes,
                                                  CUstream stream) {
  return enter("cuMemcpyHtoDAsync_v2", Needs::context, [&](Call &call) {
    return copy(call, stream, Place::device(to), Place::host(from), {bytes},
                false);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from,
                                             size_t bytes) {
  return enter("cuMemcpyDtoH_v2", Needs::context, [&](Call &call) {
    return copy(call, nullptr, Place::host(to), Place::device(from), {bytes},
                true);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from,
                                                  size_t bytes,
                                                  CUstream stream) {
  return enter("cuMemcpyDtoHAsync_v2", Needs::context, [&](Call &call) {
    return copy(call, stream, Place::host(to), Place::device(from), {bytes},
                false);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from,
                                             size_t bytes) {
  // Between addresses of one GPU the host does not wait.
  return enter("cuMemcpyDtoD_v2", Needs::context, [&](Call &call) -> CUresult {
    if (CUresult captured = checkNoCapture(call))
      return captured;
    return copy(call, nullptr, Place::device(to), Place::device(from), {bytes},
                false);
  });
}

MESHC_EMULATION_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to,
                                                  CUdeviceptr from,
                                                  size_t bytes,
                                                  CUstream stream) {
  return enter("cuMemcpyDtoDAsync_v2", Needs::context, [&](Call &call) {
    return copy(call, stream, Place::device(to), Place::device(from), {bytes},
                false);
  });
}

MESHC_EMULATION_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copied) {
  return enter("cuMemcpy2D_v2", Needs::context,
               [&](Call &call) { return copy2D(call, copied, nullptr, true); });
}

MESHC_EMULATION_API CUresult
cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copied) {
  return enter("cuMemcpy2DUnaligned_v2", Needs::context,
               [&](Call &call) { return copy2D(call, copied, nullptr, true); });
}

MESHC_EMULATION_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copied,
                                                CUstream stream) {
  return enter("cuMemcpy2DAsync_v2", Needs::context,
               [&](Call &call) { return copy2D(call, copied, stream, false); });
}

MESHC_EMULATION_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value,
                                           size_t count) {
  return enter("cuMemsetD8_v2", Needs::context, [&](Call &call) {
    return fill(call, nullptr, to, value, 1, count, true);
  });
}

MESHC_EMULATION_API CUresult cuMemsetD8Async(CUdeviceptr to,
                                             unsigned char value, size_t count,
                                             CUstream stream) {
  return enter("cuMemsetD8Async", Needs::context, [&](Call &call) {
    return fill(call, stream, to, value, 1, count, false);
  });
}

MESHC_EMULATION_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value,
                                            size_t count) {
  return enter("cuMemsetD32_v2", Needs::context, [&](Call &call) {
    return fill(call, nullptr, to, value, 4, count, true);
  });
}

MESHC_EMULATION_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value,
                                              size_t count, CUstream stream) {
  return enter("cuMemsetD32Async", Needs::context, [&](Call &call) {
    return fill(call, stream, to, value, 4, count, false);
  });
}

} // extern "C"
