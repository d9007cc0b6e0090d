#include "runtime/app/Session.h"

#include <Random123/philox.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

using namespace meshc;
using namespace meshc::runtime;

std::string runtime::listNames(const std::vector<std::string> &names) {
  if (names.empty())
    return "there is none";
  return fmt::format("expected {}'{}'", names.size() > 1 ? "one of " : "",
                     fmt::join(names, "', '"));
}

/// How long a rank waits for what another one has to say. Every process gets as
/// far as that, or the run ends.
static constexpr double patienceSeconds = 600;

/// What the first rank has for a key, which is used once.
static Result<std::string> getOfFirst(Ranks &ranks, const std::string &key,
                                      const std::string &value) {
  if (!ranks.isFirst())
    return ranks.getStore().get(key, patienceSeconds);
  if (Status set = ranks.getStore().set(key, value); !set)
    return set.getError();
  return value;
}

namespace {
/// The processes of a run as NCCL finds them: through the store.
class StorePeers : public cuda::Peers {
public:
  explicit StorePeers(Ranks &ranks) : ranks(ranks) {}

  int64_t getRank() const override { return ranks.getRank(); }
  int64_t getNumRanks() const override { return ranks.getNumRanks(); }
  Result<std::string> shareFirst(const std::string &name,
                                 const std::string &value) override {
    return getOfFirst(ranks, "first/" + name, value);
  }
  Status check() override { return ranks.check(); }

private:
  Ranks &ranks;
};
} // namespace

Result<std::unique_ptr<Session>>
Session::create(std::span<const uint8_t> program,
                std::span<const meshcKernelEntry> kernels, OpenDevices &open,
                int threads, const GpuFlags &gpus, Ranks *ranks,
                TransportKind transport) {
  Result<Executable> executable = Executable::load(program);
  if (!executable)
    return executable.getError();
  return create(std::move(*executable), kernels, open, threads, gpus, ranks,
                transport);
}

Result<std::unique_ptr<Session>>
Session::create(Executable executable,
                std::span<const meshcKernelEntry> kernels, OpenDevices &open,
                int threads, const GpuFlags &gpus, Ranks *ranks,
                TransportKind transport) {
  const bool isForGpus = executable.data.target == exec::Target::cuda;
  const char *gpuFlag = gpus.devicesPerGpu    ? "--devices-per-gpu"
                        : gpus.checksCommands ? "--check-commands"
                        : !gpus.usesGraphs    ? "--no-graphs"
                        : gpus.tunesMatmuls   ? "--tune-matmuls"
                        : gpus.stallSeconds   ? "--stall-timeout"
                                              : nullptr;
  if (!isForGpus && gpuFlag)
    return Error{
        ErrorCode::Usage,
        fmt::format("{} is for GPUs, this executable is for CPUs", gpuFlag),
        "compile the model with --target cuda"};
  if (isForGpus && threads != 0)
    return Error{ErrorCode::Usage,
                 "--threads is for CPUs, this executable is for GPUs", ""};
  std::unique_ptr<Session> session(new Session(std::move(executable)));
  Result<Settings> settings = Settings::create(session->executable.data);
  if (!settings)
    return settings.getError();
  session->settings = std::move(*settings);
  session->ranks = ranks;
  DeviceRequest request{
      session->executable, kernels, threads, transport, gpus, nullptr, nullptr};
  if (session->hasOtherRanks()) {
    request.ranks = ranks;
    if (isForGpus)
      session->peers = std::make_unique<StorePeers>(*ranks);
    request.peers = session->peers.get();
  }
  Result<std::unique_ptr<DeviceSet>> opened = open(request);
  if (!opened)
    return opened.getError();
  session->devices = std::move(*opened);
  return session;
}

Result<std::string> Session::broadcast(const std::string &name,
                                       std::string text) {
  return hasOtherRanks() ? getOfFirst(*ranks, name, text) : text;
}

