#ifndef MESHC_FRONTEND_ELABORATE_ELABORATOR_H
#define MESHC_FRONTEND_ELABORATE_ELABORATOR_H

/// Runs a spec at compile time: definitions give sizes and numbers, the model's
/// statements and the functions they call give operations, built through a
/// Builder. Functions have no types of their own; each call is elaborated with
/// the types of its arguments, and an error inside names the calls that led
/// there.
///
/// A value that is in error is poison: whatever is computed from it is poison
/// too, and silent, so that one mistake is reported once.

#include "frontend/Builder.h"
#include "frontend/elaborate/BlockText.h"
#include "frontend/elaborate/Numbers.h"
#include "frontend/elaborate/Position.h"
#include "frontend/syntax/Ast.h"
#include "frontend/syntax/Diagnostics.h"

#include <deque>
#include <limits>
#include <optional>
#include <utility>

namespace meshc::frontend {

/// What a name or expression stands for. Dims serve as their size where a
/// number is needed, if there is one.
struct Poison {};
using Dims = std::vector<Dim>;
using Value = std::variant<Poison, Number, bool, Dims, Tensor>;

inline bool isPoison(const Value &value) {
  return std::holds_alternative<Poison>(value);
}
/// A null tensor is poison: its error has been reported.
inline Value orPoison(Tensor tensor) {
  return tensor ? Value(tensor) : Value(Poison());
}
/// "a number", "a tensor": for messages.
std::string_view describe(const Value &value);

/// A parsed spec with everything it imports, and what replaces parts of it.
struct SpecTrees {
  std::vector<ast::File> files;   ///< the spec itself last
  std::vector<ast::File> library; ///< standard library
  std::vector<ast::Definition> overrides;
  std::optional<std::vector<ast::Definition>> mesh;
  std::optional<std::vector<ast::LayoutRule>> layout;
  ast::ExprPtr precision;                 ///< null: the spec's
  std::vector<ast::StringExpr> recompute; ///< empty: as the spec says
};

class Elaborator {
public:
  Elaborator(const SpecTrees &trees, Builder &builder,
             Diagnostics &diagnostics);

  /// Builds the whole program; errors are in the diagnostics.
  void run();

private:
  struct Binding {
    Value value;
    Span span;
  };
  struct LoopBlock;
  /// A call whose variables another one can have.
  struct SharedCall {
    const ast::Function *function;
    Builder::ScopeId scope;
    Span span;
  };
  /// State that a body declares, and its value before the statements.
  struct DeclaredState {
    ast::Name name;
    Tensor start;
  };
  /// One call of a function, or the model.
  struct Frame {
    const ast::Function *function = nullptr; ///< null in the model
    Span call;
    Frame *caller = nullptr;
    std::map<std::string_view, Binding> bindings = {};
    LoopBlock *block = nullptr; ///< the innermost one around the statement
    /// What the statement binds; "return" of a return. Random numbers in it are
    /// called so.
    std::string_view target = {};
    int numBlocks = 0; ///< loops and branches around it
    /// Calls that others can have the variables of, by the names of scopes.
    std::map<std::string, SharedCall, std::less<>> calls = {};
    bool isRefused = false; ///< by an `assert`: nothing more is executed
    /// The dims that the call has made, by their names in the program.
    std::vector<std::string> dims = {};
    /// State of the blocks that have not ended.
    std::vector<DeclaredState> states = {};
  };
  /// A dim or number defined at the top level.
  struct Global {
    const ast::Definition *definition;
    bool isDim;
    enum class State : uint8_t { Unresolved, Resolving, Resolved } state;
    Value value;
    NamedSetting *setting = nullptr; ///< of a number
  };
  /// What a call gives: one value, or several that a statement binds.
  using Values = std::vector<Value>;
  /// The arguments of a call by parameter; null where none is given.
  using Arguments = std::vector<const ast::Argument *>;
  struct Builtin;
  /// An expression that an operation was applied to, for messages.
  struct Operand {
    Span span;
    Tensor value = {};
  };

