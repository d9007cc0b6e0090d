// Random bits as arithmetic.

#include "codegen/kernels/MathFunctions.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace meshc;

namespace {
/// One block of Philox4x32-10, or one for each lane of vectors. Source: Salmon,
/// Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
/// and its constants.
class Philox {
public:
  /// For 64-bit numbers of this type. Vectors have their words in lanes of 64
  /// bits, of which the upper halves hold anything: processors multiply the
  /// lower halves of such lanes, and conversions are shuffles.
  Philox(OpBuilder &b, Location loc, Type type)
      : b(b), loc(loc), longType(type),
        wordType(isa<VectorType>(type) ? type : b.getI32Type()) {}

  Value constant(Type type, int64_t value) {
    const Type element = getElementTypeOrSelf(type);
    TypedAttr attr = b.getIntegerAttr(element, value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value word(uint32_t value) {
    return constant(wordType,
                    isWide() ? int64_t(value) : int64_t(int32_t(value)));
  }

  /// The first two words of the block for a key and a counter whose third word
  /// is `stream`, as one number.
  Value generate(Value key, Value counter, uint32_t stream) {
    auto [key0, key1] = getWords(key);
    auto [c0, c1] = getWords(counter);
    Value c2 = word(stream), c3 = word(0);
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key0 = arith::AddIOp::create(b, loc, key0, word(0x9E3779B9));
        key1 = arith::AddIOp::create(b, loc, key1, word(0xBB67AE85));
      }
      auto [low0, high0] = multiply(0xD2511F53, c0);
      auto [low1, high1] = multiply(0xCD9E8D57, c2);
      c0 = exclusiveOr(high1, c1, key0);
      c1 = low1;
      c2 = exclusiveOr(high0, c3, key1);
      c3 = low0;
    }
    Value high =
        arith::ShLIOp::create(b, loc, widen(c1), constant(longType, 32));
    return arith::OrIOp::create(b, loc, high, widen(c0));
  }

private:
  bool isWide() const { return wordType == longType; }

  /// Low and high word of a 64-bit number.
  std::pair<Value, Value> getWords(Value value) {
    Value high = arith::ShRUIOp::create(b, loc, value, constant(longType, 32));
    if (isWide())
      return {value, high};
    return {arith::TruncIOp::create(b, loc, wordType, value),
            arith::TruncIOp::create(b, loc, wordType, high)};
  }
  /// A word as a 64-bit number.
  Value widen(Value value) {
    if (!isWide())
      return arith::ExtUIOp::create(b, loc, longType, value);
    return arith::AndIOp::create(b, loc, value, constant(longType, 0xffffffff));
  }
  /// Low and high word of `factor` times `value`.
  std::pair<Value, Value> multiply(uint32_t factor, Value value) {
    return getWords(arith::MulIOp::create(b, loc, widen(value),
                                          constant(longType, int64_t(factor))));
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
  using OpRewritePattern<spmd::RandomBitsOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(spmd::RandomBitsOp op,
                                PatternRewriter &rewriter) const override {
    Philox philox(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(
        op, philox.generate(op.getKey(), op.getCounter(), /*stream=*/0));
    return success();
  }
};

struct ExpandFoldIn : OpRewritePattern<spmd::FoldInOp> {
  using OpRewritePattern<spmd::FoldInOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(spmd::FoldInOp op,
                                PatternRewriter &rewriter) const override {
    const Location loc = op.getLoc();
    Philox philox(rewriter, loc, op.getType());
    Value mixed = philox.generate(op.getSeed(), op.getNumber(), /*stream=*/1);
    Value isZero =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                              op.getNumber(), philox.constant(op.getType(), 0));
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isZero, op.getSeed(),
                                                 mixed);
    return success();
  }
};
} // namespace

void meshc::codegen::populateRandomPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandRandomBits, ExpandFoldIn>(patterns.getContext());
}
