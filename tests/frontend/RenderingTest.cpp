// Both renderings of diagnostics.

#include "SpecTesting.h"

#include "llvm/Support/JSON.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::frontend;
using testing::HasSubstr;

static const char *const misspelt = "mesh data = 2\n"
                                    "dim batch = 6\n"
                                    "model m(x: f32[batch], y: i32[batch]) {\n"
                                    "\tlet z = x + y // \xC3\xA4\n"
                                    "  output o = sum(x, over = bacth)\n"
                                    "}\n";

TEST(Rendering, TextShowsLinesAndCarets) {
  SpecRun run(misspelt);
  EXPECT_EQ(
      run.getText(),
      "test.mesh:4:10: error[MC0501]: add of f32[batch] and i32[batch]\n"
      " 4 |  let z = x + y // \xC3\xA4\n"
      "   |          ^~~~~\n"
      " 4 |  let z = x + y // \xC3\xA4\n"
      "   |          - f32[batch]\n"
      " 4 |  let z = x + y // \xC3\xA4\n"
      "   |              - i32[batch]\n"
      "   = help: nothing is converted silently; write f32(...) around one of "
      "them\n"
      "test.mesh:5:28: error[MC0302]: there is no dimension \"bacth\"\n"
      " 5 |   output o = sum(x, over = bacth)\n"
      "   |                            ^~~~~\n"
      "   = help: did you mean \"batch\"?\n");
}

TEST(Rendering, JsonIsOneObjectPerLine) {
  SpecRun run(misspelt);
  std::string text = render(run.diagnostics, MessageFormat::Json);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  ASSERT_EQ(lines.size(), 2u);
  std::vector<std::string> codes, rendered;
  for (llvm::StringRef line : lines) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
    ASSERT_TRUE(bool(value)) << llvm::toString(value.takeError());
    const llvm::json::Object *object = value->getAsObject();
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(object->getString("$message_type"), "diagnostic");
    EXPECT_EQ(object->getString("level"), "error");
    codes.push_back(object->getObject("code")->getString("code")->str());
    rendered.push_back(object->getString("rendered")->str());
    ASSERT_GE(object->getArray("spans")->size(), 1u);
  }
  EXPECT_THAT(codes, testing::ElementsAre("MC0501", "MC0302"));
  EXPECT_EQ(rendered[0] + rendered[1], run.getText());

  llvm::Expected<llvm::json::Value> last = llvm::json::parse(lines[1]);
  ASSERT_TRUE(bool(last));
  const llvm::json::Object *span =
      (*last->getAsObject()->getArray("spans"))[0].getAsObject();
  size_t begin = std::string(misspelt).find("bacth");
  EXPECT_EQ(span->getString("file_name"), "test.mesh");
  EXPECT_EQ(span->getInteger("byte_start"), int64_t(begin));
  EXPECT_EQ(span->getInteger("byte_end"), int64_t(begin + 5));
  EXPECT_EQ(span->getInteger("line_start"), 5);
  EXPECT_EQ(span->getInteger("column_start"), 28);
  EXPECT_EQ(span->getInteger("column_end"), 33);
  EXPECT_EQ(span->getBoolean("is_primary"), true);

  const llvm::json::Array *children = last->getAsObject()->getArray("children");
  ASSERT_EQ(children->size(), 1u);
  const llvm::json::Object *child = (*children)[0].getAsObject();
  EXPECT_EQ(child->getString("level"), "help");
  const llvm::json::Object *edit = (*child->getArray("spans"))[0].getAsObject();
  EXPECT_EQ(edit->getString("suggested_replacement"), "batch");
  EXPECT_EQ(edit->getInteger("byte_start"), int64_t(begin));
}

/// Applying the fix-its of the errors above gives a spec without them.
TEST(Rendering, FixItsMendTheSpec) {
  std::string text = "dim batch = 6\n"
                     "model m(x: f32[bacth]) {\n"
                     "  output o = sum(exp(x)\n"
                     "}\n";
  for (int round = 0; round < 2; ++round) {
    SpecRun run(text);
    ASSERT_EQ(run.diagnostics.getErrors().size(), 1u) << run.getText();
    const Diagnostic &error = run.diagnostics.getErrors()[0];
    ASSERT_EQ(error.fixIts.size(), 1u) << run.getText();
    const FixIt &fix = error.fixIts[0];
    text.replace(fix.span.begin, fix.span.end - fix.span.begin,
                 fix.replacement);
  }
  SpecRun run(text);
  EXPECT_TRUE(run.module) << run.getText();
}

TEST(Rendering, LongLinesAreCutAroundTheSpan) {
  std::string text = "model m(x: f32) { output o = ";
  for (int i = 0; i < 5000; ++i)
    text += "x + ";
  SpecRun run(text + "yy }");
  ASSERT_EQ(run.diagnostics.getErrors().size(), 1u);
  EXPECT_THAT(run.getText(), HasSubstr("\"yy\" is not defined"));
  EXPECT_THAT(run.getText(), HasSubstr("...x + x"));
  EXPECT_THAT(run.getText(), HasSubstr("x + yy }"));
  EXPECT_LT(run.getText().size(), 1000u);
  size_t line = run.getText().find(" 1 | "), mark = run.getText().find("   | ");
  EXPECT_EQ(run.getText().find("yy }", line) - line,
            run.getText().find("^~", mark) - mark);
}

TEST(Rendering, ControlCharactersAreNotShown) {
  SpecRun run("dim a = 1 // \x1B[31mred\ndim b = \x1B[2J\n");
  EXPECT_THAT(run.getText(), testing::Not(HasSubstr("\x1B")));
  std::string json = render(run.diagnostics, MessageFormat::Json);
  EXPECT_TRUE(bool(llvm::json::parse(json.substr(0, json.find('\n')))));
}

TEST(Rendering, AtMostTheLimitIsShown) {
  std::string text = "dim a = 1\nmodel m(x: f32[a]) {\n";
  for (int i = 0; i < 50; ++i)
    text += "  let v" + std::to_string(i) + " = unknown_" + std::to_string(i) +
            "\n";
  SpecRun run(text + "  output o = x\n}\n");
  EXPECT_EQ(run.diagnostics.getErrors().size(), 20u);
  SpecRun all(text + "  output o = x\n}\n", {"test.mesh"}, 100);
  EXPECT_EQ(all.diagnostics.getErrors().size(), 50u);
}

TEST(Rendering, ABodyCalledTwiceReportsOnce) {
  SpecRun run("dim a = 3\n"
              "fn f(x) { return x + unknown }\n"
              "model m(x: f32[a]) {\n"
              "  let p = f(x)\n"
              "  let q = f(p)\n"
              "  let r = f(x)\n"
              "  output o = x\n}\n");
  ASSERT_EQ(run.diagnostics.getErrors().size(), 1u) << run.getText();
  EXPECT_THAT(run.getText(), HasSubstr("test.mesh:2:22: error[MC0301]"));
  EXPECT_THAT(run.getText(), HasSubstr("in this call"));
}
