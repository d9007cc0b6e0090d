#include "runtime/CommandLine.h"

#include "runtime/Bench.h"
#include "runtime/Evaluation.h"
#include "runtime/Session.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <new>

#include <malloc.h>

using namespace meshc;
using namespace meshc::runtime;

static int report(const Error &error) {
  fmt::print(stderr, "meshc: error: {}\n", error.message);
  if (!error.note.empty())
    fmt::print(stderr, "meshc: note: {}\n", error.note);
  return int(error.code);
}

static void printInfo(const Session &session) {
  const Executable &executable = session.getExecutable();
  const exec::ExecutableT &data = executable.data;
  fmt::print("model     {}\n", data.model);
  fmt::print("producer  {}\n", data.producer);
  std::string mesh;
  for (const layout::MeshAxis &axis : executable.mesh.getAxes())
    mesh += fmt::format("{}{} = {}", mesh.empty() ? "" : ", ", axis.name,
                        axis.size);
  fmt::print("mesh      {}\n", mesh.empty() ? "none" : mesh);
  fmt::print("devices   {}\n", executable.getNumDevices());
  fmt::print("memory    {:.1f} MiB per device\n",
             double(data.arena_bytes) / (1 << 20));
  fmt::print("processor {}\n", data.cpu);
  fmt::print("dims\n");
  for (const auto &dim : data.dims)
    fmt::print("  {} = {}\n", dim->name, dim->size);
  auto printValue = [&](const std::string &name,
                        const exec::TensorLayoutT &layout) {
    std::vector<std::string> dims;
    for (const auto &dim : layout.dims)
      dims.push_back(dim->name);
    fmt::print("  {}: {}, {}\n", name, toString(layout),
               layout::toString(executable.mesh, getSharding(layout), dims));
  };
  fmt::print("variables\n");
  for (const auto &variable : data.variables)
    printValue(variable->name, *variable->layout);
  for (const auto &program : data.programs) {
    fmt::print("program {}, {} commands\n", program->name,
               program->commands.size());
    for (const auto &port : program->inputs)
      printValue("in " + port->name, *port->layout);
    for (const auto &port : program->outputs)
      printValue("out " + port->name, *port->layout);
  }
}

namespace {

/// The flags of all subcommands.
struct Flags {
  int threads = 0;
  int64_t seed = 0;
  BenchRequest bench;
  std::vector<std::string> inputs;
  std::vector<std::string> parameters;
  std::vector<std::string> outputs;
  std::vector<std::string> gradients;
};

} // namespace

static Status runEvaluation(Session &session, const Flags &flags) {
  EvaluationRequest request;
  request.seed = flags.seed;
  for (auto [texts, files] :
       {std::pair{&flags.inputs, &request.inputs},
        std::pair{&flags.parameters, &request.parameters},
        std::pair{&flags.outputs, &request.outputs},
        std::pair{&flags.gradients, &request.gradients}}) {
    Result<std::vector<NamedFile>> parsed = parseNamedFiles(*texts);
    if (!parsed)
      return parsed.getError();
    *files = std::move(*parsed);
  }
  return evaluateOnce(session, request);
}

static int runSubcommand(int argc, const char *const *argv,
                         std::span<const uint8_t> program,
                         std::span<const meshcKernelEntry> kernels) {
  Flags flags;
  std::function<Status(Session &)> action;
  CLI::App app("A model compiled by meshc for a mesh of CPU devices.");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 success, 1 wrong input, 2 usage, 4 damaged file or "
             "other processor,\n5 does not fit, 70 internal error, 130 stopped "
             "by SIGINT.");
  auto addThreads = [&](CLI::App *subcommand) {
    subcommand
        ->add_option("--threads", flags.threads,
                     "worker threads (default: one per hardware thread)")
        ->check(CLI::Range(1, 4096));
  };
  auto addSeed = [&](CLI::App *subcommand) {
    subcommand->add_option("--seed", flags.seed,
                           "seed of parameters and sample order (default 0)");
  };

  CLI::App *info = app.add_subcommand("info", "Print what is inside");
  info->callback([&] {
    action = [](Session &session) {
      printInfo(session);
      return Status::success();
    };
  });

  CLI::App *evaluation =
      app.add_subcommand("run-eval", "Run the model once on .npy arrays");
  evaluation->add_option("--in", flags.inputs, "NAME=FILE.npy, an input");
  evaluation->add_option("--param", flags.parameters,
                         "NAME=FILE.npy, a parameter");
  evaluation->add_option("--out", flags.outputs,
                         "NAME=FILE.npy, an output to write");
  evaluation->add_option("--grad", flags.gradients,
                         "NAME=FILE.npy, a gradient to write");
  addSeed(evaluation);
  addThreads(evaluation);
  evaluation->callback([&] {
    action = [&](Session &session) { return runEvaluation(session, flags); };
  });

  CLI::App *bench =
      app.add_subcommand("bench", "Time the training step on random data");
  bench->add_option("steps", flags.bench.steps, "steps to time")
      ->required()
      ->check(CLI::Range(int64_t(1), int64_t(1000000000)));
  bench->add_option("--compile-seconds", flags.bench.compileSeconds,
                    "reported as compile_s");
  bench->add_flag("--profile", flags.bench.profile,
                  "report where the time goes");
  addSeed(bench);
  addThreads(bench);
  bench->callback([&] {
    action = [&](Session &session) {
      flags.bench.seed = flags.seed;
      return runBench(session, flags.bench);
    };
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : int(ExitCode::Usage);
  }
  // oneDNN allocates packing buffers in every product: kept in the heap, they
  // are not mapped and zeroed anew each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Result<std::unique_ptr<Session>> session =
      Session::create(program, kernels, flags.threads);
  if (!session)
    return report(session.getError());
  Status status = action(**session);
  return status ? 0 : report(status.getError());
}

int runtime::runCommandLine(int argc, const char *const *argv,
                            std::span<const uint8_t> program,
                            std::span<const meshcKernelEntry> kernels) {
  try {
    return runSubcommand(argc, argv, program, kernels);
  } catch (const std::bad_alloc &) {
    return report({ExitCode::DoesNotFit, "out of memory", ""});
  } catch (const std::exception &error) {
    return report({ExitCode::Internal,
                   fmt::format("internal error: {}", error.what()), ""});
  }
}