  // Errors and places (Elaborator.cpp).
  Diagnostic &error(Code code, Span span, std::string message);
  /// Says of what was reported which calls led to its place.
  void addCalls(Diagnostic &reported, Span span);
  /// The place of a span, or of the user's call if it is in the library.
  Span getUserSpan(Span span) const;
  Where getWhere(Span span) const;
  /// Passes on the errors that the builder found in its last operation.
  Tensor checked(Tensor result, const std::vector<Operand> &operands = {});
  void reportBuildErrors(const std::vector<Operand> &operands);
  /// Counts one step of elaboration; false when the program is too large.
  bool countStep(Span span);
  bool mustStop() const { return aborted || diagnostics.isFull(); }

  // Definitions (Definitions.cpp).
  void declare();
  void declareFunctions(const std::vector<ast::File> &files, bool isLibrary);
  void applyOverrides();
  void reportPrime(const ast::Name &name);
  void checkFunction(const ast::Function &function);
  void resolveDefinitions();
  /// Declares the dims whose sizes are known.
  void buildDims();
  Value resolve(std::string_view name, Global &global);
  /// The size that `value` is of the dimension `name`; nothing after an error.
  std::optional<int64_t> getSize(const ast::Name &name, const Value &value,
                                 Span span);
  void buildMesh();
  bool isAxisOfOption(std::string_view name) const;
  /// Notes a rule of the spec with axes that the mesh of the command line
  /// lacks.
  void checkAxes(const ast::LayoutRule &rule);
  /// Reports the rules noted. They lack together what the command line lacks:
  /// one error, and the option that mends it.
  void reportLackingAxes();
  bool adviseAxes(Diagnostic &reported,
                  std::vector<std::string_view> missing) const;
  void buildLayout();
  RuleSpec getRule(const ast::LayoutRule &rule);
  std::string getLayoutOfOption() const;
  std::vector<std::string> getDimNames() const;

  // Bodies (Bodies.cpp).
  void buildModel(const ast::Model &model);
  /// Executes the statements; the values returned, if there are.
  std::optional<Values> execute(const std::vector<ast::Statement> &body);
  std::optional<Values>
  executeStatements(const std::vector<ast::Statement> &body);
  void execute(const ast::VariableStatement &variable);
  /// Ends the body that declared the states from `first` on: in the training
  /// step what their names are bound to is what they are after it.
  void keepStates(size_t first);
  void keepState(const DeclaredState &state);
  /// Reports a statement that would give the name of state to something else.
  bool checkNoState(const ast::Name &name, std::optional<Span> keyword = {});
  void execute(const ast::OutputStatement &output);
  std::optional<Dims> evaluateOrder(const ast::TypeExpr &order,
                                    const ast::Name &name, Tensor value);
  /// False if it does not hold.
  bool execute(const ast::AssertStatement &assertion);
  std::optional<ElementType> getElementType(const ast::Name &name);
  /// The dims that a type names; all of its errors are reported.
  std::optional<Dims> getDims(const std::vector<ast::Name> &names);
  std::optional<Dims> getDims(const std::vector<ast::ExprPtr> &names);
  /// The elements of a variable; without a type of its own, those of the
  /// parameter that is updated.
  ElementType getFloatOfArguments() const;
  std::optional<ElementType>
  getElementType(const ast::VariableStatement &variable);
  std::optional<Initializer> getInitializer(const ast::Expr &expr);

  // What statements bind (Bindings.cpp).
  void execute(const ast::LetStatement &let);
  void execute(const ast::DimStatement &dim);
  /// Evaluates an expression whose value the statement names.
  Value evaluateBound(const ast::Expr &expr);
  /// One value for each name.
  Values evaluateFor(const ast::LetStatement &let);
  void checkName(const ast::LetStatement &let, const ast::Name &name);
  /// `value` as what the type of a `let` says: numbers become tensors. Poison
  /// after an error.
  Value toType(const ast::ParameterType &type, const ast::Name &name,
               const Value &value, Span span);
  /// Reports a name that is bound where a block binds it; `keyword` is "let",
  /// if it does so by that.
  void checkNew(const ast::Name &name, std::optional<Span> keyword = {});
  void reportSeveral(const ast::CallExpr &call, size_t count);

