#include "runtime/app/Export.h"

#include "layout/Spelling.h"
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

/// Those of `parameters` that a pattern fits; all if there is no pattern.
static Result<std::vector<const exec::VariableT *>>
choose(const std::vector<const exec::VariableT *> &parameters,
       const std::vector<std::string> &patterns) {
  if (patterns.empty())
    return parameters;
  for (const std::string &pattern : patterns)
    if (std::ranges::none_of(parameters, [&](const exec::VariableT *each) {
          return layout::fitsPattern(pattern, each->name);
        })) {
      std::vector<std::string> names;
      for (const exec::VariableT *each : parameters)
        names.push_back(each->name);
      return Error{ErrorCode::UnknownName,
                   fmt::format("--only '{}' fits no parameter", pattern),
                   listNames(names)};
    }
  std::vector<const exec::VariableT *> chosen;
  std::ranges::copy_if(
      parameters, std::back_inserter(chosen), [&](const exec::VariableT *each) {
        return std::ranges::any_of(patterns, [&](const std::string &pattern) {
          return layout::fitsPattern(pattern, each->name);
        });
      });
  return chosen;
}

Status runtime::exportParameters(const Executable &executable,
                                 const ExportRequest &request) {
  const std::vector<const exec::VariableT *> parameters =
      getParameters(executable.data);
  Result<std::vector<const exec::VariableT *>> chosen =
      choose(parameters, request.only);
  if (!chosen)
    return chosen.getError();
  const ExportChoice choice = {[&](const exec::VariableT &each) {
                                 return std::ranges::find(*chosen, &each) !=
                                        chosen->end();
                               },
                               request.floats};
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
  Status complete = compareParameters(
      **source, request.from, parameters,
      [&](const exec::VariableT &each) { return !choice.takes(each); });
  if (!complete)
    return complete;
  ByteProgress progress("exported");
  Result<size_t> count = exportWeights(**source, parameters, map, request.to,
                                       choice, progress.listen(true));
  if (!count)
    return count.getError();
  const auto states = size_t(std::ranges::count(
      *chosen, exec::BufferRole::model_state, &exec::VariableT::role));
  printMessage(fmt::format(
      "exported {} parameters{} as {} tensors of {}\n", chosen->size() - states,
      states ? fmt::format(" and {} of state", states) : "", *count,
      request.to));
  return Status::success();
}
