#ifndef MESHC_FRONTEND_BUILDERSTATE_H
#define MESHC_FRONTEND_BUILDERSTATE_H

// What a Builder holds; included by its own sources only.

#include "frontend/Builder.h"

#include "mlir/IR/PatternMatch.h"

#include "dialect/Locations.h"
#include "dialect/ND.h"
#include "layout/Layout.h"

#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace meshc::frontend {

struct Tensor::Node {
  ElementType element;
  std::vector<Dim> dims;
  mlir::Value value;
};

struct BuilderState {
  explicit BuilderState(mlir::MLIRContext *context);
  ~BuilderState();

  std::unique_ptr<mlir::MLIRContext> ownContext;
  mlir::MLIRContext *context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder declarations; ///< before the program
  mlir::OpBuilder operations;   ///< at the end of the program or loop

  struct Declared;

  /// A loop that has not ended.
  struct Loop {
    Dim dim;
    mlir::Location location;
    mlir::OpBuilder::InsertPoint outside;
    std::unique_ptr<mlir::Region> region;
    std::vector<Builder::LoopValue> initial;
    std::vector<std::pair<Tensor, Tensor>> slices = {}; ///< of what, and they
    /// Model state of calls outside, and what an iteration begins with of it:
    /// the last ones of `initial`, if an iteration sets them.
    std::vector<std::pair<Declared *, Tensor::Node *>> states = {};
    bool setsStates = false;   ///< some of these, so far
    int64_t numOperations = 0; ///< of one iteration, inner loops written out
    bool isTooLarge = false;   ///< and that was said

    /// How often its block is written out: what carries nothing is one
    /// computation (nd-map-loops), or too large for nd-unroll.
    int64_t getNumCopies() const {
      return initial.size() == states.size() && !setsStates ? 1 : dim.size;
    }
    /// What an iteration begins with of a state; null of others.
    const Tensor::Node *findState(const Declared &variable) const {
      for (const auto &[known, before] : states)
        if (known == &variable)
          return before;
      return nullptr;
    }
  };
  std::vector<Loop> loops; ///< inner ones last

  /// The calls and loops of the model: "layer/attn".
  std::set<std::string, std::less<>> modelScopes;
  /// The parts of a training step, and the dims that have a part's positions.
  int64_t numParts = 1;
  std::set<std::string, std::less<>> parted;
  bool isParted(std::string_view dim) const;
  /// Whether what is drawn along `dim` here is of samples of the whole batch:
  /// a variable begins as the same whatever the parts.
  bool isDrawnInParts(std::string_view dim) const {
    return !outside && isParted(dim);
  }

  /// What one program draws.
  struct Draws {
    mlir::Value seed; ///< of the run
    mlir::Value part; ///< of the step
    /// How many sets of random numbers there are of a full name.
    std::map<std::string, int64_t> numbers;
  };
  llvm::DenseMap<mlir::Block *, Draws> draws; ///< by the program's block
  /// Those of the program that is built.
  Draws &getDraws();
  /// The part of the step that the program runs.
  mlir::Value getPart();
  /// Requires: a kind that draws.
  static nd::Distribution getDistribution(Initializer::Kind kind);
  /// The seed of what is drawn here: of the run, and of the iteration.
  mlir::Value getSeed(mlir::Location location);

  /// Whether `value` is made in `loop` or in loops in there.
  bool isIn(const Loop &loop, mlir::Value value) const;
  Tensor slice(Loop &loop, Tensor x, const Where &where);
  /// The slice of `x`, made outside, in the loop over `dim` whose position
  /// `index` is; null, without an error, if there is none.
  Tensor findSlice(Tensor x, Tensor index, std::string_view dim,
                   const Where &where);
  /// Whether the program is not too large, loops written out.
  bool checkNumOperations(const Where &where);
  /// `value` as the next one of `initial`; null after an error.
  Tensor checkCarried(const Builder::LoopValue &initial,
                      const Builder::LoopValue &value);

  /// Makes `next` what iteration after iteration carries: with the sharding
  /// that a constraint gave the initial value. Where that has none and `next`
  /// has one, it is given to the initial value too, and to what loops inside
  /// carry of it.
  void alignCarried(Loop &loop, llvm::MutableArrayRef<mlir::Value> next);
  /// The latter, for one value; whether anything changed.
  bool alignInitial(Loop &loop, size_t number, mlir::Value next);

