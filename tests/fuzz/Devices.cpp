#include "tests/fuzz/Devices.h"

#include "codegen/BuildExecutable.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/gpu/GpuImages.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "codegen/machine/CompileObject.h"
#include "codegen/machine/Link.h"
#include "runtime/app/Session.h"
#include "tests/emulation/ForkedRun.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/FileSystem.h"

#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

using namespace meshc;
using namespace meshc::fuzz;

namespace {
using Results = std::map<std::string, Tensor>;

/// A linked program, loaded.
struct Library {
  void *handle = nullptr;

  template <class T> T *find(const char *symbol) const {
    return static_cast<T *>(dlsym(handle, symbol));
  }
  std::span<const meshcKernelEntry> getKernels() const {
    if (!handle)
      return {};
    return {find<const meshcKernelEntry>("meshc_kernel_table"),
            *find<const uint64_t>("meshc_kernel_count")};
  }
};
} // namespace

static constexpr const char *kindNames[] = {"cpus", "cpu-ranks", "gpu",
                                            "gpu-ranks"};

std::span<const char *const> meshc::fuzz::getDeviceKinds() { return kindNames; }

std::string meshc::fuzz::toString(const DeviceSetting &setting) {
  std::string text = fmt::format("{} in {}", kindNames[size_t(setting.kind)],
                                 getName(setting.precision));
  if (setting.tileBytes)
    text += fmt::format(", tiles of {} bytes", *setting.tileBytes);
  return text;
}

static bool isGpu(DeviceKind kind) {
  return kind == DeviceKind::Gpu || kind == DeviceKind::GpuRanks;
}

//===-- Compiling ---------------------------------------------------------===//

/// Null with an error.
static Library load(const std::string &shared, std::string &error) {
  llvm::SmallString<128> path;
  llvm::sys::fs::createTemporaryFile("meshc-fuzz", "so", path);
  std::ofstream(path.c_str(), std::ios::binary) << shared;
  Library library{dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)};
  if (!library.handle)
    error = dlerror();
  llvm::sys::fs::remove(path);
  return library;
}

/// The steps and kernels of a program; false with an error.
static bool build(mlir::ModuleOp module, exec::ExecutableT &executable,
                  codegen::KernelTarget &target, mlir::ModuleOp kernels,
                  const DeviceSetting &setting, std::string &error) {
  codegen::StepOptions options;
  options.tileBytes = setting.tileBytes;
  if (failed(codegen::planSteps(module, target, options)) ||
      failed(mlir::verify(module))) {
    error = "no steps";
    return false;
  }
  if (failed(codegen::buildExecutable(module, executable, target)) ||
      failed(mlir::verify(kernels))) {
    error = "no kernels";
    return false;
  }
  const auto processor = codegen::CpuTarget::get("native");
  executable.cpu = processor->cpu;
  executable.cpu_features = processor->features;
  return true;
}

/// The kernels of a program for CPUs; null with an error.
static Library compile(mlir::ModuleOp module, exec::ExecutableT &executable,
                       const DeviceSetting &setting, std::string &error) {
  mlir::OwningOpRef<mlir::ModuleOp> kernels =
      mlir::ModuleOp::create(module.getLoc());
  codegen::CpuKernelTarget target(*kernels);
  if (!build(module, executable, target, *kernels, setting, error))
    return {};
  auto object = codegen::compileCpuObject(
      *kernels, *codegen::CpuTarget::get("native"),
      codegen::serialize(executable), codegen::findKernelUses(executable));
  if (failed(object)) {
    error = "no object";
    return {};
  }
  llvm::Expected<std::string> shared = codegen::linkSharedObject(*object);
  if (!shared) {
    error = llvm::toString(shared.takeError());
    return {};
  }
  return load(*shared, error);
}

/// Adds the image of a program for emulated GPUs; sets `error` if that fails.
static void addImage(mlir::ModuleOp module, exec::ExecutableT &executable,
                     const DeviceSetting &setting, std::string &error) {
  mlir::OwningOpRef<mlir::ModuleOp> kernels =
      mlir::ModuleOp::create(module.getLoc());
  codegen::GpuKernelTarget target(*kernels, codegen::MatmulEpilogues::All);
  if (!build(module, executable, target, *kernels, setting, error))
    return;
  auto images = codegen::compileGpuImages(
      *kernels->getOps<mlir::gpu::GPUModuleOp>().begin(), {"host"});
  if (failed(images)) {
    error = "no image";
    return;
  }
  for (exec::GpuImageT &image : *images)
    executable.images.push_back(
        std::make_unique<exec::GpuImageT>(std::move(image)));
}

