#ifndef MESHC_FRONTEND_BUILDER_H
#define MESHC_FRONTEND_BUILDER_H

/// Builds programs on tensors with named dimensions from C++. The spec language
/// is elaborated through this; so there is one place that checks a program, and
/// both kinds of user get the same errors.
///
///   Builder builder;
///   builder.setMesh({{"data", 2}, {"model", 2}});
///   Dim batch = builder.dim("batch", 6), in = builder.dim("in", 5),
///       out = builder.dim("out", 3);
///   builder.addRule("batch -> data");
///   Tensor x = builder.input("x", ElementType::F32, {batch, in});
///   Tensor w = builder.parameter("w", ElementType::F32, {in, out},
///                                Initializer::normal(0, 0.05));
///   builder.output("y", builder.einsum({x, w}, {batch, out}));
///
/// A method that finds its arguments wrong records an error and returns a null
/// tensor; operations on null tensors return null without an error of their
/// own, so one mistake is reported once. Every method takes the caller's file
/// and line as the place of what it builds.
///
/// This header has no MLIR types; frontend/BuilderModule.h takes the module
/// out.

#include "frontend/syntax/Diagnostics.h"
#include "layout/Access.h"
#include "layout/Layout.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace mlir {
class MLIRContext;
}

namespace meshc::frontend {

enum class ElementType : uint8_t { F32, F64, I32, I64, Bool, U8, I8, I16 };

/// "f32", "bool", as in specs.
std::string_view getName(ElementType type);
bool isFloat(ElementType type);
/// Whether elements of a type are moved, compared, indexed with and converted,
/// but not computed with: u8, i8, i16.
bool isForData(ElementType type);
int64_t getByteSize(ElementType type);

struct Dim {
  std::string name;
  int64_t size = 1;

  bool operator==(const Dim &) const = default;
};

/// `dim` of what an index reads, where the index has the dimension itself: no
/// spec can write this name, so that no rule splits it.
Dim asRead(const Dim &dim);

/// A place in the user's program. Lines and columns count from 1, endColumn is
/// one past the last character; column 0 means the whole line.
struct Where {
  std::string file;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0;
  Span span; ///< the same place, when it is in a spec

  static Where at(const char *file, int line) {
    return {file, uint32_t(line), 0, uint32_t(line), 0, {}};
  }
};

/// The default for the `where` of every method: the line of the caller.
#define MESHC_HERE                                                             \
  ::meshc::frontend::Where::at(__builtin_FILE(), __builtin_LINE())

/// What is wrong with one use of the builder.
struct BuildError {
  Code code = Code::Refused;
  std::string message;
  Where where;
  int operand = -1; ///< position of the operand at fault, or -1
  std::string suggestion;
  /// A fix: what the operation may say before its closing bracket, and why.
  std::string insertion, insertionReason;
  std::vector<std::pair<Where, std::string>> related;
  std::vector<std::string> notes;
  std::vector<std::string> helps;
};

/// A value of the program; a handle that is valid as long as its builder.
class Tensor {
public:
  Tensor() = default;
  explicit operator bool() const { return node != nullptr; }
  ElementType getElementType() const;
  std::span<const Dim> getDims() const;
  bool hasDim(std::string_view name) const;
  bool operator==(const Tensor &) const = default;

private:
  friend class Builder;
  friend struct BuilderState;
  struct Node;
  explicit Tensor(const Node *node) : node(node) {}
  const Node *node = nullptr;
};

/// What a value is made of at most: numbers and positions alone, parameters
/// too, inputs too.
enum class Origin : uint8_t { Numbers, Parameters, Inputs };

/// "f32[batch, pixel]"
std::string toString(ElementType element, std::span<const Dim> dims);

/// How the elements of a parameter start, or how random numbers are
/// distributed.
struct Initializer {
  /// A truncated normal number lies within two deviations of the mean.
  enum class Kind : uint8_t {
    Fill,
    Normal,
    Uniform,
    TruncatedNormal,
    Computed
  };
  Kind kind = Kind::Fill;
  double first = 0;  ///< value; mean; low; unused
  double second = 0; ///< unused; standard deviation; high; unused
  Tensor value = {}; ///< computed, for each position of its dims

