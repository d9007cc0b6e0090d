#ifndef MESHC_TESTS_FUZZ_TREE_H
#define MESHC_TESTS_FUZZ_TREE_H

/// A random program as a tree: printed as a spec (Print.h), checked against the
/// language's rules (Check.h) and evaluated (Evaluate.h), each by code that
/// shares nothing with the compiler.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshc::fuzz {

/// A dim: its index in Tree::dims.
using DimId = int;
/// Dims in an order that means something, such as a list's.
using Dims = std::vector<DimId>;

struct Dim {
  std::string name;
  int64_t size;
  /// `d'` is declared nowhere and has the size of this dim; -1: declared.
  DimId primeOf = -1;
  /// The function that makes it; empty: the program's.
  std::string function = "";

  /// In a program dims of functions have the scope of the call in front.
  bool isCalled(std::string_view nameInProgram) const {
    const size_t slash = nameInProgram.rfind('/');
    return (slash != nameInProgram.npos) == !function.empty() &&
           nameInProgram.substr(slash + 1) == name;
  }
};

enum class Element : uint8_t { F32, I32, Bool };

/// Dims are sorted: a type is a set of them.
struct Type {
  Element element = Element::F32;
  Dims dims;

  bool operator==(const Type &) const = default;
  bool has(DimId dim) const {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }
};

enum class ExprKind : uint8_t {
  Number,    ///< `number`
  Name,      ///< a value or the position of a loop, `name`
  Position,  ///< within an index: positions of dims[0]
  Size,      ///< within an index: size(dims[0])
  Tuple,     ///< within an index: a list in step
  Iota,      ///< iota(dims[0])
  Operator,  ///< `name` between two operands, or before one
  Call,      ///< elementwise function `name`
  Reduce,    ///< `name` over `dims`: sums, extremes, positions, softmax
  Einsum,    ///< over `dims`
  Index,     ///< operands[0] at `parts`
  Rename,    ///< dims[0] becomes targets[0]
  Broadcast, ///< along `dims`
  Random,    ///< `name` of `number` and `second`, drawn over `dims`
  Gather,    ///< gather(operands[0], operands[1], over = dims[0])
  Layer,     ///< a layer of the library called `name`
  Function,  ///< a function called `name`, all that a statement binds
};

struct Part;

/// Lists of dims that a layer takes, and numbers; of functions the scopes.
struct LayerArguments {
  Dims over, at, window, from, to, each;
  int64_t stride = 1, dilation = 1;
  std::string scope;
  std::string with; ///< the call whose parameters it has
};

struct Expr {
  ExprKind kind = ExprKind::Number;
  std::string name;
  double number = 0, second = 0;
  Dims dims, targets;
  std::vector<Expr> operands;
  std::vector<Part> parts;
  std::optional<double> otherwise; ///< of an index
  std::string axes;                ///< of a resharding: "a" or "(a, b)"
  LayerArguments layer;
  bool hasDims = true; ///< Random: without, those of the parameter
  Type type;           ///< set by Check.h
};

/// `dims = position` of an index.
struct Part {
  Dims dims;
  Expr position;
};

enum class StatementKind : uint8_t {
  Param,  ///< param name: type = ...
  State,  ///< state name: type = ...
  Let,    ///< let name = value
  Assign, ///< name = value
  Add,    ///< name += value
  Place,  ///< name[dim = position] = value
  For,    ///< for position in dim { body }
  If,     ///< if value { body } else { otherwise }
  Dim,    ///< dim name = value
  Call,   ///< let names = value
  Output, ///< output name = value
};

/// What a `let` says of its value: nothing; f32[n, m]; f32[.., n]; [n, m].
enum class TypeForm : uint8_t { None, Exact, Open, Dims };

struct Statement {
  StatementKind kind = StatementKind::Let;
  std::string name;
  Type type; ///< of a variable, or as a `let` says
  TypeForm form = TypeForm::None;
  Expr value;
  bool isComputed = false; ///< a variable that begins as `value`
  DimId dim = -1;
  std::string position;
  /// Of a call what the function does, with its types: set by Check.h.
  std::vector<Statement> body;
  std::vector<Statement> otherwise;
  std::vector<std::string> names;
  std::vector<Expr> results; ///< of a call, as its body
};

/// fn name(parameters) { body  return results }
struct Function {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Statement> body;
  std::vector<Expr> results;
};

struct Input {
  std::string name;
  Type type;
  /// Integers are drawn from [0, bound).
  int64_t bound = 0;
};

struct Tree {
  int64_t seed = 0; ///< of random numbers
  int64_t run = 1;  ///< the number of the batch or step that draws them
  /// What the program is in the training step is meant; else in evaluation.
  bool isTraining = false;
  /// Of how many parts the step is, and which one is meant. The tree has the
  /// sizes of a part.
  int64_t parts = 1, part = 0;
  /// The dim that counts samples.
  static constexpr DimId batch = 0;
  std::vector<Dim> dims;
  std::vector<Input> inputs;
  std::vector<Function> functions; ///< before those that call them
  std::vector<Statement> body;

  const Function *findFunction(const std::string &name) const {
    auto found = std::ranges::find(functions, name, &Function::name);
    return found == functions.end() ? nullptr : &*found;
  }
};

enum class LeafKind : uint8_t { Input, Parameter, State };

/// A tensor that is fed: an input, or a variable, of all iterations of the
/// loops around it.
struct Leaf {
  std::string name; ///< in the program: "layer/gain"
  Type type;
  LeafKind kind = LeafKind::Input;
  int64_t bound = 0;
  bool isPositive = false; ///< in [1/2, 3/2)
};

inline int64_t countElements(const Tree &tree, const Dims &dims) {
  int64_t count = 1;
  for (DimId dim : dims)
    count *= tree.dims[size_t(dim)].size;
  return count;
}

inline Dims unite(Dims lhs, const Dims &rhs) {
  lhs.insert(lhs.end(), rhs.begin(), rhs.end());
  std::sort(lhs.begin(), lhs.end());
  lhs.erase(std::unique(lhs.begin(), lhs.end()), lhs.end());
  return lhs;
}

inline Dims without(Dims dims, const Dims &removed) {
  std::erase_if(dims, [&](DimId dim) {
    return std::find(removed.begin(), removed.end(), dim) != removed.end();
  });
  return dims;
}

//===-- Building ----------------------------------------------------------===//

inline Expr number(double value) {
  Expr expr;
  expr.number = value;
  return expr;
}
inline Expr nameOf(std::string name) {
  Expr expr;
  expr.kind = ExprKind::Name;
  expr.name = std::move(name);
  return expr;
}
inline Expr make(ExprKind kind, std::string name, std::vector<Expr> operands,
                 Dims dims = {}) {
  Expr expr;
  expr.kind = kind;
  expr.name = std::move(name);
  expr.operands = std::move(operands);
  expr.dims = std::move(dims);
  return expr;
}
inline Expr binary(std::string op, Expr lhs, Expr rhs) {
  return make(ExprKind::Operator, std::move(op),
              {std::move(lhs), std::move(rhs)});
}
inline Expr call(std::string function, std::vector<Expr> operands) {
  return make(ExprKind::Call, std::move(function), std::move(operands));
}
inline Expr positionOf(DimId dim) {
  return make(ExprKind::Position, "", {}, {dim});
}

} // namespace meshc::fuzz

#endif
