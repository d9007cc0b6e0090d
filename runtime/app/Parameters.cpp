#include "runtime/app/Parameters.h"

#include "runtime/data/Npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

Status runtime::checkUnique(std::string_view kind,
                            const std::vector<NamedFile> &files) {
  std::set<std::string_view> given;
  for (const NamedFile &file : files)
    if (!given.insert(file.name).second)
      return Error{ErrorCode::RepeatedInput,
                   fmt::format("{} '{}' is given twice", kind, file.name), ""};
  return Status::success();
}

/// An error if ranks have read different arrays.
static Status agreeOnArray(Session &session, std::string_view kind,
                           const NamedFile &file, const HostArray &array) {
  if (!session.hasOtherRanks())
    return Status::success();
  return session.agree(
      {{fmt::format("{} '{}'", kind, file.name), getDigest(array.data)}});
}

/// An error if a parameter of the model is given by no file.
static Status checkComplete(const Session &session,
                            const std::vector<NamedFile> &files) {
  std::set<std::string_view> given;
  for (const NamedFile &file : files)
    given.insert(file.name);
  std::vector<const exec::VariableT *> missing;
  for (const exec::VariableT *parameter : session.getParameters())
    if (!given.count(parameter->name))
      missing.push_back(parameter);
  if (missing.empty())
    return Status::success();
  if (missing.size() == 1)
    return Error{ErrorCode::MissingInput,
                 fmt::format("parameter '{}' is missing: expected {}",
                             missing[0]->name, toString(*missing[0]->layout)),
                 fmt::format("give it as --param {}=FILE.npy, or --init random "
                             "to evaluate one that is not trained",
                             missing[0]->name)};
  constexpr size_t most = 4; // names in a message
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(missing.size(), most); ++i)
    names.push_back(fmt::format("'{}'", missing[i]->name));
  if (missing.size() > most)
    names.push_back(fmt::format("{} more", missing.size() - most));
  const std::string last = std::move(names.back());
  names.pop_back();
  return Error{ErrorCode::MissingInput,
               fmt::format("{} parameters are missing: {} and {}",
                           missing.size(), fmt::join(names, ", "), last),
               "give each as --param NAME=FILE.npy, or --init random to "
               "evaluate those that are not given untrained"};
}

Status runtime::checkParameters(const Session &session,
                                const ParameterRequest &request) {
  Status unique = checkUnique("parameter", request.files);
  if (!unique)
    return unique;
  for (const NamedFile &file : request.files) {
    Result<const exec::VariableT *> parameter = session.getParameter(file.name);
    if (!parameter)
      return parameter.getError();
  }
  return request.drawsMissing ? Status::success()
                              : checkComplete(session, request.files);
}

Status runtime::setParameters(Session &session,
                              const ParameterRequest &request) {
  Status initialised = session.initialise(request.seed);
  if (!initialised)
    return initialised;
  for (const NamedFile &file : request.files) {
    Result<HostArray> array = readNpy(file.path);
    if (!array)
      return array.getError();
    Status set = session.setParameter(file.name, *array, file.path);
    if (set)
      set = agreeOnArray(session, "parameter", file, *array);
    if (!set)
      return set;
  }
  return Status::success();
}