  static Initializer fill(double value) { return {Kind::Fill, value, 0}; }
  static Initializer normal(double mean, double stddev) {
    return {Kind::Normal, mean, stddev};
  }
  static Initializer uniform(double low, double high) {
    return {Kind::Uniform, low, high};
  }
  static Initializer truncatedNormal(double mean, double stddev) {
    return {Kind::TruncatedNormal, mean, stddev};
  }
  /// What Builder::endInitial gives.
  static Initializer computed(Tensor value) {
    return {Kind::Computed, 0, 0, value};
  }
};

/// A dimension of a tensor and the one, of the same size, that it becomes.
struct Renaming {
  Dim from, to;
};

/// Where one dimension of a tensor is read: `form` of the loops `loops`, by
/// their places there.
struct ViewAccess {
  Dim dim;
  layout::Access form;
  std::vector<Dim> loops;
};

enum class Comparison : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
enum class Reduction : uint8_t { Sum, Max, Min, Mean };
enum class Extreme : uint8_t { Max, Min };

struct MeshAxisSpec {
  std::string name;
  int64_t size = 1;
  Where where = {};
};

/// A line of the layout. From C++ its names have no places.
struct RuleSpec {
  layout::LayoutRule rule;
  Where where = {};
  std::map<layout::RuleName, Where> wheres = {};

  /// Of this name, or of the rule.
  const Where &getWhere(layout::RulePart part, size_t index) const {
    auto found = wheres.find({part, index});
    return found == wheres.end() ? where : found->second;
  }
};

/// What feeds an input (DataReaders.h has the readers, with what each takes).
struct DataSpec {
  std::string input;
  std::string over; ///< the dim that counts samples
  std::string reader;
  std::string train, test; ///< without `test` nothing can be evaluated
  int64_t stride = 0;      ///< 0: as long as a window
  std::string units;
  std::vector<std::string> columns;
};

/// An output that the gradients of some parameters are of.
struct ObjectiveSpec {
  std::string output;
  std::vector<std::string> parameters;
  Where where = {};
};

/// Without an optimizer, epochs and steps it says no more than what gradients
/// are of.
struct TrainingSpec {
  std::string minimize;
  /// As the user calls it, with hyper-parameters, for messages. What it does is
  /// built between Builder::beginUpdates and finish.
  std::string optimizer;
  int64_t epochs = 0;
  int64_t steps = 0; ///< 0: epochs decide
  int64_t parts = 1; ///< that a step is made of
  /// Patterns of scopes that the backward phase computes again.
  std::vector<std::string> recompute = {};
  Where minimizeWhere = {};
  /// Of parameters whose gradients are of another output than `minimize`.
  std::vector<ObjectiveSpec> others = {};
};

/// In which floats a program computes what it declares as f32.
struct PrecisionSpec {
  std::string name = "f32"; ///< f32, bf16 or fp16
  // Of fp16 alone (passes/LossScale.h).
  double scale = 65536; ///< of the loss at the start; a power of two
  int64_t growthSteps = 2000;
};

class Builder {
public:
  /// At most this many operations in one program.
  static constexpr size_t maxOperations = 100'000;
  /// At most this many bytes in all tensors of a program, unsplit: with
  /// gradients and the optimizer's state, an executable can hold them (at most
  /// 2^56 bytes per device).
  static constexpr int64_t maxBytes = int64_t(1) << 52;
  /// At most this many dimensions of one tensor.
  static constexpr size_t maxDims = 64;

  /// With a context of its own, or in the given one.
  Builder();
  explicit Builder(mlir::MLIRContext &context);
  ~Builder();
  Builder(const Builder &) = delete;
  Builder &operator=(const Builder &) = delete;

