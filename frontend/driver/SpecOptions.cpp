#include "frontend/driver/SpecOptions.h"

#include "frontend/driver/Compiler.h"
#include "layout/Machine.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

CLI::Option *meshc::driver::addRepeated(CLI::App *command,
                                        const std::string &name,
                                        std::vector<std::string> &values,
                                        const std::string &what) {
  // Otherwise it takes every word up to the next option, and "--" with them.
  return command->add_option(name, values, what)->allow_extra_args(false);
}

CLI::Option *meshc::driver::addSpecOptions(CLI::App *command,
                                           SpecArguments &spec) {
  CLI::Option *path =
      command
          ->add_option("spec", spec.path,
                       "the model, a .mesh file; - is standard input")
          ->type_name("SPEC");
  command
      ->add_option("--mesh", spec.mesh,
                   "mesh instead of the spec's: data=4,model=2")
      ->needs(path);
  command
      ->add_option("--layout", spec.layout,
                   "layout instead of the spec's: batch=data,hidden=model; "
                   "several axes as batch=data+model; '' splits nothing")
      ->needs(path);
  command
      ->add_option("--precision", spec.precision,
                   "floats to compute in instead of the spec's: f32, bf16 or "
                   "fp16")
      ->needs(path);
  addRepeated(
      command, "--recompute", spec.recompute,
      "calls or loops to compute again in the backward phase instead of "
      "what the spec says: --recompute 'layer/*'")
      ->type_name("SCOPE")
      ->needs(path);
  addRepeated(command, "-D", spec.defines,
              "dimension or number instead of the spec's: -D hidden=64")
      ->type_name("NAME=VALUE")
      ->needs(path);
  command
      ->add_option("--message-format", spec.messageFormat,
                   "text or json (one object per line)")
      ->check(CLI::IsMember({"text", "json"}));
  return path;
}

CLI::Validator meshc::driver::readSize(int64_t least) {
  const auto read = [](std::string text) -> int64_t {
    int64_t bytes = -1;
    try {
      if (CLI::AsSizeValue(/*kb_is_1000=*/true)(text).empty() &&
          CLI::detail::lexical_cast(text, bytes))
        return bytes;
    } catch (const CLI::ValidationError &) {
    }
    return -1;
  };
  const std::function<std::string(std::string &)> replace =
      [least, read](std::string &text) {
        const int64_t bytes = read(text);
        if (bytes < least)
          return fmt::format("'{}' is no size{}; expected bytes such as 80GiB "
                             "or 512MB",
                             text, least > 0 ? " of a memory" : "");
        text = std::to_string(bytes);
        return std::string();
      };
  return CLI::Validator(replace, "");
}

static void addMachine(CLI::App *command, CLI::Option *path,
                       SpecArguments &spec) {
  const bool isPlan = command->get_name() == "plan";
  CLI::Option *machine =
      command
          ->add_option(
              "--machine", spec.machine,
              "plan for a kind of machine, by its prices; plan also predicts "
              "times and whether the memory suffices. It means target cuda, "
              "which without it means " +
                  std::string(layout::getAssumedGpu().getName()) + ": " +
                  layout::getGpuMachineNames() +
                  (isPlan
                       ? "; or this host, as 'doctor --measure' has measured "
                         "it: cpu"
                       : ""))
          ->type_name("NAME")
          ->transform([](std::string name) {
            std::ranges::transform(name, name.begin(), [](unsigned char c) {
              return char(std::tolower(c));
            });
            return name;
          })
          ->check([isPlan](const std::string &name) {
            const layout::Machine *machine = layout::findMachine(name);
            if (machine && (isPlan || machine->getGpuConstants()))
              return std::string();
            return (machine ? "programs are not planned by the prices of '" +
                                  name + "'"
                            : "unknown machine '" + name + "'") +
                   "; expected one of " +
                   (isPlan ? layout::getMachineNames()
                           : layout::getGpuMachineNames());
          });
  // Plans of specs that are compared are predicted alike.
  if (!isPlan)
    machine->needs(path);
}

void meshc::driver::addCommandListOptions(CLI::App *command, CLI::Option *path,
                                          SpecArguments &spec) {
  command
      ->add_option("--bucket-bytes", spec.bucketBytes,
                   "bytes that small collectives in one transfer bring in, at "
                   "most; 0: none go together; without: by the cost model")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40))
      ->needs(path);
  command
      ->add_option(
          "--prefetch", spec.prefetchLayers,
          "layers ahead of the one that reads it that what is gathered "
          "is sent; 0: where it is read; without: 1 on GPUs")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 20))
      ->needs(path);
  command
      ->add_option("--matmul-epilogues", spec.matmulEpilogues,
                   "what cuBLASLt computes beside matrix products for target "
                   "cuda: all, bias or none")
      ->check(CLI::IsMember({"all", "bias", "none"}))
      ->needs(path);
  CLI::Option *alone = command->add_flag(
      "!--no-fusion", spec.fuses,
      "compute and store each operation by itself: slower, but what "
      "--trap-nan, --trace and plans say is said of each");
  alone->needs(path);
  command
      ->add_option("--tile-bytes", spec.tileBytes,
                   "bytes of a large value, such as attention's scores, that "
                   "are there at a time, about, where it has 16 times as many; "
                   "0: all; without: 4 MiB, on GPUs 256 MiB")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40))
      ->needs(path)
      ->excludes(alone); // whose values are whole
  command
      ->add_option("--matmul-multiple", spec.matmulMultiple,
                   "sizes of 16-bit matmuls that are one dimension are made "
                   "multiples of this, with zeros; 1: none; without: on GPUs "
                   "multiples of 8, where that saves time")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 10))
      ->needs(path)
      ->excludes(alone);
  if (command->get_name() != "explain") // which says why it is there
    command
        ->add_option("--strict", spec.strict,
                     "bytes above which a resharding that the compiler inserts "
                     "is an error: 1MiB; 0: every one")
        ->type_name("SIZE")
        ->transform(readSize(0));
  addMachine(command, path, spec);
}

void meshc::driver::settleTarget(const CLI::App &command, SpecArguments &spec,
                                 std::string &target) {
  if (spec.machine == layout::getCpuMachine().getName()) {
    if (target != "cpu")
      throw CLI::ValidationError("--machine", "it needs --target cpu");
  } else if (!spec.machine.empty()) {
    if (command.get_option("--target")->count() > 0 && target != "cuda")
      throw CLI::ValidationError("--machine", "it needs --target cuda");
    target = "cuda";
  } else if (target == "cuda") {
    spec.machine = layout::getAssumedGpu().getName();
    spec.assumesMachine = true;
  }
  for (const char *name : {"--gpu", "--matmul-epilogues"})
    if (const CLI::Option *option = command.get_option_no_throw(name);
        option && option->count() > 0 && target != "cuda")
      throw CLI::ValidationError(name, "it needs --target cuda");
  if (const CLI::Option *option = command.get_option_no_throw("--cpu");
      option && option->count() > 0 && target == "cuda")
    throw CLI::ValidationError("--cpu", "it needs --target cpu");
}

CLI::Option *meshc::driver::addTarget(CLI::App *command, std::string &target) {
  return command->add_option("--target", target, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}
