#ifndef MESHC_TESTS_EMULATION_ABISHAPES_H
#define MESHC_TESTS_EMULATION_ABISHAPES_H

/// What the two sides of a binary interface must agree about: the sizes of a
/// function's parameters, offsets in structures, numbers of constants.

#include <map>
#include <string>
#include <type_traits>

namespace meshc::emulation {

/// Bytes of a type; f for floats.
template <class Type> std::string describeType() {
  if constexpr (std::is_void_v<Type>)
    return "0";
  else
    return std::to_string(sizeof(Type)) +
           (std::is_floating_point_v<Type> ? "f" : "");
}

/// "4(8,4f,)": the result, the parameters.
template <class Result, class... Parameters>
std::string describeFunction(Result (*)(Parameters...)) {
  std::string text = describeType<Result>() + "(";
  ((text += describeType<Parameters>() + ","), ...);
  return text + ")";
}

/// By name.
using AbiShapes = std::map<std::string, std::string>;

/// Of the declarations here.
AbiShapes getCudaShapes();
AbiShapes getBlasLtShapes();
AbiShapes getNcclShapes();
/// Of NVIDIA's headers, where they are.
AbiShapes getRealCudaShapes();
AbiShapes getRealBlasLtShapes();
AbiShapes getRealNcclShapes();

} // namespace meshc::emulation

#endif