//===-- Tensors -----------------------------------------------------------===//

/// Places of the elements of a tree's tensor in the array of a program.
static std::vector<size_t> findOrder(const Tree &tree, const Dims &dims,
                                     const exec::TensorLayoutT &layout) {
  std::vector<size_t> order = {0};
  for (const auto &port : layout.dims) {
    size_t stride = 1, own = 0, extent = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      const Dim &dim = tree.dims[size_t(dims[i])];
      if (dim.isCalled(port->name))
        own = stride, extent = size_t(dim.size);
      stride *= size_t(dim.size);
    }
    std::vector<size_t> next;
    for (size_t before : order)
      for (size_t i = 0; i < extent; ++i)
        next.push_back(before + i * own);
    order = std::move(next);
  }
  return order;
}

static runtime::HostArray toArray(const Tree &tree, const Tensor &tensor,
                                  const exec::TensorLayoutT &layout) {
  runtime::HostArray array;
  array.element = layout.element;
  for (const auto &dim : layout.dims)
    array.shape.push_back(dim->size);
  auto put = [&](auto number) {
    auto *bytes = reinterpret_cast<const std::byte *>(&number);
    array.data.insert(array.data.end(), bytes, bytes + sizeof(number));
  };
  for (size_t place : findOrder(tree, tensor.dims, layout)) {
    const double element = tensor.elements[place];
    if (tensor.element == Element::F32)
      put(float(element));
    else if (tensor.element == Element::I32)
      put(int32_t(element));
    else
      put(uint8_t(element));
  }
  return array;
}

static Tensor fromArray(const Tree &tree, const runtime::HostArray &array,
                        const exec::TensorLayoutT &layout) {
  Tensor tensor;
  for (const auto &port : layout.dims)
    for (size_t i = 0; i < tree.dims.size(); ++i)
      if (tree.dims[i].isCalled(port->name))
        tensor.dims.push_back(DimId(i));
  tensor.dims = unite({}, tensor.dims);
  const std::vector<size_t> order = findOrder(tree, tensor.dims, layout);
  tensor.elements.resize(order.size());
  const std::byte *data = array.data.data();
  auto read = [&]<class T>(T, size_t i) {
    T number;
    std::memcpy(&number, data + i * sizeof(T), sizeof(T));
    return double(number);
  };
  for (size_t i = 0; i < order.size(); ++i)
    tensor.elements[order[i]] =
        array.element == exec::ElementType::f32   ? read(float(), i)
        : array.element == exec::ElementType::i32 ? read(int32_t(), i)
                                                  : read(uint8_t(), i);
  tensor.element =
      array.element == exec::ElementType::f32 ? Element::F32 : Element::I32;
  return tensor;
}

/// Tensors as text, from one process to another.
static std::string write(const Results &results) {
  std::string text;
  for (const auto &[name, tensor] : results) {
    text +=
        fmt::format("{} {} {}", name, int(tensor.element), tensor.dims.size());
    for (DimId dim : tensor.dims)
      text += fmt::format(" {}", dim);
    text += fmt::format(" {}", tensor.elements.size());
    for (double element : tensor.elements)
      text += fmt::format(" {}", std::bit_cast<uint64_t>(element));
    text += "\n";
  }
  return text;
}

static Results read(const std::string &text) {
  Results results;
  std::istringstream stream(text);
  std::string name;
  int element;
  while (stream >> name >> element) {
    Tensor &tensor = results[name];
    tensor.element = Element(element);
    size_t count;
    stream >> count;
    tensor.dims.resize(count);
    for (DimId &dim : tensor.dims)
      stream >> dim;
    stream >> count;
    tensor.elements.resize(count);
    for (double &number : tensor.elements) {
      uint64_t bits;
      stream >> bits;
      number = std::bit_cast<double>(bits);
    }
  }
  return results;
}

//===-- Running -----------------------------------------------------------===//

