#include "runtime/app/Export.h"

#include "runtime/app/OutputFile.h"
#include "runtime/app/Parameters.h"
#include "runtime/app/Progress.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/weights/WeightExport.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

using namespace meshc;
using namespace meshc::runtime;

Status runtime::exportParameters(const Executable &executable,
                                 const ExportRequest &request) {
  const std::vector<const exec::VariableT *> parameters =
      getParameters(executable.data);
  Result<std::optional<NameMap>> names = openNames(request.names);
  if (!names)
    return names.getError();
  const NameMap *map = *names ? &**names : nullptr;
  Result<std::unique_ptr<ParameterSource>> source = openSource(
      request.from, hasOtherNames(request.from) ? map : nullptr, parameters);
  if (!source)
    return source.getError();
  TakenFiles taken;
  for (const std::string &path : (*source)->getFiles())
    taken.add(path);
  if (map)
    taken.add(request.names);
  if (Status added = taken.addWritten(request.to, "--to"); !added)
    return added;
  Status complete =
      compareParameters(**source, request.from, parameters,
                        [](const exec::VariableT &) { return false; });
  if (!complete)
    return complete;
  ByteProgress progress("exported");
  Result<size_t> count = exportWeights(**source, parameters, map, request.to,
                                       progress.listen(true));
  if (!count)
    return count.getError();
  const auto states = size_t(std::ranges::count(
      parameters, exec::BufferRole::model_state, &exec::VariableT::role));
  printMessage(
      fmt::format("exported {} parameters{} as {} tensors of {}\n",
                  parameters.size() - states,
                  states ? fmt::format(" and {} of state", states) : "", *count,
                  request.to));
  return Status::success();
}
