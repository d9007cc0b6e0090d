#include "tests/cuda/ProductCases.h"

#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/exec/MatmulOperands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;

namespace {

using exec::Activation;
using exec::ColumnSum;
using exec::ElementType;

//===-- Elements ----------------------------------------------------------===//

bool isHalf(ElementType element) {
  return element == ElementType::bf16 || element == ElementType::f16;
}

/// The largest relative error of a rounding to `element`.
double getRoundoff(ElementType element) {
  switch (element) {
  case ElementType::f64:
    return 0x1p-53;
  case ElementType::bf16:
    return 0x1p-8;
  case ElementType::f16:
    return 0x1p-11;
  default:
    return 0x1p-24;
  }
}

/// The largest error of a rounding to denormal numbers of f16; those of other
/// types are too small to matter.
double getSmallest(ElementType element) {
  return element == ElementType::f16 ? 0x1p-25 : 0;
}

void store(ElementType element, double value, std::byte *target) {
  auto copy = [&](auto bits) { std::memcpy(target, &bits, sizeof(bits)); };
  switch (element) {
  case ElementType::f64:
    return copy(value);
  case ElementType::f32:
    return copy(float(value));
  case ElementType::bf16:
    return copy(BFloat16::round(float(value)));
  case ElementType::f16:
    return copy(Float16::round(float(value)));
  default: // the words of relu's bits
    return copy(int32_t(value));
  }
}

double load(ElementType element, const std::byte *source) {
  auto copy = [&]<typename T>(T value) {
    std::memcpy(&value, source, sizeof(T));
    return value;
  };
  switch (element) {
  case ElementType::f64:
    return copy(double());
  case ElementType::f32:
    return double(copy(float()));
  case ElementType::bf16:
    return double(copy(BFloat16()).toFloat());
  case ElementType::f16:
    return double(copy(Float16()).toFloat());
  default:
    return copy(int32_t());
  }
}

//===-- Operands ----------------------------------------------------------===//

/// The operands of a case by their positions in the command.
class Operands {
public:
  explicit Operands(const ProductCase &test);

  size_t getCount() const { return order.count; }
  int64_t getBytes(size_t position) const {
    return counts[position] * getElementBytes(elements[position]);
  }
  /// What lies in memory before the product; NaN, all bits set, where it
  /// writes.
  std::vector<std::byte> pack(size_t position) const;
  void unpack(size_t position, const std::vector<std::byte> &data);
  bool isWritten(size_t position) const {
    return position + size_t(order.results) >= order.count;
  }

  double getA(int64_t batch, int64_t i, int64_t l) const {
    return values[0][place(matmul.a_strides, batch, i, l)];
  }
  double getB(int64_t batch, int64_t l, int64_t j) const {
    return values[1][place(matmul.b_strides, batch, l, j)];
  }
  double getC(int64_t batch, int64_t i, int64_t j) const {
    return values[size_t(order.c)][place(matmul.c_strides, batch, i, j)];
  }
  double getBias(int64_t j) const {
    return order.bias < 0 ? 0 : values[size_t(order.bias)][size_t(j)];
  }
  /// What is added, from elsewhere or from where the result is.
  double getAddend(int64_t batch, int64_t i, int64_t j) const {
    if (matmul.accumulate)
      return getC(batch, i, j);
    return order.addend < 0 ? 0
                            : values[size_t(order.addend)]
                                    [place(matmul.c_strides, batch, i, j)];
  }
  double getAux(int64_t i, int64_t j) const {
    return values[size_t(order.aux)][size_t(i * matmul.n + j)];
  }
  bool getBit(int64_t i, int64_t j) const {
    const int64_t bit = i * getMaskRowWords(matmul.n) * 32 + j;
    const double word = values[size_t(order.aux)][size_t(bit / 32)];
    return uint32_t(int32_t(word)) >> bit % 32 & 1;
  }
  double getSum(int64_t at) const {
    return values[size_t(order.sums)][size_t(at)];
  }

  const exec::MatmulT &matmul;
  const MatmulOperandOrder order;
  std::vector<ElementType> elements;

private:
  size_t place(const std::vector<int64_t> &strides, int64_t batch, int64_t row,
               int64_t column) const {
    const size_t rank = matmul.batch.size();
    int64_t at = row * strides[rank] + column * strides[rank + 1];
    for (size_t dim = rank; dim-- > 0; batch /= matmul.batch[dim])
      at += batch % matmul.batch[dim] * strides[dim];
    return size_t(at);
  }
  int64_t getCount(size_t position) const;
  void makeSpecial();