Result<std::vector<std::string>> Session::collect(const std::string &name,
                                                  std::string bytes) {
  if (!hasOtherRanks())
    return std::vector<std::string>{std::move(bytes)};
  // Messages and the store have limits: one piece after the other, each when
  // the first rank asks for it.
  constexpr size_t pieceBytes = size_t(1) << 25;
  Store &store = ranks->getStore();
  auto getKey = [&](int64_t rank, size_t piece, const char *what) {
    return fmt::format("{}/{}/{}/{}", name, rank, piece, what);
  };
  if (!isFirst()) {
    for (size_t begin = 0, piece = 0; begin <= bytes.size();
         begin += pieceBytes, ++piece) {
      Result<std::string> asked =
          store.get(getKey(ranks->getRank(), piece, "asked"), patienceSeconds);
      if (!asked)
        return asked.getError();
      Status set = store.set(getKey(ranks->getRank(), piece, "bytes"),
                             bytes.substr(begin, pieceBytes));
      if (!set)
        return set.getError();
    }
    return std::vector<std::string>();
  }
  std::vector<std::string> all = {std::move(bytes)};
  for (int64_t rank = 1; rank < ranks->getNumRanks(); ++rank) {
    all.emplace_back();
    // One that is not full is the last.
    for (size_t piece = 0; all.back().size() == piece * pieceBytes; ++piece) {
      Status asked = store.set(getKey(rank, piece, "asked"), "");
      if (!asked)
        return asked.getError();
      const std::string key = getKey(rank, piece, "bytes");
      Result<std::string> got = store.get(key, patienceSeconds);
      Status emptied = store.set(key, "");
      if (!got || !emptied)
        return got ? emptied.getError() : got.getError();
      all.back() += *got;
    }
  }
  return all;
}

Result<const exec::ProgramT *>
Session::getProgram(std::string_view name) const {
  if (const exec::ProgramT *program = executable.findProgram(name))
    return program;
  std::vector<std::string> names;
  for (const auto &program : executable.data.programs)
    names.push_back(program->name);
  return Error{ErrorCode::UnknownProgram,
               fmt::format("this executable has no program '{}'", name),
               listNames(names)};
}

Result<const exec::ProgramT *> Session::getStep() const {
  if (const exec::ProgramT *step = executable.findProgram("step"))
    return step;
  return Error{ErrorCode::NothingToDo,
               "the model has no train block with an optimizer, so there is no "
               "training step",
               "add one to its spec, as train { minimize loss optimizer "
               "adam(lr = 0.001) epochs 5 }, and compile it again"};
}

Status runtime::checkArray(std::string_view kind, std::string_view name,
                           const exec::TensorLayoutT &layout,
                           exec::ElementType element,
                           std::span<const int64_t> shape,
                           std::string_view source) {
  const std::vector<int64_t> sizes = getSizes(layout);
  if (element == layout.element && std::ranges::equal(shape, sizes))
    return Status::success();
  return Error{ErrorCode::WrongArray,
               fmt::format("{} '{}': expected {}, found {} in '{}'", kind, name,
                           toString(layout), toString(element, shape), source),
               ""};
}

std::vector<const exec::VariableT *>
runtime::getParameters(const exec::ExecutableT &program) {
  std::vector<const exec::VariableT *> parameters;
  for (const auto &variable : program.variables)
    if (isOfModel(variable->role))
      parameters.push_back(variable.get());
  return parameters;
}

Result<const exec::VariableT *>
Session::getParameter(std::string_view name) const {
  std::vector<std::string> names;
  for (const exec::VariableT *parameter : getParameters()) {
    if (parameter->name == name)
      return parameter;
    names.push_back(parameter->name);
  }
  for (const auto &program : executable.data.programs)
    if (program->name != "init" && findPort(program->inputs, name))
      return Error{
          ErrorCode::UnknownName,
          fmt::format("there is no parameter '{}'", name),
          fmt::format("it is an input: give it as --in {}=FILE.npy", name)};
  return Error{ErrorCode::UnknownName,
               fmt::format("there is no parameter '{}'", name),
               listNames(names)};
}

Result<const exec::PortT *> Session::getInput(const exec::ProgramT &program,
                                              std::string_view name) const {
  if (const exec::PortT *port = findPort(program.inputs, name))
    return port;
  std::vector<std::string> names;
  for (const auto &input : program.inputs)
    names.push_back(input->name);
  std::string note = listNames(names);
  for (const auto &variable : executable.data.variables)
    if (isOfModel(variable->role) && variable->name == name)
      note = fmt::format("it is a {}: give it as --param {}=FILE.npy",
                         getKind(*variable), name);
  return Error{ErrorCode::UnknownName,
               fmt::format("there is no input '{}'", name), std::move(note)};
}

