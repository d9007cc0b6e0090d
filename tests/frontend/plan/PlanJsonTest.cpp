#include "ExampleExecutable.h"
#include "JsonSchema.h"

#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/PlanText.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using nlohmann::json;

namespace {
constexpr const char *specText = "model tiny\n";

std::string render(const exec::ExecutableT &executable) {
  return plan::renderPlanJson(
      executable, [](std::string_view path) -> std::optional<std::string> {
        if (path == "tiny.mesh")
          return specText;
        return std::nullopt;
      });
}

class PlanJsonTest : public testing::Test {
protected:
  json plan = json::parse(render(plan::makeExample()));

  const json &find(const char *list, const char *field, const char *value) {
    for (const json &entry : plan[list])
      if (entry[field] == value)
        return entry;
    ADD_FAILURE() << "no " << value << " in " << list;
    return plan;
  }
  std::string id(const char *tensor) {
    return find("tensors", "name", tensor)["id"];
  }
};
} // namespace

// Written from the contract, not from the printer: every field, its type, and
// no other.
TEST_F(PlanJsonTest, has_the_fields_of_the_contract) {
  const json span = {{"path", "string"},
                     {"line", "integer"},
                     {"column", "integer"},
                     {"end_line", "integer"},
                     {"end_column", "integer"}};
  const json optionalSpan = {{"nullable", span}};
  const json names = {{"list", "string"}};
  const json cause = {{"rule", "string"},
                      {"consumer", "string"},
                      {"operand", "string"},
                      {"consumer_operation?", "string"},
                      {"operand_operation?", "string"},
                      {"needed", "string"},
                      {"had", "string"},
                      {"kind", "string"},
                      {"written", "boolean"},
                      {"spans", {{"list", span}}},
                      {"alternative?",
                       {{"description", "string"},
                        {"cost_us", "number"},
                        {"chosen_cost_us", "number"}}}};
  const json dim = {{"name", "string"},
                    {"size", "integer"},
                    {"axes", names},
                    {"local_size", "integer"},
                    {"rules?", {{"list", "integer"}}},
                    {"window?",
                     {{"loop", "string"},
                      {"size", "integer"},
                      {"factor", "integer"},
                      {"low", "integer"},
                      {"high", "integer"},
                      {"divisor", "integer"},
                      {"modulus?", "integer"}}}};
  const json optionalId = {{"nullable", "string"}};
  const json form = {
      {"one of",
       {"itself", "inside", "copy", "padded", "sums", "gathered", "order"}}};
  const json sharding = {
      {"dims", {{"list", dim}}},
      {"partial", {{"nullable", {{"kind", "string"}, {"axes", names}}}}}};
  const json schema = {
      {"schema", "string"},
      {"producer", "string"},
      {"model", "string"},
      {"program", "string"},
      {"target", {{"one of", {"cpu", "cuda"}}}},
      {"devices", "integer"},
      {"mesh",
       {{"axes",
         {{"list",
           {{"name", "string"},
            {"size", "integer"},
            {"link?", {{"name", "string"}, {"bytes_per_us", "number"}}}}}}}}},
      {"dims",
       {{"list",
         {{"name", "string"},
          {"size", "integer"},
          {"axes", names},
          {"span", optionalSpan}}}}},
      {"rules",
       {{"list",
         {{"role", {{"one of", {"values", "params", "gradients", "state"}}}},
          {"dims", names},
          {"axes", names},
          {"unless", names},
          {"values", {{"nullable", "string"}}},
          {"text", "string"},
          {"span", optionalSpan}}}}},
      {"sha256", "string"},
      {"spec",
       {{"path", "string"},
        {"sha256", "string"},
        {"files",
         {{"list",
           {{"path", "string"}, {"text", {{"nullable", "string"}}}}}}}}},
      {"scopes",
       {{"list",
         {{"id", "string"},
          {"name", "string"},
          {"parent", optionalId},
          {"iteration", {{"nullable", "integer"}}},
          {"like", "string"}}}}},
      {"parts",
       {{"list",
         {{"id", "string"},
          {"name", "string"},
          {"parent", optionalId},
          {"count", "integer"},
          {"flops_per_device", "integer"},
          {"wire_bytes_per_device", "integer"},
          {"at_peak",
           {{"params", "integer"},
            {"model_state", "integer"},
            {"gradients", "integer"},
            {"optimizer", "integer"},
            {"activations", "integer"},
            {"communication", "integer"},
            {"workspace", "integer"}}}}}}},
      {"schedule", names},
      {"tensors",
       {{"list",
         {{"id", "string"},
          {"name", "string"},
          {"role",
           {{"one of",
             {"input", "param", "state", "activation", "output", "gradient"}}}},
          {"dtype", "string"},
          {"dims", {{"list", dim}}},
          {"partial?", {{"kind", "string"}, {"axes", names}}},
          {"lost_rules?",
           {{"list",
             {{"rule", "integer"},
              {"why",
               {{"one of",
                 {"unless", "replaced", "already_split", "indivisible"}}}},
              {"text", "string"}}}}},
          {"bytes_global", "integer"},
          {"bytes_per_device", "integer"},
          {"inside", "boolean"},
          {"stored", "boolean"},
          {"tile_bytes", {{"nullable", "integer"}}},
          {"lies_in", optionalId},
          {"scope", optionalId},
          {"part", "string"},
          {"fold", "string"},
          {"gradient_of?", "string"},
          {"gradient_of_name?", "string"},
          {"state_of?", "string"},
          {"copy_of?", "string"},
          {"span", optionalSpan}}}}},
      {"ops",
       {{"list",
         {{"id", "string"},
          {"name", "string"},
          {"kind", {{"one of", {"kernel", "matmul", "copy", "slice"}}}},
          {"inputs", {{"list", {{"nullable", "string"}}}}},
          {"outputs", {{"list", "string"}}},
          {"phase", {{"one of", {"forward", "backward", "update"}}}},
          {"repeat", "integer"},
          {"flops_per_device", "integer"},
          {"bytes_per_device", "integer"},
          {"scope", optionalId},
          {"part", "string"},
          {"fold", "string"},
          {"gradient_of_name?", "string"},
          {"span", optionalSpan}}}}},
      {"collectives",
       {{"list",
         {{"id", "string"},
          {"kind",
           {{"one of",
             {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
              "permute", "exchange"}}}},
          {"axes", names},
          {"group_size", "integer"},
          {"inputs", {{"list", {{"nullable", "string"}}}}},
          {"outputs", {{"list", "string"}}},
          {"phase", {{"one of", {"forward", "backward", "update"}}}},
          {"repeat", "integer"},
          {"payload_elements", "integer"},
          {"payload_bytes", "integer"},
          {"wire_bytes_per_device", "integer"},
          {"before", sharding},
          {"after", sharding},
          {"scope", optionalId},
          {"part", "string"},
          {"fold", "string"},
          {"tensor", {{"nullable", "string"}}},
          {"transfer", "string"},
          {"span", optionalSpan},
          {"cause", cause},
          {"merged_causes?", {{"list", cause}}}}}}},
      {"transfers",
       {{"list",
         {{"id", "string"},
          {"collectives", names},
          {"largest", "string"},
          {"payload_bytes", "integer"},
          {"repeat", "integer"},
          {"overlap",
           {{"ops", names},
            {"matmuls", "integer"},
            {"flops_per_device", "integer"},
            {"bytes_per_device", "integer"},
            {"first_reader", {{"nullable", "string"}}},
            {"exposed", "boolean"}}}}}}},
      {"memory",
       {{"peak_bytes_per_device", "integer"},
        {"params", "integer"},
        {"model_state", "integer"},
        {"gradients", "integer"},
        {"optimizer", "integer"},
        {"activations", "integer"},
        {"communication", "integer"},
        {"workspace", "integer"},
        {"at_peak",
         {{"list",
           {{"name", "string"},
            {"tensor", optionalId},
            {"form", form},
            {"category", "string"},
            {"bytes", "integer"},
            {"part", "string"}}}}},
        {"peak_at", {{"nullable", "string"}}},
        {"buffers",
         {{"list",
           {{"name", "string"},
            {"tensor", optionalId},
            {"form", form},
            {"category", "string"},
            {"bytes", "integer"},
            {"offset", "integer"},
            {"first", "integer"},
            {"last", "integer"}}}}}}},
      {"totals",
       {{"flops_per_device", "integer"},
        {"collective_payload_bytes", "integer"},
        {"wire_bytes_per_device", "integer"},
        {"transfers", "integer"}}},
      {"waste",
       {{"list",
         {{"kind", {{"one of", {"uneven", "one_device", "repeated"}}}},
          {"dim", {{"nullable", "string"}}},
          {"axes", names},
          {"devices", "integer"},
          {"idle_devices", "integer"},
          {"lost", "number"},
          {"text", "string"},
          {"span", optionalSpan}}}}},
      {"remarks",
       {{"list",
         {{"kind",
           {{"one of",
             {"resharding", "gather", "library_copy", "stored_view", "untiled",
              "unrolled", "replicated", "lost_rule"}}}},
          {"bytes", "integer"},
          {"count", "integer"},
          {"command", optionalId},
          {"tensor", optionalId},
          {"axes", names},
          {"text", "string"},
          {"advice?", "string"},
          {"span", optionalSpan}}}}}};
  ASSERT_EQ(plan["waste"].size(), 1u);
  EXPECT_EQ(plan["waste"][0]["dim"], "hidden");
  EXPECT_EQ(plan["waste"][0]["axes"], json({"model"}));
  EXPECT_EQ(plan["waste"][0]["span"]["column"], 24);
  EXPECT_EQ(plan["schema"], "meshc.plan/2");
  EXPECT_THAT(plan::findViolations(plan, schema), testing::IsEmpty());
}

