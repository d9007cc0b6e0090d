// The flags of eval, predict and export.

#include "runtime/app/CommandFlags.h"
#include "runtime/app/Continuation.h"
#include "runtime/app/Export.h"
#include "runtime/app/Prediction.h"
#include "runtime/app/TestSplit.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

/// Names that predict had; not listed, but those who know of them are told.
static constexpr const char *formerNames[] = {"infer", "run-eval"};

/// Splits "NAME=FILE" at the first '='.
static Result<std::vector<NamedFile>>
parseNamedFiles(const std::vector<std::string> &texts) {
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

Result<ParameterRequest>
runtime::getParameterRequest(const CommandFlags &flags) {
  Result<std::vector<NamedFile>> files = parseNamedFiles(flags.parameters);
  if (!files)
    return files.getError();
  return ParameterRequest{flags.parameterSource, flags.nameMap,
                          std::move(*files), flags.drawsParameters, flags.seed};
}

/// Refuses a seed that nothing would be drawn from.
static Status checkSeed(const Session &session, const CommandFlags &flags) {
  if (!flags.hasSeed || flags.drawsParameters)
    return Status::success();
  for (const auto &program : session.getExecutable().data.programs)
    if (program->name != "init" && program->seed)
      return Status::success();
  return Error{ErrorCode::Usage,
               "--seed, but the model draws no random numbers",
               "--init random draws the parameters that are not given"};
}

static Status runOnArrays(Session &session, const CommandFlags &flags) {
  if (Status used = checkSeed(session, flags); !used)
    return used;
  Result<ParameterRequest> parameters = getParameterRequest(flags);
  if (!parameters)
    return parameters.getError();
  if (!flags.top.output.empty() && flags.top.count == 0 && !flags.prompt)
    return Error{ErrorCode::Usage, "--of needs --topk or --prompt", ""};
  if (flags.prompt)
    return continueText(
        session, {*flags.prompt, flags.continued, flags.top.output,
                  flags.predictedFolder.value_or(""), std::move(*parameters)});
  PredictionRequest request;
  request.parameters = std::move(*parameters);
  request.dataFolder = flags.predictedFolder;
  request.maxSamples = flags.maxSamples;
  request.batchDim = flags.batchDim;
  request.top = flags.top;
  request.isTraining = flags.predictsTraining;
  request.firstRun = flags.predictedStep;
  for (auto [texts, files] :
       {std::pair{&flags.inputs, &request.inputs},
        std::pair{&flags.outputs, &request.outputs},
        std::pair{&flags.gradients, &request.gradients}}) {
    Result<std::vector<NamedFile>> parsed = parseNamedFiles(*texts);
    if (!parsed)
      return parsed.getError();
    *files = std::move(*parsed);
  }
  return predict(session, request);
}

static Status runOnTestSplit(Session &session, const CommandFlags &flags) {
  if (Status used = checkSeed(session, flags); !used)
    return used;
  Result<ParameterRequest> request = getParameterRequest(flags);
  if (!request)
    return request.getError();
  Result<Parameters> parameters = Parameters::open(session, *request);
  if (!parameters)
    return parameters.getError();
  Status ready = parameters->set(session);
  return ready ? evaluateOnTestSplit(session, flags.training.dataFolder,
                                     flags.training.evalBatches)
               : ready;
}

CLI::Option *CommandLine::addEvalSteps(CLI::App *subcommand) {
  return takes("N", subcommand->add_option(
                        "--eval-steps", flags.training.evalBatches,
                        "batches of the test files to evaluate (default: all "
                        "samples)"))
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
}

static CLI::Option *addFiles(CLI::App *subcommand, const char *name,
                             std::vector<std::string> &files,
                             const char *what) {
  return takes("NAME=FILE.npy ...", subcommand->add_option(name, files, what));
}

CLI::Option *CommandLine::addSource(CLI::App *subcommand, const char *what) {
  return takes("PATH",
               subcommand->add_option("--from", flags.parameterSource, what))
      ->check([](const std::string &path) {
        return std::string(
            path.empty() ? "the name of the file or folder is empty" : "");
      });
}

CLI::Option *CommandLine::addNames(CLI::App *subcommand, const char *what) {
  return takes("MAP", subcommand->add_option("--names", flags.nameMap, what))
      ->check([](const std::string &path) {
        return std::string(path.empty() ? "the name of the file is empty" : "");
      });
}

CLI::Option *CommandLine::addParameters(CLI::App *subcommand) {
  CLI::Option *from = addSource(
      subcommand,
      "checkpoint, or folder with some, of which the last one is taken; "
      "safetensors file, or folder of them; or folder that has all parameters, "
      "as .npy files of their names, with '.' for '/': layer.attn.wq.npy");
  addNames(subcommand, "what tensors of safetensors files are in the model, if "
                       "they are not called like parameters")
      ->needs(from);
  addFiles(subcommand, "--param", flags.parameters,
           "parameters, also instead of those of --from");
  return takes(
             "random",
             subcommand->add_option_function<std::string>(
                 "--init",
                 [this](const std::string &) { flags.drawsParameters = true; },
                 "parameters that are not given start as a training starts "
                 "them; without this every one must be given"))
      ->check(CLI::IsMember({"random"}));
}

void CommandLine::addEval() {
  CLI::App *eval = addSubcommand(
      "eval", "Evaluate parameters on the test files",
      [this](Session &session) { return runOnTestSplit(session, flags); });
  addDataFolder(eval);
  addParameters(eval);
  addSeed(eval, "random numbers, and of the parameters of --init random");
  addEvalSteps(eval);
}

void CommandLine::addPredict() {
  CLI::App *predict = addSubcommand(
      "predict",
      "Run the model on .npy arrays with any number of samples; gradients of "
      "one batch",
      [this](Session &session) { return runOnArrays(session, flags); });
  CLI::Option *inputs = addFiles(predict, "--in", flags.inputs,
                                 "inputs, every one of the model's");
  CLI::Option *folder =
      takes("DIR", predict->add_option(
                       "--data-dir", flags.predictedFolder,
                       "instead of --in: folder of the data files that the "
                       "spec names, of which the test files are read"))
          ->excludes(inputs);
  CLI::Option *samples =
      takes("N", predict->add_option("--samples", flags.maxSamples,
                                     "only the first N samples"))
          ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  CLI::Option *batch =
      takes("DIM", predict->add_option(
                       "--batch", flags.batchDim,
                       "dim of the inputs that counts samples (default: "
                       "that of the model's data; without any, inputs "
                       "have the model's own sizes)"))
          ->excludes(folder);
  addParameters(predict);
  addSeed(predict, "random numbers, and of the parameters of --init random");
  CLI::Option *training = predict->add_flag(
      "--training", flags.predictsTraining,
      "compute as a step of a training does, which changes nothing: with its "
      "random numbers and statistics; --out of state is what the step would "
      "leave");
  takes("N", predict->add_option("--step", flags.predictedStep,
                                 "the step that --training computes (default: "
                                 "the first)"))
      ->needs(training)
      ->check(CLI::Range(int64_t(1), int64_t(1) << 56));
  CLI::Option *outputs =
      addFiles(predict, "--out", flags.outputs,
               "outputs to write (default: print those of one element)");
  CLI::Option *gradients =
      addFiles(predict, "--grad", flags.gradients, "gradients to write");
  CLI::Option *top =
      takes("K", predict->add_option(
                     "--topk", flags.top.count,
                     "print, for each sample, the K positions with the largest "
                     "values along the last dim of an output"))
          ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  CLI::Option *prompt =
      takes("TEXT", predict->add_option(
                        "--prompt", flags.prompt,
                        "instead of --in: print how the model goes on behind a "
                        "text; --data-dir has the text for training"))
          ->check([](const std::string &text) {
            return std::string(text.empty() ? "the text is empty" : "");
          })
          ->excludes(inputs)
          ->excludes(samples)
          ->excludes(batch)
          ->excludes(training)
          ->excludes(outputs)
          ->excludes(gradients)
          ->excludes(top);
  takes("N", predict->add_option("--count", flags.continued,
                                 "bytes or characters behind --prompt"))
      ->needs(prompt)
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  takes("NAME", predict->add_option("--of", flags.top.output,
                                    "the output of --topk or --prompt "
                                    "(default: the only one that fits)"));
  takes("FILE", predict->add_option("--labels", flags.top.labels,
                                    "with a name in each line, for the "
                                    "positions of --topk"))
      ->needs(top);
  takes("NAME", predict->add_option("--truth", flags.top.truth,
                                    "an input that has the right position of "
                                    "each sample, for a column of --topk"))
      ->needs(top);

  for (const char *name : formerNames)
    app.add_subcommand(name, "")->group("")->allow_extras()->callback([name] {
      throw CLI::ValidationError(fmt::format("there is no command '{}'", name));
    });
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
  takes("PATTERN",
        command->add_option("--only", exportedPatterns,
                            "parameters to write, and no others: a name, or "
                            "one with '*', as 'adapter/*'; may be repeated"))
      ->allow_extra_args(false);
  takes("TYPE", command->add_option("--dtype", exportedFloats,
                                    "round floats to f32, bf16 or fp16, to "
                                    "nearest (default: as they are)"))
      ->check(CLI::IsMember({"f32", "bf16", "fp16"}));
  command->callback([this] {
    lookUp = [this](const Executable &executable) {
      ExportRequest request{flags.parameterSource, exportPath, flags.nameMap,
                            exportedPatterns, std::nullopt};
      if (!exportedFloats.empty())
        request.floats = exportedFloats == "f32"    ? exec::ElementType::f32
                         : exportedFloats == "bf16" ? exec::ElementType::bf16
                                                    : exec::ElementType::f16;
      return exportParameters(executable, request);
    };
  });
}

bool CommandLine::isFormerCommand() const {
  return std::any_of(
      std::begin(formerNames), std::end(formerNames),
      [&](const char *name) { return app.got_subcommand(name); });
}
