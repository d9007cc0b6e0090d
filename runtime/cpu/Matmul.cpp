#include "runtime/cpu/Matmul.h"

#include "runtime/cpu/BlockedMatmul.h"
#include "runtime/cpu/LibraryElement.h"
#include "runtime/cpu/TiledMatmul.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/plans/CpuPieces.h"
#include "runtime/plans/OneDnnPlan.h"

#include <dnnl.hpp>
#include <dnnl_debug.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include <dlfcn.h>

using namespace meshc;
using namespace meshc::runtime;

void runtime::useOneMatmulThread() {
  // The count is OpenMP's, kept per thread. It is looked up because the runtime
  // is not itself an OpenMP program; a oneDNN built on other threads has no
  // such symbol and nothing to set.
  static auto *const setThreads = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  thread_local bool done = false;
  if (done || !setThreads)
    return;
  setThreads(1);
  done = true;
}

/// Whether oneDNN uses AVX-512 on this processor.
static bool hasAvx512() {
  const auto isa = unsigned(dnnl::get_effective_cpu_isa());
  const auto avx512 = unsigned(dnnl::cpu_isa::avx512_core);
  return (isa & avx512) == avx512;
}

uint64_t runtime::getMatmulSkew() { return hasAvx512() ? 0 : 16; }

namespace {

int64_t multiplySizes(std::span<const MatmulDim> dims) {
  int64_t product = 1;
  for (const MatmulDim &dim : dims)
    product *= dim.size;
  return product;
}

/// Elements from the start of each operand to position `index` of `dims`,
/// counted row-major.
struct Offsets {
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
  int64_t bias = 0;
};

Offsets getOffsets(std::span<const MatmulDim> dims, int64_t index) {
  Offsets offsets;
  for (size_t i = dims.size(); i-- > 0;) {
    int64_t position = index % dims[i].size;
    index /= dims[i].size;
    offsets.a += position * dims[i].a;
    offsets.b += position * dims[i].b;
    offsets.c += position * dims[i].c;
  }
  return offsets;
}

/// Bytes of an element of the factors and of the result.
struct ElementSizes {
  explicit ElementSizes(const MatmulShape &shape)
      : factor(getElementBytes(shape.element)),
        result(getElementBytes(shape.result)) {}
  int64_t factor;
  int64_t result;
};

MatmulOperands advance(const MatmulOperands &operands, const Offsets &offsets,
                       ElementSizes bytes) {
  auto step = [](const void *pointer, int64_t distance) -> const void * {
    return pointer ? static_cast<const std::byte *>(pointer) + distance
                   : nullptr;
  };
  return {step(operands.a, offsets.a * bytes.factor),
          step(operands.b, offsets.b * bytes.factor),
          static_cast<std::byte *>(operands.c) + offsets.c * bytes.result,
          step(operands.bias, offsets.bias * bytes.result)};
}

/// Everything as a loop over the batch around the blocked loops; a piece is a
/// range of rows of all products counted together.
class BlockedLoops final : public Matmul {
public:
  BlockedLoops(const MatmulShape &shape, int64_t pieces)
      : shape(shape), rows(multiplySizes(shape.batch) * shape.m.size) {
    rowsPerPiece = std::max<int64_t>(1, (rows + pieces - 1) / pieces);
    if (shape.n.size == 0)
      rows = 0;
  }

  int64_t getNumPieces() const override {
    return (rows + rowsPerPiece - 1) / rowsPerPiece;
  }
  uint64_t getScratchBytes() const override { return 0; }
  const char *getImplementation() const override { return "blocked"; }

  Status run(int64_t piece, const MatmulOperands &operands, int worker,
             void *scratch) override {
    int64_t row = piece * rowsPerPiece;
    const int64_t end = std::min(rows, row + rowsPerPiece);
    while (row < end) {
      const int64_t index = row / shape.m.size;
      const int64_t begin = row % shape.m.size;
      const int64_t count = std::min(end - row, shape.m.size - begin);
      runBlockedMatmul(shape,
                       advance(operands, getOffsets(shape.batch, index),
                               ElementSizes(shape)),
                       begin, begin + count);
      row += count;
    }
    return Status::success();
  }

private:
  MatmulShape shape;
  int64_t rows;
  int64_t rowsPerPiece;
};

/// One oneDNN product with the memory objects of each worker.
class Primitive {
public:
  /// Null where oneDNN has no fast implementation; throws dnnl::error where it
  /// fails for another reason.
  static std::unique_ptr<Primitive> create(const MatmulShape &shape,
                                           int workers);

