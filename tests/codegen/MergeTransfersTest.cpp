// Which collectives go in one transfer, where it stands and where it lies.

#include "codegen/steps/MergeTransfers.h"
#include "codegen/BuildExecutable.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "codegen/steps/ArenaPlan.h"
#include "codegen/steps/FormSteps.h"
#include "dialect/Locations.h"
#include "tests/codegen/ProgramText.h"
#include "tests/dialect/Programs.h"

#include "mlir/IR/Verifier.h"

#include "gmock/gmock.h"

#include <random>

using namespace meshc;
using namespace meshc::codegen;
using namespace meshc::test;
using ::testing::ElementsAre;

namespace {

/// Programs on a mesh of x=2, y=3: gradients that are summed over devices, and
/// updates that read the sums.
class Gradients {
public:
  /// On the machine of that name.
  explicit Gradients(const std::string &machine = "") {
    text.header = "  nd.mesh [\"x\"=2, \"y\"=3]" +
                  (machine.empty() ? "" : " machine \"" + machine + "\"") +
                  "\n";
    text.dim("small", 5);
    text.dim("odd", 7);
    text.dim("large", int64_t(80) << 10);  // 320 KiB of f32
    text.dim("layer", int64_t(768) * 768); // 2.25 MiB
    text.dim("rows", 256);
    text.dim("columns", 256);
    text.dim("depth", 256);
  }

  /// Computes the gradient `name` from an input of its own.
  void gradient(const std::string &name, const std::string &dims = "small",
                const std::string &type = "f32") {
    text.phase = "";
    text.input("in_" + name, dims, type);
    text.phase = "backward";
    text.pointwise(name, dims, {"in_" + name},
                   "%r = arith.mulf %a0, %a0 : " + type, type);
  }
  /// Two that one kernel computes.
  void gradients(const std::string &first, const std::string &second) {
    gradient(first);
    text.pointwise(second, "small", {"in_" + first},
                   "%r = arith.negf %a0 : f32");
  }
  /// The sum of `name` over devices, "s_name".
  void sum(const std::string &name, const std::string &axes = "x") {
    text.phase = "backward";
    text.allReduce("s_" + name, name, axes);
  }
  /// A reader of a sum, "r_name".
  void read(const std::string &name, const std::string &phase = "update",
            const std::string &dims = "small") {
    text.phase = phase;
    text.pointwise("r_" + name, dims, {"s_" + name},
                   "%r = arith.negf %a0 : f32");
    text.output("r_" + name);
  }
  /// 34 Mflop, about 370 microseconds under the rates of the merger.
  void product(const std::string &name) {
    text.phase = "";
    text.input("l_" + name, "rows depth");
    text.input("w_" + name, "depth columns");
    text.phase = "backward";
    text.contraction(name, "rows columns", "l_" + name, "w_" + name);
    text.output(name);
  }

