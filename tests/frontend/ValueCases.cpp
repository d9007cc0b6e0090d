// What is wrong in statements that bind values, and in blocks: a spec that
// causes each error, and what it says.

#include "CodeCases.h"

using namespace meshc::frontend;

std::vector<cases::Case> cases::getValueCases() {
  const std::string two = "fn two(x) { return x, x + 1 }\n",
                    one = "fn one(x) { return x + 1 }\n";
  return {
      // Several results.
      {Code::WrongNumberOfValues, two + value("<<two(x)>>"),
       "\"two\" gives 2 values where one is taken", "let a, b = two(...)"},
      {Code::WrongNumberOfValues, two + value("exp(<<two(x)>>)"),
       "\"two\" gives 2 values where one is taken", ""},
      {Code::WrongNumberOfValues,
       two + model("  let <<a, b, c>> = two(x)\n  output o = sum(x)"),
       "\"two\" gives 2 values, and there are 3 names", ""},
      {Code::WrongNumberOfValues,
       one + model("  let <<a, b>> = one(x)\n  output o = sum(x)"),
       "\"one\" gives one value, and there are 2 names", ""},
      {Code::WrongNumberOfValues,
       model("  let <<a, b>> = exp(x)\n  output o = sum(x)"),
       "\"exp\" gives one value, and there are 2 names", ""},
      {Code::WrongNumberOfValues,
       model("  let <<a, b>> = x + 1\n  output o = sum(x)"),
       "an expression gives one value, and there are 2 names",
       "functions that return several"},
      {Code::WrongNumberOfValues,
       two + model("  let a, b = <<two(x)>> @ [batch -> data]\n"
                   "  output o = sum(x)"),
       "\"two\" gives 2 values where one is taken", ""},
      {Code::DuplicateName,
       two + model("  let a, <<a>> = two(x)\n  output o = sum(x)"),
       "\"a\" is bound to two values", ""},
      {Code::UnknownName,
       two + model("  x, <<xx>> = two(x)\n  output o = sum(x)"),
       "\"xx\" is not defined here", "begins with \"let\""},
      {Code::NameIsBound, two + loop("let a, <<x>> = two(x)"),
       "\"x\" is bound already", ""},
      {Code::ExpectedToken, model("  x, y <<+=>> x\n  output o = sum(x)"),
       "expected \"=\" after the names", ""},
      {Code::ExpectedToken, model("  let a, <<=>> x\n  output o = sum(x)"),
       "expected a name", ""},
      {Code::ExpectedExpression, "fn f(x) { return x, <<}>>\n" + value("x"),
       "expected an expression", ""},
  };
}