TEST_F(PlanJsonTest, tells_what_a_gpu_is_asked_for) {
  plan = json::parse(render(plan::makeGpuExample()));
  EXPECT_EQ(plan["target"], "cuda");
  EXPECT_EQ(plan["totals"]["launches"], json({{"kernels", 4},
                                              {"products", 2},
                                              {"copies", 0},
                                              {"collectives", 2}}));
  EXPECT_EQ(plan["totals"]["refused_products"].size(), 1u);
  EXPECT_EQ(find("ops", "id", "o4")["launches"][1],
            json({{"symbol", "step_3_sum"},
                  {"blocks", 1},
                  {"threads", 256},
                  {"shared_bytes", 1024}}));
  const json &memory = plan["memory"];
  // The workspace, and where the matrices of a batch are: less than 256 bytes.
  constexpr int64_t library = (32 << 20) + 256;
  // The blocks of c1, and what is received of other devices' memory.
  constexpr int64_t staging = 4 * 256 + (16 << 20);
  // Words: a piece has 39, and a box its addresses. c1 packs two boxes and adds
  // up three; so does c2 of two, where a block has one column of three.
  constexpr int64_t tables = 2048;
  static_assert(8 * (2 * (39 + 2) + 39 + 4 + 2 * (39 + 2) + 39 + 3) == 1992);
  constexpr int64_t peak = 512 + library + staging + tables;
  EXPECT_EQ(memory["peak_bytes_per_device"], peak);
  EXPECT_EQ(memory["allocation"], json({{"arena", 512},
                                        {"cublaslt", library},
                                        {"move_tables", tables},
                                        {"staging", staging}}));
  for (auto [place, name, bytes] : {std::tuple(0, "cuBLASLt", library),
                                    {1, "staging", staging},
                                    {2, "move tables", tables}})
    EXPECT_EQ(memory["at_peak"][size_t(place)], json({{"name", name},
                                                      {"tensor", nullptr},
                                                      {"form", "itself"},
                                                      {"category", "workspace"},
                                                      {"bytes", bytes},
                                                      {"part", "p0"}}));
  int64_t sum = 0;
  for (const char *part : {"params", "model_state", "gradients", "optimizer",
                           "activations", "communication", "workspace"})
    sum += memory[part].get<int64_t>();
  EXPECT_EQ(sum, peak);
  EXPECT_EQ(plan["totals"]["refused_moves"], json::array());
}

