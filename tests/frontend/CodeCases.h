#ifndef MESHC_TESTS_FRONTEND_CODECASES_H
#define MESHC_TESTS_FRONTEND_CODECASES_H

#include "frontend/syntax/Diagnostics.h"

#include <string>
#include <vector>

namespace meshc::frontend::cases {

struct Case {
  Code code;
  std::string text;    ///< with << >> around the expected primary span
  std::string message; ///< part of the message
  std::string advice;  ///< part of a note, help or fix-it; empty: not checked
};

inline const std::string head = "mesh data = 2, model = 3\n"
                                "dim batch = 6\ndim in = 5\ndim out = 7\n"
                                "let half = 0.5\n";

/// A whole spec around the statements of a model.
inline std::string model(const std::string &body) {
  return head +
         "model m(x: f32[batch, in], y: i32[batch]) {\n"
         "  param w: f32[in, out] = zeros\n" +
         body + "\n}\n";
}

/// A whole spec around expressions on x, y and w.
inline std::string value(const std::string &expression) {
  return model("  let v = " + expression + "\n  output o = sum(x)");
}

inline const std::string owning =
    "fn f(x) {\n  param p: f32 = ones\n  return x * p\n}\n";

/// A whole spec around the block of a loop.
inline std::string loop(const std::string &block,
                        const std::string &head = "t in out") {
  return model("  for " + head + " {\n    " + block + "\n  }\n" +
               "  output o = sum(x)");
}

inline std::string layout(const std::string &rules) {
  return "layout { " + rules + " }\n" +
         model("  output o = sum(einsum(x, w -> batch, out))");
}

inline std::string train(const std::string &settings) {
  return model("  output loss = sum(einsum(x, w -> batch, out))\n"
               "  output wide = x\n  output count = sum(y)") +
         settings;
}

/// A whole spec around the index of x[batch, in] and what is behind it.
inline std::string index(const std::string &brackets) {
  return model("  let v = x[" + brackets + "\n  output o = sum(x)");
}

/// What is wrong in calls, and names that other systems have.
std::vector<Case> getCallCases();
/// What elements that are for data are refused by.
std::vector<Case> getDataCases();
/// What is wrong in the table of the layout.
std::vector<Case> getLayoutCases();
/// What is wrong in statements that bind values, and in blocks.
std::vector<Case> getValueCases();
/// What is wrong with optimizers and schedules.
std::vector<Case> getOptimizerCases();
/// What is wrong with state.
std::vector<Case> getStateCases();
/// What is wrong in data blocks.
std::vector<Case> getReaderCases();

} // namespace meshc::frontend::cases

#endif
