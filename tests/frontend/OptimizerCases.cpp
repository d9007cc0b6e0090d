// What is wrong with optimizers and schedules: a spec that causes each error,
// and what it says.

#include "CodeCases.h"

using namespace meshc::frontend;
using namespace meshc::frontend::cases;

/// A spec that trains by a call.
static std::string by(const std::string &call) {
  return train("train { minimize loss optimizer " + call + " steps 1 }");
}

/// A spec with an optimizer of its own.
static std::string own(const std::string &body, const std::string &call) {
  return "fn mine(w, g, lr) {\n  " + body + "\n}\n" + by(call);
}

/// A spec with these settings beside what has to be there.
static std::string settings(const std::string &text) {
  return train("train { minimize loss steps 1 " + text + " }");
}

/// A spec whose steps have so many parts.
static std::string parted(const std::string &head, const std::string &parts) {
  return head +
         "dim batch = 12\ndim in = 3\n"
         "model m(x: f32[batch, in]) {\n  param w: f32[in] = ones\n"
         "  output loss = sum(x * w)\n}\n"
         "data over batch { x = npy(\"x.npy\") }\n"
         "train { minimize loss steps 1 optimizer adam microbatches " +
         parts + " }\n";
}

std::vector<Case> cases::getOptimizerCases() {
  return {
      // For which parameters.
      {Code::ExpectedToken, settings("optimizer sgd(lr = 1) for <<w>>"),
       "expected the names of parameters", "for \"encoder/*\""},
      {Code::ExpectedToken,
       settings("optimizer sgd(lr = 1) for <<\"w\" + \"v\">>"),
       "expected the names of parameters as a string", ""},
      {Code::MissingMinimize,
       model("  param v: f32[in] = ones\n"
             "  output loss = sum(x * v) + sum(w)") +
           "train { <<minimize>> loss for \"w\" steps 1 optimizer adam }",
       "parameter \"v\" has no output to minimize", "freeze \"v\""},
      {Code::UnknownOptimizer,
       train("<<train>> { minimize loss steps 1 clip norm(1) }"),
       "does not name an optimizer", ""},
      {Code::UnusedGradient,
       "fn still(w, g) {\n  return w * 2\n}\n" +
           settings("optimizer <<still>> clip norm(1)"),
       "nothing of its gradient is in", ""},
      {Code::DuplicateName,
       settings("optimizer sgd(lr = 1) <<optimizer>> sgd(lr = 2)"),
       "\"optimizer\" is set twice", "say for which parameters"},
      {Code::DuplicateName, settings("<<minimize>> loss optimizer adam"),
       "\"minimize\" is set twice", "say for which parameters"},
      {Code::UnknownParameter,
       model("  param weight: f32[in] = ones\n"
             "  output loss = sum(x * weight) + sum(w)") +
           "train { minimize loss steps 1 optimizer adam "
           "optimizer sgd(lr = 1) for \"w\", <<\"weigth\">> }",
       "no parameter is called \"weigth\"", "did you mean \"weight\""},
      {Code::UnknownParameter,
       settings("optimizer adam minimize loss for <<\"gan/*\">>"),
       "no parameter is called \"gan/*\"", ""},
      {Code::UnknownParameter, settings("optimizer adam freeze <<\"gan/*\">>"),
       "no parameter is called \"gan/*\"", ""},
      {Code::UnknownOutput,
       settings("optimizer adam minimize <<los>> for \"w\""),
       "no output \"los\" to minimize", "did you mean \"loss\""},
      {Code::OutputNotScalar,
       settings("optimizer adam minimize <<wide>> for \"w\""),
       "\"wide\" is f32[batch, in]", ""},
      {Code::UnknownOptimizer,
       "fn layer(x) {\n  param p: f32 = ones\n  return x * p\n}\n" +
           model("  let z = layer(einsum(x, w -> batch, out)) as a\n"
                 "  output loss = sum(z)") +
           "train { minimize loss steps 1 <<optimizer>> adam for \"w\" }",
       "parameter \"a/p\" has no optimizer", "freeze \"a/p\""},
      {Code::InvalidSetting,
       settings("optimizer adam clip norm(1) for <<\"w\">>"),
       "\"clip\" is said for all parameters", ""},
      {Code::UnknownParameter,
       settings("optimizer adam freeze \"w\", <<\"gan/*\">>"),
       "no parameter is called \"gan/*\"", ""},
      {Code::NothingToOptimize, settings("optimizer adam <<freeze>> \"*\""),
       "all parameters are frozen", ""},
      {Code::NothingToOptimize,
       settings("optimizer adam <<freeze>> \"w\", \"w*\""),
       "all parameters are frozen", ""},
      {Code::WrongKind, settings("optimizer adam freeze <<w>>"),
       "expected the names of parameters", "write freeze \"encoder/*\""},
      {Code::DimNotInTensor, settings("optimizer <<muon(rows = batch)>>"),
       "leaves out \"batch\", which the tensor does not have", ""},
      {Code::AssertFails, settings("optimizer <<muon(rows = (in, out))>>"), "",
       ""},
      {Code::UnknownScope,
       "fn f(x) {\n  return exp(x)\n}\n" +
           model("  output loss = sum(f(x)) + sum(w)") +
           "train { minimize loss steps 1 optimizer adam recompute \"f\", "
           "<<\"g\">> }",
       "the model has no call or loop \"g\"", ""},
      {Code::UnknownScope, settings("optimizer adam recompute <<\"layer/*\">>"),
       "the model has no call or loop \"layer\"", ""},
      {Code::UnknownOptimizer,
       "fn f(x) {\n  return exp(x)\n}\n" +
           model("  output loss = sum(f(x)) + sum(w)") +
           "<<train>> { minimize loss recompute \"f\" }",
       "does not name an optimizer", ""},
      {Code::ReservedWord,
       "fn ema(w, g) {\n  return w - g\n}\n" + settings("optimizer <<ema>>"),
       "no optimizer can be called \"ema\"", ""},
      {Code::WrongKind, settings("optimizer adam recompute <<w>>"),
       "expected the names of calls or loops", "write recompute \"layer/*\""},
      {Code::InvalidSetting, settings("optimizer adam ema <<1>>"),
       "between 0 and 1, found 1", ""},
      {Code::InvalidSetting, settings("optimizer adam ema <<0>>"),
       "between 0 and 1, found 0", ""},
      {Code::DuplicateName, settings("optimizer adam ema 0.9 <<ema>> 0.5"),
       "\"ema\" is set twice", ""},
      {Code::DuplicateName,
       "fn ema(x) {\n  param w: f32[in] = ones\n  return x * w\n}\n" +
           model("  output loss = sum(ema(x)) + sum(w)") +
           "train { minimize loss steps 1 optimizer <<adam>> ema 0.9 }",
       "the running mean \"ema/w\" is called like a variable", ""},
      {Code::InvalidSetting, settings("optimizer adam <<microbatches>> 2"),
       "without a data block", "data over batch"},
      {Code::InvalidSetting, parted("", "<<0>>"), "a positive integer, found 0",
       ""},
      {Code::InvalidSetting, parted("", "<<3 / 2>>"),
       "a positive integer, found 1.5", ""},
      {Code::WrongParts, parted("", "<<5>>"),
       "\"batch\" has 12 positions, which 5 parts do not divide",
       "these do: 1, 2, 3, 4, 6, 12"},
      {Code::WrongParts, parted("mesh a = 3\nlayout { batch -> a }\n", "<<3>>"),
       "\"batch\" has 12 positions, 4 of them on each device, which 3 parts",
       "these do: 1, 2, 4"},
      {Code::WrongParts, parted("mesh a = 5\nlayout { batch -> a }\n", "<<2>>"),
       "\"batch\" has 12 positions, 3 of them on each device but the last",
       "these do: 1, 3"},
      {Code::SizeNotInteger, "dim pairs = <<batch / 2>>\n" + parted("", "12"),
       "dimension \"pairs\" has size 0.5", ""},
      {Code::InvalidSetting, settings("optimizer adam clip norm(<<0>>)"),
       "gradients are bounded by a positive number, found 0", ""},
      {Code::InvalidSetting, settings("optimizer adam clip value(<<-1>>)"),
       "gradients are bounded by a positive number, found -1", ""},
      {Code::WrongKind, settings("optimizer adam clip <<size(1)>>"),
       "expected what gradients are bounded by", "clip norm(1)"},
      {Code::WrongKind, settings("optimizer adam clip <<1>>"),
       "expected what gradients are bounded by", "clip value(0.5)"},
      {Code::DuplicateName,
       settings("optimizer adam clip norm(1) <<clip>> value(1)"),
       "\"clip\" is set twice", ""},
      // One optimizer.
      {Code::ExpectedToken, by("sgd(<<0.1>>)"), "named", "sgd(lr = ...)"},
      {Code::UnknownArgument, by("adam(lr = 1, <<beta>> = 0.1)"),
       "\"adam\" has no parameter \"beta\"", "did you mean \"beta1\""},
      {Code::UnknownArgument, by("adam(lr = 1, <<w>> = 0.1)"),
       "\"adam\" has no parameter \"w\"", ""},
      {Code::DuplicateName, by("adam(lr = 1, lr = <<2>>)"),
       "two arguments for parameter \"lr\"", ""},
      {Code::MissingArgument, by("<<sgd>>"), "\"lr\"", "sgd(lr = ...)"},
      {Code::UnknownOptimizer, by("<<adm>>(lr = 0.1)"), "no optimizer \"adm\"",
       "did you mean \"adam\""},
      {Code::UnknownOptimizer, by("<<AdamW>>(lr = 0.1)"),
       "no optimizer \"AdamW\"", "did you mean \"adamw\"?"},
      {Code::UnknownOptimizer, by("<<rmsprop>>(lr = 0.1)"),
       "no optimizer \"rmsprop\"", "meshc explain adam"},
      {Code::UnknownOptimizer, by("<<0.1>>"),
       "expected an optimizer such as sgd(lr = 0.1)", ""},
      {Code::UnknownOptimizer, by("<<relu>>(x = 0.1)"),
       "\"relu\" is no optimizer", "a parameter of the model and its gradient"},
      {Code::AssertFails, by("<<adam(lr = -1)>>"), "\"adam\" asserts lr >= 0",
       "\"lr\" is -1"},
      {Code::AssertFails, by("<<adam(beta2 = 1)>>"), "beta2 < 1",
       "\"beta2\" is 1"},
      {Code::AssertFails, by("<<adam(epsilon = 0)>>"), "epsilon >= 1.2e-38",
       ""},
      {Code::AssertFails, by("sgd(lr = <<warmup(0)>>)"),
       "\"warmup\" asserts steps > 0", "\"steps\" is 0"},
      {Code::AssertFails, by("sgd(lr = <<cosine(5, 5)>>)"), "last > first",
       "\"first\" is 5"},
      {Code::WrongKind, by("sgd(lr = warmup(<<step>>))"),
       "\"steps\" of \"warmup\" is a number, found a tensor", ""},
      {Code::UnknownName, value("f32(<<step>>)"), "\"step\" is not defined",
       "for optimizers and their hyper-parameters"},
      // What an optimizer is.
      {Code::WrongUpdate, own("return sum(w - lr * g)", "<<mine(lr = 0.1)>>"),
       "parameter \"w\" is f32[in, out], and f32 after the step", ""},
      {Code::WrongUpdate, own("return lr", "<<mine(lr = 0.1)>>"),
       "parameter \"w\" is f32[in, out], and f32 after the step", ""},
      {Code::WrongUpdate, own("return g > lr", "<<mine(lr = 0.1)>>"),
       "parameter \"w\" is f32[in, out], and bool[in, out] after the step", ""},
      {Code::UnusedGradient, own("return w - lr * w", "<<mine(lr = 0.1)>>"),
       "parameter \"w\" gets a value that nothing of its gradient is in",
       "for parameter \"w\""},
      {Code::WrongNumberOfValues,
       own("return w - lr * g, g", "<<mine(lr = 0.1)>>"),
       "\"mine\" gives 2 values", ""},
      {Code::MisplacedStatement,
       own("param <<p>>: f32 = 0\n  return w - lr * p * g", "mine(lr = 0.1)"),
       "an optimizer has no parameters of its own", "is state"},
      {Code::StateNeverSet,
       own("state <<v>>: [dims(w)] = 0\n  return w - lr * (g + v)",
           "mine(lr = 0.1)"),
       "no training step sets state \"mine/v/w\"", "set it by \"v = ...\""},
      {Code::CarriedTypeChanges,
       own("state v: [dims(w)] = 0\n  <<v>> = sum(g)\n  return w - lr * v",
           "mine(lr = 0.1)"),
       "state \"mine/v/w\" is f32[in, out], and f32 after the step", ""},
      {Code::UnknownDim,
       own("state v: [<<inn>>] = 0\n  v = g\n  return w - lr * v",
           "mine(lr = 0.1)"),
       "no dimension \"inn\"", "did you mean \"in\""},
      {Code::RecursiveFunction,
       own("return <<mine(w, g, lr)>>", "mine(lr = 0.1)"),
       "\"mine\" calls itself", ""},
      {Code::UnknownElementType,
       model("  state a: <<[in]>> = 0\n  output o = sum(x)"),
       "expected an element type", "has the elements of the parameter"},
      {Code::UnknownName, own("return w - lr * g * <<wide>>", "mine(lr = 0.1)"),
       "\"wide\" is not defined", "for parameter \"w\""},
      {Code::InvalidSetting,
       own("let two = largest(dims(w), <<3>>)\n  return w - lr * g",
           "mine(lr = 0.1)"),
       "3 of 2 dims", ""},
  };
}