  dnnl_status_t run(const MatmulOperands &operands, int worker, void *scratch);

  uint64_t scratchBytes = 0;
  std::string implementation;

private:
  struct Worker {
    dnnl::stream stream;
    dnnl::memory a, b, c, bias, scratch;
  };

  dnnl::matmul primitive;
  std::vector<Worker> workers;
  bool hasBias = false;
};

/// Descriptor of a matrix with strides. A dimension of one element gets the
/// stride that makes the matrix dense along the other: oneDNN looks at it.
dnnl::memory::desc getDescriptor(std::span<const int64_t> batchSizes,
                                 std::span<const int64_t> batchStrides,
                                 int64_t rows, int64_t rowStride,
                                 int64_t columns, int64_t columnStride,
                                 exec::ElementType element) {
  dnnl::memory::dims sizes, strides;
  for (size_t i = 0; i < batchSizes.size(); ++i) {
    // Stride 0 repeats the matrix, which oneDNN spells as size 1.
    sizes.push_back(batchStrides[i] == 0 ? 1 : batchSizes[i]);
    strides.push_back(std::max<int64_t>(1, batchStrides[i]));
  }
  if (rows == 1)
    rowStride = columnStride == 1 ? columns : 1;
  if (columns == 1)
    columnStride = rowStride == 1 ? rows : 1;
  sizes.insert(sizes.end(), {rows, columns});
  strides.insert(strides.end(), {rowStride, columnStride});
  return {sizes, getDataType(element), strides};
}

std::unique_ptr<Primitive> Primitive::create(const MatmulShape &shape,
                                             int workers) {
  std::vector<int64_t> sizes, aStrides, bStrides, cStrides;
  for (const MatmulDim &dim : shape.batch) {
    if (dim.a == 0 && dim.b == 0)
      return nullptr;
    sizes.push_back(dim.size);
    aStrides.push_back(dim.a);
    bStrides.push_back(dim.b);
    cStrides.push_back(dim.c);
  }
  dnnl::memory::desc a = getDescriptor(sizes, aStrides, shape.m.size, shape.m.a,
                                       shape.k.size, shape.k.a, shape.element);
  dnnl::memory::desc b = getDescriptor(sizes, bStrides, shape.k.size, shape.k.b,
                                       shape.n.size, shape.n.b, shape.element);
  dnnl::memory::desc c = getDescriptor(sizes, cStrides, shape.m.size, shape.m.c,
                                       shape.n.size, shape.n.c, shape.result);

  dnnl::post_ops postOps;
  switch (shape.activation) {
  case exec::Activation::none:
    break;
  case exec::Activation::relu:
    postOps.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    break;
  case exec::Activation::gelu_erf:
    postOps.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
    break;
  case exec::Activation::gelu_tanh:
    postOps.append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
    break;
  }
  if (shape.accumulate)
    postOps.append_sum(1);
  dnnl::primitive_attr attributes;
  // The library's own scratch memory belongs to the creating thread.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(postOps);

  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::memory::desc bias;
  if (shape.hasBias) {
    std::vector<int64_t> biasSizes(sizes.size() + 2, 1);
    std::vector<int64_t> biasStrides(sizes.size() + 2, shape.n.size);
    biasSizes.back() = shape.n.size;
    biasStrides.back() = 1;
    bias = {biasSizes, getDataType(shape.result), biasStrides};
  }
  dnnl::matmul::desc descriptor = shape.hasBias
                                      ? dnnl::matmul::desc(a, b, bias, c)
                                      : dnnl::matmul::desc(a, b, c);
  dnnl::matmul::primitive_desc prepared(descriptor, attributes, engine,
                                        /*allow_empty=*/true);
  if (!prepared) // 16-bit floats on most processors
    return nullptr;
  auto result = std::make_unique<Primitive>();
  result->implementation = prepared.impl_info_str();
  // A hundred times slower than ours: "ref:any", "ref_int8:any".
  if (std::string_view(result->implementation).starts_with("ref"))
    return nullptr;
  result->primitive = dnnl::matmul(prepared);
  result->scratchBytes = prepared.scratchpad_desc().get_size();
  result->hasBias = shape.hasBias;
  for (int i = 0; i < workers; ++i) {
    Worker worker;
    worker.stream = dnnl::stream(engine);
    worker.a = dnnl::memory(a, engine, nullptr);
    worker.b = dnnl::memory(b, engine, nullptr);
    worker.c = dnnl::memory(c, engine, nullptr);
    if (shape.hasBias)
      worker.bias = dnnl::memory(bias, engine, nullptr);
    worker.scratch = dnnl::memory(prepared.scratchpad_desc(), engine, nullptr);
    result->workers.push_back(std::move(worker));
  }
  return result;
}

dnnl_status_t Primitive::run(const MatmulOperands &operands, int number,
                             void *scratch) {
  Worker &worker = workers[number];
  dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, worker.a.get()},
                                  {DNNL_ARG_WEIGHTS, worker.b.get()},
                                  {DNNL_ARG_DST, worker.c.get()},
                                  {DNNL_ARG_SCRATCHPAD, worker.scratch.get()},
                                  {DNNL_ARG_BIAS, worker.bias.get(true)}};
  const void *data[5] = {operands.a, operands.b, operands.c, scratch,
                         operands.bias};
  const int count = hasBias ? 5 : 4;
  for (int i = 0; i < count; ++i)
    if (dnnl_status_t status = dnnl_memory_set_data_handle(
            arguments[i].memory, const_cast<void *>(data[i]));
        status != dnnl_success)
      return status;
  return dnnl_primitive_execute(primitive.get(), worker.stream.get(), count,
                                arguments);
}

