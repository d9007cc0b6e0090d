#ifndef MESHC_DIALECT_INTERPRETER_BLOCKS_H
#define MESHC_DIALECT_INTERPRETER_BLOCKS_H

/// Whole tensors and the blocks of them that devices hold, straight from the
/// definition of a sharding (layout/Sharding.h). The planner's transfers play
/// no part: this is what they are checked against.
///
/// Take x = [1 2 3] on a mesh a = 2, b = 2:
///
///   <x@a>                   device 0, 1: [1 2]    device 2, 3: [3 poison]
///   <> partial sum over a   device 0, 1: [1 2 3]  device 2, 3: [0 0 0]

#include "dialect/interpreter/Tensor.h"
#include "layout/Sharding.h"

namespace meshc::interpreter {

/// One block per device, by device number.
template <class Domain> using Blocks = std::vector<Tensor<Domain>>;

/// The block of each device of `whole`, padding poisoned. Of a partial sharding
/// the devices at the first position of the partial axes hold the value, the
/// others the identity. Of a window what lies outside the tensor is 0.
template <class Domain>
Blocks<Domain> scatter(const layout::Mesh &mesh,
                       const layout::Sharding &sharding, ElementKind kind,
                       const Tensor<Domain> &whole);

/// The inverse: joins blocks, combines terms. Fails with a text if devices that
/// hold the same part of the same term do not agree bit for bit, or a block
/// has the wrong sizes. Padding is not looked at.
template <class Domain>
std::optional<Tensor<Domain>>
gather(const layout::Mesh &mesh, llvm::ArrayRef<int64_t> sizes,
       const layout::Sharding &sharding, ElementKind kind,
       const Blocks<Domain> &blocks, std::string &error);

/// The blocks of the same tensor under another sharding. Terms of axes that
/// stay partial stay where they are; the rest is combined in the order of
/// positions. `source` has no window. Fails as gather does.
template <class Domain>
std::optional<Blocks<Domain>>
redistribute(const layout::Mesh &mesh, llvm::ArrayRef<int64_t> sizes,
             const layout::Sharding &source, const layout::Sharding &target,
             ElementKind kind, const Blocks<Domain> &blocks,
             std::string &error);

} // namespace meshc::interpreter

#endif
