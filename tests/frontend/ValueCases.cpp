// What is wrong in statements that bind values, and in blocks: a spec that
// causes each error, and what it says.

#include "CodeCases.h"

using namespace meshc::frontend;

std::vector<cases::Case> cases::getValueCases() {
  const std::string two = "fn two(x) { return x, x + 1 }\n",
                    one = "fn one(x) { return x + 1 }\n";
  auto branch = [](const std::string &condition) {
    return model("  if <<" + condition + ">> { x = exp(x) }\n" +
                 "  output o = sum(x)");
  };
  auto own = [](const std::string &rest) {
    return "fn f(x, over) {\n  dim part = over / 1\n  " + rest + "\n}\n";
  };
  auto let = [](const std::string &binding) {
    return model("  let " + binding + "\n  output o = sum(x)");
  };
  return {
      // Initial values.
      {Code::WrongKind,
       model("  param v: f32[in] = <<sum(x, over = batch)>>\n"
             "  output o = sum(x * v)"),
       "made of numbers, positions and random numbers", "reads an input"},
      {Code::WrongKind,
       model("  param v: f32[in, out] = <<w * 2>>\n  output o = sum(v)"),
       "made of numbers, positions and random numbers", "reads a parameter"},
      {Code::WrongKind,
       model("  param v: f32[in] = <<1 < 2>>\n  output o = sum(v)"),
       "a number or a tensor, found a truth", ""},
      {Code::ElementTypeMismatch,
       model("  param v: f32[in] = <<iota(in)>>\n  output o = sum(v)"),
       "of f32[in] is i32[in]", ""},
      {Code::UnexpectedDim,
       model("  param v: f32[in] = <<f32(iota(batch))>>\n  output o = sum(v)"),
       "of f32[in] is f32[batch]", "no dimension \"batch\""},
      {Code::WrongKind,
       model("  let c = f32(iota(out))\n  let h = x\n  for t in out {\n"
             "    param v: f32[in] = <<c[out = t]>>\n    h = h * v\n  }\n"
             "  output o = sum(h)"),
       "made of numbers, positions and random numbers", "what a loop computes"},
      {Code::InvalidSetting,
       model("  param v: f32[in] = <<-inf>>\n  output o = sum(v)"),
       "cannot be -inf", ""},
      {Code::NotRepresentable,
       model("  param v: f32[in] = <<1e300>>\n  output o = sum(v)"),
       "1e+300 is not a value of type f32", ""},
      {Code::NotRepresentable,
       model("  param v: f32[in] = <<constant(1e300)>>\n  output o = sum(v)"),
       "1e+300 is not a value of type f32", ""},
      {Code::MisplacedStatement,
       "fn f(d) {\n  param <<p>>: f32[d] = ones\n  return p\n}\n" +
           model("  param v: f32[in] = f(in)\n  output o = sum(v)"),
       "an initial value has no parameters of its own", ""},
      {Code::UnknownArgument,
       model("  param v: f32[in, out] = normal(0, 1, <<dims>> = (in, out))\n"
             "  output o = sum(v)"),
       "\"normal\" takes no \"dims\" here", "leave it out"},
      {Code::UnknownArgument,
       model("  state v: f32[in] = truncated_normal(<<dims>> = ())\n"
             "  output o = sum(v)"),
       "one draw has the declared dimensions", ""},
      {Code::UnknownArgument,
       model("  param v: f32[in] = uniform(0, 1, <<in>>)\n"
             "  output o = sum(v)"),
       "\"uniform\" takes no \"dims\" here", ""},
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
       two + model("  let a, b = <<two(x)>> + 1\n"
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
      // Dims of functions.
      {Code::OwnDimReturned,
       own("return <<iota(part)>>") + value("f(x, batch)"),
       "the result of \"f\" has dimension \"f/part\", which the function made",
       "take the dimension as a parameter"},
      {Code::OwnDimReturned,
       own("return x, <<iota(part')>>") +
           model("  let a, b = f(x, in) as g\n  output o = sum(x)"),
       "\"g/part'\"", ""},
      {Code::OwnDimReturned, own("return <<part>>") + value("f(x, batch)"),
       "\"f/part\"", ""},
      {Code::SizeNotInteger,
       "fn f(x, over) {\n  dim part = <<over / 2>>\n  return x\n}\n" +
           value("f(x, in)"),
       "\"part\" has size 2.5", ""},
      {Code::SizeNotPositive,
       "fn f(x) {\n  dim none = <<0>>\n  return x\n}\n" + value("f(x)"),
       "\"none\" has size 0", ""},
      {Code::DuplicateName,
       own("dim <<part>> = 3\n  return x") + value("f(x, batch)"),
       "\"part\" is bound already", ""},
      {Code::NameIsBound,
       own("for t in part { dim <<x>> = 2 }\n  return 1") +
           value("f(x, batch)"),
       "\"x\" is bound already", ""},
      {Code::ReservedWord,
       own("dim <<part'>> = 3\n  return x") + value("f(x, batch)"),
       "a name with a prime is another dimension", "leave the definition out"},
      {Code::MisplacedStatement, model("  <<dim>> part = 2\n  output o = x"),
       "a model has no dimensions of its own", "at the top level"},
      {Code::RuleUnknownDim,
       "layout { <<part>> -> data }\n" + own("return sum(x)") +
           value("f(x, batch)"),
       "names no dimension", ""},
      {Code::UnknownDim,
       own("return x") + value("f(x, batch) + iota(<<part>>)"),
       "no dimension \"part\"", ""},
      // Branches.
      {Code::NotSupported, branch("sum(x) > 0"),
       "not supported yet: an \"if\" that the run decides",
       "where(condition, a, b)"},
      {Code::NotSupported, loop("if <<t > 2>> { x = exp(x) }"),
       "an \"if\" that the run decides", "the compiler knows numbers"},
      {Code::NotSupported,
       model("  let n = 0\n  for t in out {\n    n += 1\n"
             "    if <<n < 3>> { x = x + 1 }\n  }\n  output o = sum(x)"),
       "an \"if\" that the run decides", ""},
      {Code::ConditionHasDims, branch("x > 0"),
       "the condition of an \"if\" is one truth, found bool[batch, in]",
       "element by element"},
      {Code::WrongKind, branch("1"), "is a truth, found a number", ""},
      {Code::WrongKind, branch("x"), "is a truth, found f32[batch, in]", ""},
      {Code::WrongKind, branch("batch"), "is a truth, found a dimension", ""},
      {Code::UnknownName, branch("tru"), "\"tru\" is not defined",
       "did you mean \"true\""},
      {Code::MisplacedStatement,
       model("  if true { output <<o>> = x }\n  output p = x"),
       "an output stands in an \"if\"", "behind the block"},
      {Code::MisplacedStatement,
       "fn f(x) {\n  if true { x = x } else { <<return>> x }\n  return x\n}\n" +
           value("f(x)"),
       "an \"if\" does not return", "behind the block"},
      {Code::NameIsBound,
       model("  if true { let <<x>> = 2 * x }\n  output o = sum(x)"),
       "\"x\" is bound already, and ends with the block",
       "without \"let\" the block rebinds \"x\""},
      {Code::NameIsBound,
       model("  if true { param <<x>>: f32 = ones }\n  output o = sum(x)"),
       "\"x\" is bound already", ""},
      {Code::UnknownName,
       model("  if true { let z = x }\n  output o = sum(<<z>>)"),
       "\"z\" is not defined", ""},
      {Code::UnknownName, model("  if true { <<z>> = x }\n  output o = sum(x)"),
       "\"z\" is not defined here", "begins with \"let\""},
      {Code::ExpectedToken, model("  if true <<x>> = 1\n  output o = sum(x)"),
       "expected \"{\" after the condition", ""},
      {Code::ExpectedExpression,
       model("  if <<{>> x = 1 }\n  output o = sum(x)"),
       "expected an expression", ""},
      {Code::ExpectedItem,
       model("  if true { x = x }\n  <<elif>> false { x = x }\n"
             "  output o = sum(x)"),
       "found \"elif\"", "\"else if\""},
      {Code::ExpectedToken,
       model("  if true { x = x } else <<x>> = 2\n  output o = sum(x)"),
       "expected \"{\" after \"else\"", ""},
      // Training and evaluation.
      {Code::ParameterOfOneElaboration,
       model("  if training { param <<b>>: f32 = ones x = x * b }\n"
             "  output o = sum(x)"),
       "\"b\" is a parameter of the training step alone",
       "outside of the \"if\""},
      {Code::ParameterOfOneElaboration,
       model("  if not training { param <<b>>: f32 = ones x = x * b }\n"
             "  output o = sum(x)"),
       "\"b\" is a parameter of evaluation alone", "outside of the \"if\""},
      {Code::ParameterOfOneElaboration,
       model("  let over = in\n  if training { over = out }\n"
             "  param <<b>>: f32[over] = ones\n  output o = sum(b)"),
       "parameter \"b\" has another type or initial value in the training step",
       ""},
      {Code::ParameterOfOneElaboration,
       "fn f(x, c) {\n  param <<b>>: f32 = constant(c)\n  return x * b\n}\n" +
           model("  let c = 1\n  if training { c = 2 }\n  output o = f(x, c)"),
       "\"f/b\" has another type or initial value", ""},
      {Code::ParameterOfOneElaboration,
       model("  let c = 1\n  if training { c = 2 }\n"
             "  param <<b>>: f32[in] = c * normal()\n  output o = sum(b)"),
       "\"b\" has another type or initial value", ""},
      {Code::ParameterOfOneElaboration,
       model("  let c = f32(iota(in))\n  if training { c = sin(c) }\n"
             "  param <<b>>: f32[in] = c\n  output o = sum(b)"),
       "\"b\" has another type or initial value", ""},
      {Code::ParameterOfOneElaboration,
       "fn f() {\n  let a = normal()\n  let b = a\n"
       "  if training { b = normal() }\n  return a - b\n}\n" +
           model("  param <<b>>: f32[in] = f()\n  output o = sum(b)"),
       "\"b\" has another type or initial value", ""},
      {Code::ParameterOfOneElaboration,
       model("  let c = 1.0\n  if training { c = f32(iota(in)) }\n"
             "  param <<b>>: f32[in] = c\n  output o = sum(b)"),
       "\"b\" has another type or initial value", ""},
      {Code::UnknownName, "let t = <<training>>\n" + value("x"),
       "\"training\" is not defined", "known in the model and in functions"},
      {Code::DimNotInTensor,
       model("  if training { x = sum(x, over = <<out>>) }\n  output o = x"),
       "\"out\"", "where \"training\" is true"},
      {Code::ReservedWord,
       model("  param <<training>>: f32 = ones\n  output o = x * training"),
       "no parameter can be called \"training\"", "compiler's programs"},
      // Calls with the variables of others.
      {Code::UnknownCall,
       model("  let a = dense(x, in, out) as head\n"
             "  let b = dense(x, in, out) with <<haed>>\n  output o = a + b"),
       "there is no call \"haed\" here", "did you mean \"head\""},
      {Code::UnknownCall, value("dense(x, in, out) with <<head>>"),
       "there is no call \"head\" here", "dense(...) as head"},
      {Code::UnknownCall,
       model("  let b = dense(x, in, out) with <<head>>\n"
             "  let a = dense(x, in, out) as head\n  output o = a + b"),
       "ahead of this one", ""},
      {Code::UnknownCall,
       model("  for t in out { let a = dense(x, in, out') as head }\n"
             "  let b = dense(x, in, out') with <<head>>\n  output o = b"),
       "there is no call \"head\" here", ""},
      {Code::UnknownCall,
       model("  let a = dense(x, in, out) as head\n"
             "  let b = layer_norm(x, in) with <<head>>\n  output o = a"),
       "\"head\" calls \"dense\", whose variables \"layer_norm\" cannot have",
       ""},
      {Code::SharedVariableDiffers,
       model("  let a = dense(x, in, out) as head\n"
             "  let b = <<dense(x, in, in') with head>>\n  output o = a"),
       "shares parameter \"head/weight\", which is f32[in, out], and "
       "f32[in, in'] here",
       ""},
      {Code::SharedVariableDiffers,
       "fn f(x, biased) {\n  if biased { param <<b>>: f32 = zeros x = x + b }\n"
       "  return x\n}\n" +
           model("  let a = f(x, false) as g\n  let b = f(x, true) with g\n"
                 "  output o = a + b"),
       "there is no parameter \"g/b\"", "declares none of this name"},
      {Code::SharedVariableDiffers,
       "fn f(x, over) {\n  dim part = over / 1\n"
       "  param <<w>>: f32[part] = zeros\n  return x * sum(w)\n}\n" +
           model("  let a = f(x, in) as g\n  let b = f(x, out) with g\n"
                 "  output o = a + b"),
       "\"g/w\", which is f32[g/part], and f32[f/part] here", ""},
      {Code::SharedVariableDiffers,
       "fn f(x, c) {\n  param <<b>>: f32 = constant(c)\n  return x * b\n}\n" +
           model("  let a = f(x, 1) as g\n  let b = f(x, 2) with g\n"
                 "  output o = a + b"),
       "\"g/b\", whose initial value is another one here", ""},
      {Code::SharedVariableDiffers,
       "fn f(x, c) {\n  param <<b>>: f32[in] = c * normal()\n"
       "  return x * b\n}\n" +
           model("  let a = f(x, 1) as g\n  let b = f(x, 2) with g\n"
                 "  output o = a + b"),
       "\"g/b\", whose initial value is another one here", ""},
      {Code::WrongKind, value("exp(x) with <<x>>"),
       "\"exp\" is built in and has no variables", ""},
      {Code::SharedScope, value("dense(x, in, out) + <<dense(x, in, out)>>"),
       "", "\"... with dense\" for a call with the parameters of the first"},
      {Code::DuplicateName,
       model("  let a = dense(x, in, out) as h\n"
             "  let b = dense(x, in, out) as <<h>>\n  output o = a + b"),
       "scope \"h\" is taken", "\"... with h\""},
      {Code::ExpectedToken, value("dense(x, in, out) as g <<with>> h"),
       "\"with\" stands before \"as\"", ""},
      // Types.
      {Code::TypeDiffers, let("h: i32[batch, in] = <<x>>"),
       "\"h\" is i32[batch, in] by its type, found f32[batch, in]",
       "i32(...) converts"},
      {Code::TypeDiffers, let("h: f32[batch] = <<x>>"),
       "\"h\" is f32[batch] by its type, found f32[batch, in]",
       "leaves other dimensions open"},
      {Code::TypeDiffers, let("h: f32[batch, in, out] = <<x>>"),
       "found f32[batch, in]", ""},
      {Code::TypeDiffers, let("h: [.., out] = <<x * 2>>"),
       "\"h\" is [.., out] by its type, found f32[batch, in]", ""},
      {Code::TypeDiffers, let("h: f32 = <<x>>"), "\"h\" is f32 by its type",
       ""},
      {Code::TypeDiffers, let("h: f32[in] = <<1 < 2>>"), "found a truth value",
       ""},
      {Code::TypeDiffers, two + let("a, b: f32[batch, in] = <<two(y)>>"),
       "\"a\" is f32[batch, in] by its type, found i32[batch]", ""},
      {Code::NotRepresentable, let("h: i32[in] = <<0.5>>"), "0.5", ""},
      {Code::UnknownDim, let("h: f32[<<inn>>] = 0"), "no dimension \"inn\"",
       "did you mean \"in\""},
      {Code::UnknownElementType, let("h: <<f23>>[in] = 0"), "\"f23\"",
       "did you mean \"f32\""},
      {Code::RepeatedDim, let("h: f32[in, in] = <<0>>"), "\"in\"", ""},
      {Code::ExpectedToken, let("h: <<2>> = x"),
       "expected the type of a tensor", ""},
      {Code::ExpectedToken, let("h: f32[in <<=>> x"), "expected \"]\"", ""},
  };
}