  // Declarations.
  void setMesh(std::vector<MeshAxisSpec> axes, const Where &where = MESHC_HERE);
  Dim dim(const std::string &name, int64_t size,
          const Where &where = MESHC_HERE);
  /// The same of a dimension of the scope that is open, called scope/name: no
  /// rule names it.
  Dim ownDim(const std::string &name, int64_t size,
             const Where &where = MESHC_HERE);
  /// "batch -> data", "params: * -> data": a line as a spec has it.
  void addRule(std::string_view text, const Where &where = MESHC_HERE);
  void addRule(RuleSpec rule, const Where &where = MESHC_HERE);
  /// Into how many blocks the rules so far split a dimension.
  int64_t getNumBlocks(const std::string &dim) const;
  /// Has the programs compute one of so many parts of a training step; `dims`
  /// are those that have only the positions of a part. Ahead of the model.
  void setParts(int64_t number, std::set<std::string, std::less<>> dims);
  /// One more of these.
  void addParted(const std::string &dim);
  /// Whether it is one of these, or has the size of one, as d' has that of d.
  bool isParted(std::string_view dim) const;
  /// The calls and loops of the model so far, without iterations, with those
  /// around them: "layer/attn".
  const std::set<std::string, std::less<>> &getScopes() const;
  void data(DataSpec data, const Where &where = MESHC_HERE);
  void training(TrainingSpec training, const Where &where = MESHC_HERE);
  void precision(const PrecisionSpec &precision,
                 const Where &where = MESHC_HERE);

  /// What loops carry counts as made of inputs.
  Origin getOrigin(Tensor x);

  // Border of the program.
  Tensor input(const std::string &name, ElementType type,
               const std::vector<Dim> &dims, const Where &where = MESHC_HERE);
  /// Says that there is an input of this name, though its type is in error:
  /// what refers to it is not.
  void declareInput(const std::string &name, const Where &where = MESHC_HERE);
  /// Begins what a parameter of these dimensions starts as: until endInitial
  /// values are computed once, before the first step, and belong to no loop.
  /// Returns the dimensions of the parameter, those of loops around first.
  std::vector<Dim> beginInitial(const std::vector<Dim> &dims);
  /// Ends it: the parameter can start as `value`, broadcast to its dimensions,
  /// if that is made of numbers, positions and random numbers alone. Null after
  /// an error, and of null.
  Tensor endInitial(Tensor value, ElementType type,
                    const std::vector<Dim> &dims,
                    const Where &where = MESHC_HERE);
  /// A few names belong to the programs and states of the module.
  Tensor parameter(const std::string &name, ElementType type,
                   const std::vector<Dim> &dims, Initializer initializer,
                   const Where &where = MESHC_HERE);
  /// State of the model: no gradient changes it, and the training step may set
  /// it. What it was when the program started; in a scope with the variables of
  /// another what that has set, if it did. Integers and truths can be state.
  Tensor modelState(const std::string &name, ElementType type,
                    const std::vector<Dim> &dims, Initializer initializer,
                    const Where &where = MESHC_HERE);
  /// Sets a state of the scope, in the program of the training step: `value`,
  /// of its type, is what it is after the step. In a loop each iteration sets
  /// its own. An error in any other program, and of what is no state.
  void setModelState(const std::string &name, Tensor value,
                     const Where &where = MESHC_HERE);
  /// `order`: how its dims stand in a file, all of them; empty: as in its type.
  void output(const std::string &name, Tensor value,
              const Where &where = MESHC_HERE,
              const std::vector<Dim> &order = {});

  /// Begins the program of the training step, of the same model elaborated for
  /// training: inputs, outputs and values are built once more, and parameters
  /// are those that there are.
  void beginTraining();

  // How a training changes parameters, one after the other, behind the model.
  /// Begins the program of the updates, of a model without errors; `training`
  /// has been said.
  void beginUpdates();
  /// The model's parameters, in the order in which they are declared.
  std::vector<std::string> getParameters() const;
  /// Bounds gradients, before updates are built: where all of these parameters'
  /// gradients together have a norm above `limit`, they are scaled down to it.
  void clipNorm(const std::vector<std::string> &parameters, double limit,
                const Where &where = MESHC_HERE);
  /// Each element of a gradient lies in [-limit, limit].
  void clipValue(double limit);
  /// Beside each parameter that is updated behind this there is its running
  /// mean, decay * mean + (1 - decay) * parameter, which starts as the
  /// parameter and which evaluations read.
  void keepMeans(double decay);
  /// Between these, what an optimizer's rate is made of; it is given out under
  /// this name after each step, where it is a number of the step: a scalar of
  /// floats. `parameter` is one that the optimizer is for.
  void beginRate(const std::string &parameter, const std::string &optimizer);
  void endRate(const std::string &name, Tensor rate,
               const Where &where = MESHC_HERE);
  /// A parameter and its gradient, of the same type: in an iteration of the
  /// loops that the model declares it in, if there are.
  struct Update {
    Tensor parameter, gradient;
  };
  /// Begins the update of a parameter by the function `optimizer`, in each
  /// iteration of those loops. Until endUpdate modelState declares the
  /// optimizer's, called optimizer/name/w, which setModelState sets. What is
  /// made of numbers and the step alone takes the element type of what it is
  /// computed with, as numbers do.
  Update beginUpdate(const std::string &parameter, const std::string &optimizer,
                     const Where &where = MESHC_HERE);
  /// Ends it: the parameter becomes `next`, which has its type; null after an
  /// error. An error if nothing was made of the gradient.
  void endUpdate(Tensor next, const Where &where = MESHC_HERE);
  /// The number of the training step, from 1, an i32. In updates alone.
  Tensor step(const Where &where = MESHC_HERE);
  /// A float that is what `expression` is of the settings when a training
  /// starts (runtime/settings/Settings.h). In updates alone.
  Tensor setting(const std::string &expression, ElementType type,
                 const Where &where = MESHC_HERE);
  /// Makes a constant of a setting, in the end.
  void fixSetting(Tensor setting, double value);
  /// Declares a number of the spec, behind those that its value is made of.
  void addSetting(const std::string &name, const std::string &value,
                  bool isFixed);
  /// Declares a comparison of settings that holds where it is this program.
  void addRequirement(const std::string &expression);

