#ifndef MESHC_FRONTEND_PLAN_EQUALSCOPES_H
#define MESHC_FRONTEND_PLAN_EQUALSCOPES_H

#include "frontend/plan/Plan.h"

namespace meshc::plan {

/// Which calls and iterations are alike, and what in them stands for what.
///
/// What is compared are the outermost calls and loops of the model, and the
/// iterations of any loop: b1, layer/0, and rnn/time/0 of a loop in the call
/// rnn. A scope is alike an earlier one in the same scope, its *model*, if what
/// both have differs in the scope alone but for a quarter at most
/// (compareScopes). Of values and commands that differ in the scope alone, in
/// scopes of one model, the first stands for all: of b1/ff/h, b2/ff/h, b3/ff/h
/// that of b1. Scopes in scopes that are alike are so too: rnn2/time/5 is alike
/// rnn1/time/0. A command is the same whatever is fused with it or sent with
/// it: its flops may differ. What a scope has more than once, such as two
/// gradient sums of the same size, is matched in order; collectives of one
/// value, which send it in parts, as the gradients of stacked layers, are
/// alike.
struct EqualScopes {
  explicit EqualScopes(const Plan &plan);

  struct Scope {
    std::string name;       ///< "b1", "layer/0"
    int model = -1;         ///< the scope it is alike; itself if there is none
    int parent = -1;        ///< the scope that it is in; -1: none
    int64_t iteration = -1; ///< of a loop that is written out; -1: it is none
    int entry = -1;         ///< of Executable.scopes
  };
  std::vector<Scope> scopes; ///< in order of the first value
  /// By tensor, and by position in Plan.commands: the innermost scope, -1 of
  /// none, and the first that is the same but for its scope, itself perhaps.
  std::vector<int> tensorScopes, tensorFolds;
  std::vector<int> commandScopes, commandFolds;
};

/// `scope` or the one around it that is in `outer` itself; -1 if it is not in
/// there. `outer` -1 is the model.
int getScopeIn(const std::vector<EqualScopes::Scope> &scopes, int outer,
               int scope);

} // namespace meshc::plan

#endif
