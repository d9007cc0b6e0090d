#ifndef MESHC_TESTS_RUNTIME_PROGRAMBUILDER_H
#define MESHC_TESTS_RUNTIME_PROGRAMBUILDER_H

/// Builds exec programs by hand, so that the runtime is tested without the
/// compiler.

#include "layout/Sharding.h"
#include "runtime/exec/Executable.h"

#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime::test {

/// One dimension of a tensor: name, global size and the axes that split it.
struct Dim {
  std::string name;
  int64_t size;
  std::vector<exec::AxisRef> axes = {};
};

/// A layout; `partial` with `partialAxes` for partial values.
exec::TensorLayoutT
makeLayout(exec::ElementType element, std::vector<Dim> dims,
           exec::ReduceKind partial = exec::ReduceKind::none,
           std::vector<exec::AxisRef> partialAxes = {});
exec::TensorLayoutT makeLayout(exec::ElementType element,
                               const std::vector<int64_t> &sizes,
                               const layout::Sharding &sharding);

/// Row-major strides.
std::vector<int64_t> getStrides(const std::vector<int64_t> &shape);

class ProgramBuilder {
public:
  /// Axes in order, major first.
  explicit ProgramBuilder(
      const std::vector<std::pair<std::string, int64_t>> &axes);

  /// The whole of an axis.
  exec::AxisRef axis(int32_t number) const;

  int addBuffer(const std::string &name, int64_t bytes);
  /// A buffer for one device's block of a tensor.
  int addBuffer(const std::string &name, const exec::TensorLayoutT &layout);
  void addVariable(const std::string &name, const exec::TensorLayoutT &layout,
                   int buffer,
                   exec::BufferRole role = exec::BufferRole::parameter);

  /// Following calls add to this program.
  void beginProgram(const std::string &name);
  void addInput(const std::string &name, const exec::TensorLayoutT &layout,
                int buffer, int64_t indexBound = 0);
  /// What random numbers of the program are drawn from.
  void setSeed(const exec::TensorLayoutT &layout, int buffer);
  void addOutput(const std::string &name, const exec::TensorLayoutT &layout,
                 int buffer);

  /// A whole buffer as a contiguous operand.
  std::unique_ptr<exec::OperandT> view(int buffer, exec::ElementType element,
                                       std::vector<int64_t> shape,
                                       std::vector<int64_t> strides = {},
                                       uint64_t offset = 0) const;
  exec::CommandT &
  addKernel(const std::string &symbol, int64_t extent,
            std::vector<std::unique_ptr<exec::OperandT>> operands, int results,
            int64_t bytes = 0);
  exec::CommandT &
  addMatmul(const exec::MatmulT &matmul,
            std::vector<std::unique_ptr<exec::OperandT>> operands);
  exec::CommandT &addCollective(exec::CollectiveKind kind,
                                const exec::TensorLayoutT &source, int from,
                                const exec::TensorLayoutT &target, int to);
  /// Merges another collective of the same kind into `command`.
  void addMember(exec::CommandT &command, const exec::TensorLayoutT &source,
                 int from, const exec::TensorLayoutT &target, int to);
  exec::CommandT &addCopy(std::unique_ptr<exec::OperandT> from,
                          std::unique_ptr<exec::OperandT> to,
                          int64_t bytes = 0);

  /// The program so far, for changes that no call above makes.
  exec::ExecutableT &get() { return *data; }
  /// Gives the commands that have no waits those that their operands need.
  void addWaits();
  /// Adds the waits and hands the program over; fails the test where it is not
  /// valid.
  Executable finish();
  /// The same as bytes.
  std::vector<uint8_t> serialize() const;

private:
  exec::CommandT &addCommand(const std::string &name);

  std::unique_ptr<exec::ExecutableT> data;
};

/// Makes a vector of operands: initializer lists cannot be moved from.
template <typename... Operands>
std::vector<std::unique_ptr<exec::OperandT>> list(Operands... operands) {
  std::vector<std::unique_ptr<exec::OperandT>> result;
  (result.push_back(std::move(operands)), ...);
  return result;
}

} // namespace meshc::runtime::test

#endif