  // Scopes: parameters and named values inside are called scope/name.
  /// A scope that was opened, and its own name.
  struct ScopeId {
    size_t number = 0;
    std::string name;
  };
  /// Opens a scope called `name`; an error if it is taken.
  ScopeId enterScope(const std::string &name, const Where &where = MESHC_HERE);
  /// Opens a scope called `stem`, or stem_2, stem_3 ... if that is taken.
  ScopeId enterNumberedScope(const std::string &stem,
                             const Where &where = MESHC_HERE);
  /// Parameters in the innermost scope are from here on those of `of`, which
  /// has ended, by the same names and types. The loops around `of` are around
  /// the innermost scope too. Own dims are those of `of` where sizes are equal.
  void shareVariables(const ScopeId &of);
  /// Ends the innermost scope; an error if it owns parameters and another one
  /// of its name, numbers aside, did.
  void leaveScope();
  /// Calls a value `name` in the current scope, or in that of a `call` in it,
  /// unless it has a name already; name_2 and so on if another value is called
  /// that. Values without a name that lead to it belong to it from then on.
  void setName(Tensor value, const std::string &name,
               const std::string &call = "");
  /// The same of what a name is bound to: it lies as rules of the layout for
  /// values of this name say. Where it has another name already and there are
  /// such rules, it is another value, which is the same. Gives the value.
  Tensor bind(Tensor value, const std::string &name, const std::string &call,
              const Where &where);
  /// Has a value that has no name lie, and be called, like the current scope.
  Tensor bindToScope(Tensor value, const Where &where);

  // Sources.
  /// `value` must be representable in `type`.
  Tensor constant(double value, ElementType type,
                  const Where &where = MESHC_HERE);
  Tensor constant(int64_t value, ElementType type,
                  const Where &where = MESHC_HERE);
  /// Positions 0, 1, 2 ... along `dim`, as i32.
  Tensor iota(const Dim &dim, const Where &where = MESHC_HERE);
  /// Random numbers, no fill, other ones in each run of the program and in each
  /// iteration of the loops around. They belong to `name` in the current scope,
  /// which may have several sets of them, and to their position in `dims`: no
  /// mesh, layout or other part of the program changes one.
  Tensor random(const std::string &name, Initializer distribution,
                ElementType type, const std::vector<Dim> &dims,
                const Where &where = MESHC_HERE);

  // Elementwise operations; operands broadcast by dimension name.
#define MESHC_UNARY(NAME, OP, ELEMENTS)                                        \
  Tensor NAME(Tensor x, const Where &where = MESHC_HERE);
#define MESHC_BINARY(NAME, OP, ELEMENTS)                                       \
  Tensor NAME(Tensor lhs, Tensor rhs, const Where &where = MESHC_HERE);
#include "frontend/Elementwise.def"
  Tensor compare(Comparison comparison, Tensor lhs, Tensor rhs,
                 const Where &where = MESHC_HERE);
  Tensor select(Tensor condition, Tensor whenTrue, Tensor whenFalse,
                const Where &where = MESHC_HERE);
  Tensor cast(Tensor x, ElementType type, const Where &where = MESHC_HERE);