TEST_F(PlanJsonTest, tells_of_moves_that_a_gpu_refuses) {
  // Nine dimensions of which no two are contiguous.
  exec::ExecutableT executable = plan::makeGpuExample();
  auto copy = std::make_unique<exec::CommandT>();
  copy->name = "transpose";
  copy->results = 1;
  copy->waits = {7};
  copy->action.Set(exec::CopyT());
  for (int64_t gap : {2, 3}) {
    auto operand = std::make_unique<exec::OperandT>();
    operand->shape.assign(9, 2);
    int64_t stride = 1;
    for (int i = 0; i < 9; ++i, stride *= 2 * gap)
      operand->strides.insert(operand->strides.begin(), stride);
    copy->operands.push_back(std::move(operand));
  }
  executable.programs[0]->commands.push_back(std::move(copy));
  const std::string refused =
      "a move has 9 dimensions that are not contiguous, "
      "expected at most 8, in command 'transpose' of "
      "program 'step'";
  plan = json::parse(render(executable));
  EXPECT_EQ(plan["totals"]["refused_moves"], json({refused}));
  EXPECT_EQ(plan["memory"]["peak_bytes_per_device"], 512);
  EXPECT_THAT(plan::renderPlanText(executable, {}),
              testing::HasSubstr("\n    " + refused + "\n"));
}