namespace {
/// One compiled program and what it is fed.
class Run {
public:
  Run(const Tree &tree, const std::string &name,
      const exec::ExecutableT &executable,
      std::span<const meshcKernelEntry> kernels, const DeviceSetting &setting,
      const std::vector<Leaf> &leaves, std::span<const Feeds> parts)
      : tree(tree), name(name), program(codegen::serialize(executable)),
        kernels(kernels), setting(setting), leaves(leaves), parts(parts) {
    for (const auto &axis : executable.mesh->axes)
      numDevices *= axis->size;
  }

  /// In this process, or as one of several.
  runtime::Result<Results> run(runtime::Ranks *ranks) const;
  /// As all of several processes.
  Results runProcesses(uint64_t seed, std::string &error) const;

private:
  runtime::Status feedVariables(runtime::Session &session) const;
  runtime::Status feedInputs(runtime::Session &session,
                             const exec::ProgramT &program,
                             const Feeds &feeds) const;
  /// All parts of it.
  runtime::Status runOnce(runtime::Session &session,
                          const exec::ProgramT &program) const;
  std::string runRank(const runtime::RankIdentity &identity) const;
  int64_t getNumProcesses() const;

  const Tree &tree;
  const std::string &name;   ///< of what is run
  const std::string program; ///< as a file has it
  int64_t numDevices = 1;
  const std::span<const meshcKernelEntry> kernels;
  const DeviceSetting &setting;
  const std::vector<Leaf> &leaves;
  const std::span<const Feeds> parts;
};
} // namespace

runtime::Status Run::feedVariables(runtime::Session &session) const {
  using namespace runtime;
  for (const Leaf &leaf : leaves)
    for (const auto &variable : session.getExecutable().data.variables)
      if (leaf.kind != LeafKind::Input && variable->name == leaf.name)
        if (Status set = scatter(
                session.getDevices(), *variable->layout, variable->buffer,
                toArray(tree, parts.front().at(leaf.name), *variable->layout)
                    .data);
            !set)
          return set;
  return Status::success();
}

runtime::Status Run::feedInputs(runtime::Session &session,
                                const exec::ProgramT &program,
                                const Feeds &feeds) const {
  using namespace runtime;
  for (const Leaf &leaf : leaves) {
    if (leaf.kind != LeafKind::Input)
      continue;
    auto port = session.getInput(program, leaf.name);
    if (!port)
      continue; // nothing reads it
    if (Status set = session.setInput(
            program, leaf.name,
            toArray(tree, feeds.at(leaf.name), *(*port)->layout), "fuzz");
        !set)
      return set;
  }
  return Status::success();
}

runtime::Status Run::runOnce(runtime::Session &session,
                             const exec::ProgramT &program) const {
  using namespace runtime;
  if (Status set = feedVariables(session); !set)
    return set;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    auto part = session.getProgram("accumulate");
    if (!part)
      return part.getError();
    Status ran = feedInputs(session, **part, parts[i]);
    if (ran)
      ran = session.runPart(tree.run, int64_t(i));
    if (!ran)
      return ran;
  }
  Status ran = feedInputs(session, program, parts.back());
  return ran ? session.run(program, tree.run) : ran;
}

runtime::Result<Results> Run::run(runtime::Ranks *ranks) const {
  using namespace runtime;
  GpuFlags gpus;
  if (setting.kind == DeviceKind::Gpu)
    gpus.devicesPerGpu = numDevices;
  const std::span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t *>(program.data()), program.size());
  auto session = Session::create(
      bytes, kernels, isGpu(setting.kind) ? openGpuDevices : openCpuDevices,
      isGpu(setting.kind) ? 0 : 1, gpus, ranks);
  if (!session)
    return session.getError();
  auto gradient = (*session)->getProgram(name);
  if (!gradient)
    return gradient.getError();
  // The state that is not fed, such as the scale of gradients.
  if (Status set = (*session)->initialise(tree.seed); !set)
    return set.getError();
  const exec::PortT *retry = findPort((*gradient)->outputs, "fp16/retry");
  for (bool isDone = false; !isDone;) {
    if (Status ran = runOnce(**session, **gradient); !ran)
      return ran.getError();
    if (!retry)
      break;
    auto again = (*session)->read(*retry);
    if (!again)
      return again.getError();
    isDone = std::ranges::all_of(
        again->data, [](std::byte byte) { return byte == std::byte(0); });
  }
  Results results;
  for (const auto &port : (*gradient)->outputs) {
    auto array = (*session)->read(*port);
    if (!array)
      return array.getError();
    if (!port->name.starts_with("fp16/"))
      results[port->name] = fromArray(tree, *array, *port->layout);
  }
  // What a step sets.
  if (name == "step")
    for (const auto &variable : (*session)->getExecutable().data.variables) {
      auto array =
          gather((*session)->getDevices(), *variable->layout, variable->buffer);
      if (!array)
        return array.getError();
      results[variable->name] = fromArray(tree, *array, *variable->layout);
    }
  // Connections stay open until nobody needs them.
  if (ranks)
    if (Status finished = ranks->finish(); !finished)
      return finished.getError();
  return results;
}

