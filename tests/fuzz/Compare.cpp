#include "tests/fuzz/Compare.h"

#include <cmath>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::fuzz;

/// The element of the tree's tensor at each of the program's, in order; empty
/// if the dims are others.
static std::vector<size_t> findOrder(const Tree &tree, const Dims &dims,
                                     nd::NamedTensorType type) {
  std::vector<int64_t> strides;
  for (nd::DimAttr dim : type.getDims()) {
    int64_t stride = 1, found = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      const Dim &own = tree.dims[size_t(dims[i])];
      if (own.isCalled(dim.getName().str()) && own.size == dim.getSize())
        found = stride;
      stride *= own.size;
    }
    strides.push_back(found);
  }
  if (strides.size() != dims.size() ||
      std::find(strides.begin(), strides.end(), 0) != strides.end())
    return {};
  std::vector<size_t> order;
  interpreter::forEachPoint(
      type.getSizes(),
      {interpreter::Walked{0,
                           interpreter::Sizes(strides.begin(), strides.end())}},
      [&](auto, llvm::ArrayRef<int64_t> offsets) {
        order.push_back(size_t(offsets[0]));
      });
  return order;
}

meshc::test::F64Tensor meshc::fuzz::toProgram(const Tree &tree,
                                              const Tensor &tensor,
                                              nd::NamedTensorType type) {
  meshc::test::F64Tensor result(type.getSizes());
  const std::vector<size_t> order = findOrder(tree, tensor.dims, type);
  for (size_t i = 0; i < order.size(); ++i) {
    const double element = tensor.elements[order[i]];
    if (tensor.element == Element::F32)
      result.elements[i] = element;
    else
      result.elements[i] = int64_t(element);
  }
  return result;
}

std::optional<Tensor>
meshc::fuzz::fromProgram(const Tree &tree, const meshc::test::F64Tensor &tensor,
                         nd::NamedTensorType type) {
  Dims dims;
  for (nd::DimAttr dim : type.getDims())
    for (size_t i = 0; i < tree.dims.size(); ++i)
      if (tree.dims[i].isCalled(dim.getName().str()))
        dims.push_back(DimId(i));
  Tensor result{unite({}, dims), Element::F32, {}};
  const std::vector<size_t> order = findOrder(tree, result.dims, type);
  if (order.size() != tensor.elements.size())
    return std::nullopt;
  result.elements.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto &element = tensor.elements[i];
    double &own = result.elements[order[i]];
    if (interpreter::isPoison<interpreter::F64>(element)) {
      own = NAN; // no value of a program that is compared
    } else if (const auto *integer = std::get_if<int64_t>(&element)) {
      result.element = Element::I32;
      own = double(*integer);
    } else {
      own = std::get<double>(element);
    }
  }
  return result;
}

std::string meshc::fuzz::compare(const Tensor &expected, const Tensor &found,
                                 double bound, double least) {
  if (found.dims != expected.dims ||
      found.elements.size() != expected.elements.size())
    return "has other dims";
  if ((expected.element == Element::F32) != (found.element == Element::F32))
    return "has another type";
  double largest = least;
  for (double element : expected.elements)
    largest = std::max(largest, std::fabs(element));
  // Terms of this size that cancel in the tree leave what rounding makes of
  // them: the gradient of a softmax of one number, where GPUs divide.
  constexpr double cancelled = 1;
  if (largest == 0)
    largest = cancelled;
  const double allowed = expected.element == Element::F32 ? bound * largest : 0;
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    const double error = std::fabs(expected.elements[i] - found.elements[i]);
    // A NaN is never within bounds.
    if (!(error <= allowed))
      return fmt::format(
          "element {} is {:.9g}, expected {:.9g}: off by {:.3g}, "
          "allowed {:.3g}",
          i, found.elements[i], expected.elements[i], error, allowed);
  }
  return {};
}
