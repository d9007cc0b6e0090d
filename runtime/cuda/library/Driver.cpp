#include "runtime/cuda/library/Driver.h"

#include <fmt/format.h>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

std::string cuda::getVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// The one driver of this process; describe() asks it for its words.
static Driver &getInstance() {
  static Driver driver;
  return driver;
}

Error Driver::describe(const char *symbol, int status) {
  const Driver &driver = getInstance();
  const char *name = nullptr;
  const char *text = nullptr;
  if (driver.getErrorName.call(status, &name) != 0)
    name = nullptr;
  if (driver.getErrorString.call(status, &text) != 0)
    text = nullptr;
  return {status == errorOutOfMemory ? ErrorCode::DoesNotFit
                                     : ErrorCode::GpuCallFailed,
          fmt::format("{} failed: {} ({})", symbol,
                      text ? text : "unknown error",
                      name ? name : std::to_string(status)),
          ""};
}

Result<const Driver *> Driver::load() {
  Driver &driver = getInstance();
  static constexpr const char *names[] = {"libcuda.so.1"};
  Result<DynamicLibrary> library =
      DynamicLibrary::open(names, "it comes with NVIDIA's driver, which a "
                                  "machine with their GPUs needs");
  if (!library)
    return library.getError();
  driver.path = library->getPath();
  // Asked first: what else an old driver lacks says less than its age.
  MESHC_RETURN_IF_ERROR(driver.getErrorName.resolve(*library));
  MESHC_RETURN_IF_ERROR(driver.getErrorString.resolve(*library));
  MESHC_RETURN_IF_ERROR(driver.driverGetVersion.resolve(*library));
  MESHC_RETURN_IF_ERROR(driver.driverGetVersion(&driver.version));
  if (driver.version < minDriverVersion)
    return Error{ErrorCode::OldGpuLibrary,
                 fmt::format("the driver '{}' is of CUDA {}, expected at least "
                             "{}",
                             driver.path, getVersionText(driver.version),
                             getVersionText(minDriverVersion)),
                 "install a later driver"};
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  MESHC_RETURN_IF_ERROR(driver.NAME.resolve(*library));
#include "runtime/cuda/library/DriverFunctions.def"
  const int status = driver.init.call(0);
  // No device is for those to report who count devices.
  driver.hasDevices = status != errorNoDevice;
  if (status != 0 && driver.hasDevices)
    return describe(driver.init.symbol, status);
  return &driver;
}

Result<const Driver *> Driver::get() {
  static const Result<const Driver *> loaded = load();
  return loaded;
}
