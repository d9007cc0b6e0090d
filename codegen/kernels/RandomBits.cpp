// Random bits as arithmetic.

#include "codegen/kernels/MathFunctions.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;

namespace {
/// One block of Philox4x32-10, or one for each lane of vectors. Source: Salmon,
/// Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
/// and its constants.
class Philox {
public:
  /// For 64-bit numbers of this type. With `hasWideLanes` vectors have their
  /// words in lanes of 64 bits, of which the upper halves hold anything:
  /// processors multiply the lower halves of such lanes, and conversions are
  /// shuffles. GPUs have registers of 32 bits.
  Philox(OpBuilder &b, Location loc, Type type, bool hasWideLanes)
      : b(b), loc(loc), longType(type), wordType(b.getI32Type()) {
    if (auto vector = dyn_cast<VectorType>(type))
      wordType = hasWideLanes ? type : vector.clone(wordType);
  }

  Value constant(Type type, int64_t value) {
    const Type element = getElementTypeOrSelf(type);
    TypedAttr attr = b.getIntegerAttr(element, value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value word(Type type, uint32_t value) {
    return constant(type, isWide() ? int64_t(value) : int64_t(int32_t(value)));
  }
  Value word(uint32_t value) { return word(wordType, value); }

  /// The first two words of the block for a key and a counter whose third word
  /// is `stream`.
  std::pair<Value, Value> generate(Value key, Value counter, uint32_t stream) {
    // A key that all lanes have is scheduled once for all of them.
    if (auto lanes = key.getDefiningOp<vector::BroadcastOp>())
      key = lanes.getSource();
    const bool isVector = isa<VectorType>(key.getType());
    const Type keyType = isVector ? wordType : getElementTypeOrSelf(wordType);
    auto [key0, key1] = getWords(key, keyType);
    auto [c0, c1] = getWords(counter, wordType);
    Value c2 = word(stream), c3 = word(0);
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key0 = arith::AddIOp::create(b, loc, key0, word(keyType, 0x9E3779B9));
        key1 = arith::AddIOp::create(b, loc, key1, word(keyType, 0xBB67AE85));
      }
      auto [low0, high0] = multiply(0xD2511F53, c0);
      auto [low1, high1] = multiply(0xCD9E8D57, c2);
      c0 = exclusiveOr(high1, c1, spread(key0));
      c1 = low1;
      c2 = exclusiveOr(high0, c3, spread(key1));
      c3 = low0;
    }
    return {c0, c1};
  }

  /// Two words as one number.
  Value join(Value low, Value high) {
    high = arith::ShLIOp::create(b, loc, widen(high), constant(longType, 32));
    return arith::OrIOp::create(b, loc, high, widen(low));
  }

private:
  bool isWide() const { return wordType == longType; }

  /// Low and high word of a 64-bit number, of this type.
  std::pair<Value, Value> getWords(Value value, Type type) {
    Value high =
        arith::ShRUIOp::create(b, loc, value, constant(value.getType(), 32));
    if (isWide())
      return {value, high};
    return {arith::TruncIOp::create(b, loc, type, value),
            arith::TruncIOp::create(b, loc, type, high)};
  }
  /// A word in all lanes.
  Value spread(Value value) {
    if (value.getType() == wordType)
      return value;
    return vector::BroadcastOp::create(b, loc, wordType, value);
  }
  /// A word as a 64-bit number.
  Value widen(Value value) {
    if (!isWide())
      return arith::ExtUIOp::create(b, loc, longType, value);
    return arith::AndIOp::create(b, loc, value, constant(longType, 0xffffffff));
  }
  /// Low and high word of `factor` times `value`.
  std::pair<Value, Value> multiply(uint32_t factor, Value value) {
    Value product = arith::MulIOp::create(b, loc, widen(value),
                                          constant(longType, int64_t(factor)));
    return getWords(product, wordType);
  }
  Value exclusiveOr(Value x, Value y, Value z) {
    return arith::XOrIOp::create(b, loc, arith::XOrIOp::create(b, loc, x, y),
                                 z);
  }

  OpBuilder &b;
  Location loc;
  Type longType, wordType;
};

struct ExpandRandomBits : OpRewritePattern<spmd::RandomBitsOp> {
  ExpandRandomBits(MLIRContext *context, bool hasWideLanes)
      : OpRewritePattern<spmd::RandomBitsOp>(context),
        hasWideLanes(hasWideLanes) {}

  LogicalResult matchAndRewrite(spmd::RandomBitsOp op,
                                PatternRewriter &rewriter) const override {
    Philox philox(rewriter, op.getLoc(), op.getType(), hasWideLanes);
    auto [low, high] =
        philox.generate(op.getKey(), op.getCounter(), /*stream=*/0);
    rewriter.replaceOp(op, philox.join(low, high));
    return success();
  }

  bool hasWideLanes;
};

struct ExpandFoldIn : OpRewritePattern<spmd::FoldInOp> {
  ExpandFoldIn(MLIRContext *context, bool hasWideLanes)
      : OpRewritePattern<spmd::FoldInOp>(context), hasWideLanes(hasWideLanes) {}

  LogicalResult matchAndRewrite(spmd::FoldInOp op,
                                PatternRewriter &rewriter) const override {
    const Location loc = op.getLoc();
    Philox philox(rewriter, loc, op.getType(), hasWideLanes);
    auto [low, high] =
        philox.generate(op.getSeed(), op.getNumber(), /*stream=*/1);
    Value mixed = philox.join(low, high);
    Value isZero =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                              op.getNumber(), philox.constant(op.getType(), 0));
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isZero, op.getSeed(),
                                                 mixed);
    return success();
  }

  bool hasWideLanes;
};
} // namespace

void meshc::codegen::populateRandomPatterns(RewritePatternSet &patterns,
                                            bool hasWideLanes) {
  patterns.add<ExpandRandomBits, ExpandFoldIn>(patterns.getContext(),
                                               hasWideLanes);
}