  std::vector<int64_t> counts;
  std::vector<std::vector<double>> values;
};

int64_t getBatch(const exec::MatmulT &matmul) {
  return std::accumulate(matmul.batch.begin(), matmul.batch.end(), int64_t(1),
                         std::multiplies<>());
}

int64_t Operands::getCount(size_t position) const {
  const int64_t batch = getBatch(matmul) - 1;
  const int at = int(position);
  const int64_t m = matmul.m, n = matmul.n, k = matmul.k;
  if (at == 0)
    return int64_t(place(matmul.a_strides, batch, m - 1, k - 1)) + 1;
  if (at == 1)
    return int64_t(place(matmul.b_strides, batch, k - 1, n - 1)) + 1;
  if (at == order.bias)
    return n;
  if (at == order.sums)
    return matmul.column_sum == ColumnSum::a ? m : n;
  if (at == order.aux && matmul.activation == Activation::relu)
    return m * getMaskRowWords(n);
  return int64_t(place(matmul.c_strides, batch, m - 1, n - 1)) + 1;
}

Operands::Operands(const ProductCase &test)
    : matmul(test.matmul), order(getOperandOrder(test.matmul)) {
  std::mt19937 random(7);
  for (size_t position = 0; position < order.count; ++position) {
    const bool isMask =
        int(position) == order.aux && matmul.activation == Activation::relu;
    elements.push_back(isMask         ? ElementType::i32
                       : position < 2 ? test.factor
                                      : test.result);
    counts.push_back(getCount(position));
    values.emplace_back();
    // What gelu had as its argument, where it is curved.
    const double scale = int(position) == order.aux ? 4 : 1;
    for (int64_t i = 0; i < counts.back(); ++i) {
      const double number = scale * (double(random()) * 0x1p-31 - 1);
      std::array<std::byte, 8> rounded{};
      store(elements.back(), isMask ? double(int32_t(random())) : number,
            rounded.data());
      values.back().push_back(load(elements.back(), rounded.data()));
    }
  }
  if (test.data == ProductData::special)
    makeSpecial();
}

void Operands::makeSpecial() {
  for (int64_t batch = 0; batch < getBatch(matmul); ++batch) {
    for (int64_t l = 0; l < matmul.k; ++l)
      values[0][place(matmul.a_strides, batch, 0, l)] = 0;
    values[0][place(matmul.a_strides, batch, 1, 0)] = NAN;
    for (int64_t j = 0; j < matmul.n; j += 2) {
      const size_t at = place(matmul.c_strides, batch, 0, j);
      values[size_t(order.c)][at] = 0;
      if (order.addend >= 0)
        values[size_t(order.addend)][at] = 0;
      if (order.bias >= 0)
        values[size_t(order.bias)][size_t(j)] = 0;
    }
  }
}

std::vector<std::byte> Operands::pack(size_t position) const {
  std::vector<std::byte> data(size_t(getBytes(position)), std::byte(0xff));
  if (isWritten(position) && !(matmul.accumulate && int(position) == order.c))
    return data;
  const int64_t bytes = getElementBytes(elements[position]);
  for (int64_t i = 0; i < counts[position]; ++i)
    store(elements[position], values[position][size_t(i)],
          data.data() + i * bytes);
  return data;
}

void Operands::unpack(size_t position, const std::vector<std::byte> &data) {
  const int64_t bytes = getElementBytes(elements[position]);
  for (int64_t i = 0; i < counts[position]; ++i)
    values[position][size_t(i)] =
        load(elements[position], data.data() + i * bytes);
}

//===-- What is expected --------------------------------------------------===//

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double geluSlope(double x) {
  const double scale = std::sqrt(2 / M_PI);
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}

/// No slope of gelu is larger: 1.1289 at 1.417.
constexpr double largestSlope = 1.13;

struct Expected {
  double value, bound;
};

/// The differences of one algorithm's results.
class Differences {
public:
  void expect(const char *what, int64_t at, double found, Expected expected) {
    if (std::isnan(expected.value)
            ? std::isnan(found)
            : std::abs(found - expected.value) <= expected.bound)
      return;
    add(fmt::format("{} {} is {}, expected {} within {:.2g}", what, at, found,
                    expected.value, expected.bound));
    largest =
        std::max(largest, std::abs(found - expected.value) / expected.bound);
  }
  void add(std::string text) {
    if (count++ == 0)
      first = std::move(text);
  }
  std::string str() const {
    if (count == 0)
      return "";
    return fmt::format("{} ({} wrong, {:.3g} times the bound at most)", first,
                       count, largest);
  }

private:
  size_t count = 0;
  double largest = 0; ///< error, in bounds
  std::string first;
};

/// Compares what a product wrote with what it had read.
class Comparison {
public:
  Comparison(const Operands &before, const Operands &after, ReluRules &rules)
      : matmul(before.matmul), before(before), after(after), rules(rules),
        result(before.elements.back()),
        sumRoundoff(getRoundoff(before.elements[0] == ElementType::f64
                                    ? ElementType::f64
                                    : ElementType::f32) *
                    (isHalf(before.elements[0]) ? 2 : 1)) {}

