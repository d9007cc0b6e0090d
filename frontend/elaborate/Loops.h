#ifndef MESHC_FRONTEND_ELABORATE_LOOPS_H
#define MESHC_FRONTEND_ELABORATE_LOOPS_H

#include "frontend/elaborate/Elaborator.h"

#include <set>

namespace meshc::frontend {

/// The block of a loop while it is elaborated.
struct Elaborator::LoopBlock {
  struct Sum {
    ast::Name name;
    Value value = {};       ///< of one iteration, so far
    bool isStarted = false; ///< whether there is a value
  };
  struct Placed {
    ast::Name name;
    Value value; ///< at the position of the loop
  };

  std::string_view variable;
  /// The names that are carried, and their element types.
  std::vector<std::pair<ast::Name, ElementType>> carried;
  /// The names that are only added to.
  std::map<std::string_view, Sum> sums;
  /// The names whose elements are set.
  std::map<std::string_view, Placed> placed;
  LoopBlock *outer = nullptr;
  Dim dim = {};
  /// What names stand for after an iteration.
  std::map<std::string_view, Binding> last = {};
};

} // namespace meshc::frontend

#endif