  ProgramText text;
};

mlir::OwningOpRef<mlir::ModuleOp> parseProgram(mlir::MLIRContext &context,
                                               const Gradients &program) {
  auto module = parse(context, program.text.str());
  EXPECT_TRUE(module) << program.text.str();
  return module;
}

/// The steps by what they compute, "s_a+s_b" for a transfer.
std::vector<std::string> getOrder(const Gradients &program,
                                  std::optional<int64_t> bucketBytes = {}) {
  auto context = makeContext();
  auto module = parseProgram(*context, program);
  auto formed = formSteps(module->lookupSymbol<spmd::ProgramOp>("p"),
                          MatmulLibrary::OneDnn);
  EXPECT_TRUE(mlir::succeeded(formed));
  mergeTransfers(*formed, bucketBytes);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  std::vector<std::string> order;
  KernelBodies bodies(SumPlace::Memory);
  for (steps::StepOpInterface step : steps::getSteps(*formed)) {
    EXPECT_EQ(step->getNumResults(), step.getSharing(bodies).size());
    std::string names;
    for (mlir::Value output : step->getResults())
      names +=
          (names.empty() ? "" : "+") + getValueName(steps::getValueLoc(output));
    order.push_back(names);
  }
  return order;
}

TEST(MergeTransfers, small_sums_for_updates_go_together) {
  Gradients program;
  for (const char *name : {"a", "b", "c"}) {
    program.gradient(name, "small");
    program.sum(name);
  }
  for (const char *name : {"a", "b", "c"})
    program.read(name);
  EXPECT_THAT(getOrder(program),
              ElementsAre("a", "b", "c", "s_a+s_b+s_c", "r_a", "r_b", "r_c"));
  EXPECT_THAT(getOrder(program, 0), ElementsAre("a", "s_a", "b", "s_b", "c",
                                                "s_c", "r_a", "r_b", "r_c"));
}

TEST(MergeTransfers, a_large_one_is_neither_held_back_nor_taken_along) {
  Gradients program;
  program.gradient("a");
  program.sum("a");
  program.gradient("b", "large");
  program.sum("b");
  program.gradient("c");
  program.sum("c");
  program.read("a");
  program.read("b", "update", "large");
  program.read("c");
  EXPECT_THAT(getOrder(program), ElementsAre("a", "b", "s_b", "c", "s_a+s_c",
                                             "r_a", "r_b", "r_c"));
}

// How much is small, and how much is enough, is the machine's: on the h100 a
// quarter of the time of 2.25 MiB is latency, on a CPU less than a tenth of it.
TEST(MergeTransfers, the_machine_says_what_is_small) {
  auto add = [](Gradients program) {
    for (const char *name : {"a", "b"}) {
      program.gradient(name, "layer");
      program.sum(name);
    }
    for (const char *name : {"a", "b"})
      program.read(name, "update", "layer");
    return program;
  };
  const std::vector<std::string> apart = {"a", "s_a", "b", "s_b", "r_a", "r_b"};
  const Gradients onGpus = add(Gradients("h100"));
  EXPECT_THAT(getOrder(onGpus), ElementsAre("a", "b", "s_a+s_b", "r_a", "r_b"));
  EXPECT_EQ(getOrder(onGpus, int64_t(1) << 20), apart);
  EXPECT_EQ(getOrder(add(Gradients())), apart);
}

// A stack, which is no command, is not what reads a sum: its readers are. Nor
// is it computation that would be held back for.
TEST(MergeTransfers, sums_for_updates_of_a_stack_go_together) {
  Gradients program;
  program.text.dim("layers", 2);
  for (const char *name : {"a", "b"}) {
    program.gradient(name);
    program.sum(name);
  }
  program.text.stack("s_c", "layers", {"s_a", "s_b"});
  program.read("c", "update", "layers small");
  EXPECT_THAT(getOrder(program),
              ElementsAre("a", "b", "s_a+s_b", "s_c", "r_c"));
}

// What the backward pass reads, such as a sum over a model axis.
TEST(MergeTransfers, sums_on_the_way_wait_for_no_computation) {
  Gradients program;
  program.gradient("a");
  program.sum("a");
  program.gradient("b");
  program.sum("b");
  program.read("a", "backward");
  program.read("b", "backward");
  EXPECT_THAT(getOrder(program),
              ElementsAre("a", "s_a", "b", "s_b", "r_a", "r_b"));
}

TEST(MergeTransfers, sums_on_the_way_that_are_ready_together_go_together) {
  Gradients program;
  program.gradients("a", "b");
  program.sum("a");
  program.sum("b");
  program.read("a", "backward");
  program.read("b", "backward");
  EXPECT_THAT(getOrder(program), ElementsAre("a+b", "s_a+s_b", "r_a", "r_b"));
}

TEST(MergeTransfers, sums_on_the_way_do_not_carry_those_for_updates) {
  Gradients program;
  program.gradients("a", "b");
  program.sum("a");
  program.sum("b");
  program.read("b", "backward");
  program.read("a");
  EXPECT_THAT(getOrder(program),
              ElementsAre("a+b", "s_a", "s_b", "r_b", "r_a"));
}

TEST(MergeTransfers, nothing_is_held_back_behind_its_reader) {
  Gradients program;
  program.gradient("a");
  program.sum("a");
  program.read("a");
  program.gradient("b");
  program.sum("b");
  program.read("b");
  EXPECT_THAT(getOrder(program),
              ElementsAre("a", "s_a", "r_a", "b", "s_b", "r_b"));
}

TEST(MergeTransfers, a_full_bucket_is_sent) {
  Gradients program;
  for (const char *name : {"a", "b", "c", "d", "e"}) {
    program.gradient(name); // 20 bytes
    program.sum(name);
  }
  for (const char *name : {"a", "b", "c", "d", "e"})
    program.read(name);
  EXPECT_THAT(getOrder(program, 40),
              ElementsAre("a", "b", "s_a+s_b", "c", "d", "s_c+s_d", "e", "s_e",
                          "r_a", "r_b", "r_c", "r_d", "r_e"));
  EXPECT_THAT(getOrder(program, 39), getOrder(program, 0));
}

/// Two sums with `between` products between them and `after` behind.
std::vector<std::string> getHeld(int between, int after) {
  Gradients program;
  program.gradient("a");
  program.sum("a");
  for (int i = 0; i < between; ++i)
    program.product("p" + std::to_string(i));
  program.gradient("b");
  program.sum("b");
  for (int i = 0; i < after; ++i)
    program.product("q" + std::to_string(i));
  program.read("a");
  program.read("b");
  std::vector<std::string> order = getOrder(program);
  std::erase_if(order, [](const std::string &name) {
    return name[0] == 'p' || name[0] == 'q';
  });
  return order;
}

TEST(MergeTransfers, nothing_is_held_back_for_much_computation) {
  const auto apart = ElementsAre("a", "s_a", "b", "s_b", "r_a", "r_b");
  const auto together = ElementsAre("a", "b", "s_a+s_b", "r_a", "r_b");
  // One of two products is more than a full bucket takes, and than a tenth.
  EXPECT_THAT(getHeld(1, 1), apart);
  EXPECT_THAT(getHeld(1, 8), apart);
  EXPECT_THAT(getHeld(1, 10), together);
  EXPECT_THAT(getHeld(2, 10), apart);
  EXPECT_THAT(getHeld(0, 1), together);
}

TEST(MergeTransfers, axes_and_types_stay_apart) {
  Gradients program;
  program.gradient("a");
  program.sum("a", "x");
  program.gradient("b", "odd");
  program.sum("b", "y");
  program.gradient("c");
  program.sum("c", "x, y");
  program.gradient("d", "small", "f64");
  program.sum("d", "x");
  program.gradient("e", "odd");
  program.sum("e", "x");
  program.read("a");
  program.read("b", "update", "odd");
  program.read("c");
  program.text.output("s_d");
  program.read("e", "update", "odd");
  EXPECT_THAT(getOrder(program),
              ElementsAre("a", "b", "s_b", "c", "s_c", "d", "s_d", "e",
                          "s_a+s_e", "r_a", "r_b", "r_c", "r_e"));
}

// Any program: each sum once, after what it adds up and before who reads it, in
// transfers that are no larger than a bucket.
TEST(MergeTransfers, keeps_every_dependency) {
  std::mt19937 random(3);
  int merged = 0;
  for (int round = 0; round < 60; ++round) {
    Gradients program;
    std::vector<std::string> unread;
    int sums = 0;
    auto readOne = [&](const std::string &phase) {
      const size_t chosen = random() % unread.size();
      program.read(unread[chosen], phase);
      unread.erase(unread.begin() + std::ptrdiff_t(chosen));
    };
    for (int i = 0; i < 14; ++i) {
      const std::string name = "g" + std::to_string(i);
      program.gradient(name);
      if (random() % 4) {
        program.sum(name, random() % 3 ? "x" : "y");
        unread.push_back(name);
        ++sums;
      } else {
        program.text.output(name);
      }
      if (!unread.empty() && random() % 5 == 0)
        readOne(random() % 2 ? "backward" : "update");
    }
    while (!unread.empty())
      readOne("update");
    const std::vector<std::string> order = getOrder(program, 60);
    std::map<std::string, size_t> places;
    for (size_t place = 0; place < order.size(); ++place) {
      std::string rest = order[place] + "+";
      int members = 0;
      for (size_t end; (end = rest.find('+')) != std::string::npos;
           rest = rest.substr(end + 1)) {
        EXPECT_TRUE(places.try_emplace(rest.substr(0, end), place).second);
        ++members;
      }
      EXPECT_LE(members, 3);
      merged += members > 1 ? 1 : 0;
    }
    int found = 0;
    for (const auto &[name, place] : places) {
      if (!name.starts_with("s_"))
        continue;
      ++found;
      EXPECT_LT(places.at(name.substr(2)), place) << name;
      EXPECT_GT(places.at("r_" + name.substr(2)), place) << name;
    }
    EXPECT_EQ(found, sums);
  }
  EXPECT_GT(merged, 60);
}

TEST(MergeTransfers, members_lie_one_behind_the_other_and_stay_there) {
  Gradients program;
  for (const auto &[name, dims] : {std::pair("a", "small"),
                                   {"b", "large"},
                                   {"c", "odd"},
                                   {"d", "small"}}) {
    program.gradient(name, dims);
    program.sum(name);
  }
  for (const auto &[name, dims] :
       {std::pair("a", "small"), {"b", "large"}, {"c", "odd"}, {"d", "small"}})
    program.read(name, "update", dims);
  auto context = makeContext();
  auto module = parseProgram(*context, program);
  exec::ExecutableT executable;
  mlir::OwningOpRef<mlir::ModuleOp> kernels =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  CpuKernelTarget target(*kernels);
  ASSERT_TRUE(mlir::succeeded(planSteps(*module, target)) &&
              mlir::succeeded(buildExecutable(*module, executable, target)));

  std::vector<const exec::CommandT *> transfers;
  for (const auto &command : executable.programs[0]->commands)
    if (command->action.AsCollective())
      transfers.push_back(command.get());
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_EQ(transfers[0]->action.AsCollective()->payload_bytes, 320 << 10);
  const exec::CommandT &small = *transfers[1];
  EXPECT_EQ(small.name, "s_c and 2 more"); // after the largest
  EXPECT_EQ(small.queue, exec::Queue::communication);
  EXPECT_EQ(small.results, 3);
  ASSERT_EQ(small.operands.size(), 6u);
  // Each keeps its own id and payload.
  const exec::CollectiveT &first = *small.action.AsCollective();
  ASSERT_EQ(first.merged.size(), 2u);
  EXPECT_EQ(first.id, "c2");
  EXPECT_EQ(first.payload_elements, 5);
  EXPECT_EQ(first.merged[0]->id, "c3");
  EXPECT_EQ(first.merged[0]->payload_bytes, 28);
  EXPECT_EQ(first.merged[1]->payload_elements, 5);
  auto getOffset = [&](size_t operand) {
    const exec::OperandT &found = *small.operands[operand];
    return executable.buffers[size_t(found.buffer)]->offset + found.offset;
  };
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(getOffset(i), getOffset(0) + i * bufferAlignment);
    EXPECT_EQ(getOffset(3 + i), getOffset(i));
  }
  // Nothing is copied.
  for (const auto &command : executable.programs[0]->commands)
    EXPECT_FALSE(command->action.AsCopy());
}

} // namespace