  // Branches (Branches.cpp).
  void execute(const ast::IfStatement &branch);
  /// Whether the condition of an `if` holds; nothing after an error.
  std::optional<bool> evaluateCondition(const ast::Expr &condition);
  /// The branches of a loop that the compiler knows before an iteration.
  Branches decideBranches(const ast::LoopStatement &loop);
  void decide(const std::vector<ast::Statement> &body, Branches &branches);
  bool isKnown(const ast::Expr &expr);

  // What parameters start as (Initializers.cpp).
  /// Of parameters of this type.
  std::optional<Initializer>
  getInitializer(const ast::Expr &expr, ElementType element, const Dims &dims);
  /// Whether `expr` is none of the initializers that have names, nor spelled
  /// like one that there is not.
  bool isExpression(const ast::Expr &expr);
  std::optional<Initializer> getNamedInitializer(const ast::Expr &expr,
                                                 ElementType element);
  std::optional<Initializer> getFill(double value, ElementType element,
                                     Span span);

  // Loops (Loops.cpp).
  void execute(const ast::LoopStatement &loop);
  std::optional<Dim> evaluateLoopDim(const ast::LoopStatement &loop);
  void execute(const ast::PlaceStatement &place);
  /// Adds the value to a sum of the block around it; false if it is of none.
  bool addToSum(const ast::LetStatement &let);
  /// Ends the loop of `block` and binds its results.
  void finishLoop(const ast::LoopStatement &loop, LoopBlock &block);
  Builder::LoopValue getLoopValue(const ast::Name &name, const Value &value,
                                  ElementType hint);

  // Data (DataBlock.cpp).
  void buildData(const ast::Data &data);
  void buildBinding(const ast::Name &over, const ast::DataBinding &binding);
  /// Sets what an argument of a data reader says; false after an error.
  bool setDataArgument(DataSpec &spec, std::string_view parameter,
                       const ast::Expr &value);

  // Training (Training.cpp).
  void buildTraining(const ast::Train &train);
  void setPrecision(const ast::Expr &expr);
  std::optional<int64_t> getCount(const ast::Setting &setting);

  // Steps of parts (StepRecipe.cpp).
  /// Where a training step is made of parts, gives the dim that counts samples,
  /// and all that is made of its size, the size that it has in a part.
  void findParts(const ast::Train *train, const ast::Data *data);
  std::optional<int64_t> getNumParts(const ast::Setting &setting,
                                     const ast::Data *data);
  /// Reports parts that do not divide what each device has of the batch.
  void checkParts();
  /// Behind the model: dims and numbers have the sizes of the whole batch.
  void useWholeBatch();

  // What becomes of parameters (Optimizers.cpp).
  /// An optimizer of a train block, and the setting that calls it.
  struct Optimizer {
    const ast::CallExpr *call;
    const ast::Function *function;
    const ast::Setting *setting;
  };
  /// What a train block says of parameters: settings that may stand there
  /// several times.
  struct Recipe {
    std::vector<Optimizer> optimizers;
    std::vector<const ast::Setting *> minimized, frozen, recomputed;
    const ast::Setting *clip = nullptr, *means = nullptr;
  };
  /// The optimizer that a setting calls; nothing after an error.
  std::optional<Optimizer> getOptimizer(const ast::Setting &setting);
  void reportUnknownOptimizer(const ast::Name &name);
  /// "adam(lr = 0.001, beta1 = 0.9)", with the numbers that are known.
  std::string describeOptimizer(const Optimizer &optimizer);
  /// Whether a parameter is called so.
  bool checkPattern(const ast::StringExpr &pattern);
  /// All names of a setting whose value is one.
  static std::vector<const ast::StringExpr *>
  getNames(const ast::Setting &line);
  /// Whether lines that freeze name parameters.
  bool checkFrozen(const std::vector<const ast::Setting *> &lines);
  /// Whether one of the lines that freeze names the parameter.
  static bool isFrozen(const std::vector<const ast::Setting *> &lines,
                       std::string_view parameter);
  /// Checks that one setting of `lines` at most is for all parameters, and that
  /// each pattern is the name of one.
  bool checkPatterns(const std::vector<const ast::Setting *> &lines);
  /// The first of `lines` that is for a parameter: by a pattern, else the one
  /// without. Null: none.
  static const ast::Setting *
  findLine(const std::vector<const ast::Setting *> &lines,
           std::string_view parameter);
  /// Which parameters the outputs behind the first are minimized for.
  std::vector<ObjectiveSpec> getObjectives(const Recipe &recipe);
  /// Elaborates the optimizers of all parameters that are not frozen.
  void buildUpdates(const Recipe &recipe);
  void buildUpdate(const Optimizer &optimizer, const std::string &parameter);
  /// Gives out what a schedule makes of the rate of an optimizer, as "adam/lr".
  void buildRate(const Optimizer &optimizer, const std::string &parameter,
                 std::string_view name);
  /// The scopes of which parts are computed again; nothing after an error.
  std::optional<std::vector<std::string>>
  getRecomputed(const std::vector<const ast::Setting *> &lines);
  /// Keeps running means of the parameters; false after an error.
  bool buildMeans(const ast::Setting &means);
  /// Bounds the gradients of these parameters.
  void buildClip(const ast::Setting &clip,
                 const std::vector<std::string> &parameters);

