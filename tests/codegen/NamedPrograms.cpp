#include "tests/codegen/NamedPrograms.h"

#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tests/dialect/Programs.h"

#include "mlir/Pass/PassManager.h"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace meshc;
using namespace meshc::test;

static std::string getTensor(const std::string &type) {
  return "!nd.tensor<" + type + ">";
}

/// Runs the passes and leaves the program `name`, as @p, and the mesh.
static std::string lower(const std::string &text, StringRef name,
                         llvm::function_ref<void(PassManager &)> addPasses) {
  auto context = makeContext();
  OwningOpRef<ModuleOp> module = meshc::test::parse(*context, text);
  PassManager manager(context.get());
  addPasses(manager);
  if (!module || failed(manager.run(*module))) {
    ADD_FAILURE() << "does not become one device's program:\n" << text;
    return "";
  }
  auto program = module->lookupSymbol<spmd::ProgramOp>(name);
  for (Operation &op : llvm::make_early_inc_range(*module->getBody()))
    if (!isa<nd::MeshOp>(op) && &op != program)
      op.erase();
  program.setSymName("p");
  std::string result;
  llvm::raw_string_ostream stream(result);
  module->print(stream);
  return result;
}

static std::string partition(const std::string &text) {
  return lower(text, "p", [](PassManager &manager) {
    manager.addPass(createPartition());
  });
}

std::string meshc::test::getRandomProgram(const std::string &distribution,
                                          int64_t key, const std::string &type,
                                          const std::string &mesh) {
  const std::string seed = getTensor("[], i64, <>"), result = getTensor(type);
  return partition(fmt::format(R"(
nd.mesh [{0}]
nd.program @p {{
  %seed = nd.input "seed" : {1}
  %y = nd.random {2} key {3} seed %seed : ({1}) -> {4}
  nd.output "y", %y : {4}
}})",
                               mesh, seed, distribution, key, result));
}

std::string meshc::test::getGatherProgram(const std::string &x,
                                          const std::string &i,
                                          const std::string &type,
                                          const std::string &mesh) {
  return partition(fmt::format(R"(
nd.mesh [{0}]
nd.program @p {{
  %x = nd.input "x" : {1}
  %i = nd.input "i" : {2}
  %y = nd.gather %x[%i] over "v" : ({1}, {2}) -> {3}
  nd.output "y", %y : {3}
}})",
                               mesh, getTensor(x), getTensor(i),
                               getTensor(type)));
}

std::string meshc::test::getViewProgram(const std::string &x,
                                        const std::string &accesses,
                                        const std::string &type,
                                        const std::string &mesh) {
  return partition(fmt::format(R"(
nd.mesh [{0}]
nd.program @p {{
  %x = nd.input "x" : {1}
  %y = nd.view %x [{2}] : ({1}) -> {3}
  nd.output "y", %y : {3}
}})",
                               mesh, getTensor(x), accesses, getTensor(type)));
}

std::string meshc::test::getGatherGradient(const std::string &x,
                                           const std::string &i,
                                           const std::string &w,
                                           const std::string &sum) {
  const std::string text = fmt::format(
      R"(
module {{
  nd.mesh ["x"=1]
  nd.objective minimize "sum"
  nd.program @forward {{
    %x = nd.input "x" : {0}
    %i = nd.input "i" : {1}
    %w = nd.input "w" : {2}
    %y = nd.gather %x[%i] over "v" : ({0}, {1}) -> {2}
    %z = nd.mul %y, %w : ({2}, {2}) -> {2}
    %sum = nd.reduce sum %z : ({2}) -> {3}
    nd.output "sum", %sum : {3}
  }}
}})",
      getTensor(x), getTensor(i), getTensor(w), getTensor(sum));
  return lower(text, "gradient", [](PassManager &manager) {
    const std::string wanted = "x";
    buildShardingPipeline(manager, {/*isWanted=*/true, wanted});
    buildPartitionPipeline(manager);
  });
}

F64Tensor meshc::test::getWhole(ArrayRef<int64_t> sizes,
                                const std::string &type, unsigned seed) {
  std::mt19937 random(seed);
  F64Tensor tensor(sizes);
  for (interpreter::Scalar<interpreter::F64> &element : tensor.elements) {
    const int64_t number =
        type == "i1" ? int64_t(random() % 2) : int64_t(random() % 17) - 8;
    if (type[0] == 'i')
      element = number;
    else
      element = double(number);
  }
  return tensor;
}