TEST_F(PlanJsonTest, describes_mesh_dims_and_spec) {
  EXPECT_EQ(plan["devices"], 6);
  EXPECT_EQ(plan["mesh"]["axes"][1], json({{"name", "model"}, {"size", 3}}));
  EXPECT_EQ(plan["spec"],
            json({{"path", "tiny.mesh"},
                  {"sha256", "0123"},
                  {"files", {{{"path", "tiny.mesh"}, {"text", specText}}}}}));
  EXPECT_EQ(find("dims", "name", "hidden")["span"]["line"], 4);
}

TEST_F(PlanJsonTest, gives_the_block_of_a_dim_that_does_not_divide) {
  const json &hidden = find("tensors", "name", "w")["dims"][1];
  EXPECT_EQ(hidden, json({{"name", "hidden"},
                          {"size", 7},
                          {"axes", {"model"}},
                          {"local_size", 3},
                          {"rules", {1}}}));
}

TEST_F(PlanJsonTest, says_which_values_are_partial) {
  EXPECT_EQ(find("tensors", "name", "loss")["partial"],
            json({{"kind", "sum"}, {"axes", {"data"}}}));
  EXPECT_FALSE(find("tensors", "name", "y").contains("partial"));
}

TEST_F(PlanJsonTest, a_value_without_position_has_the_span_null) {
  EXPECT_TRUE(find("tensors", "name", "sgd/step")["span"].is_null());
}

TEST_F(PlanJsonTest, ops_name_the_values_they_read) {
  const json &matmul = find("ops", "id", "o0");
  EXPECT_EQ(matmul["inputs"], json({id("x"), id("w")}));
  EXPECT_EQ(matmul["outputs"], json({id("y")}));
  // The loss reads what c1 made, which has no name, and lies in the buffer
  // that the product had.
  const json &loss = find("ops", "name", "loss");
  EXPECT_EQ(loss["inputs"], json({"c1"}));
  EXPECT_EQ(loss["outputs"], json({id("loss")}));
}

TEST_F(PlanJsonTest, an_update_writes_its_variables) {
  const json &update = find("ops", "phase", "update");
  EXPECT_EQ(update["inputs"],
            json({id("w"), id("gradient of w"), id("sgd/step")}));
  EXPECT_EQ(update["outputs"], json({id("w"), id("sgd/step")}));
}

