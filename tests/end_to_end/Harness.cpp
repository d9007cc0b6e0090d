#include "tests/end_to_end/Harness.h"

#include "dialect/interpreter/SPMDInterpreter.h"
#include "passes/Pipelines.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace meshc;
using namespace meshc::test;
using interpreter::F64;

//===-- The pipeline ------------------------------------------------------===//

namespace {

/// Keeps a copy of the module as it was before the first pass called `name`.
class CopyBefore : public PassInstrumentation {
public:
  CopyBefore(StringRef name, OwningOpRef<ModuleOp> &copy)
      : name(name), copy(copy) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    auto module = dyn_cast<ModuleOp>(op);
    if (module && !copy && pass->getArgument() == name)
      copy = module.clone();
  }

private:
  StringRef name;
  OwningOpRef<ModuleOp> &copy;
};

void setLayout(ModuleOp module, const Layout &layout) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  Location loc = builder.getUnknownLoc();
  SmallVector<Attribute> axes;
  for (const layout::MeshAxis &axis : layout.getAxes())
    axes.push_back(
        nd::DimAttr::get(builder.getStringAttr(axis.name), axis.size));
  nd::MeshOp::create(builder, loc, builder.getArrayAttr(axes), nullptr,
                     nullptr);
  for (const layout::LayoutRule &rule : layout.getRules())
    nd::RuleOp::create(builder, loc, rule);
}

} // namespace

Compiled meshc::test::compile(const Model &model, const Layout &layout) {
  Compiled compiled;
  MLIRContext *context = model.module.get()->getContext();
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      compiled.diagnostics += diagnostic.str() + "\n";
  });
  OwningOpRef<ModuleOp> module = ModuleOp(model.module.get()).clone();
  setLayout(*module, layout);
  if (failed(verify(*module))) {
    compiled.diagnostics =
        "the test's own model is wrong: " + compiled.diagnostics;
    return compiled;
  }
  PassManager manager(context);
  manager.addInstrumentation(
      std::make_unique<CopyBefore>("nd-decompose", compiled.meaning));
  buildShardingPipeline(manager);
  buildPartitionPipeline(manager);
  if (succeeded(manager.run(*module)) && succeeded(verify(*module)))
    compiled.local = std::move(module);
  return compiled;
}

//===-- Random values -----------------------------------------------------===//

static F64Tensor makeRandom(nd::NamedTensorType type, Model::Bounds bounds,
                            std::mt19937_64 &random) {
  F64Tensor tensor(type.getSizes());
  interpreter::ElementKind kind =
      interpreter::getElementKind(type.getElementType());
  for (auto &element : tensor.elements) {
    double unit = double(random() >> 11) * 0x1p-53;
    double number = bounds.low + (bounds.high - bounds.low) * unit;
    if (kind.isFloat)
      element = number;
    else
      element = int64_t(std::floor(number));
  }
  return tensor;
}

F64State meshc::test::makeState(const Model &model, nd::ProgramOp program,
                                uint64_t seed) {
  F64State state;
  auto getRandom = [&](StringRef name) {
    std::seed_seq sequence(name.begin(), name.end());
    uint32_t words[2];
    sequence.generate(words, words + 2);
    return std::mt19937_64(seed ^ (uint64_t(words[0]) << 32 | words[1]));
  };
  program.walk([&](nd::InputOp op) {
    std::mt19937_64 random = getRandom(op.getName());
    auto bounds = model.bounds.find(op.getName().str());
    state.inputs[op.getName().str()] = makeRandom(
        op.getType(),
        bounds == model.bounds.end() ? Model::Bounds{0, 1e6} : bounds->second,
        random);
  });
  auto module = program->getParentOfType<ModuleOp>();
  for (auto variable : module.getOps<nd::VariableOp>()) {
    std::mt19937_64 random = getRandom(variable.getSymName());
    bool isState = variable.getRole() == nd::VariableRole::State;
    state.variables[variable.getSymName().str()] = makeRandom(
        variable.getTensorType(),
        isState ? Model::Bounds{0.5, 1.5} : Model::Bounds{-1, 1}, random);
  }
  return state;
}

//===-- Comparison --------------------------------------------------------===//

int64_t meshc::test::countTerms(nd::ProgramOp program) {
  int64_t terms = 1;
  program.walk([&](Operation *op) {
    if (!isa<nd::EinsumOp, nd::ReduceOp>(op))
      return;
    auto result = cast<nd::NamedTensorType>(op->getResult(0).getType());
    int64_t reduced = 1;
    for (nd::DimAttr dim : nd::getUnionOfDims(op))
      if (!result.hasDim(dim.getName()))
        reduced *= dim.getSize();
    terms += reduced;
  });
  return terms;
}

