#ifndef MESHC_FRONTEND_DRIVER_MEASURE_H
#define MESHC_FRONTEND_DRIVER_MEASURE_H

#include "layout/MeasuredMachine.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

/// What this host takes, for the times of plans for it: measured once, and kept
/// in meshc's cache folder under the processor and its cores.
namespace meshc::driver {

/// The file for this host.
llvm::Expected<std::string> getMeasurementPath();

/// Measures this host, in less than a minute, by programs that it compiles and
/// links with the runtime. Errors: what fails to compile, link or run.
llvm::Expected<layout::MeasuredHost> measureHost();

/// JSON of one version; numbers by the keys of layout::getFields.
std::string writeMeasurement(const layout::MeasuredHost &host);
/// Errors: damaged text; another version, processor or number of cores.
llvm::Expected<layout::MeasuredHost> readMeasurement(llvm::StringRef text);

/// What was measured on this host; none if nothing was. Errors: those of
/// readMeasurement, and what to do.
llvm::Expected<std::optional<layout::MeasuredHost>> findMeasurement();

/// The constants, a line each: name, value, unit, how made.
std::string renderMeasurement(const layout::MeasuredHost &host);

} // namespace meshc::driver

#endif
