#include "codegen/steps/MatmulForm.h"

#include "codegen/kernels/StructuredOps.h"
#include "dialect/SPMD.h"
#include "runtime/plans/MatmulPlan.h"
#include "runtime/plans/OneDnnPlan.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Takes the loop for the library's own dimension from `loops`, which begin
/// with the smallest: the one that the result is contiguous in, else the
/// largest that an operand is, else the largest.
static MatmulForm::Loop takeMain(std::vector<MatmulForm::Loop> &loops) {
  if (loops.empty())
    return {};
  auto main =
      llvm::find_if(loops, [](const auto &loop) { return loop.c == 1; });
  for (auto loop = loops.end(); main == loops.end() && loop != loops.begin();)
    if (--loop; loop->a == 1 || loop->b == 1)
      main = loop;
  if (main == loops.end())
    main = std::prev(loops.end());
  MatmulForm::Loop taken = *main;
  loops.erase(main);
  return taken;
}

std::array<bool, 3> MatmulForm::findRefused(MatmulLibrary library) const {
  auto getDim = [](const Loop &loop) {
    return runtime::MatmulDim{loop.size, loop.a, loop.b, loop.c};
  };
  runtime::MatmulShape shape;
  llvm::append_range(shape.batch, llvm::map_range(batch, getDim));
  shape.m = getDim(m);
  shape.n = getDim(n);
  shape.k = getDim(k);
  std::array<bool, 3> refused = library == MatmulLibrary::OneDnn
                                    ? runtime::findRefused(shape)
                                    : runtime::cuda::findRefused(shape);
  if (swapped)
    std::swap(refused[0], refused[1]);
  return refused;
}

/// Sizes of the loops that index `tensors`.
static SmallVector<int64_t>
getTensorLoopSizes(ArrayRef<AffineMap> maps,
                   const std::array<StridedTensor, 3> &tensors) {
  SmallVector<int64_t> sizes(maps.front().getNumDims(), 1);
  for (auto [map, tensor] : llvm::zip_equal(maps, tensors))
    for (auto [dim, size] : llvm::enumerate(tensor.shape))
      sizes[map.getDimPosition(dim)] = size;
  return sizes;
}

MatmulForm
meshc::codegen::getMatmulForm(ArrayRef<AffineMap> maps,
                              const std::array<StridedTensor, 3> &tensors) {
  std::vector<MatmulForm::Loop> batch, m, n, k;
  const auto a = getStrides(maps[0], tensors[0].strides);
  const auto b = getStrides(maps[1], tensors[1].strides);
  const auto c = getStrides(maps[2], tensors[2].strides);
  for (auto [loop, size] : llvm::enumerate(getTensorLoopSizes(maps, tensors))) {
    MatmulForm::Loop info{size, a[loop], b[loop], c[loop]};
    auto has = [&, loop = loop](unsigned operand) {
      return maps[operand].isFunctionOfDim(loop);
    };
    if (!has(2))
      k.push_back(info);
    else if (has(0) && has(1))
      batch.push_back(info);
    else
      (has(0) ? m : n).push_back(info);
  }
  for (auto *loops : {&batch, &m, &n, &k}) {
    mergeLoops(*loops);
    // The largest last.
    llvm::sort(*loops, [](const auto &x, const auto &y) {
      return std::tuple(x.size, y.c) < std::tuple(y.size, x.c);
    });
  }

  MatmulForm form;
  form.m = takeMain(m);
  form.n = takeMain(n);
  form.k = takeMain(k);
  form.outerK = std::move(k);
  form.batch = std::move(batch);
  llvm::append_range(form.batch, m);
  llvm::append_range(form.batch, n);
  // Outermost first, as the strides of the result tell.
  llvm::sort(form.batch, [](const auto &x, const auto &y) {
    return std::tuple(x.c, x.a, x.b) > std::tuple(y.c, y.a, y.b);
  });
  form.swapped = form.n.c != 1 && form.m.c == 1 && form.m.size > 1;
  if (form.swapped) {
    auto swapOperands = [](MatmulForm::Loop &loop) {
      std::swap(loop.a, loop.b);
    };
    std::swap(form.m, form.n);
    llvm::for_each(form.batch, swapOperands);
    llvm::for_each(form.outerK, swapOperands);
    for (MatmulForm::Loop *loop : {&form.m, &form.n, &form.k})
      swapOperands(*loop);
  }
  return form;
}

MatmulForm meshc::codegen::getMatmulForm(linalg::GenericOp contraction) {
  return getMatmulForm(contraction.getIndexingMapsArray(),
                       {getStridedTensor(contraction->getOperand(0)),
                        getStridedTensor(contraction->getOperand(1)),
                        getStridedTensor(contraction->getResult(0))});
}

SmallVector<linalg::GenericOp>
meshc::codegen::findLibraryContractions(ModuleOp module) {
  SmallVector<linalg::GenericOp> found;
  module.walk([&](spmd::ProgramOp program) {
    program.walk([&](linalg::GenericOp op) {
      if (isLibraryMatmul(op) && op.getNumDpsInputs() == 2 &&
          getSplat(op.getDpsInits().front()))
        found.push_back(op);
    });
  });
  return found;
}
