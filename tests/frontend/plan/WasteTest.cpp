#include "ExampleExecutable.h"

#include "frontend/plan/Waste.h"
#include "frontend/plan/text/PlanText.h"
#include "layout/Sharding.h"

#include <gmock/gmock.h>
#include <numeric>

using namespace meshc;
using namespace meshc::plan;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

namespace {
class WasteTest : public testing::Test {
protected:
  /// A mesh of these sizes, a, b, ..., and a dim over all of its axes.
  void set(const std::vector<int64_t> &sizes, int64_t dim) {
    executable.mesh->axes.clear();
    executable.rules.clear(); // they name axes of the example
    auto &rule =
        executable.rules.emplace_back(std::make_unique<exec::LayoutRuleT>());
    rule->span = std::make_unique<exec::Span>(0, 5, 10, 5, 23);
    executable.dims.resize(1);
    executable.dims[0]->name = "heads";
    executable.dims[0]->size = dim;
    executable.dims[0]->axes.clear();
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      executable.mesh->axes.push_back(std::make_unique<exec::AxisT>());
      executable.mesh->axes.back()->name = std::string(1, char('a' + axis));
      executable.mesh->axes.back()->size = sizes[axis];
      executable.dims[0]->axes.emplace_back(int(axis), 1, sizes[axis]);
      rule->text += (axis == 0 ? "heads -> (" : ", ") +
                    executable.mesh->axes.back()->name;
    }
    rule->text += ")";
    // Of the parts that the example has, only those of this mesh matter here.
    executable.programs.clear();
  }

  std::vector<std::string> getTexts() {
    std::vector<std::string> texts;
    for (const Waste &waste : find())
      texts.push_back(waste.text);
    return texts;
  }

  std::vector<Waste> find() {
    plan.emplace(executable);
    return findWaste(*plan);
  }

  exec::ExecutableT executable = makeExample();
  std::optional<Plan> plan;
};
} // namespace

TEST_F(WasteTest, sizes_that_divide_waste_nothing) {
  for (int64_t size : {8, 16, 800}) {
    set({8}, size);
    EXPECT_THAT(getTexts(), IsEmpty()) << size;
  }
  set({2, 3}, 12);
  EXPECT_THAT(getTexts(), IsEmpty());
  // 28 in blocks of 10: 7%.
  set({3}, 28);
  EXPECT_THAT(getTexts(), IsEmpty());
}

TEST_F(WasteTest, uneven_sizes) {
  set({8}, 12);
  std::vector<Waste> all = find();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, Waste::Kind::Uneven);
  EXPECT_EQ(all[0].numIdle, 2);
  EXPECT_EQ(all[0].numDevices, 8);
  EXPECT_DOUBLE_EQ(all[0].lost, 0.25);
  EXPECT_EQ(all[0].span, executable.rules[0]->span.get());
  EXPECT_EQ(all[0].text,
            "heads -> a: 12 positions over 8 devices in blocks of 2: 2 of them "
            "have none, 25% of the time is lost");
  set({1024}, 512);
  EXPECT_THAT(getTexts(),
              ElementsAre("heads -> a: 512 positions over 1024 "
                          "devices in blocks of 1: 512 of them have "
                          "none, 50% of the time is lost"));
  set({3}, 7);
  EXPECT_THAT(getTexts(),
              ElementsAre("heads -> a: 7 positions over 3 devices in blocks of "
                          "3: 22% of the time is lost"));
  // What is lost is little, but a device could go.
  set({12}, 121);
  EXPECT_THAT(getTexts(), ElementsAre(HasSubstr("1 of them has none")));
}

/// Nested blocks, against the devices one by one.
TEST_F(WasteTest, idle_devices_of_several_axes) {
  for (const std::vector<int64_t> &sizes :
       {std::vector<int64_t>{2, 3}, {3, 2}, {5, 2, 3}, {3, 1, 4}})
    for (int64_t size = 1; size < 40; ++size) {
      set(sizes, size);
      std::vector<Waste> all = find();
      const int64_t devices = std::accumulate(sizes.begin(), sizes.end(),
                                              int64_t(1), std::multiplies<>());
      int64_t idle = 0;
      for (int64_t device = 0; device < devices; ++device)
        idle += layout::getOwnedRange(plan->mesh, size,
                                      getAxes(executable.dims[0]->axes),
                                      plan->mesh.getCoordinates(device))
                    .count == 0;
      EXPECT_EQ(all.empty() ? 0 : all[0].numIdle, idle)
          << size << " over " << plan->describeMesh();
    }
}

