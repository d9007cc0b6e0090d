#include "ExampleExecutable.h"
#include "Origins.h"

#include "frontend/plan/text/PlanText.h"
#include "frontend/plan/text/TerminalText.h"
#include "frontend/plan/text/ValueTable.h"

#include <array>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sstream>

using namespace meshc;
using testing::HasSubstr;
using testing::Not;

static std::string render(const exec::ExecutableT &executable) {
  return plan::renderPlanText(executable, {});
}

TEST(PlanTextTest, reads_like_this) {
  EXPECT_EQ(render(plan::makeExample()), R"(tiny on data=2 x model=3: 6 devices
a training step, on each device: 241 flop, 76 B sent, 512 B of memory
layout: batch -> data, hidden -> model

'batch 3@data': a device holds 3 of the 6 positions of batch, which is split over data

  value          on each device                         bytes   communication

parameters
  w              in 5, hidden 3@model                    60 B

state of the optimizer
  sgd/step       one number                               4 B

forward
  x              batch 3@data, in 5                      60 B
  y              batch 3@data, hidden 3@model            36 B
  loss           one number, partial sum over data        4 B   c1 all_reduce over model, 12 B

backward
  gradient of y  batch 3@data, hidden 3@model            36 B
  gradient of w  in 5, hidden 3@model                    60 B   c2 all_reduce over data, 60 B

each training step, on each device
  computation    6 commands, 241 flop (198 flop in matmuls)
  communication  2 collectives, payload 72 B, 76 B sent
    over data    1 collective, payload 60 B, 60 B sent
    over model   1 collective, payload 12 B, 16 B sent

transfers, and what a device computes meanwhile
  c1, c2  72 B  nothing

memory on each device: 512 B
  params         60 B
  gradients      96 B
  optimizer      4 B
  activations    72 B
  unused         280 B
  largest at the peak: w 60 B, x 60 B, gradient of w 60 B

waste
  hidden -> model: 7 positions over 3 devices in blocks of 3: 22% of the time is lost
)");
}

