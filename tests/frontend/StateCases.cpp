// What is wrong with state: a spec that causes each error, and what it says.

#include "CodeCases.h"

using namespace meshc::frontend;
using namespace meshc::frontend::cases;

/// A whole spec around a state and statements behind it.
static std::string state(const std::string &declaration,
                         const std::string &body) {
  return model("  state " + declaration + "\n  " + body +
               "\n  output o = sum(x)");
}

std::vector<Case> cases::getStateCases() {
  const std::string recipe =
      "train { minimize o optimizer sgd(lr = 1) steps 1 }\n";
  return {
      {Code::StateNeverSet, state("<<a>>: f32 = 0", "") + recipe,
       "no training step sets state \"a\"", "set it by \"a = ...\""},
      {Code::StateNeverSet,
       "fn f(x) {\n  state <<a>>: f32 = 0\n  if not training { a = 1 }\n"
       "  return x * a\n}\n" +
           model("  output o = sum(f(x) as g)") + recipe,
       "no training step sets state \"g/a\"", ""},
      {Code::CarriedTypeChanges, state("a: f32[in] = 0", "<<a>> = x"),
       "state \"a\" is f32[in], and f32[batch, in] after the step", ""},
      {Code::CarriedTypeChanges, state("a: f32[in] = 0", "<<a>> = sum(x)"),
       "state \"a\" is f32[in], and f32 after the step", ""},
      {Code::CarriedTypeChanges, state("a: i32 = 0", "<<a>> = sum(x)"),
       "state \"a\" is i32, and f32 after the step", ""},
      {Code::CarriedTypeChanges, loop("state a: f32[in] = 0\n    <<a>> = x"),
       "state \"t/a\" is f32[in], and f32[batch, in] after the step", ""},
      {Code::NotRepresentable, state("a: i32 = 0", "<<a>> = 0.5"), "0.5", ""},
      {Code::CarriedTypeChanges, state("a: f32 = 0", "<<a>> = in < out"),
       "state \"a\" is f32, and bool after the step", ""},
      {Code::NameIsBound, state("a: f32 = 0", "let <<a>> = sum(x)"),
       "\"a\" is state, which this would not set", "without \"let\""},
      {Code::NameIsBound, state("a: f32 = 0", "output <<a>> = sum(x)"),
       "\"a\" is state", ""},
      {Code::NameIsBound, state("a: f32 = 0", "if true { let <<a>> = 1 }"),
       "\"a\" is state", ""},
      {Code::NameIsBound, loop("state <<w>>: f32 = 0"), "\"w\" is bound", ""},
      {Code::DuplicateName, state("a, <<a>>: f32 = 0", ""),
       "two states are called \"a\"", ""},
      {Code::DuplicateName, state("<<w>>: f32 = 0", ""),
       "a parameter and state are called \"w\"", ""},
      {Code::ReservedWord, state("<<training_gradient>>: f32 = 0", ""),
       "no state can be called \"training_gradient\"", ""},
      {Code::WrongElementType, state("<<a>>: u8 = 0", ""),
       "state has elements that are computed with, not u8", ""},
      {Code::WrongElementType, state("<<a>>: i32 = normal(stddev = 1)", ""),
       "random numbers are floats, and state \"a\" is of i32", ""},
      {Code::NotRepresentable, state("a: i32 = <<0.5>>", ""), "0.5", ""},
      {Code::WrongKind, state("a: f32[in] = <<sum(x, over = batch)>>", ""),
       "an initial value is made of numbers", "this one reads an input"},
      {Code::MisplacedStatement,
       "fn f(n) {\n  state <<a>>: f32 = 0\n  return n\n}\n" +
           state("b: f32 = f(1)", ""),
       "an initial value has no state of its own", ""},
      {Code::ParameterOfOneElaboration,
       model("  if training { state <<a>>: f32 = 0 a = 1 }\n"
             "  output o = sum(x)"),
       "\"a\" is a state of the training step alone", "outside of the \"if\""},
      {Code::ParameterOfOneElaboration,
       model("  if not training { state <<a>>: f32 = 0 }\n"
             "  output o = sum(x)"),
       "\"a\" is a state of evaluation alone", ""},
      {Code::SharedVariableDiffers,
       "fn g(x, over) {\n  state <<a>>: f32[over] = 0\n  a = a + 1\n"
       "  return x * sum(a)\n}\n" +
           model("  let v = g(x, in) as h\n  let u = g(x, out) with h\n"
                 "  output o = sum(v + u)"),
       "the call shares state \"h/a\", which is f32[in], and f32[out] here",
       ""},
      {Code::RepeatedDim,
       "fn f(x) {\n  state <<a>>: f32[out] = 0\n  a = a + mean(x)\n"
       "  return x * sum(a)\n}\n" +
           model("  let v = f(x) as g\n"
                 "  for t in out { v = f(v) with g }\n  output o = sum(v)"),
       "state \"g/a\" is carried from one position of \"out\" to the next, and "
       "has that dimension itself: f32[out]",
       ""},
      {Code::NotSupported,
       value("x") +
           "<<program>> next(x: f32[in]) with in = 1 { output o = x }\n",
       "not supported yet: a program beside the model", ""},
      {Code::ExpectedToken, model("  state a <<=>> 1"),
       "expected \":\" after the state name", ""},
      {Code::ExpectedToken, model("  state <<2>>: f32 = 1"),
       "expected a state name", ""},
  };
}