  std::string compare();

private:
  bool mayRoundTwice() const;
  Expected getArgument(int64_t batch, int64_t i, int64_t j, bool &isZero) const;
  Expected getResult(int64_t i, int64_t j, Expected x) const;
  /// The same in memory.
  Expected round(Expected number) const {
    return {number.value, number.bound +
                              getRoundoff(result) * std::abs(number.value) +
                              getSmallest(result)};
  }
  void compareElement(int64_t batch, int64_t i, int64_t j);
  void compareRelu(int64_t i, int64_t j, double found, Expected x, bool isZero);
  void compareFactorSums();

  const exec::MatmulT &matmul;
  const Operands &before, &after;
  ReluRules &rules;
  const ElementType result;
  const double sumRoundoff;
  std::vector<Expected> sums;
  std::vector<double> magnitudes; ///< of their terms, together
  Differences differences;
};

/// Whether the library may round to the result's 16 bits in front of the end,
/// too.
bool Comparison::mayRoundTwice() const {
  return isHalf(result) &&
         (matmul.has_bias || matmul.has_addend || matmul.accumulate ||
          matmul.activation != Activation::none);
}

Expected Comparison::getArgument(int64_t batch, int64_t i, int64_t j,
                                 bool &isZero) const {
  double sum = before.getBias(j) + before.getAddend(batch, i, j);
  double magnitude =
      std::abs(before.getBias(j)) + std::abs(before.getAddend(batch, i, j));
  for (int64_t l = 0; l < matmul.k; ++l) {
    const double term = before.getA(batch, i, l) * before.getB(batch, l, j);
    sum += term;
    magnitude += std::abs(term);
  }
  isZero = magnitude == 0;
  const int64_t terms = matmul.k + 2;
  double bound = double(terms + 1) * sumRoundoff * magnitude;
  if (mayRoundTwice())
    bound += getRoundoff(result) *
                 std::max(std::abs(sum - before.getBias(j)),
                          std::abs(sum - before.getBias(j) -
                                   before.getAddend(batch, i, j))) +
             getSmallest(result);
  return {sum, bound};
}

Expected Comparison::getResult(int64_t i, int64_t j, Expected x) const {
  const double own = getRoundoff(ElementType::f32);
  switch (matmul.activation) {
  case Activation::relu:
    if (matmul.is_gradient)
      return before.getBit(i, j) ? x : Expected{0, 0};
    return {std::max(x.value, 0.0), x.bound};
  case Activation::gelu_tanh:
    if (matmul.is_gradient)
      return {x.value * geluSlope(before.getAux(i, j)),
              largestSlope * x.bound + 256 * own * std::abs(x.value)};
    return {gelu(x.value),
            largestSlope * x.bound + 64 * own * std::abs(x.value)};
  default:
    return x;
  }
}

/// The library may make of NaN, and leave behind for 0, what it likes, as long
/// as it is said.
void Comparison::compareRelu(int64_t i, int64_t j, double found, Expected x,
                             bool isZero) {
  const bool isNan = std::isnan(x.value);
  const int64_t at = i * matmul.n + j;
  if (isNan) {
    rules.keepsNan.insert(std::isnan(found));
    if (!std::isnan(found) && found != 0)
      differences.add(fmt::format("c {} is {}, relu of NaN", at, found));
  }
  if (!matmul.has_aux)
    return;
  const bool bit = after.getBit(i, j);
  if (isZero)
    rules.bitOfZero.insert(bit);
  else if (isNan)
    rules.bitOfNan.insert(bit);
  else if (std::abs(x.value) > x.bound && bit != (x.value > 0))
    differences.add(fmt::format("bit {} is {} of {}", at, bit, x.value));
}

void Comparison::compareElement(int64_t batch, int64_t i, int64_t j) {
  bool isZero;
  const Expected x = getArgument(batch, i, j, isZero);
  const int64_t at = i * matmul.n + j;
  const double found = after.getC(batch, i, j);
  const bool isRelu =
      matmul.activation == Activation::relu && !matmul.is_gradient;
  if (isRelu)
    compareRelu(i, j, found, x, isZero);
  const Expected c = round(getResult(i, j, x));
  if (!isRelu || !std::isnan(x.value))
    differences.expect("c", batch * matmul.m * matmul.n + at, found, c);
  if (matmul.activation == Activation::gelu_tanh && matmul.has_aux &&
      !matmul.is_gradient)
    differences.expect("argument", at, after.getAux(i, j), round(x));
  if (matmul.column_sum != ColumnSum::c)
    return;
  sums[size_t(j)].value += c.value;
  sums[size_t(j)].bound += c.bound;
  magnitudes[size_t(j)] += std::abs(c.value);
}

void Comparison::compareFactorSums() {
  const bool isOfA = matmul.column_sum == ColumnSum::a;
  for (int64_t l = 0; l < matmul.k; ++l)
    for (size_t at = 0; at < sums.size(); ++at) {
      const double term = isOfA ? before.getA(0, int64_t(at), l)
                                : before.getB(0, l, int64_t(at));
      sums[at].value += term;
      magnitudes[at] += std::abs(term);
    }
}

std::string Comparison::compare() {
  if (matmul.column_sum != ColumnSum::none) {
    sums.resize(
        size_t(matmul.column_sum == ColumnSum::a ? matmul.m : matmul.n));
    magnitudes.resize(sums.size());
  }
  for (int64_t batch = 0; batch < getBatch(matmul); ++batch)
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j)
        compareElement(batch, i, j);
  const bool isOfFactor =
      matmul.column_sum == ColumnSum::a || matmul.column_sum == ColumnSum::b;
  if (isOfFactor)
    compareFactorSums();
  const int64_t terms = isOfFactor ? matmul.k : matmul.m;
  for (size_t at = 0; at < sums.size(); ++at) {
    sums[at].bound += double(terms + 1) * sumRoundoff * magnitudes[at];
    differences.expect("sum", int64_t(at), after.getSum(int64_t(at)),
                       round(sums[at]));
  }
  return differences.str();
}

} // namespace

