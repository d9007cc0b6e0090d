#include "dialect/Locations.h"
#include "layout/Spelling.h"
#include "passes/LossScale.h"
#include "passes/Passes.h"
#include "passes/ReverseSweep.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"
} // namespace meshc

/// Those of `sources` that are called one of `names`; all parameters if there
/// are no names.
static FailureOr<SmallVector<GradientSource>>
choose(ArrayRef<GradientSource> sources, ArrayRef<std::string> names,
       Location loc) {
  SmallVector<GradientSource> chosen;
  if (names.empty()) {
    llvm::copy_if(
        sources, std::back_inserter(chosen),
        [](const GradientSource &source) { return source.isParameter; });
    return chosen;
  }
  llvm::StringSet<> known;
  for (StringRef name : names) {
    if (!known.insert(name).second)
      continue;
    size_t before = chosen.size();
    llvm::copy_if(
        sources, std::back_inserter(chosen),
        [&](const GradientSource &source) { return source.name == name; });
    if (chosen.size() == before + 1)
      continue;
    InFlightDiagnostic error = emitError(loc);
    if (chosen.size() > before)
      return error << "\"" << name << "\" is a parameter and an input",
             failure();
    error << "there is no parameter and no float input \"" << name
          << "\" to differentiate by";
    std::vector<std::string> candidates;
    for (const GradientSource &source : sources)
      candidates.push_back(source.name.str());
    std::string nearest = layout::findNearest(name.str(), candidates);
    if (!nearest.empty())
      error << "; did you mean \"" << nearest << "\"?";
    return failure();
  }
  return chosen;
}

namespace {
struct Differentiate : meshc::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Objective objective = findObjective(module);
    if (!output.empty())
      objective = {output, module.getLoc()};
    else if (objective.minimize.empty())
      objective = {inputsOf, module.getLoc()};
    if (objective.minimize.empty())
      return markAllAnalysesPreserved();
    auto forward = module.lookupSymbol<ProgramOp>("forward");
    if (!forward) {
      module.emitError() << "there is no program @forward to differentiate";
      return signalPassFailure();
    }
    auto training = module.lookupSymbol<ProgramOp>("training");
    if (failed(differentiate(forward, "gradient", objective)) ||
        (training &&
         failed(differentiate(training, "training_gradient", objective))))
      signalPassFailure();
  }

  /// Has the gradients by inputs be of the output that was said for them.
  void moveInputs(SmallVector<ObjectiveGroup> &groups,
                  ArrayRef<GradientSource> sources) {
    for (ObjectiveGroup &group : groups)
      llvm::erase_if(group.sources,
                     [&](size_t place) { return !sources[place].isParameter; });
    auto *found = llvm::find_if(groups, [&](const ObjectiveGroup &group) {
      return group.minimize == inputsOf;
    });
    if (found == groups.end()) {
      groups.push_back({inputsOf, getOperation().getLoc()});
      found = &groups.back();
    }
    for (auto [place, source] : llvm::enumerate(sources))
      if (!source.isParameter)
        found->sources.push_back(place);
    llvm::sort(found->sources);
  }

  /// Which gradients are of which output: all of one that was asked for, else
  /// each parameter of its own. Of an input nobody says, where there are
  /// several.
  FailureOr<SmallVector<ObjectiveGroup>>
  group(const Objective &objective, ArrayRef<GradientSource> sources) {
    SmallVector<ObjectiveGroup> groups;
    if (output.empty()) {
      groups = groupByObjective(getOperation(), objective, sources);
    } else {
      groups.push_back({objective.minimize, objective.loc});
      llvm::append_range(groups.front().sources,
                         llvm::seq<size_t>(0, sources.size()));
    }
    if (!inputsOf.empty())
      moveInputs(groups, sources);
    const bool hasSeveral = groups.size() > 1;
    for (const GradientSource &source : sources)
      if (hasSeveral && inputsOf.empty() && !source.isParameter)
        return emitError(objective.loc)
                   << "several outputs are minimized: of which one is the "
                      "gradient by input \""
                   << source.name << "\" wanted?",
               failure();
    // Of an output that no source is of, nothing is asked.
    llvm::erase_if(groups, [&](const ObjectiveGroup &group) {
      return group.sources.empty() && hasSeveral;
    });
    return groups;
  }

  LogicalResult differentiate(ProgramOp forward, StringRef name,
                              const Objective &objective) {
    OpBuilder builder(forward->getContext());
    builder.setInsertionPointAfter(forward);
    auto program = cast<ProgramOp>(builder.clone(*forward));
    program.setSymName(name);

    if (failed(findMinimized(program, objective.minimize, objective.loc)))
      return failure();
    FailureOr<SmallVector<GradientSource>> sources =
        choose(findGradientSources(program), wanted, objective.loc);
    if (failed(sources))
      return failure();
    FailureOr<SmallVector<ObjectiveGroup>> groups = group(objective, *sources);
    if (failed(groups))
      return failure();
    std::optional<LossScale> lossScale = LossScale::create(program);
    FailureOr<SmallVector<Value>> gradients =
        appendGradients(program, *groups, *sources,
                        lossScale ? lossScale->getScale() : Value());
    if (failed(gradients))
      return failure();
    if (lossScale) {
      SmallVector<Value> outputs;
      for (const ObjectiveGroup &group : *groups)
        outputs.push_back(*findMinimized(program, group.minimize, group.loc));
      lossScale->search(outputs, *gradients);
      for (Value &gradient : *gradients)
        gradient = lossScale->unscale(gradient);
    }

    builder.setInsertionPointToEnd(&program.getBody().front());
    for (auto [source, gradient] : llvm::zip_equal(*sources, *gradients)) {
      Location at =
          asGradient(withName(source.loc, getOrigin(source.loc, source.name)));
      if (!gradient)
        gradient = ConstantOp::create(
            builder, at, source.type,
            builder.getFloatAttr(source.type.getElementType(), 0));
      if (gradient.getType() != source.type) // another order of storage
        gradient = ReduceOp::create(builder, at, source.type, Reduction::Sum,
                                    gradient);
      OutputOp::create(builder, at, ("grad:" + source.name).str(), gradient);
    }
    return success();
  }
};
} // namespace