/// Why `found` is not `expected`, or nothing.
static std::string compare(const F64Tensor &expected, const F64Tensor &found,
                           double terms) {
  if (expected.sizes != found.sizes)
    return "sizes differ";
  double magnitude = 1;
  for (const auto &element : expected.elements)
    if (std::holds_alternative<double>(element) &&
        std::isfinite(std::get<double>(element)))
      magnitude = std::max(magnitude, std::fabs(std::get<double>(element)));
  double bound = 4 * terms * 0x1p-53 * magnitude;
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    const auto &a = expected.elements[i], &b = found.elements[i];
    auto where = [&](const std::string &text) {
      return "element " + std::to_string(i) + " " + text;
    };
    if (interpreter::isPoison<F64>(a))
      return where("means nothing: the test is wrong");
    if (interpreter::isPoison<F64>(b))
      return where("depends on padding or unwritten memory");
    if (a.index() != b.index())
      return where("has another type");
    if (std::holds_alternative<int64_t>(a)) {
      if (a != b)
        return where("is " + std::to_string(std::get<int64_t>(b)) +
                     ", expected " + std::to_string(std::get<int64_t>(a)));
      continue;
    }
    double x = std::get<double>(a), y = std::get<double>(b);
    bool isEqual = std::isnan(x)   ? std::isnan(y)
                   : std::isinf(x) ? x == y
                                   : std::fabs(x - y) <= bound;
    if (!isEqual)
      return where("is " + std::to_string(y) + ", expected " +
                   std::to_string(x) + ": off by " +
                   llvm::formatv("{0:e}", std::fabs(x - y)).str() + ", bound " +
                   llvm::formatv("{0:e}", bound).str());
  }
  return {};
}

static std::string compareAll(const std::map<std::string, F64Tensor> &expected,
                              const std::map<std::string, F64Tensor> &found,
                              const std::string &what, double terms) {
  for (const auto &[name, tensor] : expected) {
    auto other = found.find(name);
    std::string text = other == found.end()
                           ? "is missing"
                           : compare(tensor, other->second, terms);
    if (!text.empty())
      return what + " '" + name + "': " + text;
  }
  if (found.size() != expected.size())
    return "there are other " + what + "s";
  return {};
}

static std::string toString(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

/// Runs one program whole and on all devices.
static std::string comparePrograms(const Model &model, nd::ProgramOp meaning,
                                   ModuleOp local, uint64_t seed,
                                   double slack) {
  auto program = local.lookupSymbol<spmd::ProgramOp>(meaning.getSymName());
  if (!program)
    return "there is none for one device";
  std::string errors;
  ScopedDiagnosticHandler handler(local.getContext(), [&](Diagnostic &error) {
    errors += error.str() + "\n";
  });
  F64State expected = makeState(model, meaning, seed), found = expected;
  if (failed(interpreter::runProgram(meaning, expected)))
    return "does not run whole: " + errors;
  if (failed(interpreter::runProgram(program, found)))
    return "does not run on the devices: " + errors;
  double terms = slack * double(countTerms(meaning));
  std::string text =
      compareAll(expected.outputs, found.outputs, "output", terms);
  return text.empty() ? compareAll(expected.variables, found.variables,
                                   "variable", terms)
                      : text;
}

::testing::AssertionResult meshc::test::matches(const Model &model,
                                                const Layout &layout,
                                                uint64_t seed, double slack) {
  std::ostringstream name;
  PrintTo(layout, &name);
  auto fail = [&] {
    return ::testing::AssertionFailure() << name.str() << ": ";
  };
  Compiled compiled = compile(model, layout);
  if (!isLegal(model.module.get(), layout)) {
    if (compiled)
      return fail() << "two dimensions on one axis are accepted";
    if (compiled.diagnostics.empty())
      return fail() << "two dimensions on one axis fail without a word";
    return ::testing::AssertionSuccess();
  }
  if (!compiled)
    return fail() << "does not compile: " << compiled.diagnostics;
  for (auto program : compiled.meaning->getOps<nd::ProgramOp>()) {
    std::string text =
        comparePrograms(model, program, *compiled.local, seed, slack);
    if (!text.empty())
      return fail() << "program @" << program.getSymName().str() << ": " << text
                    << "\n"
                    << toString(*compiled.local);
  }
  return ::testing::AssertionSuccess();
}

//===-- Traffic -----------------------------------------------------------===//

void meshc::test::PrintTo(const Traffic &traffic, std::ostream *out) {
  *out << traffic.count << " of " << traffic.elements << " elements";
}

/// Names of the axes whose use differs between source and target.
static std::string getAxes(spmd::CollectiveOpInterface op) {
  std::map<std::string, std::string> uses[2];
  nd::NamedTensorType types[] = {op.getSourceType(), op.getTargetType()};
  for (int i = 0; i < 2; ++i) {
    nd::ShardingAttr sharding = types[i].getSharding();
    for (nd::DimSplitAttr split : sharding.getSplits())
      for (auto [place, axis] : llvm::enumerate(split.getAxes()))
        uses[i][axis.getName().str()] +=
            split.getDim().str() + std::to_string(place);
    for (nd::AxisRefAttr axis : sharding.getPartialAxes())
      uses[i][axis.getName().str()] += "partial";
  }
  std::map<std::string, std::string> all = uses[0];
  all.insert(uses[1].begin(), uses[1].end());
  std::string names;
  for (const auto &[axis, use] : all)
    if (uses[0][axis] != uses[1][axis])
      names += (names.empty() ? "" : "+") + axis;
  return names;
}

std::map<std::string, Traffic> meshc::test::getTraffic(ModuleOp local,
                                                       StringRef program) {
  std::map<std::string, Traffic> traffic;
  local.lookupSymbol<spmd::ProgramOp>(program).walk(
      [&](spmd::CollectiveOpInterface op) {
        if (op.getKind() == layout::CollectiveKind::Slice)
          return;
        Traffic &entry = traffic[std::string(layout::getName(op.getKind())) +
                                 " " + getAxes(op)];
        ++entry.count;
        entry.elements += op.getInput().getType().getNumElements();
      });
  return traffic;
}