TEST_F(PlanJsonTest, a_collective_inside_an_expression_belongs_to_its_value) {
  const json &collective = find("collectives", "id", "c1");
  EXPECT_EQ(collective["tensor"], id("loss"));
  EXPECT_EQ(collective["payload_elements"], 3);
  EXPECT_EQ(collective["payload_bytes"], 12);
  EXPECT_EQ(collective["group_size"], 3);
  EXPECT_EQ(collective["axes"], json({"model"}));
  EXPECT_EQ(collective["cause"]["spans"][0]["column"], 24);
}

TEST_F(PlanJsonTest, merged_collectives_keep_every_cause) {
  const json &collective = find("collectives", "id", "c2");
  EXPECT_EQ(collective["cause"]["consumer"], "w");
  ASSERT_EQ(collective["merged_causes"].size(), 1u);
  EXPECT_EQ(collective["phase"], "backward");
}

TEST_F(PlanJsonTest, a_transfer_says_what_is_computed_meanwhile) {
  EXPECT_EQ(find("collectives", "id", "c1")["transfer"], "x1");
  EXPECT_EQ(plan["totals"]["transfers"], 2);
  EXPECT_TRUE(plan["transfers"][0]["overlap"]["exposed"]);
  EXPECT_EQ(plan["transfers"][0]["overlap"]["first_reader"], "o3");

  plan = json::parse(render(plan::makeExampleWithOverlap()));
  EXPECT_EQ(plan["totals"]["transfers"], 2);
  const json &first = plan["transfers"][0]["overlap"];
  EXPECT_EQ(first["ops"], json({"o3", "o4", "o5"}));
  EXPECT_EQ(first["matmuls"], 1);
  EXPECT_EQ(first["flops_per_device"], 3 + 9 + 90);
  EXPECT_EQ(first["bytes_per_device"], 30 + 90 + 900);
  EXPECT_EQ(first["first_reader"], "o8");
  EXPECT_FALSE(first["exposed"]);
}

TEST_F(PlanJsonTest, collectives_of_one_transfer_keep_their_own_payload) {
  plan = json::parse(render(plan::makeExampleWithOverlap()));
  EXPECT_EQ(plan["transfers"][1]["collectives"], json({"c2", "c3"}));
  EXPECT_EQ(plan["transfers"][1]["payload_bytes"], 60 + 12);
  EXPECT_EQ(find("collectives", "id", "c2")["payload_bytes"], 60);
  EXPECT_EQ(find("collectives", "id", "c3")["payload_bytes"], 12);
  EXPECT_EQ(find("collectives", "id", "c3")["transfer"], "x2");
  EXPECT_EQ(find("collectives", "id", "c3")["tensor"], id("loss"));
  EXPECT_EQ(find("collectives", "id", "c3")["cause"]["consumer"], "loss");
  EXPECT_EQ(plan["totals"]["collective_payload_bytes"], 12 + 60 + 12);
  // The update reads what each of them made.
  EXPECT_EQ(find("ops", "phase", "update")["inputs"],
            json({id("w"), id("gradient of w"), id("sgd/step")}));
}

TEST_F(PlanJsonTest, who_waits_for_a_later_transfer_waits_for_this_one) {
  exec::ExecutableT executable = plan::makeExampleWithOverlap();
  // o4, dy, waits for a communication behind c1.
  auto &commands = executable.programs[0]->commands;
  commands[3]->queue = exec::Queue::communication;
  commands[4]->waits = {3};
  plan = json::parse(render(executable));
  EXPECT_EQ(plan["transfers"][0]["overlap"]["first_reader"], "o4");
  EXPECT_TRUE(plan["transfers"][0]["overlap"]["exposed"]);
}