  std::vector<BuildError> errors;
  bool failed = false;
  std::deque<Tensor::Node> nodes;

  struct DimEntry {
    int64_t size;
    Where where;
  };
  std::map<std::string, DimEntry, std::less<>> dims;
  layout::Mesh mesh;
  std::vector<RuleSpec> rules;
  /// As rules have it by themselves; null if they are in error.
  const layout::Layout *getTable();
  std::optional<std::optional<layout::Layout>> table;
  /// What rules may be for by its name: inputs, parameters, the model's state
  /// and values for which there are such rules.
  struct NamedShape {
    std::string name;
    std::vector<std::string> dims;
    std::vector<int64_t> sizes;
    Where where;
    layout::Role role;
  };
  std::vector<NamedShape> namedShapes;
  /// None of a number, which nothing splits.
  void addNamedShape(const std::string &name, std::span<const Dim> dims,
                     const Where &where,
                     layout::Role role = layout::Role::Value);
  /// `value`, which is to be called so, as rules for the name have it lie.
  Tensor place(Tensor value, nd::OriginAttr origin, const Where &where);

  /// The sets of dimensions that tensors have, and where each came first.
  std::map<std::vector<std::string>, Where> shapes;

  struct Named {
    Tensor value;
    Where where;
  };
  std::map<std::string, Named, std::less<>> inputs, outputs;
  /// A variable of the program that is built.
  struct Declared {
    nd::VariableRole role;
    Tensor value = {}; ///< when the program starts, of all iterations
    Where where = {};
    /// What a state was last set to, and the loops around that; null: nothing.
    Tensor last = {};
    size_t numLoops = 0;
    size_t numStacked = 0; ///< loops that have one for each of their positions
  };
  std::map<std::string, Declared, std::less<>> declared;
  /// Those of the model, once updates are built.
  std::map<std::string, Declared, std::less<>> modelVariables;
  /// Those of the program that is not for training, once that for training has
  /// begun.
  std::map<std::string, Declared, std::less<>> evaluated;
  bool isTraining = false;
  size_t firstNode = 0; ///< of the program that is built

  /// What becomes of a parameter, while that is built.
  struct Update {
    nd::VariableOp parameter;
    mlir::Operation *last;   ///< its last declaration: it, or a state's
    mlir::Location location; ///< of what is computed for it
    mlir::Location ofStep;   ///< of what is made of the step's number alone
    Tensor gradient;         ///< in the loops
  };
  std::optional<Update> update;
  /// Begins that of a parameter by an optimizer.
  void openUpdate(const std::string &parameter, const std::string &optimizer);
  /// In the order in which they are declared.
  std::vector<std::string> getParameters() const;
  nd::ProgramOp updates; ///< null as long as nobody builds them
  /// Where what is built in them is told, beside the updates of parameters.
  std::optional<mlir::Location> ofUpdates;
  Tensor gradientFactor;               ///< of all gradients; null: 1
  std::optional<double> gradientLimit; ///< of each element's size
  std::optional<double> meanDecay;     ///< of the parameters' running means
  /// Has the running mean of the parameter that is updated take up its `next`
  /// value.
  void writeMean(std::string_view parameter, mlir::Value next,
                 const Where &where);
  /// The gradient of a parameter, of all iterations.
  Tensor readGradient(const std::string &parameter, const Where &where);
  /// Bounded as clipNorm and clipValue say.
  Tensor clip(Tensor gradient, const Where &where);
  void checkObjective(const std::string &output, const Where &where);
  void finishSettings();
  Tensor stepNumber;
  /// Inputs that become constants, and which.
  std::vector<std::pair<Tensor, double>> fixedSettings;
  /// Whether x can be converted to the elements of what it is computed with:
  /// in updates, if it is made of numbers and the step alone.
  bool isNumberOfStep(Tensor x);
  /// The dimensions of an optimizer's state in the order of the parameter's, so
  /// that both are read along.
  std::vector<Dim> orderLikeParameter(const std::vector<Dim> &dims);
  /// Where what is set of an optimizer's state is computed.
  mlir::Location getUpdateOf(nd::VariableOp variable) const;
  std::map<std::string, nd::VariableOp, std::less<>> variables;
  /// Declares a variable of the open scope; what the loops see of it.
  Tensor declare(nd::VariableRole role, const std::string &name,
                 ElementType type, const std::vector<Dim> &dims,
                 Initializer initializer, const Where &where);
  /// Whether a variable may have this name and these elements, and has none
  /// that another one has; null after an error.
  Declared *checkVariable(nd::VariableRole role, const std::string &fullName,
                          ElementType type, const Initializer &initializer,
                          const Where &where);
  /// Whether a variable is that of the program which is not for training.
  bool checkElaborations(nd::VariableRole role, const std::string &name,
                         nd::NamedTensorType type,
                         const Initializer &initializer, const Where &where);
  /// Sets a variable to `value`, which has its type; false after an error.
  bool checkSet(Declared &variable, std::string_view name, Code code,
                Tensor value, const Where &where);
  void failNeverSet(std::string_view state, const Where &where);
  /// The states that are set in as many loops as there are around and that
  /// iterations have one each of, in the order of their names.
  std::vector<Declared *> getStackedStates();
  /// What an iteration of `loop`, which is not around the declaration of a
  /// state, begins with of it: `before` in the first one.
  Tensor carryState(Loop &loop, Declared &variable, Tensor before,
                    const Where &where);
  /// Of what the innermost loop may carry of states, that which it sets none
  /// of is what it was before.
  void dropUnsetStates();
  /// Behind an error: nothing was set in loops that have ended.
  void forgetStatesOfLoops();
  std::vector<std::pair<DataSpec, Where>> data;