  // Operations on the set of dimensions.
  Tensor einsum(const std::vector<Tensor> &inputs,
                const std::vector<Dim> &result,
                const Where &where = MESHC_HERE);
  Tensor reduce(Reduction reduction, Tensor x, const std::vector<Dim> &over,
                const Where &where = MESHC_HERE);
  /// Position of the extreme along `over`, as i32.
  Tensor argReduce(Extreme extreme, Tensor x, const Dim &over,
                   const Where &where = MESHC_HERE);
  /// Repeats x along `dims`, which come before its own.
  Tensor broadcast(Tensor x, const std::vector<Dim> &dims,
                   const Where &where = MESHC_HERE);
  /// All at once: two dimensions can exchange their names. Operands of errors:
  /// x, then the two dimensions of each renaming.
  Tensor rename(Tensor x, const std::vector<Renaming> &renamings,
                const Where &where = MESHC_HERE);
  /// At the position of a loop over the dimension the slice that the loop sees.
  /// An index that has the dimension itself gives it to the result. 0 (false)
  /// where it is outside, which what files give for it must not be unless
  /// `isPadded`.
  Tensor gather(Tensor x, Tensor index, const Dim &over,
                const Where &where = MESHC_HERE, bool isPadded = false);
  /// Reads dimensions of x at positions that others determine, which take their
  /// places. 0 (false) where a position is outside or not whole; unless
  /// `isPadded` that is an error, and so is a position of a window that is
  /// outside wherever the window lies. Operands of errors: x, then the
  /// positions, then the dims of the accesses.
  Tensor view(Tensor x, const std::vector<ViewAccess> &accesses, bool isPadded,
              const Where &where = MESHC_HERE);
  /// Whether what `accesses` read is there, over their loops; null if all is.
  Tensor isInside(const std::vector<ViewAccess> &accesses,
                  const Where &where = MESHC_HERE);
  /// Whether an integer is a position of `dim`.
  Tensor isInside(Tensor index, const Dim &dim,
                  const Where &where = MESHC_HERE);
  /// The sum that a linear access takes, over its loops, as integers.
  Tensor position(const ViewAccess &access, ElementType type,
                  const Where &where = MESHC_HERE);
  // Loops over a dimension (language: `for t in time`).
  /// A value under the name that a loop carries, stacks or sums it by, and
  /// where the program says what it is.
  struct LoopValue {
    std::string name;
    Tensor value;
    Where where = {};
  };
  /// What an iteration has of the one before it, in the order in which it was
  /// given, and its position, an i32.
  struct LoopArguments {
    Tensor position;
    std::vector<Tensor> carried;
  };
  struct LoopResults {
    std::vector<Tensor> carried, stacked, summed;
  };
  /// What is built from here to endLoop is computed at each position of `dim`,
  /// in the scope `name`; parameters get the dimension, and the loop sees its
  /// slice of them. Carried values must not have the dimension.
  LoopArguments beginLoop(const std::string &name, const Dim &dim,
                          const std::vector<LoopValue> &carried,
                          const Where &where = MESHC_HERE);
  /// Ends the innermost loop. `carried` is what the next iteration has, each of
  /// the type of its initial value; stacked values get the dimension, summed
  /// ones are added over the iterations. Nothing after an error.
  std::optional<LoopResults> endLoop(const std::vector<LoopValue> &carried,
                                     const std::vector<LoopValue> &stacked,
                                     const std::vector<LoopValue> &summed,
                                     const Where &where = MESHC_HERE);

  /// Checks what only the whole program shows: that every layout rule matches
  /// something and no tensor has two dimensions on one axis, that what is to be
  /// minimized exists, and that there is data for every input. Call once, last.
  void finish();

  /// The user of the builder found an error of its own and left something out:
  /// what seems unused or missing is not reported, and there is no module.
  void markIncomplete();
  bool hasErrors() const;
  /// The errors since the last call.
  std::vector<BuildError> takeErrors();

private:
  friend struct BuilderState;
  bool isInitial(Tensor value, ElementType type, const std::vector<Dim> &dims,
                 const Where &where);
  std::unique_ptr<struct BuilderState> state;
};

} // namespace meshc::frontend

#endif