  // Numbers that are set when a training starts (Settings.cpp).
  /// A number of the spec under its name.
  Number nameNumber(std::string_view name, Global &global,
                    const Number &number);
  /// Whether a comparison of numbers holds; where it hangs on settings, only
  /// such as it comes out the same of can be set.
  bool compare(Comparison comparison, const Number &lhs, const Number &rhs);
  /// A number that an update computes with.
  Tensor toSetting(const Number &number, ElementType type, const Where &where);
  /// Behind the updates: which numbers can be set.
  void finishSettings();

  // Expressions (Expressions.cpp).
  Value evaluate(const ast::Expr &expr);
  /// The values of a call, or the one of any other expression; nothing after an
  /// error.
  std::optional<Values> evaluateAll(const ast::Expr &expr);
  /// Whether another evaluation may begin; it ends with --depth.
  bool beginEvaluation(Span span);
  /// The same where a dim stands for its positions, or for its size.
  Value evaluateIn(bool isIndex, const ast::Expr &expr);
  Value evaluateKind(const ast::Expr &expr);
  Value evaluateName(const ast::NameExpr &expr);
  Value evaluateUnary(const ast::UnaryExpr &expr);
  Value evaluateChain(const ast::ChainExpr &expr);

  // Elements by position (Index.cpp).
  struct Index;
  struct IndexStep;
  Value evaluateIndex(const ast::IndexExpr &expr);
  /// Where dims are read: one place, or one for each dim of a list that goes in
  /// step. Nothing after an error.
  std::optional<std::vector<Index>> evaluateIndices(const ast::Expr &expr);
  std::optional<std::vector<Index>> toIndices(const Value &value, Span span);
  std::optional<std::vector<Index>> getSizes(const ast::Expr &expr);
  std::optional<std::vector<Index>> round(const ast::Expr &expr, bool isUp);
  /// What an operand of an index computes with, where dims are positions: a
  /// number or a tensor.
  Value evaluatePlace(const ast::Expr &expr);
  std::optional<std::vector<Index>>
  combine(ast::Operator op, const std::vector<Index> &lhs, Span lhsSpan,
          const std::vector<Index> &rhs, Span rhsSpan);
  Index combine(ast::Operator op, const Index &lhs, Span lhsSpan,
                const Index &rhs, Span rhsSpan);
  static bool isArithmetic(ast::Operator op);
  /// Whether an expression is computed as positions in an index.
  static bool isPlace(const ast::Expr &expr);
  /// A place as a number or as a tensor of integers of `type`.
  Value toValue(const Index &index, Span span, ElementType type);
  std::optional<Position> toPosition(const Index &index, Span span);
  bool checkNumbers(const Position &position, Span span);
  Tensor setApart(Tensor x, const IndexStep &step,
                  std::vector<IndexStep> &steps, const Where &where);
  Tensor readPositions(Tensor x,
                       const std::vector<std::pair<Dim, Position>> &positions,
                       bool isPadded, Tensor *inside,
                       const std::vector<Operand> &operands,
                       const Where &where);
  Value readElements(const ast::IndexExpr &expr, Tensor x,
                     std::vector<IndexStep> steps,
                     const std::optional<Value> &otherwise,
                     const std::vector<Operand> &operands);

