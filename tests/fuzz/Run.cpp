#include "tests/fuzz/Run.h"

#include "codegen/ExecTypes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tests/fuzz/Check.h"
#include "tests/fuzz/Compare.h"
#include "tests/fuzz/Compilation.h"
#include "tests/fuzz/Devices.h"
#include "tests/fuzz/Print.h"
#include "tests/fuzz/RandomBits.h"

#include "dialect/interpreter/SPMDInterpreter.h"
#include "mlir/IR/Verifier.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

using namespace meshc;
using namespace meshc::fuzz;
using interpreter::F64;

namespace {

using Results = std::map<std::string, Tensor>;

/// In 16 bits: how much further off than roundings take the results of the tree
/// those of devices may be, which round in other places; and how far that may
/// be, relative to the largest element, so that a mistake is seen.
constexpr double maxRoundings = 8;
constexpr double maxCondition = 1.0 / 32;

/// Outputs, and gradients as "grad:NAME".
Results getResults(const Evaluation &evaluation) {
  Results results = evaluation.outputs;
  for (const auto &[name, tensor] : evaluation.gradients)
    results["grad:" + name] = tensor;
  return results;
}

/// Relative to the largest element, at least 1: the most that rounding to f32
/// takes off any result.
double getCondition(const Results &exact, const Results &rounded) {
  double worst = 0;
  for (const auto &[name, tensor] : exact) {
    const Tensor &other = rounded.at(name);
    double largest = 0, error = 0;
    for (size_t i = 0; i < tensor.elements.size(); ++i) {
      largest = std::max(largest, std::fabs(tensor.elements[i]));
      error =
          std::max(error, std::fabs(tensor.elements[i] - other.elements[i]));
    }
    if (largest > 0)
      worst = std::max(worst, error / largest);
  }
  return worst;
}

/// What the model is elaborated for.
struct Elaboration {
  Tree tree;
  std::string program, gradient; ///< of the compiler
  Results expected;

  /// "" or "training ", in front of a stage.
  std::string getPrefix() const { return tree.isTraining ? "training " : ""; }
};

/// One run of a case.
class Runner {
public:
  Runner(Case &item, const Checks &checks)
      : tree(item.tree), layouts(item.layouts), checks(checks),
        leaves(getLeaves(item.tree)), seed(item.seed),
        feeds(drawFeeds(tree, leaves, item.seed)),
        initials(evaluateInitials(tree)), text(print(tree)) {
    auto add = [&](Tree meant, const char *program, const char *gradient) {
      Results expected = getResults(evaluate(meant, leaves, feeds));
      elaborations.push_back(
          {std::move(meant), program, gradient, std::move(expected)});
    };
    add(tree, "forward", "gradient");
    if (mayDifferInTraining(tree))
      add(makeTrainingStep(tree), "training", "training_gradient");
    for (const auto &[name, tensor] : elaborations[0].expected)
      if (name.starts_with("grad:"))
        wanted.push_back(name.substr(5));
  }

  Failure run();

private:
  Failure runWhole();
  Failure runSplit(const meshc::test::Layout &layout);
  Failure runNarrow(const meshc::test::Layout &layout);
  /// What a step of a training changes; nothing if there is state that no
  /// training sets.
  std::optional<Failure> runStep(const meshc::test::Layout &layout);
  /// From a program of `split` as elaborated to what devices make of it.
  Failure compileAndRun(Compilation &split, const std::string &program,
                        const Results &wanted, double bound, double least);
  /// The devices of one device's programs of `split`, of which `program` is
  /// run.
  Failure runDevices(Compilation &split, const std::string &program,
                     exec::ExecutableT &executable, const Results &expected,
                     double bound, double least);
  /// The elaboration that is split: where there are two, the training step of
  /// most programs.
  const Elaboration &getSplit() const {
    const uint64_t bits = getBits(seed, 0, 0);
    return bits % 4 == 0 ? elaborations.front() : elaborations.back();
  }
  /// `stage`: but for whether it is of the training step.
  template <class Program>
  Failure interpret(Program program, mlir::ModuleOp declarations,
                    const Elaboration &meant, const std::string &stage);
  /// What the program @init makes, before any other value is given.
  template <class Program>
  Failure initialise(Program program, mlir::ModuleOp declarations,
                     const std::string &stage);
  static Failure compareAll(const Results &expected, const Results &found,
                            double bound, double least, bool hasGradients,
                            const std::string &stage);
  static Failure refuse(const std::string &stage, Compilation &compilation) {
    return {stage + " refused " + compilation.getCode(),
            compilation.getErrors()};
  }