// At command 5 live: w 60, step 4, x 60, loss 12, gradients of y 36 and of w
// 60: 232, more than at any other command.
TEST_F(PlanJsonTest, finds_the_peak) {
  const json &memory = plan["memory"];
  EXPECT_EQ(memory["peak_bytes_per_device"], 512);
  EXPECT_EQ(memory["params"], 60);
  EXPECT_EQ(memory["optimizer"], 4);
  EXPECT_EQ(memory["gradients"], 96);
  EXPECT_EQ(memory["activations"], 72);
  EXPECT_EQ(memory["communication"], 0);
  EXPECT_EQ(memory["workspace"], 512 - 232);
  EXPECT_EQ(memory["at_peak"].size(), 6u);
  EXPECT_EQ(memory["at_peak"][0]["bytes"], 60);
  EXPECT_EQ(memory["at_peak"].back()["name"], "sgd/step");
  // What is alive there adds up to it.
  const json &schedule = plan["schedule"];
  const auto peak =
      std::find(schedule.begin(), schedule.end(), memory["peak_at"]) -
      schedule.begin();
  int64_t alive = 0;
  for (const json &buffer : memory["buffers"])
    if (buffer["first"] <= peak && peak <= buffer["last"])
      alive += buffer["bytes"].get<int64_t>();
  EXPECT_EQ(alive, 232);
}

TEST_F(PlanJsonTest, adds_up_a_step) {
  EXPECT_EQ(plan["totals"]["flops_per_device"], 90 + 18 + 3 + 9 + 90 + 31);
  EXPECT_EQ(plan["totals"]["collective_payload_bytes"], 12 + 60);
  EXPECT_EQ(plan["totals"]["wire_bytes_per_device"], 16 + 60);
}

TEST_F(PlanJsonTest, a_path_that_is_no_utf8_still_gives_json) {
  exec::ExecutableT executable = plan::makeExample();
  executable.files[0] = "\xff.mesh";
  EXPECT_TRUE(json::accept(render(executable)));
}

TEST_F(PlanJsonTest, without_training_the_evaluation_is_planned) {
  exec::ExecutableT executable = plan::makeExample();
  executable.programs[0]->name = "eval";
  EXPECT_EQ(json::parse(render(executable))["program"], "eval");
}

TEST_F(PlanJsonTest, memory_says_which_part_of_which_value_it_is) {
  exec::ExecutableT executable = plan::makeExample();
  executable.buffers[3]->origin->part = exec::OriginPart::copy;
  plan = json::parse(render(executable));
  std::map<std::string, json> buffers;
  for (const json &buffer : plan["memory"]["buffers"])
    buffers[buffer["name"]] = buffer;
  EXPECT_EQ(buffers["y"]["tensor"], id("y"));
  EXPECT_EQ(buffers["y"]["form"], "copy");
  EXPECT_EQ(buffers["w"]["tensor"], id("w"));
  EXPECT_EQ(buffers["w"]["form"], "itself");
  // What has no name is on the way to something.
  EXPECT_TRUE(buffers[""]["tensor"].is_null());
  EXPECT_EQ(buffers[""]["form"], "inside");
}

TEST_F(PlanJsonTest, gradients_say_what_they_are_of) {
  EXPECT_EQ(find("tensors", "name", "gradient of w")["gradient_of_name"], "w");
  EXPECT_EQ(find("ops", "name", "gradient of y")["gradient_of_name"], "y");
  EXPECT_FALSE(find("ops", "name", "y").contains("gradient_of_name"));
}

TEST_F(PlanJsonTest, a_transfer_is_told_of_its_largest_member) {
  exec::ExecutableT executable = plan::makeExampleWithOverlap();
  exec::CollectiveT &first =
      *executable.programs[0]->commands[6]->action.AsCollective();
  auto getLargest = [&] {
    return json::parse(render(executable))["transfers"][1]["largest"];
  };
  EXPECT_EQ(getLargest(), "c2");
  first.merged[0]->payload_bytes = first.payload_bytes;
  EXPECT_EQ(getLargest(), "c2");
  first.merged[0]->payload_bytes = first.payload_bytes + 4;
  EXPECT_EQ(getLargest(), "c3");
}