Status Session::setInput(const exec::ProgramT &program, std::string_view name,
                         const HostArray &array, std::string_view source) {
  Result<const exec::PortT *> found = getInput(program, name);
  if (!found)
    return found.getError();
  const exec::PortT *port = *found;
  Status fits = checkArray("input", name, *port->layout, array.element,
                           array.shape, source);
  if (!fits)
    return fits;
  if (port->index_bound > 0)
    if (auto outside =
            findOutOfRange(array.element, array.data, port->index_bound))
      return Error{ErrorCode::ValueOutOfRange,
                   fmt::format("input '{}': element {} is {} in '{}', expected "
                               "at least 0 and less than {}",
                               name, outside->element, outside->value, source,
                               port->index_bound),
                   ""};
  return scatter(*devices, *port->layout, port->buffer, array.data);
}

Result<std::vector<NamedValue>>
Session::readScalars(const exec::ProgramT &program) {
  std::vector<NamedValue> values;
  for (const auto &port : program.outputs) {
    if (!port->layout->dims.empty())
      continue;
    Result<HostArray> array = read(*port);
    if (!array)
      return array.getError();
    values.push_back({port->name, getScalar(*array)});
  }
  return values;
}

/// Another seed for each run, from which its numbers are drawn: the seed itself
/// for run 0, which sets the variables. Words w0 and w1 of a block of Philox
/// under the seed as its key, with the run as c0 and c1, and c2 = 2, which
/// neither numbers nor iterations have (nd.random, nd.fold_in).
static int64_t getSeedOfRun(int64_t seed, int64_t run) {
  if (run == 0)
    return seed;
  const auto key = uint64_t(seed), counter = uint64_t(run);
  const r123::Philox4x32::ctr_type words =
      r123::Philox4x32()({{uint32_t(counter), uint32_t(counter >> 32), 2, 0}},
                         {{uint32_t(key), uint32_t(key >> 32)}});
  return int64_t(words[0] | uint64_t(words[1]) << 32);
}

Status Session::runPart(int64_t step, int64_t part) {
  Result<const exec::ProgramT *> program = getProgram("accumulate");
  return program ? run(**program, step, part) : program.getError();
}

Status Session::run(const exec::ProgramT &program, int64_t number) {
  const exec::TrainingT *training = executable.data.training.get();
  const bool isStep = &program == executable.findProgram("step");
  return run(program, number, isStep && training ? training->parts - 1 : 0);
}

Status Session::run(const exec::ProgramT &program, int64_t number,
                    int64_t part) {
  auto set = [&](const exec::PortT &port, const auto &value) {
    return scatter(*devices, *port.layout, port.buffer,
                   std::as_bytes(std::span(&value, 1)));
  };
  Status ready = Status::success();
  if (program.seed)
    ready = set(*program.seed, getSeedOfRun(seed, number));
  if (ready && program.step)
    ready =
        set(*program.step, int32_t(std::min<int64_t>(
                               number, std::numeric_limits<int32_t>::max())));
  if (ready && program.part)
    ready = set(*program.part, int32_t(part));
  for (const auto &port : program.settings) {
    if (!ready)
      break;
    Result<std::vector<std::byte>> value =
        settings.evaluate(port->name, port->layout->element);
    ready = value ? scatter(*devices, *port->layout, port->buffer, *value)
                  : Status(value.getError());
  }
  return ready ? devices->run(program) : ready;
}

Status Session::set(std::span<const NamedNumber> numbers) {
  if (Status set = settings.set(numbers); !set)
    return set;
  for (const auto &program : executable.data.programs)
    for (const auto &port : program->settings) {
      Result<std::vector<std::byte>> value =
          settings.evaluate(port->name, port->layout->element);
      if (!value)
        return value.getError();
    }
  return Status::success();
}

Status Session::initialise(int64_t newSeed) {
  seed = newSeed;
  Result<const exec::ProgramT *> init = getProgram("init");
  if (!init)
    return init.getError();
  return run(**init, 0);
}
