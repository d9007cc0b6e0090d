#ifndef MESHC_FRONTEND_PLAN_TEXT_FOLDSCOPES_H
#define MESHC_FRONTEND_PLAN_TEXT_FOLDSCOPES_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/text/ValueTable.h"

namespace meshc::plan {

/// Says what equal calls have in common only once. Where the rows of scopes
/// that follow each other (b1, b2, b3 ..., the iterations of a loop, in what
/// stays of another scope, too) differ in nothing but the scope and the ids of
/// collectives, the first scope's rows stay, and one row stands for
/// the others:
///
///   b2, b3, b4           each as b1, with c3 to c8      96 MiB
///
/// Of scopes that have a few rows more or less than the first, the row says
/// which are missing, and those that are more follow it, once where all have
/// them. Whether a value is stored is not compared, nor in which type it is
/// computed: fusion differs at the ends of a chain of calls. The bytes are
/// those of all rows that are stored. Rows that say little (ValueRow::isAside)
/// are compared, and left out.
std::vector<ValueRow> foldScopes(std::vector<ValueRow> rows,
                                 const std::vector<EqualScopes::Scope> &scopes);

} // namespace meshc::plan

#endif
