#ifndef MESHC_FRONTEND_DRIVER_SPECOPTIONS_H
#define MESHC_FRONTEND_DRIVER_SPECOPTIONS_H

#include "frontend/driver/Commands.h"

#include <CLI/CLI.hpp>

namespace meshc::driver {

/// An option with one value that may be given several times.
CLI::Option *addRepeated(CLI::App *command, const std::string &name,
                         std::vector<std::string> &values,
                         const std::string &what);
/// Options of every command that reads a spec. Returns that of the spec.
CLI::Option *addSpecOptions(CLI::App *command, SpecArguments &spec);
/// The options of every command that shows or makes a command list.
void addCommandListOptions(CLI::App *command, CLI::Option *path,
                           SpecArguments &spec);
CLI::Option *addTarget(CLI::App *command, std::string &target);
/// Takes target cuda for a machine, which has GPUs, and h100 for target cuda
/// without one. Refuses options that programs for the target do not have.
void settleTarget(const CLI::App &command, SpecArguments &spec,
                  std::string &target);
/// Bytes, `least` or more, from text such as 80GiB.
CLI::Validator readSize(int64_t least);

} // namespace meshc::driver

#endif
