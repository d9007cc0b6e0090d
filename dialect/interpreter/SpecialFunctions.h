#ifndef MESHC_DIALECT_INTERPRETER_SPECIALFUNCTIONS_H
#define MESHC_DIALECT_INTERPRETER_SPECIALFUNCTIONS_H

#include <cstdint>
#include <utility>

namespace meshc::interpreter {

/// The number of which `x` is the error function, to a few units in the last
/// place: NaN beyond -1 and 1, infinite there.
double invertErf(double x);

/// The 64 bits of nd.random for a key and the position `counter`.
uint64_t getRandomBits(uint64_t key, uint64_t counter);

/// nd.fold_in: another seed for each number but 0.
uint64_t foldIn(uint64_t seed, uint64_t number);

/// The words of nd.random as the operation defines them: u0 and u1.
std::pair<double, double> getUniformNumbers(uint64_t key, uint64_t seed,
                                            uint64_t index);

} // namespace meshc::interpreter

#endif