  /// Elements of an input that are used as an index of so many positions: all
  /// of them, or those at positions [first, end) of a dim.
  struct IndexUse {
    nd::InputOp input;
    std::string dim; ///< empty: all
    int64_t first = 0, end = 0;
    int64_t bound = 0;
  };
  std::vector<IndexUse> indexUses;
  /// What files give for an index must be one: the data reader checks it,
  /// before the conversion of what is for data.
  void noteIndex(mlir::Value index, int64_t bound);
  /// Gives inputs the bounds of their uses: all elements the smallest one of
  /// those that use all; else, where uses of parts leave no position out, the
  /// largest of them.
  void finishIndexBounds();
  std::optional<TrainingSpec> training;
  Where trainingWhere;

  /// Where variables are declared: a scope, and the loops of `loops` around it,
  /// each of whose iterations has its own.
  struct Declaring {
    nd::ScopeAttr scope;
    std::vector<size_t> loops = {};
  };
  /// Of the scopes that were opened, by number.
  std::vector<Declaring> declaring;

  struct Scope {
    nd::ScopeAttr scope; ///< null of the outermost one
    /// Where variables in it are declared, and the first loop whose iterations
    /// have their own beside those in there.
    Declaring variables = {};
    size_t firstLoop = 0;
    size_t number = 0;     ///< in `declaring`
    bool isShared = false; ///< another scope has declared them
    std::map<std::string, Where, std::less<>> children;
    std::map<std::string, int, std::less<>> lastNumbers; ///< by stem
    std::string stem; ///< without the number; empty: its name is at fault
    Where where;
    bool isLoop = false, ownsParameters = false;
    /// By stem, the first scope in here that owned parameters and has ended.
    std::map<std::string, Where, std::less<>> owners;
  };
  std::vector<Scope> scopes{Scope{}};
  Builder::ScopeId openScope(const std::string &name, const std::string &stem,
                             const Where &where);
  /// The loops that a variable in the open scope is stacked over.
  std::vector<size_t> getLoopsOfVariables() const;
  std::string getVariableName(const std::string &name) const {
    return getOriginOfVariable(name).getText();
  }
  nd::OriginAttr getOriginOfVariable(const std::string &name) const;
  /// A variable of the scope whose variables the open one has.
  Tensor shareVariable(nd::VariableRole role, const std::string &fullName,
                       ElementType type, std::span<const Dim> dims,
                       const Initializer &initializer, const Where &where);
  /// What is seen of a variable in the open loops: slices of those that its
  /// iterations have, and of state what was set before.
  Tensor readVariable(Declared &variable, const Where &where);
  /// Names that values have, so that no two have the same.
  std::set<std::string, std::less<>> valueNames;
  /// The number that the next value of a name gets, if it is not taken.
  std::map<std::string, int> valueNumbers;