  const Tree &tree;
  const std::vector<meshc::test::Layout> &layouts;
  const Checks &checks;
  const std::vector<Leaf> leaves;
  const uint64_t seed;
  const Feeds feeds;
  /// What variables begin as that say so by an expression.
  const Results initials;
  std::vector<Elaboration> elaborations; ///< for evaluation first
  const std::string text;
  llvm::SmallVector<std::string> wanted;
  int64_t terms = 1;
};

} // namespace

Failure Runner::compareAll(const Results &expected, const Results &found,
                           double bound, double least, bool hasGradients,
                           const std::string &stage) {
  for (const auto &[name, tensor] : expected) {
    const bool isGradient = name.starts_with("grad:");
    if (isGradient && !hasGradients)
      continue;
    auto result = found.find(name);
    std::string difference =
        result == found.end() ? "is missing"
                              : compare(tensor, result->second, bound, least);
    if (!difference.empty())
      return {stage + (isGradient ? " gradient" : " value"),
              fmt::format("{} {}", name, difference)};
  }
  return {};
}

/// In f64. As elaborated a program has the constants of the tree. Passes make
/// more, such as the factor of a mean, and round them to f32: then the bound is
/// that of a program in f32.
template <class Program>
Failure Runner::interpret(Program program, mlir::ModuleOp declarations,
                          const Elaboration &meant, const std::string &what) {
  const std::string stage = meant.getPrefix() + what;
  checks.enter(stage);
  meshc::test::F64State state;
  program.walk([&](mlir::Operation *op) {
    auto input = mlir::dyn_cast<nd::InputOp>(op);
    auto local = mlir::dyn_cast<spmd::InputOp>(op);
    if ((input && input.isSeed()) || (local && local.isSeed())) {
      const uint64_t seed = getSeedOfRun(tree.seed, uint64_t(tree.run));
      state.inputs[nd::InputOp::seedName.str()] =
          meshc::test::ints({}, {int64_t(seed)});
      return;
    }
    if (input)
      state.inputs[input.getName().str()] =
          toProgram(tree, feeds.at(input.getName().str()), input.getType());
    if (local)
      state.inputs[local.getName().str()] = toProgram(
          tree, feeds.at(local.getName().str()), local.getGlobalType());
  });
  for (auto variable : declarations.getOps<nd::VariableOp>())
    if (feeds.contains(variable.getSymName().str()))
      state.variables[variable.getSymName().str()] =
          toProgram(tree, feeds.at(variable.getSymName().str()),
                    variable.getTensorType());
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(
      program.getContext(),
      [&](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  if (failed(interpreter::runProgram(program, state)))
    return {stage + " does not run", errors};
  Results found;
  program.walk([&](mlir::Operation *op) {
    std::string name;
    nd::NamedTensorType type;
    if (auto output = mlir::dyn_cast<nd::OutputOp>(op)) {
      name = output.getName().str();
      type = mlir::cast<nd::NamedTensorType>(output.getValue().getType());
    } else if (auto output = mlir::dyn_cast<spmd::OutputOp>(op)) {
      name = output.getName().str();
      type = output.getGlobalType();
    } else {
      return;
    }
    if (auto tensor = fromProgram(tree, state.outputs.at(name), type))
      found[name] = std::move(*tensor);
  });
  // A program that sets state itself does not give it out.
  for (auto variable : declarations.getOps<nd::VariableOp>())
    if (what == meant.program || what == "gradient")
      if (auto known = state.variables.find(variable.getSymName().str());
          known != state.variables.end())
        if (auto tensor =
                fromProgram(tree, known->second, variable.getTensorType()))
          found.insert({known->first, std::move(*tensor)});
  // Chains of operations amplify rounding by more than the length of sums: 10^3
  // is far from any mistake.
  const bool isElaborated = program.getSymName() == meant.program;
  return compareAll(meant.expected, found,
                    4 * double(terms) *
                        (isElaborated ? 1e3 * 0x1p-53 : 0x1p-24),
                    1, !isElaborated, stage);
}

template <class Program>
Failure Runner::initialise(Program program, mlir::ModuleOp declarations,
                           const std::string &stage) {
  checks.enter(stage);
  meshc::test::F64State state;
  state.inputs[nd::InputOp::seedName.str()] =
      meshc::test::ints({}, {tree.seed});
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(
      declarations.getContext(),
      [&](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  if (program && failed(interpreter::runProgram(program, state)))
    return {stage + " does not run", errors};
  for (auto variable : declarations.getOps<nd::VariableOp>()) {
    const std::string name = variable.getSymName().str();
    auto expected = initials.find(name);
    if (expected == initials.end())
      continue;
    auto found = state.variables.find(name);
    std::optional<Tensor> initial;
    // A number needs no program.
    if (auto fill = mlir::dyn_cast<nd::FillAttr>(variable.getInit())) {
      initial = expected->second;
      std::ranges::fill(initial->elements, fill.getValue().getValueAsDouble());
    }
    if (found != state.variables.end())
      initial = fromProgram(tree, found->second, variable.getTensorType());
    const std::string difference =
        initial ? compare(expected->second, *initial, 1e3 * 0x1p-24, 1)
                : "is missing";
    if (!difference.empty())
      return {stage + " initial", fmt::format("{} {}", name, difference)};
  }
  return {};
}

/// The program as elaborated, loops and all, and with gradients.
Failure Runner::runWhole() {
  checks.enter("frontend");
  Compilation whole(text, std::nullopt);
  if (!whole.module)
    return refuse("frontend", whole);
  auto getProgram = [&](llvm::StringRef name) {
    return whole.module->lookupSymbol<nd::ProgramOp>(name);
  };
  if (failed(mlir::verify(*whole.module)))
    return {"frontend does not verify", ""};
  for (const Elaboration &meant : elaborations)
    if (auto program = getProgram(meant.program))
      if (auto failure =
              interpret(program, *whole.module, meant, meant.program))
        return failure;
  if (auto failure = initialise(getProgram("init"), *whole.module, "init"))
    return failure;
  checks.enter("differentiation");
  const bool isDone = whole.run(*whole.module, [&](mlir::OpPassManager &pm) {
    DifferentiateOptions options;
    options.wanted = wanted;
    pm.addPass(createUnroll());
    pm.addPass(createLowerPrecision());
    pm.addPass(createDifferentiate(options));
  });
  if (!isDone)
    return refuse("differentiation", whole);
  for (const Elaboration &meant : elaborations)
    if (auto program = getProgram(meant.gradient)) {
      terms = std::max(terms, meshc::test::countTerms(program));
      if (auto failure = interpret(program, *whole.module, meant, "gradient"))
        return failure;
    }
  // What the tree reads of `training` may stand in a branch that is dead.
  if (!getProgram("training"))
    elaborations.resize(1);
  return {};
}

/// Leaves this program, and that of initial values.
static void keepProgram(mlir::ModuleOp module, llvm::StringRef kept) {
  for (auto program :
       llvm::make_early_inc_range(module.getOps<nd::ProgramOp>()))
    if (program.getSymName() != kept && program.getSymName() != "init")
      program.erase();
}

Failure Runner::runSplit(const meshc::test::Layout &layout) {
  checks.enter("layout");
  Compilation split(text, layout);
  // A loop that carries nothing becomes one computation, whose tensors have its
  // dim.
  if (!split.module)
    return split.isSplitTwice() ? Failure() : refuse("layout", split);
  mlir::ModuleOp module = *split.module;
  const Elaboration &meant = getSplit();
  checks.enter("sharding");
  if (!split.run(module, [&](mlir::OpPassManager &pm) {
        buildShardingPipeline(pm, {true, wanted});
      }))
    return split.isSplitTwice() ? Failure() : refuse("sharding", split);
  keepProgram(module, meant.gradient);
  if (auto failure =
          interpret(module.lookupSymbol<nd::ProgramOp>(meant.gradient), module,
                    meant, "sharded"))
    return failure;
  checks.enter("partition");
  exec::ExecutableT executable;
  codegen::collectTensors(module, executable);
  if (!split.run(module, buildPartitionPipeline))
    return refuse("partition", split);
  if (auto failure =
          interpret(module.lookupSymbol<spmd::ProgramOp>(meant.gradient),
                    module, meant, "partitioned"))
    return failure;
  if (auto failure = initialise(module.lookupSymbol<spmd::ProgramOp>("init"),
                                module, "partitioned init"))
    return failure;
  if (!checks.devices)
    return {};
  if (checks.devices->precision != Precision::F32)
    return runNarrow(layout);
  // A step computes what the model is in training.
  if (&meant == &elaborations.back() && getBits(seed, 1, 0) % 2 == 0)
    if (std::optional<Failure> failure = runStep(layout))
      return *failure;
  return runDevices(split, meant.gradient, executable, meant.expected,
                    4 * double(terms) * 0x1p-24, 0);
}

/// In 16 bits every operation rounds, and a rounding that comes out differently
/// has the effect of a rounding: what they all take off the results of the tree
/// says how far that is.
Failure Runner::runNarrow(const meshc::test::Layout &layout) {
  const Precision precision = checks.devices->precision;
  const Elaboration &meant = getSplit();
  Compilation split(text, layout, precision);
  const double condition =
      getCondition(meant.expected,
                   getResults(evaluate(meant.tree, leaves, feeds, precision)));
  return compileAndRun(split, meant.gradient, meant.expected,
                       maxRoundings * (condition + getUnit(precision)), 0);
}

/// Recipes whose first step takes the gradient off a parameter, to rounding:
/// state of an optimizer starts at 0, and no gradient has such a norm. What is
/// left of a running mean's start is less than any rounding.
static constexpr const char *recipes[] = {
    "optimizer sgd(lr = 1)",
    "optimizer momentum(lr = 1, beta = 0.5) clip norm(1e15)",
    "optimizer nesterov(lr = 0.8, beta = 0.25)",
    "optimizer sgd(lr = 1) recompute \"*\"",
    "optimizer sgd(lr = 1) ema 1e-30",
};

/// Whether a step cannot be of this recipe: there is nothing to compute again,
/// or a loop stays one.
static bool isRefused(const Compilation &split) {
  return llvm::any_of(split.diagnostics.getErrors(), [](const auto &error) {
    return error.code == frontend::Code::UnknownScope ||
           error.message.find("is not written out") != std::string::npos;
  });
}

/// So that what a step takes off a parameter is its gradient.
std::optional<Failure> Runner::runStep(const meshc::test::Layout &layout) {
  const char *recipe = recipes[getBits(seed, 2, 0) % std::size(recipes)];
  Compilation split(print(tree, fmt::format("{} steps 1 ", recipe)), layout);
  const bool isSet =
      llvm::none_of(split.diagnostics.getErrors(), [](const auto &error) {
        return error.code == frontend::Code::StateNeverSet;
      });
  Results expected;
  bool mayStay = false;
  for (const Leaf &leaf : leaves) {
    const Tensor *left = nullptr;
    if (leaf.kind == LeafKind::State)
      left = &getSplit().expected.at(leaf.name);
    else if (leaf.kind == LeafKind::Parameter)
      left = &getSplit().expected.at("grad:" + leaf.name);
    if (!left)
      continue;
    mayStay |= leaf.kind == LeafKind::State &&
               left->elements == feeds.at(leaf.name).elements;
    expected[leaf.name] = *left;
  }
  if (!isSet)
    return mayStay ? std::nullopt
                   : std::optional(refuse("devices step", split));
  const Failure failure =
      compileAndRun(split, "step", expected, 4 * double(terms) * 0x1p-24, 1);
  return isRefused(split) ? std::nullopt : std::optional(failure);
}

Failure Runner::compileAndRun(Compilation &split, const std::string &program,
                              const Results &expected, double bound,
                              double least) {
  checks.enter("devices frontend");
  if (!split.module)
    return split.isSplitTwice() ? Failure() : refuse("devices frontend", split);
  exec::ExecutableT executable;
  if (!split.run(*split.module, [&](mlir::OpPassManager &pm) {
        buildShardingPipeline(pm, {program != "step", wanted});
      }))
    return split.isSplitTwice() ? Failure() : refuse("devices sharding", split);
  keepProgram(*split.module, program);
  codegen::collectTensors(*split.module, executable);
  if (!split.run(*split.module, buildPartitionPipeline))
    return refuse("devices partition", split);
  return runDevices(split, program, executable, expected, bound, least);
}

Failure Runner::runDevices(Compilation &split, const std::string &program,
                           exec::ExecutableT &executable,
                           const Results &expected, double bound,
                           double least) {
  const bool isStep = program == "step";
  const std::string stage = "devices " + toString(*checks.devices) +
                            (isStep                       ? ", step"
                             : getSplit().tree.isTraining ? ", training"
                                                          : "");
  checks.enter(stage);
  std::string error;
  Results found = runOnDevices(tree, *split.module, program, executable,
                               *checks.devices, leaves, feeds, seed, error);
  if (!error.empty())
    return {stage, error + "\n" + split.getErrors()};
  if (isStep)
    for (const Leaf &leaf : leaves)
      if (auto left = found.find(leaf.name);
          left != found.end() && leaf.kind == LeafKind::Parameter) {
        if (auto mean = found.find("ema/" + leaf.name); mean != found.end())
          if (std::string difference =
                  compare(left->second, mean->second, 0x1p-24, 0);
              !difference.empty())
            return {stage + " mean",
                    fmt::format("{} {}", leaf.name, difference)};
        for (size_t i = 0; i < left->second.elements.size(); ++i)
          left->second.elements[i] =
              feeds.at(leaf.name).elements[i] - left->second.elements[i];
      }
  return compareAll(expected, found, bound, least, true, stage);
}

Failure Runner::run() {
  Failure failure = runWhole();
  if (failure)
    return failure;
  for (const meshc::test::Layout &layout :
       layouts.empty() && checks.draw ? checks.draw() : layouts) {
    failure = runSplit(layout);
    if (!failure)
      continue;
    failure.message += fmt::format("\nunder --mesh {} --layout '{}'",
                                   layout.mesh, layout.rules);
    return failure;
  }
  return {};
}

bool meshc::fuzz::isOfWhole(const Failure &failure) {
  return llvm::any_of(
      std::initializer_list<llvm::StringRef>{
          "frontend", "forward", "init", "differentiation", "gradient",
          "training training", "training gradient"},
      [&](llvm::StringRef stage) {
        return llvm::StringRef(failure.stage).starts_with(stage);
      });
}

Failure meshc::fuzz::run(Case &item, const Checks &checks) {
  return Runner(item, checks).run();
}

/// The same of a tree for what it is meant.
static std::string findProblemOf(const Tree &tree,
                                 const std::vector<Leaf> &leaves,
                                 const Feeds &feeds, Precision precision) {
  const bool isNarrow = precision != Precision::F32;
  const Evaluation exact =
      evaluate(tree, leaves, feeds, Precision::F64,
               isNarrow ? maxRoundings * getUnit(precision) : f32Margin);
  if (!exact.problem.empty())
    return exact.problem;
  // An eighth of the least that is allowed on devices: other orders of the same
  // operations round differently.
  constexpr double limit = 4 * 32 * 0x1p-24 / 8;
  auto isConditioned = [&](Precision rounding, double most) {
    const Evaluation rounded = evaluate(tree, leaves, feeds, rounding);
    return rounded.problem.empty() &&
           getCondition(getResults(exact), getResults(rounded)) <= most;
  };
  return isConditioned(Precision::F32, limit) &&
                 (!isNarrow || isConditioned(precision, maxCondition))
             ? ""
             : "ill-conditioned";
}

std::string meshc::fuzz::findProblem(const Tree &tree, uint64_t seed,
                                     Precision precision) {
  Tree copy = tree;
  const std::vector<Leaf> leaves = getLeaves(copy);
  const Feeds feeds = drawFeeds(copy, leaves, seed);
  std::string problem = findProblemOf(copy, leaves, feeds, precision);
  if (problem.empty() && mayDifferInTraining(copy))
    problem = findProblemOf(makeTrainingStep(copy), leaves, feeds, precision);
  return problem;
}

std::string meshc::fuzz::describe(const Case &item) {
  std::string text = print(item.tree);
  text +=
      fmt::format("// --seed {} --step {}\n", item.tree.seed, item.tree.run);
  for (const meshc::test::Layout &layout : item.layouts)
    text += fmt::format("// --mesh {} --layout \"{}\"\n", layout.mesh,
                        layout.rules);
  return text;
}
