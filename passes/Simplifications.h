#ifndef MESHC_PASSES_SIMPLIFICATIONS_H
#define MESHC_PASSES_SIMPLIFICATIONS_H

#include "mlir/IR/PatternMatch.h"

namespace meshc {

/// Patterns that keep splats and repeated values from being stored and worked
/// on in full: gradients are made of them. Constants are reassociated, which
/// may change the last bit of a result. For programs without shardings, after
/// gradients are taken.
///
/// Why they come to an end, together with those of nd-decompose and with folds:
/// each replaces an operation by a term that is smaller in a recursive path
/// order (Dershowitz 1982, "Orderings for term-rewriting systems"). A program
/// is read as terms: the operation that makes a value, on the terms of its
/// operands. Kinds of operations are ranked,
///
///   arg_reduce > view > einsum > mean > reduction of 16-bit floats > other
///   reduction
///     > rename > pow, neg, add > every other elementwise operation
///     > broadcast > constant with dimensions > constant
///
/// and of einsums the one with more inputs, then the one whose inputs have more
/// dimensions in all, is the larger. A term is larger than what its operands
/// are made of, and than any term of a lower rank that is made of smaller
/// terms; of two terms of one rank the one is larger that is made of the
/// other's operands with some of them replaced by any number of smaller ones.
/// For example (x c) d > x e, as x c is larger than x and than the constant e:
/// but not larger than c d as an operation, which x might be as well.
///
/// No rewrite changes the type of a value, so ranks of what uses it stay, and
/// it makes all terms around it smaller. So of all operations of a program, as
/// a multiset of terms, one is replaced by finitely many smaller ones: that
/// cannot go on for ever. Whoever adds a pattern finds its place in that order.
void addSimplifications(mlir::RewritePatternSet &patterns);

/// Of them those on views of what each device can say by itself: constants,
/// positions, what is repeated.
void addGeneratedViews(mlir::RewritePatternSet &patterns);
/// Of them the one that makes a view of a view.
void addComposedViews(mlir::RewritePatternSet &patterns);

} // namespace meshc

#endif
