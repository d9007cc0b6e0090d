#ifndef MESHC_RUNTIME_APP_NANTRAP_H
#define MESHC_RUNTIME_APP_NANTRAP_H

/// Finds where a NaN or an infinity arose.
///
/// Every result of every command is looked at when it is there, before another
/// command may overwrite it. Many of them are infinite for a reason: what a
/// mask hides is -inf until a softmax makes 0 of it. So nothing is said before
/// an output or a variable is not finite when the program is over. From there
/// the way goes back: from a result that has a NaN to an operand that has one,
/// and on to the command that wrote that, as long as there is one; from an
/// infinity likewise. Where it ends, the value arose:
///
///   log      w -> l        w is finite, l has a NaN: it arose here
///   mean     l -> loss     loss has a NaN, and so has l
///
/// Padding of blocks that are not full counts as little as possible: of values
/// that are parts of named ones it is left out.

#include "runtime/app/Session.h"

#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

class NanTrap {
public:
  /// `program`: of a training step, or of the parts in front of its last one.
  NanTrap(Session &session, const exec::ProgramT &program);

  /// Runs the program, of a step from 1 and of a part of it from 0. Errors:
  /// those of the run; ValueNotFinite, in the process that is first with the
  /// value and its line, where an output or a variable is not finite
  /// afterwards.
  Status run(int64_t step, int64_t part);

private:
  /// Elements that are no finite numbers, of all devices.
  struct Found {
    int64_t nans = 0, infinities = 0;
    int64_t firstDevice = -1; ///< that has such; -1: none

    void add(const Found &other);
    int64_t getCount(bool ofNans) const { return ofNans ? nans : infinities; }
  };
  /// A result of a command, or what is there before the first one.
  struct Place {
    int command = -1;  ///< -1: before the first
    size_t number = 0; ///< of the operand, or in `values`
  };
  /// An input, an output or a variable.
  struct Value {
    const char *kind;
    std::string name;
    const exec::TensorLayoutT *layout;
    int buffer;
    const exec::Span *span; ///< null: none
    Found before, after;
  };

  Found &getResult(int command, size_t operand) {
    return results[firstResult[size_t(command)] + operand];
  }
  Status look(const exec::OperandT &operand, int64_t device, Found &found);
  Status look(const Value &value, Found &found);
  /// What all processes have found, in the first one.
  Status merge(int64_t step, int64_t part);
  /// What is not finite behind the program; null: nothing.
  const Value *findEnd() const;
  /// Where what `operand` of `command` has was written; none where it has no
  /// such elements.
  std::optional<Place> findWriter(int command, const exec::OperandT &operand,
                                  bool ofNans);
  Error describe(const Value &end, int64_t step, int64_t part);

  Session &session;
  const exec::ProgramT &program;
  std::vector<size_t> firstResult; ///< per command, in `results`
  std::vector<Found> results;      ///< per operand; of those that are read none
  std::vector<Value> values;
};

} // namespace meshc::runtime

#endif
