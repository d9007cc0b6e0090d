// What is wrong in the table of the layout: a spec that causes each error, and
// what it says.

#include "CodeCases.h"

using namespace meshc::frontend;
using namespace meshc::frontend::cases;

std::vector<Case> cases::getLayoutCases() {
  return {
      {Code::RuleUnknownDim, layout("<<bach>> -> data"), "\"bach\"",
       "did you mean \"batch\""},
      {Code::RuleUnknownDim, layout("<<data>> -> batch"), "\"data\"",
       "\"data\" is an axis of the mesh"},
      // A dim may be called like an axis.
      {Code::UnknownAxis,
       "mesh data = 2\ndim data = 4\nlayout { data -> <<dta>> }\n"
       "model m(x: f32[data]) { output y = x }",
       "\"dta\"", "did you mean \"data\""},
      {Code::RuleUnusedDim, "dim spare = 3\n" + layout("<<spare>> -> data"),
       "matches nothing", ""},
      {Code::DuplicateRule, layout("batch -> data <<batch>> -> model"),
       "two layout rules for dimension \"batch\"", ""},
      {Code::RepeatedAxis, layout("batch -> (data, <<data>>)"),
       "\"data\" twice", ""},
      {Code::SharedAxis, layout("batch -> data <<in -> data>>"),
       "\"batch\" and \"in\"", "another axis"},
      // Lists of dims.
      {Code::RuleUnknownDim, layout("(batch, <<bach>>) -> data"), "\"bach\"",
       "did you mean \"batch\""},
      {Code::SharedAxis, layout("<<(batch, in) -> data>>"),
       "\"batch\" and \"in\" of one tensor", "in -> data unless batch"},
      {Code::DuplicateRule, layout("batch -> data (out, <<batch>>) -> model"),
       "two layout rules for dimension \"batch\"", ""},
      {Code::ExpectedToken, layout("(<<)>> -> data"), "a dimension", ""},
      // Roles.
      {Code::UnknownRole, layout("<<param>>: * -> data"),
       "no rules for \"param\"", "did you mean \"params\""},
      {Code::ExpectedToken, layout("<<*>> -> data"), "behind a role",
       "params: * -> data"},
      {Code::ExpectedToken, layout("gradients: * -> <<(>>)"), "over an axis",
       "gradients: d -> ()"},
      {Code::RuleUnusedDim, layout("params: <<batch>> -> data"),
       "no parameter has this dimension", ""},
      {Code::RuleUnusedDim,
       head + "layout { state: <<*>> -> data }\n"
              "model m(x: f32[batch]) { output o = sum(x) }",
       "no parameters", ""},
      {Code::DuplicateRule, layout("params: * -> data params: <<*>> -> model"),
       "two layout rules for all params", ""},
      {Code::DuplicateRule,
       layout("gradients: in -> data gradients: (out, <<in>>) -> model"),
       "two layout rules for dimension \"in\" of gradients", ""},
      {Code::RepeatedAxis, layout("state: * -> (data, <<data>>)"),
       "the rule for all state names axis \"data\" twice", ""},
      {Code::UnknownAxis, layout("state: * -> <<modl>>"), "no axis \"modl\"",
       "did you mean \"model\""},
      {Code::SharedAxis, layout("in -> data <<params: out -> data>>"),
       "\"in\" and \"out\" of one tensor", "params: out -> data unless in"},
      // Values by their names.
      {Code::UnknownValues,
       "layout { <<\"hiden\">>: in -> data }\n" +
           model("  let hidden = x * 2\n  output o = sum(hidden)"),
       "no value of the model is called so", "did you mean \"hidden\""},
      {Code::UnknownValues,
       "layout { <<\"hiden\">>: in -> data unless out }\n" +
           model("  let hidden = x * 2\n  output o = sum(hidden)"),
       "no value of the model is called so", "did you mean \"hidden\""},
      {Code::UnknownValues,
       "layout { <<\"total\">>: in -> data }\n" +
           model("  let total = sum(x * w)\n  output loss = total"),
       "no value of the model is called so",
       "\"total\" is a number, or what a loop stacks"},
      {Code::UnknownValues,
       "layout { <<\"adam*\">>: in -> data }\n" +
           train("train { minimize loss optimizer adam(lr = 0.1) steps 1 }"),
       "no value of the model is called so",
       "\"adam/m/w\" is kept by the optimizer, which rules for roles are for: "
       "state: in -> data"},
      {Code::UnknownValues,
       "layout { \"w*\": in -> data <<\"w\">>: in -> model }\n" +
           model("  output loss = sum(x * w)"),
       "never holds", ""},
      {Code::RuleUnusedDim,
       "layout { \"h\": <<out>> -> data }\n" +
           model("  let h = x * 2\n  output o = sum(h)"),
       "no tensor of this name has this dimension", ""},
      {Code::RuleUnusedDim,
       "layout { \"w\": <<batch>> -> data }\n" +
           model("  output loss = sum(x * w)"),
       "no tensor of this name has this dimension", ""},
      {Code::SharedAxis,
       "layout { in -> data <<\"w\": out -> data>> }\n" +
           model("  output loss = sum(x * w)"),
       "\"in\" and \"out\" of one tensor", "\"w\": in -> ()"},
      {Code::SharedAxis,
       "layout { batch -> data <<\"x\": in -> data>> }\n" +
           model("  output loss = sum(x * w)"),
       "\"batch\" and \"in\" of one tensor", "\"x\": batch -> ()"},
      {Code::RuleUnknownDim,
       "layout { \"h\": <<inn>> -> data }\n" +
           model("  let h = x * 2\n  output o = sum(h)"),
       "\"inn\"", "did you mean \"in\""},
      {Code::UnknownAxis,
       "layout { \"h\": in -> <<dat>> }\n" +
           model("  let h = x * 2\n  output o = sum(h)"),
       "no axis \"dat\"", "did you mean \"data\""},
      {Code::DuplicateRule,
       "layout { \"h\": in -> data \"h\": (batch, <<in>>) -> model }\n" +
           model("  let h = x * 2\n  output o = sum(h)"),
       "two layout rules for dimension \"in\" of \"h\"", ""},
      {Code::SharedAxis,
       "layout { batch -> data <<\"h\": in -> data>> }\n" +
           model("  let h = x * 2\n  output o = sum(h)"),
       "\"batch\" and \"in\" of one tensor", "\"h\": batch -> ()"},
      {Code::ExpectedToken, layout("<<\"\">>: in -> data"),
       "expected the name of values", ""},
      {Code::ExpectedToken, layout("\"h\": <<*>> -> data"), "behind a role",
       "params: * -> data"},
      // Exceptions.
      {Code::RuleUnknownDim, layout("in -> data unless <<bach>>"),
       "\"unless bach\" names no dimension", "did you mean \"batch\""},
      {Code::NeverExempt,
       "dim spare = 3\n" + layout("in -> data unless <<spare>>"),
       "no tensor has this dimension beside", ""},
      {Code::NeverExempt, layout("in -> data unless <<in>>"),
       "no tensor has this dimension beside", ""},
      {Code::NeverExempt, layout("params: * -> data unless <<batch>>"),
       "no parameter has this dimension beside", ""},
      {Code::NeverExempt, layout("params: in -> data unless <<batch>>"),
       "no parameter has this dimension beside", ""},
  };
}
