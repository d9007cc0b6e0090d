#include "tests/fuzz/Run.h"

#include "codegen/ExecTypes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tests/fuzz/Check.h"
#include "tests/fuzz/Compare.h"
#include "tests/fuzz/Compilation.h"
#include "tests/fuzz/Condition.h"
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
  /// A step with what each part is fed, and what it takes off parameters.
  struct Step {
    Tree tree;
    std::vector<Feeds> feeds;
    Results expected;
  };
  Step getWholeStep() const;
  /// One of parts, where all inputs have samples and every part is conditioned.
  Step getStep() const;
  /// From a program of `split` as elaborated to what devices make of it.
  Failure compileAndRun(Compilation &split, const std::string &program,
                        const Results &wanted, double bound, double least,
                        std::span<const Feeds> parts);
  /// The devices of one device's programs of `split`, of which `program` is
  /// run.
  Failure runDevices(Compilation &split, const std::string &program,
                     exec::ExecutableT &executable, const Results &expected,
                     double bound, double least, std::span<const Feeds> parts);
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

/// Leaves this program, for a step that of its other parts, and that of initial
/// values.
static void keepProgram(mlir::ModuleOp module, llvm::StringRef kept) {
  for (auto program :
       llvm::make_early_inc_range(module.getOps<nd::ProgramOp>()))
    if (program.getSymName() != kept && program.getSymName() != "init" &&
        !(kept == "step" && program.getSymName() == "accumulate"))
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
                    4 * double(terms) * 0x1p-24, 0, {&feeds, 1});
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
                       maxRoundings * (condition + getUnit(precision)), 0,
                       {&feeds, 1});
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

static bool hasError(const Compilation &split, frontend::Code code) {
  return llvm::any_of(split.diagnostics.getErrors(),
                      [&](const auto &error) { return error.code == code; });
}

/// So that what a step takes off a parameter is its gradient.
std::optional<Failure> Runner::runStep(const meshc::test::Layout &layout) {
  const char *recipe = recipes[getBits(seed, 2, 0) % std::size(recipes)];
  Step step = getStep();
  auto compile = [&] {
    return std::make_unique<Compilation>(
        print(step.tree, fmt::format("{} steps 1 ", recipe)), layout);
  };
  std::unique_ptr<Compilation> split = compile();
  if (hasError(*split, frontend::Code::WrongParts)) {
    step = getWholeStep();
    split = compile();
  }
  if (hasError(*split, frontend::Code::StateNeverSet)) {
    const bool mayStay = llvm::any_of(leaves, [&](const Leaf &leaf) {
      return leaf.kind == LeafKind::State &&
             getSplit().expected.at(leaf.name).elements ==
                 feeds.at(leaf.name).elements;
    });
    return mayStay ? std::nullopt
                   : std::optional(refuse("devices step", *split));
  }
  const Failure failure = compileAndRun(
      *split, "step", step.expected,
      4 * double(terms * step.tree.parts) * 0x1p-24, 1, step.feeds);
  return isRefused(*split) ? std::nullopt : std::optional(failure);
}

Runner::Step Runner::getWholeStep() const {
  Step step{getSplit().tree, {feeds}, {}};
  for (const Leaf &leaf : leaves)
    if (leaf.kind != LeafKind::Input)
      step.expected[leaf.name] = getSplit().expected.at(
          (leaf.kind == LeafKind::Parameter ? "grad:" : "") + leaf.name);
  return step;
}

Runner::Step Runner::getStep() const {
  Step step = getWholeStep();
  if (llvm::any_of(tree.inputs, [](const Input &input) {
        return !input.type.has(Tree::batch);
      }))
    return step;
  step.tree.parts = 2 + int64_t(getBits(seed, 3, 0) % 2);
  step.feeds.clear();
  step.expected.clear();
  const double share = 1 / double(step.tree.parts);
  Feeds left = feeds; // state as the part before has left it
  for (int64_t part = 0; part < step.tree.parts; ++part) {
    step.tree.part = part;
    Feeds own = part == 0 ? feeds : drawFeeds(tree, leaves, seed + part);
    for (const Leaf &leaf : leaves)
      if (leaf.kind != LeafKind::Input)
        own[leaf.name] = left.at(leaf.name);
    if (part > 0 &&
        !findProblemOf(step.tree, leaves, own, Precision::F32).empty())
      return getWholeStep();
    const Evaluation found = evaluate(step.tree, leaves, own);
    Results results = {{"loss", found.outputs.at("loss")}};
    for (const Leaf &leaf : leaves)
      if (leaf.kind == LeafKind::Parameter)
        results[leaf.name] = found.gradients.at(leaf.name);
    for (auto &[name, tensor] : results) {
      Tensor &mean = step.expected[name];
      if (part == 0)
        mean = {tensor.dims, tensor.element,
                std::vector<double>(tensor.elements.size())};
      for (size_t i = 0; i < tensor.elements.size(); ++i)
        mean.elements[i] += share * tensor.elements[i];
    }
    for (const Leaf &leaf : leaves)
      if (leaf.kind == LeafKind::State)
        step.expected[leaf.name] = left[leaf.name] =
            found.outputs.at(leaf.name);
    step.feeds.push_back(std::move(own));
  }
  return step;
}

Failure Runner::compileAndRun(Compilation &split, const std::string &program,
                              const Results &expected, double bound,
                              double least, std::span<const Feeds> parts) {
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
  return runDevices(split, program, executable, expected, bound, least, parts);
}

Failure Runner::runDevices(Compilation &split, const std::string &program,
                           exec::ExecutableT &executable,
                           const Results &expected, double bound, double least,
                           std::span<const Feeds> parts) {
  const bool isStep = program == "step";
  const std::string stage =
      "devices " + toString(*checks.devices) +
      (parts.size() > 1 ? fmt::format(", step of {} parts", parts.size())
       : isStep         ? ", step"
       : getSplit().tree.isTraining ? ", training"
                                    : "");
  checks.enter(stage);
  std::string error;
  Results found = runOnDevices(tree, *split.module, program, executable,
                               *checks.devices, leaves, parts, seed, error);
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

std::string meshc::fuzz::describe(const Case &item) {
  std::string text = print(item.tree);
  text +=
      fmt::format("// --seed {} --step {}\n", item.tree.seed, item.tree.run);
  for (const meshc::test::Layout &layout : item.layouts)
    text += fmt::format("// --mesh {} --layout \"{}\"\n", layout.mesh,
                        layout.rules);
  return text;
}
