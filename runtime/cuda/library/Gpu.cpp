#include "runtime/cuda/library/Gpu.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

bool GpuProperties::isEmulated() const {
  return name.starts_with("meshc emulated GPU");
}

std::string GpuProperties::toString() const {
  return fmt::format("GPU {} ({}, sm_{}{})", ordinal, name, major, minor);
}

Result<int> cuda::countGpus(const Driver &driver) {
  int count = 0;
  // A driver without devices is not initialised.
  if (driver.hasDevices)
    MESHC_RETURN_IF_ERROR(driver.deviceGetCount(&count));
  return count;
}

Result<GpuProperties> cuda::getProperties(const Driver &driver, int ordinal) {
  GpuProperties properties;
  properties.ordinal = ordinal;
  DeviceHandle handle = 0;
  MESHC_RETURN_IF_ERROR(driver.deviceGet(&handle, ordinal));
  std::array<char, 256> name{};
  MESHC_RETURN_IF_ERROR(
      driver.deviceGetName(name.data(), int(name.size()) - 1, handle));
  properties.name = name.data();
  for (auto [target, attribute] :
       {std::pair{&properties.major, attributeArchitectureMajor},
        std::pair{&properties.minor, attributeArchitectureMinor},
        std::pair{&properties.multiprocessors, attributeMultiprocessors},
        std::pair{&properties.maxSharedBytes, attributeMaxSharedBytes}})
    MESHC_RETURN_IF_ERROR(driver.deviceGetAttribute(target, attribute, handle));
  size_t bytes = 0;
  MESHC_RETURN_IF_ERROR(driver.deviceTotalMem(&bytes, handle));
  properties.memoryBytes = bytes;
  return properties;
}

namespace {
/// "sm_90a" is {9, 0, 'a'}.
struct Architecture {
  int major, minor;
  char suffix; ///< 0: none
};
} // namespace

static std::optional<Architecture> parseArchitecture(std::string_view text) {
  constexpr std::string_view prefix = "sm_";
  if (!text.starts_with(prefix))
    return std::nullopt;
  int number = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] =
      std::from_chars(text.data() + prefix.size(), end, number);
  if (error != std::errc() || number < 10 || end - rest > 1)
    return std::nullopt;
  return Architecture{number / 10, number % 10, rest == end ? '\0' : *rest};
}

static std::string getName(const exec::GpuImageT &image) {
  return fmt::format("{} ({})", image.architecture,
                     exec::EnumNameImageKind(image.kind));
}

