#ifndef MESHC_FRONTEND_ELABORATE_BLOCKTEXT_H
#define MESHC_FRONTEND_ELABORATE_BLOCKTEXT_H

/// What the text of a block says before it is elaborated: which names it
/// rebinds, and how.

#include "frontend/syntax/Ast.h"

#include <functional>
#include <map>
#include <set>

namespace meshc::frontend {

/// Whether the condition of an `if` holds, of those that are decided.
using Branches = std::map<const ast::IfStatement *, bool>;

/// Visits the statements of a block in order, each `if` and then those of its
/// branch; of one that is not decided those of both.
void forEachStatement(const std::vector<ast::Statement> &body,
                      const Branches &branches,
                      const std::function<void(const ast::Statement &)> &visit);

/// The names that statements of a block, of all its branches and of loops in it
/// bind anew or set elements of; names of its own may be among them.
std::set<std::string_view> findRebound(const std::vector<ast::Statement> &body);

/// What becomes of a name that a loop rebinds. Summed is what is only added to
/// and not read, stacked that of which elements are set.
enum class Rebinding : uint8_t { Carried, Stacked, Summed };

/// The names that a loop rebinds, in the order in which it first does.
std::vector<std::pair<ast::Name, Rebinding>>
findRebindings(const ast::LoopStatement &loop, const Branches &branches);

/// Whether a loop reads elements of `name` that it has set, in this iteration
/// or in another: anything but slices at the position before that is set.
bool readsWhatItSets(const ast::LoopStatement &loop, const Branches &branches,
                     std::string_view name);

} // namespace meshc::frontend

#endif