TEST_F(WasteTest, axes_of_one_device) {
  set({1}, 12);
  EXPECT_THAT(getTexts(), ElementsAre("heads -> a: it splits nothing, the axis "
                                      "has one device"));
  EXPECT_EQ(find()[0].kind, Waste::Kind::OneDevice);
  set({1, 1}, 12);
  EXPECT_THAT(getTexts(), ElementsAre("heads -> (a, b): it splits nothing, the "
                                      "axes have one device"));
  set({1, 3}, 12);
  EXPECT_THAT(getTexts(), IsEmpty());
}

TEST_F(WasteTest, rules_by_names_and_of_roles) {
  set({8}, 12);
  executable.dims[0]->axes.clear();
  executable.rules[0]->text = "\"attn/scores\": heads -> a";
  EXPECT_THAT(getTexts(), ElementsAre(StartsWith(
                              "\"attn/scores\": heads -> a: 12 positions "
                              "over 8 devices in blocks of 2: 2 of")));
  // What is stored is not computed.
  executable.rules[0]->text = "params: heads -> a";
  EXPECT_THAT(getTexts(), IsEmpty());
}

TEST_F(WasteTest, axes_over_which_nothing_is_computed) {
  executable.dims[2]->size = 6; // hidden
  EXPECT_THAT(getTexts(), IsEmpty());
  executable.mesh->axes[1]->shared = 0.5;
  EXPECT_THAT(getTexts(), IsEmpty());
  executable.mesh->axes[1]->shared = 0.25;
  std::vector<Waste> all = find();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, Waste::Kind::Repeated);
  EXPECT_EQ(all[0].text, "model: its 3 devices share 25% of the products and "
                         "each compute the rest; hidden -> model splits little "
                         "of what is computed");
  // Of 3 units of time 0.25 + 3 * 0.75 - 1 are repeated.
  EXPECT_DOUBLE_EQ(all[0].lost, 1 - 1 / 2.5);
  executable.mesh->axes[1]->shared = 0;
  EXPECT_THAT(getTexts(),
              ElementsAre("model: its 3 devices compute the same products; "
                          "hidden -> model splits none of them"));
  executable.dims[2]->carries = true;
  EXPECT_THAT(
      getTexts(),
      ElementsAre("model: its 3 devices compute the same products; "
                  "hidden -> model splits none of them: a loop over "
                  "hidden carries values, so that all devices run every "
                  "iteration"));
  std::erase_if(executable.rules, [](const auto &rule) {
    return rule->text == "hidden -> model";
  });
  EXPECT_THAT(getTexts(),
              ElementsAre("model: its 3 devices compute the same; no rule "
                          "splits anything over it"));
  // Without a step or an evaluation there are no products.
  executable.programs.clear();
  EXPECT_THAT(getTexts(), IsEmpty());
}

TEST_F(WasteTest, the_text_of_a_plan_has_it_last) {
  EXPECT_THAT(
      renderPlanText(executable, {}),
      testing::EndsWith("\nwaste\n  hidden -> model: 7 positions over 3 "
                        "devices in blocks of 3: 22% of the time is "
                        "lost\n"));
  executable.mesh->axes[1]->shared = 0;
  executable.dims[2]->carries = true;
  EXPECT_THAT(
      renderPlanText(executable, {}),
      testing::EndsWith(
          "\n  model: its 3 devices compute the same products; hidden -> "
          "model splits none of them: a loop over\n    hidden carries "
          "values, so that all devices run every iteration\n"));
  executable.mesh->axes[1]->shared = 1;
  executable.dims[2]->size = 6;
  EXPECT_THAT(renderPlanText(executable, {}), Not(HasSubstr("waste")));
}