//===-- Rules -------------------------------------------------------------===//

void ReluRules::add(const ReluRules &others) {
  bitOfZero.insert(others.bitOfZero.begin(), others.bitOfZero.end());
  bitOfNan.insert(others.bitOfNan.begin(), others.bitOfNan.end());
  keepsNan.insert(others.keepsNan.begin(), others.keepsNan.end());
}

static const char *choose(const std::set<bool> &found, const char *yes,
                          const char *no) {
  if (found.size() == 1)
    return *found.begin() ? yes : no;
  return found.empty() ? "[not seen]" : "[either]";
}

std::string ReluRules::str() const {
  return fmt::format("{} the bit of 0, {} the bit of NaN, makes {} of NaN",
                     choose(bitOfZero, "sets", "clears"),
                     choose(bitOfNan, "sets", "clears"),
                     choose(keepsNan, "NaN", "0"));
}

//===-- Running -----------------------------------------------------------===//

Result<std::unique_ptr<ProductRunner>>
ProductRunner::create(const Driver &driver) {
  std::unique_ptr<ProductRunner> runner(new ProductRunner(driver));
  Result<std::unique_ptr<Gpu>> gpu = Gpu::open(driver, 0);
  if (!gpu)
    return gpu.getError();
  Result<OwnedStream> stream = makeStream(driver, 0);
  if (!stream)
    return stream.getError();
  Result<std::unique_ptr<MatmulCalls>> calls = MatmulCalls::create(driver);
  if (!calls)
    return calls.getError();
  Result<DeviceMemory> workspace = allocate(driver, matmulWorkspaceBytes);
  if (!workspace)
    return workspace.getError();
  runner->gpu = std::move(*gpu);
  runner->stream = std::move(*stream);
  runner->calls = std::move(*calls);
  runner->workspace = std::move(*workspace);
  return runner;
}