  Value apply(ast::Operator op, const Value &lhs, Span lhsSpan,
              const Value &rhs, Span rhsSpan);
  Value applyToNumbers(ast::Operator op, const Number &lhs, const Number &rhs,
                       Span span);
  Value applyToTruths(ast::Operator op, bool lhs, bool rhs, Span span);
  Tensor applyToTensors(ast::Operator op, Tensor lhs, Tensor rhs,
                        const Where &where);
  /// Notes a result of floats with dims of each operand that the other lacks:
  /// likelier a mistake than an outer product, which einsum and broadcast say.
  void noteOuter(std::string_view what, const Tensor &result, Span span,
                 const Operand &lhs, const Operand &rhs);
  /// A binding in the frame, a definition, or null.
  const Value *lookUp(std::string_view name, Span *definedAt = nullptr);
  const Value *lookUpPrimed(std::string_view name, Span *definedAt);
  std::vector<std::string> getNamesInScope() const;

  /// The number a value is, if it is one or dims: their sizes multiplied,
  /// nothing where 64 bits do not hold that.
  static std::optional<Number> getNumber(const Value &value);
  std::optional<Number> evaluateNumber(const ast::Expr &expr,
                                       std::string_view what);
  /// `value` as a tensor, numbers as constants of type `hint`. Null after an
  /// error, or silently for poison.
  Tensor toTensor(const Value &value, Span span, ElementType hint);
  /// The type of a number that is computed with beside `tensor`. Elements for
  /// data are refused there: the number, whatever it is, then has nothing
  /// wrong.
  static ElementType getOperandType(Tensor tensor);
  Tensor evaluateTensor(const ast::Expr &expr, std::string_view what);
  /// The dims that an expression names; nothing after an error.
  std::optional<Dims> evaluateDims(const ast::Expr &expr,
                                   std::vector<Operand> *spans = nullptr);
  std::optional<Dim> evaluateDim(const ast::Expr &expr);
  std::optional<Dims> lookUpDims(std::string_view name, Span span);

  // Calls (Calls.cpp).
  std::optional<Values> evaluateCall(const ast::CallExpr &call);
  /// The first parameters of the function are bound to what is `given`.
  std::optional<Values> callFunction(const ast::CallExpr &call,
                                     const ast::Function &function,
                                     const std::vector<Binding> &given = {});
  /// The call whose variables a call of `function` is to have; null after an
  /// error.
  const SharedCall *findShared(const ast::Name &name,
                               const ast::Function &function);
  /// Makes poison of what has dims that the call in `frame` has made.
  void checkResults(const ast::Function &function, Values &results);
  const ast::Function *findFunction(std::string_view name) const;
  void reportUnknownFunction(const ast::Name &callee);
  /// Assigns arguments to parameters by position and name; nothing after an
  /// error. Parameters from `numRequired` on may be left out.
  std::optional<Arguments> bind(const ast::CallExpr &call,
                                const std::vector<std::string> &parameters,
                                size_t numRequired);

  // What functions ask of their arguments (Requirements.cpp).
  /// Checks what the parameters of the call in `frame` are bound to, which was
  /// written in `caller`. What a parameter does not take becomes poison.
  void checkArguments(Frame *caller);
  bool checkArgument(const ast::Parameter &parameter, Binding &binding,
                     Frame *caller);
  bool checkShape(const ast::Parameter &parameter, const Binding &binding,
                  Frame *caller);
  /// "stride" is 0, "over" is "y" of 5 positions: what a truth is about.
  std::string describeNames(const ast::Expr &expr);

