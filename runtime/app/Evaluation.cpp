#include "runtime/app/Evaluation.h"

#include "runtime/data/Npy.h"
#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

using namespace meshc;
using namespace meshc::runtime;

/// The gradient of NAME is the output with this before its name.
static constexpr std::string_view gradientPrefix = "grad:";
/// The output that says whether a gradient overflowed, and the loss scale is
/// smaller now (passes/LossScale.h).
static constexpr std::string_view retryOutput = "fp16/retry";

Result<std::vector<NamedFile>>
runtime::parseNamedFiles(const std::vector<std::string> &texts) {
  std::vector<NamedFile> files;
  for (const std::string &text : texts) {
    size_t split = text.find('=');
    if (split == std::string::npos || split == 0 || split + 1 == text.size())
      return Error{ErrorCode::Usage,
                   fmt::format("expected NAME=FILE, found '{}'", text), ""};
    files.push_back({text.substr(0, split), text.substr(split + 1)});
  }
  return files;
}

/// An error if two of `files` are for one thing.
static Status checkUnique(std::string_view kind,
                          const std::vector<NamedFile> &files) {
  std::set<std::string_view> given;
  for (const NamedFile &file : files)
    if (!given.insert(file.name).second)
      return Error{ErrorCode::RepeatedInput,
                   fmt::format("{} '{}' is given twice", kind, file.name), ""};
  return Status::success();
}

/// An error if a file would be written that is read, or written a second time.
static Status checkOverwriting(const EvaluationRequest &request) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  auto getPlace = [](const std::string &path) {
    std::error_code failed;
    const fs::path place = fs::weakly_canonical(path, failed);
    return failed ? path : place.string(); // reading or writing it tells why
  };
  std::set<std::string> taken; // by whatever name
  for (const auto *files : {&request.inputs, &request.parameters.files})
    for (const NamedFile &file : *files)
      taken.insert(getPlace(file.path));
  for (const auto *files : {&request.outputs, &request.gradients})
    for (const NamedFile &file : *files) {
      // Devices and pipes take more than one array.
      const bool isFile = !fs::exists(file.path, ignored) ||
                          fs::is_regular_file(file.path, ignored);
      if (isFile && !taken.insert(getPlace(file.path)).second)
        return Error{ErrorCode::RepeatedInput,
                     fmt::format("'{}', the file for '{}', is given twice",
                                 file.path, file.name),
                     "what is there would be written over"};
    }
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

/// Finds the output each file is for before anything is computed.
static Result<std::vector<const exec::PortT *>>
findOutputs(const exec::ProgramT &program, std::string_view kind,
            std::string_view prefix, const std::vector<NamedFile> &files) {
  std::vector<const exec::PortT *> ports;
  for (const NamedFile &file : files) {
    ports.push_back(findPort(program.outputs, std::string(prefix) + file.name));
    if (ports.back())
      continue;
    std::vector<std::string> names;
    for (const auto &port : program.outputs)
      if (port->name.starts_with(prefix) && port->name != retryOutput &&
          (!prefix.empty() || !port->name.starts_with(gradientPrefix)))
        names.push_back(port->name.substr(prefix.size()));
    return Error{ErrorCode::UnknownName,
                 fmt::format("there is no {} '{}'", kind, file.name),
                 listNames(names)};
  }
  return ports;
}

/// Reads the inputs and runs the program; once more, with the loss scale that
/// it has left, as long as a gradient overflows.
static Status runOnFiles(Session &session, const exec::ProgramT &program,
                         const std::vector<NamedFile> &files) {
  const exec::PortT *retry = findPort(program.outputs, retryOutput);
  std::vector<HostArray> arrays;
  for (const NamedFile &file : files) {
    Result<HostArray> array = readNpy(file.path);
    if (!array)
      return array.getError();
    Status set = session.setInput(program, file.name, *array, file.path);
    if (set)
      set = agreeOnArray(session, "input", file, *array);
    if (!set)
      return set;
    if (retry)
      arrays.push_back(std::move(*array));
  }
  while (true) {
    Status ran = session.run(program);
    if (!ran || !retry)
      return ran;
    Result<HostArray> again = session.read(*retry);
    if (!again)
      return again.getError();
    if (getScalar(*again) == 0)
      return Status::success();
    // A run may put other values where an input was.
    for (size_t i = 0; i < files.size(); ++i) {
      Status set =
          session.setInput(program, files[i].name, arrays[i], files[i].path);
      if (!set)
        return set;
    }
  }
}

/// The program that gives what is asked for.
static Result<const exec::ProgramT *>
findProgram(Session &session, const EvaluationRequest &request) {
  if (request.gradients.empty())
    return session.getProgram("eval");
  Result<const exec::ProgramT *> program = session.getProgram("gradient");
  if (program)
    return program;
  return Error{
      ErrorCode::UnknownProgram,
      "this executable was compiled without gradients",
      fmt::format("compile it with --grad {}", request.gradients.front().name)};
}

Status runtime::evaluateOnce(Session &session,
                             const EvaluationRequest &request) {
  Result<const exec::ProgramT *> program = findProgram(session, request);
  if (!program)
    return program.getError();
  Result<std::vector<const exec::PortT *>> outputs =
      findOutputs(**program, "output", "", request.outputs);
  if (!outputs)
    return outputs.getError();
  Result<std::vector<const exec::PortT *>> gradients =
      findOutputs(**program, "gradient of", gradientPrefix, request.gradients);
  if (!gradients)
    return gradients.getError();

  for (auto [kind, files] : {std::pair{"output", &request.outputs},
                             std::pair{"gradient of", &request.gradients},
                             std::pair{"input", &request.inputs}}) {
    Status unique = checkUnique(kind, *files);
    if (!unique)
      return unique;
  }

  Status spared = checkOverwriting(request);
  if (!spared)
    return spared;

  std::set<std::string_view> given;
  for (const NamedFile &file : request.inputs) {
    Result<const exec::PortT *> input = session.getInput(**program, file.name);
    if (!input)
      return input.getError();
    given.insert(file.name);
  }
  for (const auto &input : (*program)->inputs)
    if (!given.count(input->name))
      return Error{ErrorCode::MissingInput,
                   fmt::format("input '{}' is missing: expected {}",
                               input->name, toString(*input->layout)),
                   fmt::format("give it as --in {}=FILE.npy", input->name)};
  Status complete = checkParameters(session, request.parameters);
  if (!complete)
    return complete;

  Status set = setParameters(session, request.parameters);
  if (!set)
    return set;
  Status ran = runOnFiles(session, **program, request.inputs);
  if (!ran)
    return ran;

  auto write = [&](const std::vector<const exec::PortT *> &ports,
                   const std::vector<NamedFile> &files) {
    for (size_t i = 0; i < ports.size(); ++i) {
      Result<HostArray> array = session.read(*ports[i]);
      if (!array)
        return Status(array.getError());
      if (!session.isFirst())
        continue;
      Status written = writeNpy(files[i].path, *array);
      if (!written)
        return written;
    }
    return Status::success();
  };
  Status written = write(*outputs, request.outputs);
  if (!written)
    return written;
  written = write(*gradients, request.gradients);
  if (!written || !request.outputs.empty() || !request.gradients.empty())
    return written;
  for (const auto &port : (*program)->outputs) {
    if (getGlobalElements(*port->layout) != 1)
      continue;
    Result<HostArray> array = session.read(*port);
    if (!array)
      return array.getError();
    if (session.isFirst())
      printOutput(fmt::format("{} {:.9g}\n", port->name, getScalar(*array)));
  }
  return Status::success();
}
