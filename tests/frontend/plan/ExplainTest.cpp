#include "ExampleExecutable.h"

#include "frontend/plan/Explain.h"

#include <gmock/gmock.h>

using namespace meshc;
using testing::HasSubstr;
using testing::Not;

namespace {
class ExplainTest : public testing::Test {
protected:
  std::string explain(std::string_view id) {
    return plan::explain(executable, id, readSource, message).value_or("");
  }

  exec::ExecutableT executable = plan::makeExample();
  plan::ReadSource readSource = [](std::string_view path) {
    EXPECT_EQ(path, "tiny.mesh");
    return std::string(plan::exampleSpec);
  };
  std::string message;
};
} // namespace

TEST_F(ExplainTest, a_collective_reads_like_this) {
  EXPECT_EQ(explain("c1"),
            R"(c1: all_reduce over model in groups of 3 devices, forward pass
  It is part of 'loss': <batch@data> partial sum over model before, <batch@data> after.
  Each device brings in 3 elements (12 B) and sends 16 B.

  The reader, 'loss', needs 'y' as <batch@data>; it is computed as <batch@data> partial sum over model.
  Rule: contraction over split dimension 'hidden'.
  The best alternative was an all_gather of 'y' over model: 12.5 us instead of 7.2 us under the cost model.
  The lines of the spec that lead to it:

  tiny.mesh:5:24
      5 | layout { batch -> data hidden -> model }
        |                        ^^^^^^^^^^^^^^^
  tiny.mesh:9:17
      9 |   output loss = sum(y)
        |                 ^^^^^^
)");
}

TEST_F(ExplainTest, a_merged_collective_gives_every_reason) {
  std::string text = explain("c2");
  EXPECT_THAT(
      text,
      HasSubstr("\nreason 1 of 2\n  The reader, 'w', needs 'gradient of w'"));
  EXPECT_THAT(text,
              HasSubstr("\nreason 2 of 2\n  The reader, an inner mul, needs"));
}

TEST_F(ExplainTest, a_value_reads_like_this) {
  EXPECT_EQ(explain("y"),
            R"('y': activation, f32 [batch 6, hidden 7], 168 B
  Each device holds [batch 3, hidden 3], 36 B; layout <batch@data, hidden@model>.

  'batch' is split over data:
  tiny.mesh:2:5
      2 | dim batch = 6
        |     ^^^^^

  'hidden' is split over model:
  tiny.mesh:4:5
      4 | dim hidden = 7
        |     ^^^^^^

  It comes from:
  tiny.mesh:8:7
      8 |   let y = relu(einsum(x, w -> batch, hidden))
        |       ^

  It needs no communication.
)");
}

TEST_F(ExplainTest, a_value_lists_its_collectives) {
  EXPECT_THAT(explain("gradient of w"), HasSubstr("\nc2: all_reduce"));
}

TEST_F(ExplainTest, an_id_names_one_of_several_values_of_one_name) {
  EXPECT_THAT(explain("t4"), HasSubstr("'loss': activation"));
  EXPECT_THAT(explain("t5"), HasSubstr("'loss': output"));
  EXPECT_THAT(explain("t5"), Not(HasSubstr("activation")));
}

TEST_F(ExplainTest, an_unknown_id_is_an_error_with_a_suggestion) {
  EXPECT_EQ(explain("gradients of w"), "");
  EXPECT_EQ(message,
            "the plan has no collective or value 'gradients of w'; did "
            "you mean 'gradient of w'?");
  EXPECT_EQ(explain("something else"), "");
  EXPECT_EQ(message,
            "the plan has no collective or value 'something else'; its "
            "collectives are c1 to c2");
}

TEST_F(ExplainTest, columns_are_code_points) {
  executable.programs[0]->commands[2]->action.AsCollective()->causes[0]->spans =
      {exec::Span(0, 1, 7, 1, 9)};
  readSource = [](std::string_view) { return "let \xc3\xa4\xc3\xb6xy\r\n"; };
  EXPECT_THAT(explain("c1"), HasSubstr("      1 | let \xc3\xa4\xc3\xb6xy\n"
                                       "        |       ^^\n"));
}

TEST_F(ExplainTest, text_that_is_gone_is_not_quoted) {
  readSource = [](std::string_view) { return std::nullopt; };
  EXPECT_THAT(explain("c1"), HasSubstr("  tiny.mesh:5:24\n  tiny.mesh:9:17\n"));
  readSource = [](std::string_view) { return "only one line"; };
  EXPECT_THAT(explain("c1"), HasSubstr("  tiny.mesh:5:24\n  tiny.mesh:9:17\n"));
}

TEST_F(ExplainTest, a_span_over_several_lines_is_underlined_on_its_first) {
  executable.programs[0]->commands[2]->action.AsCollective()->causes[0]->spans =
      {exec::Span(0, 2, 5, 4, 2)};
  EXPECT_THAT(explain("c1"), HasSubstr("      2 | dim batch = 6\n"
                                       "        |     ^^^^^^^^^\n"));
}
