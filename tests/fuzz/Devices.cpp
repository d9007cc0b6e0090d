#include "tests/fuzz/Devices.h"

#include "codegen/BuildExecutable.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/machine/CompileObject.h"
#include "codegen/machine/Link.h"
#include "runtime/app/Session.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/FileSystem.h"

#include <cstring>
#include <dlfcn.h>
#include <fstream>

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
};
} // namespace

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

static Library compile(mlir::ModuleOp module, exec::ExecutableT &executable,
                       std::string &error) {
  mlir::OwningOpRef<mlir::ModuleOp> kernels =
      mlir::ModuleOp::create(module.getLoc());
  codegen::CpuKernelTarget target(*kernels);
  const auto processor = codegen::CpuTarget::get("native");
  if (failed(codegen::planSteps(module, target)) ||
      failed(mlir::verify(module))) {
    error = "no steps";
    return {};
  }
  if (failed(codegen::buildExecutable(module, executable, target)) ||
      failed(mlir::verify(*kernels))) {
    error = "no kernels";
    return {};
  }
  executable.cpu = processor->cpu;
  executable.cpu_features = processor->features;
  auto object = codegen::compileCpuObject(*kernels, *processor,
                                          codegen::serialize(executable),
                                          codegen::findKernelUses(executable));
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

/// Places of the elements of a tree's tensor in the array of a program.
static std::vector<size_t> findOrder(const Tree &tree, const Dims &dims,
                                     const exec::TensorLayoutT &layout) {
  std::vector<size_t> order = {0};
  for (const auto &port : layout.dims) {
    size_t stride = 1, own = 0, extent = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      const Dim &dim = tree.dims[size_t(dims[i])];
      if (dim.name == port->name)
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
      if (tree.dims[i].name == port->name)
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

static runtime::Result<Results> runProgram(const Tree &tree,
                                           const Library &library,
                                           const std::vector<Leaf> &leaves,
                                           const Feeds &feeds) {
  using namespace runtime;
  const std::span<const uint8_t> program(
      library.find<const uint8_t>("meshc_program_data"),
      *library.find<const uint64_t>("meshc_program_size"));
  const std::span<const meshcKernelEntry> kernels(
      library.find<const meshcKernelEntry>("meshc_kernel_table"),
      *library.find<const uint64_t>("meshc_kernel_count"));
  auto session = Session::create(program, kernels, openCpuDevices, 1);
  if (!session)
    return session.getError();
  auto gradient = (*session)->getProgram("gradient");
  if (!gradient)
    return gradient.getError();
  for (const Leaf &leaf : leaves) {
    const Tensor &tensor = feeds.at(leaf.name);
    Status set = Status::success();
    if (leaf.isParameter) {
      for (const auto &variable : (*session)->getExecutable().data.variables)
        if (variable->name == leaf.name)
          set = scatter((*session)->getDevices(), *variable->layout,
                        variable->buffer,
                        toArray(tree, tensor, *variable->layout).data);
    } else {
      auto port = (*session)->getInput(**gradient, leaf.name);
      if (!port)
        continue; // nothing reads it
      set =
          (*session)->setInput(**gradient, leaf.name,
                               toArray(tree, tensor, *(*port)->layout), "fuzz");
    }
    if (!set)
      return set.getError();
  }
  Status ran = (*session)->run(**gradient);
  if (!ran)
    return ran.getError();
  Results results;
  for (const auto &port : (*gradient)->outputs) {
    auto array = (*session)->read(*port);
    if (!array)
      return array.getError();
    results[port->name] = fromArray(tree, *array, *port->layout);
  }
  return results;
}

Results meshc::fuzz::runOnDevices(const Tree &tree, mlir::ModuleOp module,
                                  exec::ExecutableT &executable,
                                  const std::vector<Leaf> &leaves,
                                  const Feeds &feeds, std::string &error) {
  const Library library = compile(module, executable, error);
  if (!library.handle)
    return {};
  runtime::Result<Results> results = runProgram(tree, library, leaves, feeds);
  dlclose(library.handle);
  if (results)
    return *results;
  error = results.getError().message;
  return {};
}