std::string
cuda::listImages(const std::vector<std::unique_ptr<exec::GpuImageT>> &images) {
  std::vector<std::string> names;
  for (const auto &image : images)
    names.push_back(getName(*image));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// How good an image is for a GPU; -1: not for it.
static int rateImage(const exec::GpuImageT &image, const GpuProperties &gpu) {
  const std::optional<Architecture> architecture =
      parseArchitecture(image.architecture);
  if (!architecture || gpu.isEmulated())
    return -1;
  const auto [major, minor, suffix] = *architecture;
  const bool isCubin = image.kind == exec::ImageKind::cubin;
  const bool isSame = major == gpu.major && minor == gpu.minor;
  const bool isEarlier =
      isCubin ? major == gpu.major && minor < gpu.minor
              : major < gpu.major || (major == gpu.major && minor < gpu.minor);
  if (!isSame && (suffix || !isEarlier))
    return -1;
  // Cubins before PTX, then the architecture's number. One that is for this
  // GPU alone knows more of it.
  return isCubin * 10000 + major * 100 + minor * 10 + (suffix != 0);
}

Result<const exec::GpuImageT *>
cuda::chooseImage(const std::vector<std::unique_ptr<exec::GpuImageT>> &images,
                  const GpuProperties &gpu) {
  if (images.empty())
    return Error{ErrorCode::DamagedProgram, "it has no GPU kernels",
                 "a plan has none; \"meshc compile\" makes an executable"};
  const exec::GpuImageT *chosen = nullptr;
  int best = -1;
  for (const auto &image : images) {
    if (image->kind == exec::ImageKind::host) {
      if (gpu.isEmulated())
        return image.get();
      continue;
    }
    if (const int value = rateImage(*image, gpu); value > best) {
      best = value;
      chosen = image.get();
    }
  }
  if (chosen)
    return chosen;
  return Error{ErrorCode::OtherGpu,
               fmt::format("{} cannot run this executable, which has code for "
                           "{}",
                           gpu.toString(), listImages(images)),
               gpu.isEmulated()
                   ? ""
                   : fmt::format("compile the model with --gpu sm_{}{}",
                                 gpu.major, gpu.minor)};
}

const exec::GpuImageT *
cuda::choosePtx(const std::vector<std::unique_ptr<exec::GpuImageT>> &images,
                const GpuProperties &gpu) {
  const exec::GpuImageT *chosen = nullptr;
  int best = -1;
  for (const auto &image : images) {
    if (image->kind != exec::ImageKind::ptx)
      continue;
    if (const int value = rateImage(*image, gpu); value > best) {
      best = value;
      chosen = image.get();
    }
  }
  return chosen;
}

Result<std::unique_ptr<Gpu>> Gpu::open(const Driver &driver, int ordinal) {
  Result<GpuProperties> properties = cuda::getProperties(driver, ordinal);
  if (!properties)
    return properties.getError();
  DeviceHandle handle = 0;
  MESHC_RETURN_IF_ERROR(driver.deviceGet(&handle, ordinal));
  std::unique_ptr<Gpu> gpu(new Gpu(driver, handle, std::move(*properties)));
  MESHC_RETURN_IF_ERROR(driver.primaryContextRetain(&gpu->context, handle));
  MESHC_RETURN_IF_ERROR(driver.contextSetCurrent(gpu->context));
  return gpu;
}

Gpu::~Gpu() {
  module = OwnedModule();
  if (context)
    driver.primaryContextRelease.call(handle);
}

int Gpu::loadImage(const exec::GpuImageT &image) {
  // PTX ends where its text does.
  std::vector<uint8_t> bytes = image.data;
  bytes.push_back(0);
  Module loaded = nullptr;
  const int status = driver.moduleLoadData.call(&loaded, bytes.data());
  if (status == 0) {
    module = OwnedModule(driver, loaded);
    imageName = getName(image);
  }
  return status;
}

/// What a driver says to an image in a format later than itself.
static bool isRefusal(int status) {
  return status == errorInvalidImage || status == errorNoBinaryForGpu ||
         status == errorInvalidPtx || status == errorUnsupportedPtx;
}

Status Gpu::load(const exec::ExecutableT &executable) {
  Result<const exec::GpuImageT *> image =
      chooseImage(executable.images, properties);
  if (!image)
    return image.getError();
  const int status = loadImage(**image);
  if (status == 0)
    return Status::success();
  Error error = Driver::describe(driver.moduleLoadData.symbol, status);
  error.message += fmt::format(", while {} loaded the code for {}",
                               properties.toString(), getName(**image));
  if (!isRefusal(status))
    return error;
  error.note = fmt::format("the driver is of CUDA {}; a later one may read it",
                           getVersionText(driver.version));
  // The assembler of a later toolkit writes cubins that a driver cannot read,
  // from PTX that it can.
  const exec::GpuImageT *ptx = (*image)->kind == exec::ImageKind::cubin
                                   ? choosePtx(executable.images, properties)
                                   : nullptr;
  if (!ptx)
    return error;
  if (const int compiled = loadImage(*ptx)) {
    error.message += fmt::format(
        "; {}: {}", getName(*ptx),
        Driver::describe(driver.moduleLoadData.symbol, compiled).message);
    return error;
  }
  imageComplaint = fmt::format(
      "{} runs {}, which the driver compiles at every start: it is of CUDA {} "
      "and cannot read {}",
      properties.toString(), getName(*ptx), getVersionText(driver.version),
      getName(**image));
  return Status::success();
}

Result<KernelHandle> Gpu::getKernel(const std::string &symbol,
                                    int sharedBytes) {
  auto [entry, isAbsent] = kernels.try_emplace(symbol);
  Kernel &kernel = entry->second;
  if (isAbsent) {
    const int status = driver.moduleGetFunction.call(
        &kernel.handle, module.get(), symbol.c_str());
    if (status == errorNotFound)
      return Error{ErrorCode::DamagedProgram,
                   fmt::format("damaged program: its code for the GPU has no "
                               "kernel '{}'",
                               symbol),
                   ""};
    if (status != 0)
      return Driver::describe(driver.moduleGetFunction.symbol, status);
  }
  if (sharedBytes > kernel.sharedBytes) {
    if (sharedBytes > properties.maxSharedBytes)
      return Error{
          ErrorCode::OtherGpu,
          fmt::format("kernel '{}' needs {} bytes of shared memory, {} "
                      "has {}",
                      symbol, sharedBytes, properties.toString(),
                      properties.maxSharedBytes),
          ""};
    MESHC_RETURN_IF_ERROR(driver.functionSetAttribute(
        kernel.handle, functionMaxDynamicSharedBytes, sharedBytes));
    kernel.sharedBytes = sharedBytes;
  }
  return kernel.handle;
}