/// oneDNN products inside a loop over `outer`; one dimension is cut into
/// pieces.
class OneDnnLoops final : public Matmul {
public:
  /// Null where oneDNN has no fast implementation with this many batch
  /// dimensions inside it. Fewer pieces than asked for where smaller ones would
  /// be slow.
  static std::unique_ptr<OneDnnLoops> create(const MatmulShape &shape,
                                             size_t innerBatch, int64_t pieces,
                                             int workers, bool swapsOperands);

  int64_t getNumPieces() const override {
    return (cutTotal + cutSize - 1) / cutSize;
  }
  uint64_t getScratchBytes() const override {
    return getSliceBytes() +
           std::max(whole->scratchBytes, rest ? rest->scratchBytes : 0);
  }
  const char *getImplementation() const override {
    return whole->implementation.c_str();
  }
  Status run(int64_t piece, const MatmulOperands &operands, int worker,
             void *scratch) override;

private:
  static std::unique_ptr<OneDnnLoops> cutInto(const MatmulShape &shape,
                                              size_t innerBatch, int64_t pieces,
                                              int workers, bool swapsOperands);

  /// Of the copy of a slice of the left operand, which lies at the start of
  /// the scratch memory.
  uint64_t getSliceBytes() const {
    constexpr uint64_t alignment = 64;
    const auto size = uint64_t(slicedRows * cutSize * bytes.factor);
    return (size + alignment - 1) / alignment * alignment;
  }

  std::vector<MatmulDim> outer; ///< looped over in every piece
  MatmulDim cut;                ///< the dimension that is cut
  int64_t cutTotal = 1;
  int64_t cutSize = 1; ///< of each piece but the last
  bool cutsRows = false;
  bool cutsColumns = false;
  bool swapsOperands = false; ///< `shape` is that of the transposes
  /// Rows of a transposed left operand of which every piece copies its columns
  /// to scratch memory first, and from one to the next (elements).
  int64_t slicedRows = 0;
  int64_t slicedStride = 0;
  ElementSizes bytes{MatmulShape()};
  std::unique_ptr<Primitive> whole;
  std::unique_ptr<Primitive> rest; ///< last piece, if it is smaller
};

/// Whether oneDNN multiplies matrices of this size without packing them first,
/// which is slower unless one of them is small anyway. Only its kernels without
/// AVX-512 do.
/// Source: the sum 1/rows + 1/columns from which on the rate falls, measured
/// with oneDNN 2.6.3 on Zen 3; 512x512x2048, left operand transposed: 56
/// GFLOP/s, 1024x512x2048: 86. With AVX-512 (Xeon, model 207) the same take 146
/// and 142, 256x512x2048 152.
bool skipsPacking(std::string_view implementation, int64_t rows,
                  int64_t columns) {
  constexpr double limit = 0.0038;
  return implementation == "gemm:jit" && !hasAvx512() &&
         1.0 / double(rows) + 1.0 / double(columns) >= limit;
}