TEST(PlanTextTest, shows_what_a_gpu_is_asked_for) {
  std::string text = render(plan::makeGpuExample());
  EXPECT_THAT(text, HasSubstr("tiny on data=2 x model=3: 6 devices, GPUs\n"));
  EXPECT_THAT(text, HasSubstr(R"(
  computation    6 commands, 241 flop (198 flop in matmuls)
  launches       8: 4 kernels, 2 products, 2 collectives
    o1: cuBLASLt cannot compute this product: its elements are i32
)"));
  EXPECT_THAT(text, HasSubstr(R"(
memory on each device: 48 MiB
  arena          512 B
    params       60 B
    gradients    96 B
    optimizer    4 B
    activations  72 B
    unused       280 B
  cuBLASLt       32 MiB
  move tables    2 KiB
  staging        16 MiB
  largest at the peak: )"));
}

TEST(PlanTextTest, shows_what_goes_together_and_what_runs_beside_it) {
  std::string text = render(plan::makeExampleWithOverlap());
  EXPECT_THAT(text, HasSubstr("communication  3 collectives in 2 transfers, "
                              "payload 84 B, 92 B sent\n"));
  EXPECT_THAT(text, HasSubstr(R"(
transfers, and what a device computes meanwhile
  c1               12 B  1 matmul and 2 other commands, 102 flop, until o8
  c2, c3 together  72 B  nothing
)"));
}

TEST(PlanTextTest, long_lists_of_transfers_are_cut) {
  exec::ExecutableT executable = plan::makeExampleWithOverlap();
  auto &commands = executable.programs[0]->commands;
  const exec::CommandT update = *commands.back();
  commands.pop_back();
  for (int i = 0; i < 20; ++i) {
    commands.push_back(std::make_unique<exec::CommandT>(*commands[2]));
    commands.back()->action.AsCollective()->id = "c" + std::to_string(i + 4);
    commands.push_back(std::make_unique<exec::CommandT>(*commands[4]));
    commands.back()->waits.clear();
  }
  commands.push_back(std::make_unique<exec::CommandT>(update));
  std::string text = render(executable);
  EXPECT_THAT(text, HasSubstr("\n  c17"));
  EXPECT_THAT(text, Not(HasSubstr("\n  c18")));
  EXPECT_THAT(text, HasSubstr("\n  and 6 more transfers, see --emit json\n"));
}

TEST(PlanTextTest, what_is_never_stored_stands_in_parentheses) {
  exec::ExecutableT executable = plan::makeExample();
  executable.programs[0]->commands[0]->operands.back()->inside = true;
  std::string text = render(executable);
  EXPECT_THAT(text, HasSubstr("\n  y              batch 3@data, hidden 3@model"
                              "           (36 B)\n"));
  EXPECT_THAT(text,
              HasSubstr("\n'(36 B)': takes no memory of its own: is part of a "
                        "fused operation, or lies in another value\n"));
}

TEST(PlanTextTest, shows_the_phases_asked_for) {
  std::string text = plan::renderPlanText(plan::makeExample(),
                                          {.phases = {exec::Phase::backward}});
  EXPECT_THAT(text, HasSubstr("\nbackward\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nforward\n")));
  EXPECT_THAT(text, Not(HasSubstr("c1 all_reduce")));
}

TEST(PlanTextTest, communication_that_does_not_fit_stands_below_its_value) {
  exec::ExecutableT executable = plan::makeExample();
  exec::TensorT &y = *executable.tensors[3];
  y.name = "blocks/attention/scores_of_all_heads";
  for (const char *dim : {"heads_of_a_group", "positions", "key_positions"}) {
    y.layout->dims.push_back(std::make_unique<exec::DimShardingT>());
    y.layout->dims.back()->name = dim;
    y.layout->dims.back()->size = 1024;
  }
  executable.programs[0]->commands[2]->operands.back()->tensor = 3;
  std::string text = render(executable);
  EXPECT_THAT(text, HasSubstr(R"(
  blocks/attention/scores_of_all_heads
                                      batch 3@data, hidden 3@model,                            36 B
                                      heads_of_a_group 1024, positions 1024,
                                      key_positions 1024
                                      c1 all_reduce over model, 12 B
)"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100u) << line;
}

// The parameter is gathered where the forward pass needs it.
TEST(PlanTextTest, a_parameter_that_communicates_is_listed_in_that_phase) {
  exec::ExecutableT executable = plan::makeExample();
  exec::CommandT &collective = *executable.programs[0]->commands[2];
  collective.operands.back()->tensor = 1; // w
  std::string text = render(executable);
  size_t forward = text.find("\nforward\n");
  EXPECT_NE(text.find("  w  ", forward), std::string::npos) << text;
}

TEST(PlanTextTest, nothing_split) {
  exec::ExecutableT executable;
  executable.model = "tiny";
  executable.programs.push_back(std::make_unique<exec::ProgramT>());
  executable.programs.back()->name = "eval";
  std::string text = render(executable);
  EXPECT_THAT(
      text,
      HasSubstr(
          "tiny on 1 device\nan evaluation: 0 flop, 0 B of memory\nlayout: "
          "nothing is split\n"));
  EXPECT_THAT(text, HasSubstr("each evaluation, on each device"));
  EXPECT_THAT(text, HasSubstr("0 collectives"));
}

TEST(PlanTextTest, shows_what_one_device_holds) {
  // hidden has 7 positions over 3 devices, in blocks of 3.
  const std::array<const char *, 3> hidden = {"0:3", "3:6", "6:7"};
  for (int64_t device = 0; device < 6; ++device) {
    const std::string text =
        plan::renderPlanText(plan::makeExample(), {.device = device});
    const int64_t data = device / 3, model = device % 3;
    EXPECT_THAT(text,
                HasSubstr(fmt::format("\ndevice {} is data={}, model={}\n",
                                      device, data, model)));
    EXPECT_THAT(text, HasSubstr(fmt::format("on device {}", device)));
    EXPECT_THAT(text, HasSubstr(fmt::format("in 0:5, hidden {}@model",
                                            hidden[size_t(model)])));
    EXPECT_THAT(text, HasSubstr(fmt::format("batch {}@data",
                                            data == 0 ? "0:3" : "3:6")));
  }
}

TEST(PlanTextTest, a_device_may_hold_padding_alone) {
  exec::ExecutableT executable = plan::makeExample();
  for (auto &tensor : executable.tensors)
    for (auto &dim : tensor->layout->dims)
      if (dim->name == "hidden")
        dim->size = 2;
  EXPECT_THAT(plan::renderPlanText(executable, {.device = 1}),
              HasSubstr("hidden 1:2@model"));
  EXPECT_THAT(plan::renderPlanText(executable, {.device = 2}),
              HasSubstr("hidden none@model"));
}

//===-- What is told once -------------------------------------------------===//

static plan::ValueRow makeRow(const std::string &name,
                              std::vector<std::string> shape,
                              const std::string &partial = "") {
  return {.name = name,
          .shape = std::move(shape),
          .partial = partial,
          .bytes = 8,
          .likeness = {0}};
}

TEST(ValueTableTest, long_shapes_are_told_by_the_first_value_that_has_them) {
  const std::vector<std::string> shape = {"layers 96", "d_model 12288",
                                          "heads 12@model", "d_head 128"};
  plan::ValueTable table(80, "on each device");
  table.addRow(makeRow("wq", shape));
  table.addRow(makeRow("wk, wv", shape));
  table.addRow(makeRow("other", {"layers 96", "d_model 12288", "heads 96"}));
  table.addRow(makeRow("gradient of wq", shape, "partial sum over data"));
  table.addRow(makeRow("short", {"d_model 12288"}));
  table.addRow(makeRow("gradient of short", {"d_model 12288"}));
  EXPECT_EQ(table.render(), R"(
  value              on each device                                       bytes
                     communication
  wq                 layers 96, d_model 12288, heads 12@model,              8 B
                     d_head 128
  wk, wv             as wq                                                  8 B
  other              layers 96, d_model 12288, heads 96                     8 B
  gradient of wq     as wq, partial sum over data                           8 B
  short              d_model 12288                                          8 B
  gradient of short  d_model 12288                                          8 B
)");
}

TEST(ValueTableTest, a_scope_is_told_above_its_rows) {
  plan::ValueTable table(60, "on each device");
  const std::vector<std::string> longShape = {"layers 96", "d_model 12288",
                                              "heads 12@model", "d_head 128"};
  auto add = [&](const char *scope, const char *name) {
    plan::ValueRow row = makeRow(name, longShape);
    row.scope = scope;
    table.addRow(std::move(row));
  };
  add("layer/0", "wq");
  add("layer/0", "wk");
  add("layer/1", "wq");
  add("", "x");
  EXPECT_EQ(table.render(), R"(
  value  on each device                               bytes
         communication
  layer/0
    wq   layers 96, d_model 12288,                      8 B
         heads 12@model, d_head 128
    wk   as layer/0/wq                                  8 B
  layer/1
    wq   as layer/0/wq                                  8 B
  x      as layer/0/wq                                  8 B
)");
}

TEST(ValueTableTest, what_is_sent_stands_in_one_line_if_it_fits) {
  plan::ValueTable table(80, "on each device");
  plan::ValueRow row =
      makeRow("gradient of weights", {"d_model 12288", "heads 12@model"});
  row.communication = {{"c1", "reduce_scatter over data, 6 MiB"},
                       {"c2", "all_gather over data, 1 MiB"}};
  table.addRow(row);
  row.communication[1].id = "c2, c3, c4, c5, c6";
  table.addRow(row);
  EXPECT_EQ(table.render(), R"(
  value                on each device                     bytes   communication
  gradient of weights  d_model 12288, heads 12@model        8 B
              c1 reduce_scatter over data, 6 MiB; c2 all_gather over data, 1 MiB
  gradient of weights  d_model 12288, heads 12@model        8 B
                       c1 reduce_scatter over data, 6 MiB
                       c2, c3, c4, c5, c6 all_gather over data, 1 MiB
)");
}

// What several values have in common is no shape of a value.
TEST(ValueTableTest, what_is_no_value_is_told_every_time) {
  plan::ValueTable table(60, "on each device");
  for (int i = 0; i < 2; ++i)
    table.addRow(
        {.name = "b2, b3",
         .shape = {"each as b1", "without attention/scores", "and these:"}});
  const std::string text = table.render();
  EXPECT_EQ(text.find("as b2"), std::string::npos) << text;
}

/// A plan of two parameters in one scope, of which the optimizer keeps two
/// values each.
static exec::ExecutableT makeScopedExample() {
  exec::ExecutableT executable = plan::makeExample();
  auto add = [&](const char *name, exec::BufferRole role, int like) {
    executable.tensors.push_back(
        std::make_unique<exec::TensorT>(*executable.tensors[size_t(like)]));
    plan::setName(executable, *executable.tensors.back(), name);
    executable.tensors.back()->role = role;
  };
  plan::setName(executable, *executable.tensors[1], "layer/w");
  add("layer/u", exec::BufferRole::parameter, 1);
  for (const char *name :
       {"adam/m/layer/w", "adam/v/layer/w", "adam/m/layer/u", "adam/v/layer/u"})
    add(name, exec::BufferRole::state, 1);
  return executable;
}

TEST(PlanTextTest, neighbours_that_are_alike_are_one_row) {
  const std::string text = render(makeScopedExample());
  EXPECT_THAT(text, HasSubstr("\n  layer/w, u      in 5, hidden 3@model        "
                              "           120 B\n"));
  EXPECT_THAT(text, HasSubstr("\n  sgd/step        one number                  "
                              "             4 B\n"
                              "  adam/m, adam/v  each as the parameters        "
                              "         240 B\n"));
}

TEST(PlanTextTest, copies_of_parameters_are_one_row) {
  exec::ExecutableT executable = makeScopedExample();
  auto add = [&](const char *name, exec::BufferRole role) {
    executable.tensors.push_back(
        std::make_unique<exec::TensorT>(*executable.tensors[1]));
    plan::setName(executable, *executable.tensors.back(), name);
    executable.tensors.back()->role = role;
  };
  for (const char *name : {"layer/w as bf16", "layer/u as bf16"})
    add(name, exec::BufferRole::activation);
  EXPECT_THAT(render(executable),
              HasSubstr("\n  parameters as bf16  each as the parameter"));
  add("layer/v", exec::BufferRole::parameter);
  EXPECT_THAT(render(executable),
              HasSubstr("\n  2 parameters as bf16  each as the parameter"));
  // One that lies otherwise is told by itself.
  executable.tensors[executable.tensors.size() - 2]
      ->layout->dims[1]
      ->axes.clear();
  EXPECT_THAT(render(executable), HasSubstr("\n  layer/u as bf16  in 5"));
}

TEST(PlanTextTest, what_is_computed_on_the_way_is_left_out) {
  exec::ExecutableT executable = plan::makeExample();
  auto add = [&](const char *name, exec::BufferRole role, int line) {
    executable.tensors.push_back(
        std::make_unique<exec::TensorT>(*executable.tensors[3]));
    plan::setName(executable, *executable.tensors.back(), name);
    executable.tensors.back()->role = role;
    *executable.tensors.back()->span = exec::Span(0, line, 7, line, 8);
  };
  // Of the call that makes y, which stands in line 8, and of a function of
  // the user's.
  add("y/variance", exec::BufferRole::activation, 8);
  add("y/h", exec::BufferRole::activation, 6);
  add("gradient of y/h", exec::BufferRole::gradient, 6);
  const std::string text = render(executable);
  EXPECT_THAT(text, testing::Not(HasSubstr("y/variance")));
  EXPECT_THAT(text, HasSubstr("\n  y/h "));
  EXPECT_THAT(text, testing::Not(HasSubstr("gradient of y/h")));
  const std::string sorted =
      plan::renderPlanText(executable, {.order = plan::RowOrder::Name});
  EXPECT_THAT(sorted, HasSubstr("\n  y/variance "));
  EXPECT_THAT(sorted, HasSubstr("\n  gradient of y/h "));
}

TEST(PlanTextTest, state_that_lies_otherwise_is_told_by_itself) {
  exec::ExecutableT executable = makeScopedExample();
  executable.tensors.back()->layout->dims[1]->axes.clear();
  const std::string text = render(executable);
  EXPECT_THAT(text, HasSubstr("\n  adam/v/layer/u  in 5, hidden 7"));
  EXPECT_THAT(text, HasSubstr("\n  adam/v/layer/w  in 5, hidden 3@model"));
  EXPECT_THAT(text, HasSubstr("\n  adam/m          each as the parameters"));
}

TEST(PlanTextTest, sorted_every_value_has_its_row) {
  const std::string text = plan::renderPlanText(
      makeScopedExample(), {.order = plan::RowOrder::Name});
  for (const char *name : {"layer/u", "layer/w", "adam/m/layer/u"})
    EXPECT_THAT(text, HasSubstr(fmt::format("\n  {} ", name)));
}

//===-- Order -------------------------------------------------------------===//

/// The names of rows below a heading, in their order.
static std::vector<std::string> getNames(const std::string &text,
                                         const std::string &heading) {
  std::vector<std::string> names;
  std::istringstream lines(text.substr(text.find("\n" + heading + "\n")));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty())
    if (line[2] != ' ')
      names.push_back(line.substr(2, line.find("  ", 2) - 2));
  return names;
}

TEST(PlanTextTest, values_are_sorted_within_their_sections) {
  const exec::ExecutableT example = plan::makeExample();
  auto sort = [&](plan::RowOrder order) {
    return getNames(plan::renderPlanText(example, {.order = order}), "forward");
  };
  using testing::ElementsAre;
  EXPECT_THAT(sort(plan::RowOrder::Program), ElementsAre("x", "y", "loss"));
  EXPECT_THAT(sort(plan::RowOrder::Name), ElementsAre("loss", "x", "y"));
  EXPECT_THAT(sort(plan::RowOrder::Bytes), ElementsAre("x", "y", "loss"));
  // The loss alone is completed; the others stay in their order.
  EXPECT_THAT(sort(plan::RowOrder::Sent), ElementsAre("loss", "x", "y"));
}

TEST(PlanTextTest, what_is_not_stored_takes_no_memory) {
  exec::ExecutableT executable = plan::makeExample();
  executable.programs[0]->commands[0]->operands.back()->inside = true; // y
  executable.tensors[3]->bytes_per_device = 1 << 20;
  EXPECT_THAT(getNames(plan::renderPlanText(executable,
                                            {.order = plan::RowOrder::Bytes}),
                       "forward"),
              testing::ElementsAre("x", "loss", "y"));
}

TEST(PlanTextTest, the_top_of_each_list) {
  const std::string text =
      plan::renderPlanText(plan::makeExampleWithOverlap(),
                           {.order = plan::RowOrder::Bytes, .top = 1});
  EXPECT_THAT(getNames(text, "forward"),
              testing::ElementsAre("x", "and 2 other values"));
  EXPECT_THAT(text,
              HasSubstr("and 2 other values                             40 B   "
                        "16 B sent\n"));
  EXPECT_THAT(text, HasSubstr("\n  and 1 more transfer, see --emit json\n"));
  EXPECT_THAT(text, HasSubstr("largest at the peak: w 60 B\n"));
  // Of fewer nothing is left out.
  EXPECT_THAT(plan::renderPlanText(plan::makeExample(), {.top = 100}),
              Not(HasSubstr("other value")));
}

TEST(PlanTextTest, what_is_cut_off_is_counted) {
  const std::string text = plan::renderPlanText(
      makeScopedExample(), {.order = plan::RowOrder::Program, .top = 1});
  EXPECT_THAT(getNames(text, "parameters"),
              testing::ElementsAre("layer/w", "and 1 other value"));
  EXPECT_THAT(getNames(text, "state of the optimizer"),
              testing::ElementsAre("sgd/step", "and 4 other values"));
}

//===-- Terminals ---------------------------------------------------------===//

TEST(PlanTextTest, lines_are_as_wide_as_the_terminal) {
  for (size_t width : {60, 80, 100, 160}) {
    const std::string text = plan::renderPlanText(
        plan::makeExampleWithOverlap(), {.width = width, .wraps = true});
    std::istringstream lines(text);
    size_t longest = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), width) << line;
      longest = std::max(longest, line.size());
    }
    EXPECT_GT(longest, 55u);
  }
}

