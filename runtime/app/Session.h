#ifndef MESHC_RUNTIME_APP_SESSION_H
#define MESHC_RUNTIME_APP_SESSION_H

#include "runtime/data/Values.h"
#include "runtime/devices/OpenDevices.h"
#include "runtime/metrics/StepMetrics.h"
#include "runtime/settings/Settings.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// The parameters of a program, in its order.
std::vector<const exec::VariableT *>
getParameters(const exec::ExecutableT &program);

/// An executable on its devices, with its values by name: what every subcommand
/// works with.
class Session {
public:
  /// Loads the program, checks that this processor or GPU can run its kernels
  /// and prepares the devices. `threads` of 0: one per hardware thread, divided
  /// by the processes on this machine. `open`: for the devices of the
  /// program's target. `ranks`: the processes that share the devices, which
  /// must outlive the session; null for this one alone. Errors: Usage where a
  /// flag is for devices of the other kind.
  static Result<std::unique_ptr<Session>>
  create(std::span<const uint8_t> program,
         std::span<const meshcKernelEntry> kernels, OpenDevices &open,
         int threads, const GpuFlags &gpus = {}, Ranks *ranks = nullptr,
         TransportKind transport = TransportKind::Auto);
  /// The same for a program built in memory.
  static Result<std::unique_ptr<Session>>
  create(Executable executable, std::span<const meshcKernelEntry> kernels,
         OpenDevices &open, int threads, const GpuFlags &gpus = {},
         Ranks *ranks = nullptr, TransportKind transport = TransportKind::Auto);

  const Executable &getExecutable() const { return executable; }
  DeviceSet &getDevices() { return *devices; }

  /// Whether this process prints and writes files for all.
  bool isFirst() const { return !ranks || ranks->isFirst(); }
  bool hasOtherRanks() const { return ranks && ranks->getNumRanks() > 1; }
  /// The processes of the run; null: this one alone.
  Ranks *getRanks() const { return ranks; }
  /// Compares items on all ranks, see Ranks.
  Status agree(const Agreements &items) {
    return ranks ? ranks->agree(items) : Status::success();
  }

  /// The bytes that each rank gives, in their order, on the first rank; on the
  /// others nothing. A name is used once. Errors: as of the store.
  Result<std::vector<std::string>> collect(const std::string &name,
                                           std::string bytes);

  /// The text of the first rank, on all. A name is used once. Errors: as of the
  /// store.
  Result<std::string> broadcast(const std::string &name, std::string text);

  /// The program called `name`. Errors: WrongInput, naming those there are.
  Result<const exec::ProgramT *> getProgram(std::string_view name) const;

  /// The program of a training step. Errors: NothingToDo where the model is
  /// not trained.
  Result<const exec::ProgramT *> getStep() const;

  /// The input `name` of a program. Errors: WrongInput, naming those there are.
  Result<const exec::PortT *> getInput(const exec::ProgramT &program,
                                       std::string_view name) const;

  /// The parameters, in the order of the program.
  std::vector<const exec::VariableT *> getParameters() const {
    return runtime::getParameters(executable.data);
  }
  /// The parameter `name`. Errors: WrongInput, naming those there are.
  Result<const exec::VariableT *> getParameter(std::string_view name) const;

  /// The numbers of the spec that steps compute with.
  const Settings &getSettings() const { return settings; }
  /// Sets some of them. Errors: as Settings::set.
  Status set(std::span<const NamedNumber> numbers);

  /// Sets every variable by running "init" with this seed, from which programs
  /// draw from then on.
  Status initialise(int64_t seed);
  /// Sets an input of a program. Errors: as getInput; where `array` has another
  /// shape or type, or an integer is outside the input's range. `source` says
  /// where it came from.
  Status setInput(const exec::ProgramT &program, std::string_view name,
                  const HostArray &array, std::string_view source);

  /// Runs a program for the `number`th time: a training step, or a batch of an
  /// evaluation, from 1. What it draws at random is a function of the seed and
  /// of this number, however often it is run.
  Status run(const exec::ProgramT &program, int64_t number);
  /// Runs a part of a training step, from 0, but not the last one: that is the
  /// program of the step.
  Status runPart(int64_t step, int64_t part);
  Result<HostArray> read(const exec::PortT &port) {
    return gather(*devices, *port.layout, port.buffer);
  }
  /// Every output of a program that has no dimensions.
  Result<std::vector<NamedValue>> readScalars(const exec::ProgramT &program);

private:
  Status run(const exec::ProgramT &program, int64_t number, int64_t part);
  explicit Session(Executable executable) : executable(std::move(executable)) {}

  Executable executable;
  Settings settings;
  int64_t seed = 0;
  Ranks *ranks = nullptr;
  std::unique_ptr<cuda::Peers> peers; ///< of GPUs, with other ranks
  std::unique_ptr<DeviceSet> devices;
};

/// An error if an array has another shape or type than the value that it is
/// for; `source` says where it came from.
Status checkArray(std::string_view kind, std::string_view name,
                  const exec::TensorLayoutT &layout, exec::ElementType element,
                  std::span<const int64_t> shape, std::string_view source);

/// "expected one of 'a', 'b'", or "there is none".
std::string listNames(const std::vector<std::string> &names);

} // namespace meshc::runtime

#endif