/// Whether pieces of a product with a transposed left operand are faster if
/// they copy their columns of it first.
/// Source: 256x2048x512 of f32, left operand transposed with 2048 columns, one
/// thread of a Xeon (model 207) with oneDNN 2.6.3: 84 GFLOP/s in place
/// ("gemm:jit"), 101 with the copy ("brg:avx512_core"). With 512 columns both
/// take the same time: what hurts are rows a multiple of 8 KiB apart, which
/// share few lines of the first cache.
bool copiesSlices(const MatmulShape &shape, bool cutsRows) {
  constexpr int64_t slowStrideBytes = 8192;
  const int64_t strideBytes = shape.k.a * getElementBytes(shape.element);
  return hasAvx512() && cutsRows && shape.batch.empty() && shape.m.a == 1 &&
         shape.k.size > 1 && strideBytes % slowStrideBytes == 0;
}

std::unique_ptr<OneDnnLoops> OneDnnLoops::create(const MatmulShape &shape,
                                                 size_t innerBatch,
                                                 int64_t pieces, int workers,
                                                 bool swapsOperands) {
  for (;; pieces /= 2) {
    auto result = cutInto(shape, innerBatch, pieces, workers, swapsOperands);
    if (!result || pieces <= 1)
      return result;
    const std::string_view implementation = result->getImplementation();
    const int64_t rows = result->cutsRows ? result->cutSize : shape.m.size;
    const int64_t columns =
        result->cutsColumns ? result->cutSize : shape.n.size;
    if (!skipsPacking(implementation, rows, columns) ||
        skipsPacking(implementation, shape.m.size, shape.n.size))
      return result;
  }
}

std::unique_ptr<OneDnnLoops> OneDnnLoops::cutInto(const MatmulShape &shape,
                                                  size_t innerBatch,
                                                  int64_t pieces, int workers,
                                                  bool swapsOperands) {
  auto result = std::make_unique<OneDnnLoops>();
  result->swapsOperands = swapsOperands;
  result->bytes = ElementSizes(shape);
  MatmulShape inner = shape;
  size_t outerCount = shape.batch.size() - innerBatch;
  result->outer.assign(shape.batch.begin(),
                       shape.batch.begin() + ptrdiff_t(outerCount));
  inner.batch.erase(inner.batch.begin(),
                    inner.batch.begin() + ptrdiff_t(outerCount));

  // Cuts the outermost dimension that has enough to give, else the longer side
  // of the matrix: the other operand is packed again for every piece.
  MatmulDim *cut = nullptr;
  int64_t grain = 1;
  if (!result->outer.empty() && result->outer[0].size >= pieces) {
    cut = result->outer.data();
  } else if (!inner.batch.empty() && inner.batch[0].size >= pieces) {
    cut = inner.batch.data();
  } else {
    result->cutsColumns = inner.n.size > inner.m.size;
    result->cutsRows = !result->cutsColumns;
    cut = result->cutsColumns ? &inner.n : &inner.m;
    // A whole number of vector registers. More would make a last piece that is
    // much smaller than the others, and a thread that has it idle.
    grain = 16;
  }
  result->cut = *cut;
  result->cutTotal = cut->size;
  int64_t perPiece = (cut->size + pieces - 1) / pieces;
  result->cutSize = std::min(cut->size, (perPiece + grain - 1) / grain * grain);
  int64_t restSize = cut->size % result->cutSize;
  if (!result->outer.empty() && cut == result->outer.data()) {
    // A piece is a range of the first outer loop: every product has one shape.
    cut->size = 1;
    result->whole = Primitive::create(inner, workers);
    return result->whole ? std::move(result) : nullptr;
  }
  const bool copies = result->cutSize < result->cutTotal &&
                      result->outer.empty() &&
                      copiesSlices(inner, result->cutsRows);
  if (copies) {
    result->slicedRows = inner.k.size;
    result->slicedStride = inner.k.a;
  }
  cut->size = result->cutSize;
  if (copies)
    inner.k.a = cut->size;
  result->whole = Primitive::create(inner, workers);
  if (!result->whole)
    return nullptr;
  if (restSize == 0)
    return result;
  cut->size = restSize;
  if (copies)
    inner.k.a = cut->size;
  result->rest = Primitive::create(inner, workers);
  return result->rest ? std::move(result) : nullptr;
}