/// Without what changes colours.
static std::string strip(const std::string &text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\x1b')
      at = text.find('m', at);
    else
      plain += text[at];
  return plain;
}

TEST(PlanTextTest, colours_say_nothing_more) {
  const exec::ExecutableT example = plan::makeExample();
  const std::string plain = plan::renderPlanText(example, {.memoryLimit = 100});
  const std::string coloured =
      plan::renderPlanText(example, {.memoryLimit = 100, .hasColours = true});
  EXPECT_EQ(strip(coloured), plain);
  EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
  // The axes are those of the mesh, in its order: blue and orange.
  EXPECT_THAT(coloured, HasSubstr("batch 3@\x1b[38;5;33mdata\x1b[0m"));
  EXPECT_THAT(coloured, HasSubstr("hidden 3@\x1b[38;5;172mmodel\x1b[0m"));
  EXPECT_THAT(coloured, HasSubstr("partial sum over \x1b[38;5;33mdata\x1b[0m"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[1mforward\x1b[0m\n"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[31mdoes not fit: "));
}

TEST(PlanTextTest, parts_and_lists_of_axes_are_coloured) {
  const layout::Mesh mesh({{"a", 2}, {"b'", 8}});
  EXPECT_EQ(plan::colourPlan("  x 3@(a, b':(2)4) over a, over c@d\n", mesh),
            "  x 3@(\x1b[38;5;33ma\x1b[0m, \x1b[38;5;172mb':(2)4\x1b[0m) over "
            "\x1b[38;5;33ma\x1b[0m, over c@d\n");
}
