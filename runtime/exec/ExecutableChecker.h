#ifndef MESHC_RUNTIME_EXEC_EXECUTABLECHECKER_H
#define MESHC_RUNTIME_EXEC_EXECUTABLECHECKER_H

/// What checkExecutable is made of: ExecutableCheck.cpp has what an executable
/// declares, CommandCheck.cpp its commands, with what kinds/ has of each kind,
/// QuantityCheck.cpp the numbers that only say something.

#include "runtime/exec/Executable.h"

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace meshc::runtime {

/// Largest number of elements or bytes that any size in a program may reach:
/// far beyond any machine, and small enough that sums of two cannot overflow.
inline constexpr int64_t maxExtent = int64_t(1) << 56;

/// What the commands of a program may compute, read and write, or send
/// together.
inline constexpr int64_t maxTotal = int64_t(1) << 62;
/// Terms that a put adds up by one index: they are numbered in 32 bits, of
/// which one number is none.
inline constexpr int64_t maxPutTerms = int64_t(UINT32_MAX) - 1;

/// a * b, or -1 where an operand is negative or the product beyond maxExtent.
inline int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ||
      product > maxExtent)
    return -1;
  return product;
}

template <typename Enum> bool isEnumerator(Enum value, Enum last) {
  return int(value) >= 0 && int(value) <= int(last);
}

/// Elements of a shape without the dimensions that repeat; -1: beyond
/// maxExtent.
int64_t countElements(std::span<const int64_t> shape,
                      std::span<const int64_t> strides);

/// Whether a view of this shape and strides has each element of memory once at
/// most: each dimension steps over all that the ones of smaller strides reach.
bool hasEachElementOnce(std::span<const int64_t> shape,
                        std::span<const int64_t> strides);

/// Looks at every part of an executable and keeps the first defect.
class ExecutableChecker {
public:
  explicit ExecutableChecker(const exec::ExecutableT &data) : data(data) {}

  std::string check();

  // What the kinds of commands (kinds/CommandKind.h) check theirs with.

  const exec::ExecutableT &getData() const { return data; }
  const layout::Mesh &getMesh() const { return mesh; }
  /// Keeps the first defect; false.
  bool fail(std::string text) {
    if (defect.empty())
      defect = where.empty() ? std::move(text) : where + ": " + text;
    return false;
  }
  bool checkSpan(const exec::Span &span);
  /// Null is fine: nothing is known then.
  bool checkOrigin(const exec::OriginT *origin);
  bool checkRemarks(const exec::CommandT &command);
  bool checkLayout(const exec::TensorLayoutT *layout);
  /// Whether a view of this shape and strides at `operand` stays in its buffer.
  bool checkReach(size_t number, const exec::OperandT &operand,
                  std::span<const int64_t> shape,
                  std::span<const int64_t> strides);
  /// Whether what is written as a view of this shape and strides at `operand`
  /// has every element once.
  bool checkWritten(size_t number, std::span<const int64_t> shape,
                    std::span<const int64_t> strides);
  /// Whether a view has no more elements than the operand whose strides it
  /// replaces; those that repeat count once.
  bool checkView(size_t number, const exec::OperandT &operand,
                 std::span<const int64_t> shape,
                 std::span<const int64_t> strides);
  /// The first byte of the arena that an operand covers, and the one behind it;
  /// with a view's shape and strides, what that covers.
  std::pair<uint64_t, uint64_t> getReach(const exec::OperandT &operand) const;
  std::pair<uint64_t, uint64_t>
  getReach(const exec::OperandT &operand, std::span<const int64_t> shape,
           std::span<const int64_t> strides) const;

private:
  /// A number that must not be negative.
  struct Quantity {
    std::string_view name;
    int64_t value;
    int64_t most;
  };
  /// Of the commands of a program.
  struct Totals {
    int64_t flops = 0, bytes = 0, payload = 0, wire = 0;
  };

  bool checkQuantities(std::initializer_list<Quantity> quantities);
  bool checkTraffic(const exec::CollectiveT &collective, Totals &totals);
  bool checkCommandQuantities(const exec::CommandT &command, Totals &totals);
  bool checkTensorQuantities(const exec::TensorT &tensor);
  bool checkPortQuantities(const exec::PortT &port);
  bool checkSourceQuantities(const exec::DataSourceT &source);
  bool checkTrainingQuantities(const exec::TrainingT &training);

  bool checkMesh();
  bool checkScopes();
  bool checkRules();
  bool checkBufferHolds(int buffer, const exec::TensorLayoutT &layout);
  /// One more than the largest element index of a view, 0 if it is empty; -1:
  /// it is none.
  int64_t countReached(size_t number, std::span<const int64_t> shape,
                       std::span<const int64_t> strides);
  bool checkOperand(size_t number, const exec::OperandT &operand);
  bool checkCommand(const exec::CommandT &command, size_t index,
                    Totals &totals);
  bool checkProgram(const exec::ProgramT &program);
  bool checkPorts(const std::vector<std::unique_ptr<exec::PortT>> &ports,
                  std::string_view kind);
  /// Null, or a port for what the runtime writes in front of each run: one
  /// number.
  bool checkNumberOfRun(const exec::PortT *port, exec::ElementType element,
                        std::string_view what);
  bool checkData();

  const exec::ExecutableT &data;
  layout::Mesh mesh;
  std::string where;
  std::string defect;
};

} // namespace meshc::runtime

#endif