ProductOutcome ProductRunner::run(const ProductCase &test) {
  ProductOutcome outcome;
  const Operands before(test);
  exec::CommandT command;
  command.action.Set(exec::MatmulT(test.matmul));
  std::vector<DeviceMemory> memory;
  for (size_t i = 0; i < before.getCount(); ++i) {
    command.operands.push_back(std::make_unique<exec::OperandT>());
    command.operands[i]->element = before.elements[i];
    Result<DeviceMemory> allocated =
        allocate(driver, uint64_t(before.getBytes(i)));
    if (!allocated)
      return {allocated.getError().message, "", 0, {}};
    memory.push_back(std::move(*allocated));
  }
  Result<MatmulPlan> plan = planMatmul(command);
  if (!plan)
    return {plan.getError().message, "", 0, {}};
  const MatmulOperandOrder &order = before.order;
  auto get = [&](int position) {
    return position < 0 ? 0 : memory[size_t(position)].get();
  };
  DeviceMemory tables;
  if (plan->hasTables) {
    Result<DeviceMemory> allocated = allocate(driver, getTableBytes(*plan));
    if (!allocated)
      return {allocated.getError().message, "", 0, {}};
    tables = std::move(*allocated);
  }
  const MatmulPointers pointers = {get(0),
                                   get(1),
                                   get(order.c),
                                   get(std::max(order.bias, order.sums)),
                                   get(order.aux),
                                   get(order.addend),
                                   plan->hasTables ? tables.get() : 0};
  Result<MatmulCall *> call = calls->prepare(*plan, pointers);
  if (!call)
    return {"", call.getError().message, 0, {}};
  if (plan->hasTables) {
    const std::vector<uint64_t> addresses =
        MatmulCalls::makeTables(*plan, pointers);
    Status copied = driver.memcpyHtoDAsync(tables.get(), addresses.data(),
                                           getTableBytes(*plan), stream.get());
    if (copied)
      copied = driver.streamSynchronize(stream.get());
    if (!copied)
      return {copied.getError().message, "", 0, {}};
  }

  auto copyIn = [&](size_t i) -> Status {
    const std::vector<std::byte> data = before.pack(i);
    MESHC_RETURN_IF_ERROR(driver.memcpyHtoDAsync(memory[i].get(), data.data(),
                                                 data.size(), stream.get()));
    return driver.streamSynchronize(stream.get());
  };
  auto copyOut = [&](size_t i) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> data(size_t(before.getBytes(i)));
    MESHC_RETURN_IF_ERROR(driver.memcpyDtoHAsync(data.data(), memory[i].get(),
                                                 data.size(), stream.get()));
    MESHC_RETURN_IF_ERROR(driver.streamSynchronize(stream.get()));
    return data;
  };
  auto compute = [&]() -> Result<std::string> {
    for (size_t i = 0; i < memory.size(); ++i)
      MESHC_RETURN_IF_ERROR(copyIn(i));
    MESHC_RETURN_IF_ERROR(
        calls->run(*plan, **call, pointers, workspace.get(), stream.get()));
    Operands after(test);
    for (size_t i = 0; i < memory.size(); ++i) {
      const Result<std::vector<std::byte>> data = copyOut(i);
      if (!data)
        return data.getError();
      if (before.isWritten(i))
        after.unpack(i, *data);
      else if (*data != before.pack(i))
        return fmt::format("operand {} was overwritten", i);
    }
    return Comparison(before, after, outcome.rules).compare();
  };
  outcome.algorithms = calls->getNumCandidates(**call);
  for (size_t i = 0; i < outcome.algorithms; ++i) {
    MatmulCalls::choose(**call, i);
    const Result<std::string> found = compute();
    const std::string &text = found ? *found : found.getError().message;
    if (!text.empty())
      outcome.problems += fmt::format(
          "{}algorithm {}: {}", outcome.problems.empty() ? "" : "\n", i, text);
  }
  return outcome;
}
