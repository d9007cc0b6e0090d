#ifndef MESHC_RUNTIME_CUDA_LIBRARY_GPU_H
#define MESHC_RUNTIME_CUDA_LIBRARY_GPU_H

#include "runtime/cuda/library/Resources.h"
#include "runtime/exec/exec_generated.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime::cuda {

/// What the driver says of a GPU.
struct GpuProperties {
  int ordinal = 0; ///< among those that this process sees
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int multiprocessors = 0;
  int maxSharedBytes = 0; ///< of a block
  uint64_t memoryBytes = 0;

  /// Whether it is the emulated driver of the tests, which runs images of kind
  /// `host` on this machine's processor.
  bool isEmulated() const;
  /// "GPU 0 (NVIDIA H200, sm_90)".
  std::string toString() const;
};

Result<int> countGpus(const Driver &driver);
Result<GpuProperties> getProperties(const Driver &driver, int ordinal);

/// The kernels for a GPU: of the cubins for its major architecture the one with
/// the highest minor that it has, else of the PTX for architectures up to its
/// own the highest. An architecture with a letter, as in sm_90a, is for that
/// one alone. Images of kind `host` are for emulated GPUs.
/// Errors: OtherGpu, with what there is; DamagedProgram without any.
/// Source: CUDA C++ Programming Guide 13.0, 3.1.2 to 3.1.4.
Result<const exec::GpuImageT *>
chooseImage(const std::vector<std::unique_ptr<exec::GpuImageT>> &images,
            const GpuProperties &gpu);
/// Of the PTX alone; null if there is none for this GPU.
const exec::GpuImageT *
choosePtx(const std::vector<std::unique_ptr<exec::GpuImageT>> &images,
          const GpuProperties &gpu);

/// "sm_90 (cubin), sm_90 (ptx)".
std::string
listImages(const std::vector<std::unique_ptr<exec::GpuImageT>> &images);

/// A GPU with its primary context, current on the thread that opened it, and
/// the kernels of an executable.
class Gpu {
public:
  static Result<std::unique_ptr<Gpu>> open(const Driver &driver, int ordinal);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  const Driver &getDriver() const { return driver; }
  const GpuProperties &getProperties() const { return properties; }

  /// Loads the kernels for this GPU: the image of chooseImage or, where that is
  /// a cubin that the driver is too old to read, PTX.
  /// Errors: see chooseImage; those of the driver, of both images.
  Status load(const exec::ExecutableT &executable);
  /// The image that was loaded: "sm_90 (cubin)".
  const std::string &getImageName() const { return imageName; }
  /// Why it is PTX although there was a cubin; empty if it is not.
  const std::string &getImageComplaint() const { return imageComplaint; }
  /// A kernel that may be launched with so many bytes of dynamic shared memory.
  /// Errors: DamagedProgram where the image does not have it.
  Result<KernelHandle> getKernel(const std::string &symbol, int sharedBytes);

private:
  /// The driver's status.
  int loadImage(const exec::GpuImageT &image);

  Gpu(const Driver &driver, DeviceHandle handle, GpuProperties properties)
      : driver(driver), handle(handle), properties(std::move(properties)) {}

  struct Kernel {
    KernelHandle handle = nullptr;
    int sharedBytes = usualSharedBytes; ///< that it may have
  };

  const Driver &driver;
  DeviceHandle handle;
  GpuProperties properties;
  Context context = nullptr;
  OwnedModule module;
  std::string imageName, imageComplaint;
  std::map<std::string, Kernel> kernels;
};

} // namespace meshc::runtime::cuda

#endif
