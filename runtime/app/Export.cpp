#include "runtime/app/Export.h"

#include "runtime/app/CommandFlags.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/weights/TensorFiles.h"
#include "runtime/weights/WeightExport.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

using namespace meshc;
using namespace meshc::runtime;

/// An error where `to` is what `from` is, or lies in it.
static Status checkApart(const ExportRequest &request) {
  namespace fs = std::filesystem;
  std::error_code failed; // opening it tells why
  const fs::path to = fs::weakly_canonical(request.to, failed);
  const fs::path from = fs::weakly_canonical(request.from, failed);
  const fs::path rest = to.lexically_relative(from);
  if (rest.empty() || *rest.begin() == "..")
    return Status::success();
  return Error{ErrorCode::RepeatedInput,
               fmt::format("'{}' is read, and '{}' to be written", request.from,
                           request.to),
               "what is there would be written over"};
}

Status runtime::exportParameters(const Executable &executable,
                                 const ExportRequest &request) {
  if (Status apart = checkApart(request); !apart)
    return apart;
  const std::vector<const exec::VariableT *> parameters =
      getParameters(executable.data);
  std::optional<NameMap> map;
  if (!request.names.empty()) {
    Result<NameMap> read = readNameMap(request.names);
    if (!read)
      return read.getError();
    map = std::move(*read);
  }
  Result<std::unique_ptr<ParameterSource>> source = openSource(
      request.from, TensorFiles::isAny(request.from) ? request.names : "",
      parameters);
  if (!source)
    return source.getError();
  Status complete =
      compareParameters(**source, request.from, parameters,
                        [](const exec::VariableT &) { return false; });
  if (!complete)
    return complete;
  ByteProgress progress("exported");
  Result<size_t> count = exportWeights(
      **source, parameters, map ? &*map : nullptr, request.to,
      [&](uint64_t bytes, uint64_t all) { progress.show(bytes, all); });
  if (!count)
    return count.getError();
  printMessage(fmt::format("exported {} parameters as {} tensors of {}\n",
                           parameters.size(), *count, request.to));
  return Status::success();
}

void CommandLine::addExport() {
  CLI::App *command = app.add_subcommand(
      "export", "Write the parameters into a safetensors file");
  addSource(command, "checkpoint, or folder with some, of which the last one "
                     "is taken; safetensors files; or folder of .npy files")
      ->required();
  takes("FILE (required)",
        command->add_option("--to", exportPath,
                            "safetensors file to write, for other programs"))
      ->required();
  addNames(command, "what the parameters are called in safetensors files, and "
                    "how they lie there (default: as in the spec)");
  command->callback([this] {
    lookUp = [this](const Executable &executable) {
      return exportParameters(
          executable, {flags.parameterSource, exportPath, flags.nameMap});
    };
  });
}