Status OneDnnLoops::run(int64_t piece, const MatmulOperands &given, int worker,
                        void *scratch) {
  MatmulOperands operands = given;
  if (swapsOperands)
    std::swap(operands.a, operands.b);
  const int64_t begin = piece * cutSize;
  const int64_t count = std::min(cutSize, cutTotal - begin);
  // A cut of the first outer loop repeats the primitive `count` times.
  const bool cutsOuter = !outer.empty() && outer[0].size == 1;
  const int64_t repeats = cutsOuter ? count : 1;
  Primitive &primitive = !cutsOuter && count < cutSize ? *rest : *whole;
  const int64_t products = multiplySizes(outer);
  auto *const slice = static_cast<std::byte *>(scratch);
  std::byte *const inside = slice + getSliceBytes();
  for (int64_t i = 0; i < repeats; ++i) {
    const int64_t position = begin + i;
    Offsets start{position * cut.a, position * cut.b, position * cut.c,
                  cutsColumns ? position : 0};
    MatmulOperands here = advance(operands, start, bytes);
    if (slicedRows > 0) {
      const auto *row = static_cast<const std::byte *>(here.a);
      const auto rowBytes = size_t(count * bytes.factor);
      for (int64_t k = 0; k < slicedRows; ++k)
        std::memcpy(slice + size_t(k) * rowBytes,
                    row + k * slicedStride * bytes.factor, rowBytes);
      here.a = slice;
    }
    for (int64_t product = 0; product < products; ++product) {
      dnnl_status_t status = primitive.run(
          advance(here, getOffsets(outer, product), bytes), worker, inside);
      if (status != dnnl_success)
        return Error{
            ErrorCode::Internal,
            fmt::format("a matrix product failed: {}", dnnl_status2str(status)),
            ""};
    }
  }
  return Status::success();
}

} // namespace

Result<std::unique_ptr<Matmul>> Matmul::create(const MatmulShape &given,
                                               int64_t pieces, int workers) {
  MatmulShape shape = mergeDims(given);
  const int64_t products =
      multiplySizes(shape.batch) * shape.m.size * shape.n.size;
  pieces =
      limitMatmulPieces(2.0 * double(products) * double(shape.k.size), pieces);
  const bool isHalf = isHalfFloat(shape.element);
  const bool isLibrarys = shape.element == exec::ElementType::f32 || isHalf;
  if (isLibrarys && products > 0 && shape.k.size > longestMatmul)
    return createLongMatmul(shape, pieces, workers);
  if (isLibrarys && products > 0 && shape.k.size > 0) {
    MatmulShape oriented = shape;
    // oneDNN wants rows; a result with columns is the product of the
    // transposes.
    const bool swapsOperands = oriented.n.c != 1 && oriented.n.size > 1 &&
                               (oriented.m.c == 1 || oriented.m.size == 1) &&
                               !oriented.hasBias;
    if (swapsOperands) {
      auto transpose = [](MatmulDim &dim) { std::swap(dim.a, dim.b); };
      std::swap(oriented.m, oriented.n);
      for (MatmulDim *dim : {&oriented.m, &oriented.n, &oriented.k})
        transpose(*dim);
      std::for_each(oriented.batch.begin(), oriented.batch.end(), transpose);
    }
    useOneMatmulThread();
    try {
      for (size_t inner = std::min(maxOneDnnBatch, oriented.batch.size()) + 1;
           inner-- > 0;)
        if (auto loops = OneDnnLoops::create(oriented, inner, pieces, workers,
                                             swapsOperands))
          return std::unique_ptr<Matmul>(std::move(loops));
    } catch (const dnnl::error &error) {
      return Error{ErrorCode::Internal,
                   fmt::format("cannot prepare a matrix product: {} ({})",
                               error.what(), dnnl_status2str(error.status)),
                   ""};
    }
  }
  if (isHalf)
    return createWideningMatmul(shape, pieces, workers);
  return std::unique_ptr<Matmul>(std::make_unique<BlockedLoops>(shape, pieces));
}