int64_t Run::getNumProcesses() const {
  switch (setting.kind) {
  case DeviceKind::Cpus:
  case DeviceKind::Gpu:
    return 1;
  case DeviceKind::CpuRanks:
    return std::min<int64_t>(numDevices, numDevices % 3 == 0 ? 3 : 2);
  case DeviceKind::GpuRanks:
    return numDevices;
  }
  __builtin_unreachable();
}

/// What a rank found, or "!" and why it found nothing.
std::string Run::runRank(const runtime::RankIdentity &identity) const {
  using namespace runtime;
  std::unique_ptr<Ranks> ranks;
  if (identity.ranks > 1) {
    RanksOptions options;
    options.onFailure = [](const Error &) {};
    auto connected = Ranks::connect(identity, options);
    if (!connected)
      return "!" + connected.getError().message;
    ranks = std::move(*connected);
    if (Status started = ranks->start(); !started)
      return "!" + started.getError().message;
  }
  Result<Results> results = run(ranks.get());
  if (!results) {
    if (ranks)
      ranks->end(results.getError(), [](const Error &) {});
    return "!" + results.getError().message;
  }
  return identity.rank == 0 ? write(*results) : "";
}

Results Run::runProcesses(uint64_t seed, std::string &error) const {
  using namespace runtime;
  RankIdentity identity;
  identity.source = RankSource::Flags;
  identity.ranks = identity.localRanks = getNumProcesses();
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  if (!listener) {
    error = listener.getError().message;
    return {};
  }
  identity.store = getLocalAddress(*listener);
  emulation::Variables variables;
  if (isGpu(setting.kind))
    variables = {{"MESHC_CUDA_LIBRARIES", MESHC_EMULATION_FOLDER},
                 {"MESHC_EMULATION_DEVICES", std::to_string(identity.ranks)},
                 {"MESHC_EMULATION_SEED", std::to_string(seed)}};
  std::vector<std::unique_ptr<emulation::ForkedRun>> processes;
  for (int64_t rank = 0; rank < identity.ranks; ++rank)
    processes.push_back(
        std::make_unique<emulation::ForkedRun>(variables, [&, rank] {
          RankIdentity own = identity;
          own.rank = own.localRank = rank;
          own.listener = rank == 0 ? listener->release() : -1;
          return runRank(own);
        }));
  // Less than a case may take (Isolate.cpp).
  constexpr int seconds = 50;
  Results results;
  for (int64_t rank = 0; rank < identity.ranks; ++rank) {
    const emulation::ForkedResult end = processes[size_t(rank)]->wait(seconds);
    if (end.exitCode != 0)
      error += fmt::format("rank {} ends with {}: {}\n", rank, end.exitCode,
                           end.errors);
    else if (end.value.starts_with("!"))
      error += fmt::format("rank {}: {}\n", rank, end.value.substr(1));
    else if (rank == 0)
      results = read(end.value);
  }
  return results;
}

Results meshc::fuzz::runOnDevices(const Tree &tree, mlir::ModuleOp module,
                                  const std::string &program,
                                  exec::ExecutableT &executable,
                                  const DeviceSetting &setting,
                                  const std::vector<Leaf> &leaves,
                                  std::span<const Feeds> parts, uint64_t seed,
                                  std::string &error) {
  Library library;
  if (isGpu(setting.kind))
    addImage(module, executable, setting, error);
  else
    library = compile(module, executable, setting, error);
  if (!error.empty())
    return {};
  const Run run(tree, program, executable, library.getKernels(), setting,
                leaves, parts);
  Results results;
  if (setting.kind == DeviceKind::Cpus) {
    runtime::Result<Results> found = run.run(nullptr);
    if (found)
      results = *found;
    else
      error = found.getError().message;
  } else {
    results = run.runProcesses(seed, error);
  }
  if (library.handle)
    dlclose(library.handle);
  return results;
}
