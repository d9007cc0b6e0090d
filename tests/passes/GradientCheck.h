#ifndef MESHC_TESTS_PASSES_GRADIENTCHECK_H
#define MESHC_TESTS_PASSES_GRADIENTCHECK_H

/// Gradients as nd-differentiate builds them, run by the interpreter in f64,
/// against differences of the value itself.

#include "../dialect/Programs.h"

#include <string>
#include <vector>

namespace meshc::test {

/// One random input: floats uniform in [low, high), integers too.
struct Input {
  std::string name;
  std::string type; ///< an alias of `getAliases`, without the `!`
  double low = -1, high = 1;
};

/// A function of its inputs. `body` computes `%y`, of type `result`, from a
/// value per input; what is differentiated is the sum of its elements, each
/// with a random weight, so that no two elements are alike.
struct Function {
  std::string name;
  std::vector<Input> inputs;
  std::string body;
  std::string result;
};

inline void PrintTo(const Function &function, std::ostream *out) {
  *out << function.name;
}

/// Aliases of f64 tensors, "s" for a scalar and one letter per dimension: "ab"
/// is ["a"=2, "b"=3]; a=2, b=3, c=5, d=7, p=5, q=2. With prefix "i" of i32, "t"
/// of i1, "h" of f32.
std::string getAliases();

/// Random inputs, the same on every machine.
F64State makeState(const Function &function, uint64_t seed);

/// What becomes of loops.
enum class Loops {
  WrittenOutFirst, ///< straight-line code is differentiated
  Stay,            ///< the gradient of a loop is a loop
  WrittenOutLast,  ///< that one, as straight-line code
  Hoisted,         ///< that one, without what its iterations share and its sums
};

/// The values of the program's outputs "y" and "loss", and of "grad:NAME" for
/// every float input, at `state`. With `decompose` the program went through the
/// rest of the passes that leave it whole.
std::map<std::string, F64Tensor>
runGradient(const Function &function, F64State state, bool decompose,
            Loops loops = Loops::WrittenOutFirst);

/// Compares every element of every gradient with differences of fourth order,
/// before and after decomposition, whatever becomes of loops.
void checkGradients(const Function &function, uint64_t seed = 1);

/// The same for a whole module, whose program "forward" has the outputs "y" and
/// "loss": gradients by the inputs and variables called `wanted`, at `state`.
void checkGradients(const std::string &module,
                    const std::vector<std::string> &wanted, F64State state);

} // namespace meshc::test

#endif
