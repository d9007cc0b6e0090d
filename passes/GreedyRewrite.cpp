#include "passes/GreedyRewrite.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <map>

using namespace mlir;

namespace {

/// Counts what is rewritten. Only the second half of what is allowed counts: by
/// then nothing but what does not end is left.
class RewriteCounter : public RewriterBase::Listener {
public:
  explicit RewriteCounter(int64_t limit) : limit(limit) {}

  void notifyPatternBegin(const Pattern &pattern, Operation *op) override {
    // The operation may be gone when the pattern has matched.
    tried = {&pattern, op->getLoc()};
  }
  void notifyPatternEnd(const Pattern &pattern, LogicalResult status) override {
    if (succeeded(status) && isCounted())
      count(("pattern '" + getName(pattern) + "'").str(), tried->second);
    tried.reset();
  }
  void notifyOperationModified(Operation *op) override {
    // What is no pattern's is a fold in place.
    if (!tried && isCounted())
      count(("the fold of '" + op->getName().getStringRef() + "'").str(),
            op->getLoc());
  }

  /// What was rewritten most often, and the last place where.
  void reportEndless(Operation *root) const {
    auto worst = llvm::max_element(rewrites, [](const auto &x, const auto &y) {
      return x.second.count < y.second.count;
    });
    if (worst == rewrites.end()) {
      emitError(root->getLoc()) << "simplifying the program does not end";
      return;
    }
    emitError(worst->second.place)
        << "simplifying the program does not end: after " << limit
        << " rewrites " << worst->first
        << " still applies here; the mistake is meshc's, not the program's";
  }

private:
  struct Rewrites {
    int64_t count;
    Location place;
  };

  static StringRef getName(const Pattern &pattern) {
    StringRef name = pattern.getDebugName();
    name.consume_front("(anonymous namespace)::");
    return name;
  }

  bool isCounted() { return ++total > limit / 2; }
  void count(std::string name, Location place) {
    auto known =
        rewrites.try_emplace(std::move(name), Rewrites{0, place}).first;
    ++known->second.count;
    known->second.place = place;
  }

  const int64_t limit;
  int64_t total = 0;
  std::optional<std::pair<const Pattern *, Location>> tried;
  std::map<std::string, Rewrites> rewrites;
};

} // namespace

LogicalResult meshc::rewriteGreedily(Operation *root,
                                     RewritePatternSet patterns) {
  int64_t operations = 0;
  root->walk([&](Operation *) { ++operations; });
  const int64_t limit = fewestRewrites + rewritesPerOperation * operations;
  RewriteCounter counter(limit);
  GreedyRewriteConfig config;
  config.setListener(&counter).setMaxNumRewrites(limit);
  if (succeeded(applyPatternsGreedily(root, std::move(patterns), config)))
    return success();
  counter.reportEndless(root);
  return failure();
}
