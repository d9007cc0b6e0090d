// Random numbers, from frontend/README.md and the formulas of nd.random
// (dialect/NDOps.td).

#include "tests/fuzz/Evaluator.h"
#include "tests/fuzz/RandomBits.h"

#include <fmt/format.h>

using namespace meshc::fuzz;

uint64_t meshc::fuzz::getBits(uint64_t key, uint64_t counter, uint32_t stream) {
  constexpr uint64_t low = 0xffffffff;
  uint64_t key0 = key & low, key1 = key >> 32;
  uint64_t c[4] = {counter & low, counter >> 32, stream, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = c[0] * 0xD2511F53, second = c[2] * 0xCD9E8D57;
    const uint64_t next[4] = {(second >> 32) ^ c[1] ^ key0, second & low,
                              (first >> 32) ^ c[3] ^ key1, first & low};
    std::copy(next, next + 4, c);
    key0 = (key0 + 0x9E3779B9) & low;
    key1 = (key1 + 0xBB67AE85) & low;
  }
  return c[0] | c[1] << 32;
}

uint64_t meshc::fuzz::getSeedOfRun(int64_t seed, uint64_t run) {
  return getBits(uint64_t(seed), run, 2);
}

/// FNV-1a.
static uint64_t getHash(const std::string &name) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char byte : name)
    hash = (hash ^ byte) * 1099511628211u;
  return hash;
}

void Evaluator::findDraws(const Expr &expr, const std::string &name,
                          std::map<std::string, int> &numDraws) {
  forEachExpr(expr, [&](const Expr &inner) {
    if (inner.kind == ExprKind::Random)
      keys[&inner] = getHash(fmt::format("{}#{}", name, numDraws[name]++));
  });
}

void Evaluator::findDraws(const std::vector<Statement> &body,
                          const std::string &path) {
  for (const Statement *statement : flatten(tree, body)) {
    if (statement->kind == StatementKind::For) {
      findDraws(statement->body, path + statement->position + "/");
      continue;
    }
    const bool isCall = statement->kind == StatementKind::Call;
    const bool isVariable = statement->kind == StatementKind::Param ||
                            statement->kind == StatementKind::State;
    findDraws(statement->value,
              path + (isCall ? statement->names[0] : statement->name),
              isVariable ? numInitialDraws : numDraws);
    if (!isCall)
      continue;
    const std::string inner = path + statement->value.layer.scope + "/";
    findDraws(statement->body, inner);
    for (const Expr &result : statement->results)
      findDraws(result, inner + "return", numDraws);
  }
}

double meshc::fuzz::invertErf(double y) {
  double low = -7, high = 7;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    // In the tails the distance to 1 says more.
    const bool isBelow = y > 0.5    ? std::erfc(middle) > 1 - y
                         : y < -0.5 ? std::erfc(-middle) < 1 + y
                                    : std::erf(middle) < y;
    (isBelow ? low : high) = middle;
  }
  return low;
}

Scalar Evaluator::atRandom(const Expr &expr, const Point &point) {
  // An initial value is one draw of run 0.
  uint64_t iteration = 0;
  for (const auto &[dim, position] : loops)
    iteration = iteration * getNumDrawn(dim) +
                getDrawn(dim, int64_t(values.at(position).elements[0].value));
  uint64_t seed = isInitial ? uint64_t(tree.seed)
                            : getSeedOfRun(tree.seed, uint64_t(tree.run));
  if (iteration != 0)
    seed = getBits(seed, iteration, 1);
  uint64_t place = 0;
  for (DimId dim : expr.dims)
    place = place * getNumDrawn(dim) + getDrawn(dim, point[size_t(dim)]);
  const uint64_t bits = getBits(keys.at(&expr) ^ seed, place, 0);
  // Drawn in f32, in 16-bit programs too.
  auto round = [&](double value) {
    return tape.getPrecision() == Precision::F64 ? value : double(float(value));
  };
  auto toUnit = [&](uint32_t word) {
    return round(double(word >> 8) * 0x1p-24 + 0x1p-25);
  };
  auto f32 = [](double value) { return double(float(value)); };
  const double u0 = toUnit(uint32_t(bits));
  if (expr.name == "uniform")
    return {round(expr.number + (expr.second - expr.number) * u0), -1};
  double number;
  if (expr.name == "normal") {
    number = expr.second * std::sqrt(-2 * std::log(u0)) *
             std::cos(f32(2 * M_PI) * toUnit(uint32_t(bits >> 32)));
  } else {
    const double bound = std::erf(std::sqrt(2.0));
    number = f32(expr.second * std::sqrt(2.0)) *
             invertErf(f32(2 * bound) * u0 + f32(-bound));
  }
  return {round(expr.number + number), -1};
}
