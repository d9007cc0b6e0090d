// Elements that are for data: what refuses them, and what they cannot be.

#include "CodeCases.h"

using namespace meshc::frontend;
using namespace meshc::frontend::cases;

/// A whole spec around an expression on elements of each type for data, and on
/// floats.
static std::string data(const std::string &expression) {
  return head +
         "model m(image: u8[batch, in], level: i8[batch], depth: i16[batch],\n"
         "        x: f32[batch, in], truth: bool[batch]) {\n"
         "  let v = " +
         expression + "\n  output o = sum(x)\n}\n";
}

std::vector<Case> cases::getDataCases() {
  const std::string help = "convert with i32(...) or f32(...)";
  return {
      {Code::ComputesWithData, data("<<image>> / 255"),
       "div computes, and u8 is for data", help},
      // The number is of no type that it could not be.
      {Code::ComputesWithData, data("<<image>> / 127.5 - 1"),
       "div computes, and u8", help},
      {Code::ComputesWithData, data("1000 - <<level>>"),
       "sub computes, and i8 is for data", help},
      {Code::ComputesWithData, data("1 * <<image>>"), "mul computes", help},
      {Code::ComputesWithData, data("<<depth>> + depth"),
       "add computes, and i16 is for data", help},
      {Code::ComputesWithData, data("x * <<image>>"), "mul computes", help},
      {Code::ComputesWithData, data("<<image>> ^ 2"), "mul computes", help},
      {Code::ComputesWithData, data("<<image>> ^ 0.5"), "pow computes", help},
      {Code::ComputesWithData, data("-<<level>>"), "neg computes", help},
      {Code::ComputesWithData, data("abs(<<level>>)"), "abs computes", help},
      {Code::ComputesWithData, data("sign(<<depth>>)"), "sign computes", help},
      {Code::ComputesWithData, data("exp(<<image>>)"), "exp computes", help},
      {Code::ComputesWithData, data("maximum(<<image>>, 300)"),
       "maximum computes", help},
      {Code::ComputesWithData, data("minimum(x, <<image>>)"),
       "minimum computes", help},
      {Code::ComputesWithData, data("sum(<<image>>, over = in)"),
       "sum computes", help},
      {Code::ComputesWithData, data("mean(<<image>>)"), "mean computes", help},
      {Code::ComputesWithData, data("max(<<depth>>)"), "max computes", help},
      {Code::ComputesWithData, data("argmax(<<image>>, over = in)"),
       "argmax computes", help},
      {Code::ComputesWithData, data("einsum(x, <<image>> -> batch)"),
       "einsum computes", help},
      {Code::ComputesWithData, data("x[in = <<level>> + 1]"), "add computes",
       help},
      // What does not compute says what it takes.
      {Code::WrongElementType, data("not <<image>>"), "bool elements", ""},
      {Code::ElementTypeMismatch, data("<<level == depth>>"),
       "i8[batch] and i16[batch]", "write i16(...)"},
      {Code::ElementTypeMismatch, data("<<image == i32(image)>>"),
       "u8[batch, in] and i32[batch, in]", "write i32(...)"},
      {Code::NotRepresentable, data("image == <<256>>"), "256 is not a value",
       ""},
      {Code::NotRepresentable, data("image == <<-1>>"), "of type u8", ""},
      {Code::NotRepresentable, data("level > <<128>>"), "of type i8", ""},
      {Code::NotRepresentable, data("depth < <<-32769>>"), "of type i16", ""},
      {Code::NotRepresentable, data("image == <<0.5>>"), "0.5", ""},
      {Code::WrongElementType,
       model("  param <<v>>: u8[in] = zeros\n  output o = sum(x)"),
       "float elements, not u8", ""},
      {Code::UnknownElementType,
       head + "model m(x: <<u16>>[batch]) { output o = x }", "\"u16\"", ""},
      {Code::UnknownElementType,
       head + "model m(x: <<uint8>>[batch]) { output o = x }", "\"uint8\"",
       "u8"},
      {Code::OutputNotFloat,
       head + "model m(x: u8, p: f32) {\n  param w: f32 = zeros\n"
              "  output loss = x\n  output o = w\n}\n"
              "train { minimize <<loss>> optimizer adam(lr = 1) steps 1 }",
       "\"loss\" is u8", ""},
  };
}
