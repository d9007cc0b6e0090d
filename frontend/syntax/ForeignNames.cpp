#include "frontend/syntax/ForeignNames.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

using namespace meshc::frontend;

namespace {

constexpr ForeignKind function = ForeignKind::Function;
constexpr ForeignKind elementType = ForeignKind::ElementType;
constexpr ForeignKind initializer = ForeignKind::Initializer;
constexpr ForeignKind optimizer = ForeignKind::Optimizer;
constexpr ForeignKind argument = ForeignKind::Argument;

constexpr std::string_view noScan =
    "there are no scans yet; a loop \"for t in time\" carries what is so far";
constexpr std::string_view noJoin =
    "values side by side along a new dimension \"to\" of the size of both, "
    "\"first\" and \"second\" being theirs";
constexpr std::string_view join =
    "where(iota(to) < size(first), a[first = to else 0], "
    "b[second = to - size(first) else 0])";
constexpr std::string_view sideBySide = "where(iota(side) == 0, a, b)";
constexpr std::string_view noSides =
    "values side by side along a new dimension \"side\" of size 2";
constexpr std::string_view sums =
    "einsum(x, f32(iota(d) <= iota(d')), over = d)";
constexpr std::string_view noOrder =
    "dimensions have names and no order: nothing is to be transposed; where "
    "one "
    "is to be called otherwise, write rename(x, from -> to)";
constexpr std::string_view merging =
    "reshape(x, (a, b) -> ab) makes one dimension of two, and reshape(x, ab -> "
    "(a, b)) two of one";
constexpr std::string_view sharding =
    "how a value is split stands in the table of the layout: give it a name by "
    "let, and write \"name\": dim -> axis";
constexpr std::string_view noTopK =
    "there is no top-k yet: max and argmax are the first of it, and \"meshc "
    "run "
    "SPEC -- predict --topk 5\" prints the best of an output";
constexpr std::string_view ownOptimizer =
    "write it as a function of the parameter and its gradient: \"meshc explain "
    "adam\" shows one";

constexpr ForeignName names[] = {
    {function, "absolute", "abs"},
    {function, "add", "a + b"},
    {function, "amax", "max"},
    {function, "amin", "min"},
    {function, "arange", "iota"},
    {function, "astype", "f32(x)"},
    {function, "average", "mean"},
    {function, "bmm", "einsum"},
    {function, "broadcast_to", "broadcast"},
    {function, "cast", "f32(x)"},
    {function, "clamp", "minimum(maximum(x, low), high)"},
    {function, "clip", "minimum(maximum(x, low), high)"},
    {function, "concat", join, noJoin},
    {function, "concatenate", join, noJoin},
    {function, "cond", "where"},
    {function, "contract", "einsum"},
    {function, "cummax", "", noScan},
    {function, "cumprod", "", noScan},
    {function, "cumsum", sums, "the sums lie along d', the second role of d"},
    {function, "detach", "stop_gradient"},
    {function, "div", "a / b"},
    {function, "divide", "a / b"},
    {function, "dot", "einsum"},
    {function, "erfinv", "erf_inv"},
    {function, "expand", "broadcast"},
    {function, "expand_dims", "broadcast"},
    {function, "expit", "logistic"},
    {function, "fabs", "abs"},
    {function, "flatten", "reshape", merging},
    {function, "index_select", "gather"},
    {function, "layernorm", "layer_norm"},
    {function, "LayerNorm", "layer_norm"},
    {function, "Linear", "dense"},
    {function, "ln", "log"},
    {function, "logsoftmax", "log_softmax"},
    {function, "matmul", "einsum"},
    {function, "merge", "reshape", merging},
    {function, "mm", "einsum"},
    {function, "mse_loss", "mean((a - b) ^ 2)"},
    {function, "mul", "a * b"},
    {function, "multiply", "a * b"},
    {function, "neg", "-x"},
    {function, "negative", "-x"},
    {function, "nll_loss", "cross_entropy"},
    {function, "one_hot", "f32(iota(class) == label)"},
    {function, "permute", "", noOrder},
    {function, "pow", "x ^ y"},
    {function, "power", "x ^ y"},
    {function, "rand", "uniform"},
    {function, "randn", "normal"},
    {function, "random", "uniform"},
    {function, "reduce_max", "max"},
    {function, "reduce_mean", "mean"},
    {function, "reduce_min", "min"},
    {function, "reduce_sum", "sum"},
    {function, "relu6", "minimum(relu(x), 6)"},
    {function, "repeat", "broadcast"},
    {function, "scan", "", noScan},
    {function, "select", "where"},
    {function, "sigmoid", "logistic"},
    {function, "softmax_cross_entropy", "cross_entropy"},
    {function, "shard", "", sharding},
    {function, "softplus", "(x + abs(x)) / 2 + log(1 + exp(-abs(x)))"},
    {function, "split", "reshape"},
    {function, "square", "x ^ 2"},
    {function, "stack", sideBySide, noSides},
    {function, "stopgradient", "stop_gradient"},
    {function, "sub", "a - b"},
    {function, "subtract", "a - b"},
    {function, "swish", "silu"},
    {function, "take", "gather"},
    {function, "tensordot", "einsum"},
    {function, "tile", "broadcast"},
    {function, "topk", "", noTopK},
    {function, "top_k", "", noTopK},
    {function, "transpose", "", noOrder},
    {function, "unflatten", "reshape", merging},
    {function, "unsqueeze", "broadcast"},
    {function, "view", "reshape", merging},
    {function, "with_sharding_constraint", "", sharding},

    {elementType, "bool_", "bool"},
    {elementType, "byte", "u8"},
    {elementType, "double", "f64"},
    {elementType, "float", "f32"},
    {elementType, "float32", "f32"},
    {elementType, "float64", "f64"},
    {elementType, "int", "i32"},
    {elementType, "int16", "i16"},
    {elementType, "int32", "i32"},
    {elementType, "int64", "i64"},
    {elementType, "int8", "i8"},
    {elementType, "long", "i64"},
    {elementType, "short", "i16"},
    {elementType, "single", "f32"},
    {elementType, "uint8", "u8"},

    {initializer, "fill", "constant"},
    {initializer, "full", "constant"},
    {initializer, "gaussian", "normal"},
    {initializer, "ones_like", "ones"},
    {initializer, "rand", "uniform"},
    {initializer, "randn", "normal"},
    {initializer, "random_normal", "normal"},
    {initializer, "random_uniform", "uniform"},
    {initializer, "zeros_like", "zeros"},

    {optimizer, "Adam", "adam"},
    {optimizer, "AdamW", "adamw"},
    {optimizer, "SGD", "sgd"},
    {optimizer, "adagrad", "", ownOptimizer},
    {optimizer, "rmsprop", "", ownOptimizer},

    {argument, "axes", "over"},
    {argument, "axis", "over"},
    {argument, "dims", "over"},
};

} // namespace

bool ForeignName::isName() const {
  return !here.empty() && here.find_first_of(" (-") == std::string_view::npos;
}

std::span<const ForeignName> meshc::frontend::getForeignNames() {
  return names;
}

const ForeignName *meshc::frontend::findForeignName(ForeignKind kind,
                                                    std::string_view name) {
  const auto *found = std::find_if(
      std::begin(names), std::end(names), [&](const ForeignName &row) {
        return row.kind == kind && row.name == name;
      });
  return found == std::end(names) ? nullptr : found;
}

bool meshc::frontend::adviseForeign(Diagnostic &error, ForeignKind kind,
                                    std::string_view name) {
  const ForeignName *foreign = findForeignName(kind, name);
  if (!foreign)
    return false;
  if (foreign->isName())
    error.didYouMean(foreign->here);
  else if (!foreign->here.empty())
    error.help(fmt::format("write {}", foreign->here));
  if (!foreign->advice.empty())
    error.help(std::string(foreign->advice));
  return true;
}