  BuildError &fail(Code code, const Where &where, std::string message,
                   int operand = -1);

  mlir::Location getLocation(const Where &where) const;
  mlir::Type getType(ElementType element) const;
  nd::NamedTensorType getType(ElementType element,
                              std::span<const Dim> dims) const;
  /// Of the value `name` of the scope that is open.
  nd::OriginAttr getOriginOf(const std::string &name) const;
  std::string getFullName(const std::string &name) const {
    return getOriginOf(name).getText();
  }

  /// `origin`, its name followed by "_2" and so on where another value has it.
  nd::OriginAttr makeUnique(nd::OriginAttr origin);

  /// Whether a tensor of this type may be: distinct dimensions, not too many,
  /// known sizes, bytes that fit 64 bits, and the program not too large. Counts
  /// its bytes.
  bool checkType(ElementType element, std::span<const Dim> dims,
                 const Where &where);
  /// Declares a dimension that a tensor uses; false if it has another size.
  bool checkDim(const Dim &dim, const Where &where);
  /// The union of the operands' dimensions, in order of first occurrence.
  static std::vector<Dim> unite(std::span<const Tensor> operands);
  /// The same for an elementwise result, which is stored like its largest
  /// operand: a mask or bias written first does not turn the tensor around.
  static std::vector<Dim> uniteLargestFirst(std::vector<Tensor> operands);

  __int128 bytes = 0; ///< of all tensors, those of each iteration of loops

  /// Of values, as far as they were asked for.
  llvm::DenseMap<mlir::Value, Origin> origins;
  Origin findOrigin(mlir::Value value);

  /// What is open while an initial value is built.
  struct Outside {
    mlir::OpBuilder::InsertPoint place;
    std::vector<Loop> loops;
    std::vector<Dim> stacked; ///< the loops' of the variable
    mlir::Block *block;       ///< of @init
    mlir::Operation *last;    ///< of it before; null if it was empty
  };
  std::optional<Outside> outside;
  nd::ProgramOp init; ///< null as long as nothing is in it
  std::map<std::string, mlir::Value, std::less<>> initials; ///< in @init
  mlir::Attribute getInit(const Initializer &initializer) const;
  /// Whether the variable `name` starts as this says, draws of whatever name.
  bool startsAs(std::string_view name, const Initializer &initializer);
  /// Has @init start `parameter` as its `value`.
  void setInitial(const std::string &parameter, nd::NamedTensorType type,
                  Tensor value, mlir::Location location);
  /// Takes out of @init what no variable starts as: values that were compared
  /// with the one that theirs starts as.
  void finishInitials();

  Tensor addNode(mlir::Value value, ElementType element, std::vector<Dim> dims,
                 const Where &where);

  /// Creates an operation with one result after checking the result's type;
  /// `arguments` are those of Op::create after the result type.
  template <typename Op, typename... Arguments>
  Tensor create(const Where &where, ElementType element, std::vector<Dim> dims,
                Arguments &&...arguments) {
    if (!checkType(element, dims, where))
      return {};
    auto op = Op::create(operations, getLocation(where),
                         mlir::Type(getType(element, dims)),
                         std::forward<Arguments>(arguments)...);
    return addNode(op->getResult(0), element, std::move(dims), where);
  }

  static mlir::Value getValue(Tensor tensor);
  static BuilderState &of(Builder &builder) { return *builder.state; }

  void finishRules();
  void finishVariables();
  void finishTraining();
  void finishData();
};

/// Whether `value` is an integer of this type, which is no float.
bool holds(ElementType type, int64_t value);

/// Whether `x`, operand of `what`, has the dimension `name`. An error stands at
/// operand `position`.
bool checkHasDim(BuilderState &state, std::string_view what, Tensor x,
                 const std::string &name, int position, const Where &where);

} // namespace meshc::frontend

#endif