  // Functions that are not written in the language (Builtins.cpp).
  static const std::vector<Builtin> &getBuiltins();
  static const Builtin *findBuiltin(std::string_view name);
  Value callEinsum(const ast::CallExpr &call, const Arguments &);
  Value callRename(const ast::CallExpr &call, const Arguments &);
  Value callReshape(const ast::CallExpr &call, const Arguments &);
  bool checkReshape(Tensor x, const std::vector<Dim> &from,
                    const std::vector<Dim> &to,
                    const std::vector<Operand> &read,
                    const std::vector<Operand> &made);
  Value callBroadcast(const ast::CallExpr &call, const Arguments &);
  Value callUnary(const ast::CallExpr &call, const Arguments &arguments);
  Value callExtremum(const ast::CallExpr &call, const Arguments &arguments);
  Value callRounding(const ast::CallExpr &call, const Arguments &arguments);
  std::optional<Number> roundNumber(const Number &x, bool isUp, Span span);
  Value callSize(const ast::CallExpr &call, const Arguments &arguments);
  Value callCount(const ast::CallExpr &call, const Arguments &arguments);
  Value callLargest(const ast::CallExpr &call, const Arguments &arguments);
  Value callKnown(const ast::CallExpr &call, const Arguments &arguments);
  Value callReduce(const ast::CallExpr &call, const Arguments &arguments);
  Value callArgReduce(const ast::CallExpr &call, const Arguments &arguments);
  Value callGather(const ast::CallExpr &call, const Arguments &arguments);
  Value callIota(const ast::CallExpr &call, const Arguments &arguments);
  Value callDims(const ast::CallExpr &call, const Arguments &arguments);

  // Random numbers (RandomNumbers.cpp).
  Value callRandom(const ast::CallExpr &call, const Arguments &arguments);
  Value callWhere(const ast::CallExpr &call, const Arguments &arguments);
  Value callCast(const ast::CallExpr &call, const Arguments &arguments);

  const SpecTrees &trees;
  Builder &builder;
  Diagnostics &diagnostics;
  const SourceSet &sources;

  std::map<std::string_view, Global> globals;
  std::vector<std::string_view> globalOrder;
  std::vector<std::string_view> resolvedDims; ///< in the order of their sizes
  /// The parts that a step is made of.
  struct Parts {
    const ast::Setting *setting = nullptr; ///< that says so
    Dim batch = {};                        ///< the whole one
    int64_t wanted = 1, number = 1; ///< 1 where those wanted do not divide it
    std::map<std::string_view, Value> whole; ///< globals with the whole batch
  };
  Parts parts;
  /// Whether what was evaluated last reads a dim that has another size in a
  /// part.
  bool readsParted = false;
  std::map<std::string_view, const ast::Definition *> overrides;
  std::map<std::string_view, const ast::Function *> functions, library;
  /// What the names d' of dims d stand for, by the names of the dims.
  std::map<std::string, Value> primed;
  /// What names stand for that nobody defines.
  const std::map<std::string_view, Value> predefined = {
      {"inf", Number::of(std::numeric_limits<double>::infinity())},
      {"true", true},
      {"false", false}};
  /// Whether the model is elaborated for the training step. If nothing reads
  /// it, and there is no state, that has the same program.
  Value training = false;
  bool hasTrainingProgram = false;
  /// What an optimizer is elaborated for, and of which elements it is.
  std::optional<std::string> updated;
  ElementType updatedElement = ElementType::F32;
  /// Calls of optimizers that were written as names.
  std::vector<std::unique_ptr<ast::CallExpr>> optimizerCalls;
  Value step;                        ///< in updates, once it was read
  std::deque<NamedSetting> settings; ///< each behind those in its value
  std::map<std::string, Tensor> settingInputs; ///< by type and expression
  /// Numbers whose tensors they are.
  std::vector<std::pair<Number, Tensor>> computedSettings;
  struct Requirement {
    std::string expression;
    std::vector<NamedSetting *> settings;
  };
  std::vector<Requirement> requirements; ///< of settings, that hold

  bool hasMesh = false; ///< false after an error in it
  const std::vector<ast::LayoutRule> *layoutRules = nullptr;
  /// Rules of the spec with axes that the mesh of the command line lacks.
  std::vector<const ast::LayoutRule *> lacking;
  Frame *frame = nullptr;
  /// Of the parameter whose initial value is evaluated: what a draw in it has
  /// that says nothing else.
  std::optional<Dims> initialDims;
  /// The expression whose value gets a name from the statement it stands in.
  const ast::Expr *bound = nullptr;
  /// Whether what is evaluated stands in an index, where a dim is its
  /// positions.
  bool isInIndex = false;
  int depth = 0; ///< of nested evaluations
  size_t numSteps = 0;
  bool aborted = false;
};

} // namespace meshc::frontend

#endif
