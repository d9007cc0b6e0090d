#include "tests/checkpoint/StateProgram.h"

#include "tests/runtime/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

Executable test::makeStateProgram(const MeshSizes &mesh, int64_t bigRows) {
  using exec::ElementType;
  std::vector<std::pair<std::string, int64_t>> axes;
  for (size_t i = 0; i < mesh.size(); ++i)
    axes.emplace_back(std::string(1, char('a' + i)), mesh[i]);
  ProgramBuilder builder(axes);
  std::vector<exec::AxisRef> all, first, last;
  for (size_t i = 0; i < mesh.size(); ++i)
    all.push_back(builder.axis(int32_t(i)));
  if (!all.empty()) {
    first = {all.front()};
    last = {all.back()};
  }
  const std::vector<exec::AxisRef> rest(all.begin() + (all.empty() ? 0 : 1),
                                        all.end());
  auto add = [&](const std::string &name, const exec::TensorLayoutT &layout,
                 exec::BufferRole role) {
    builder.addVariable(name, layout, builder.addBuffer(name, layout), role);
  };
  add("w",
      makeLayout(ElementType::f32,
                 {{"rows", bigRows, first}, {"columns", 5, rest}}),
      exec::BufferRole::parameter);
  add("adam/m/w",
      makeLayout(ElementType::f32,
                 {{"rows", bigRows, rest}, {"columns", 5, first}}),
      exec::BufferRole::state);
  add("b", makeLayout(ElementType::f32, {{"columns", 5}}),
      exec::BufferRole::parameter);
  add("mean/steps", makeLayout(ElementType::i32, {}), exec::BufferRole::state);
  add("counts", makeLayout(ElementType::i64, {{"kinds", 3, all}}),
      exec::BufferRole::model_state);
  add("layer/attn/mask",
      makeLayout(ElementType::boolean, {{"x", 2}, {"y", 3, last}, {"z", 5}}),
      exec::BufferRole::state);
  add("wide", makeLayout(ElementType::f64, {{"x", 2, last}, {"y", 3}}),
      exec::BufferRole::parameter);
  add("narrow", makeLayout(ElementType::bf16, {{"y", 3}, {"x", 2, first}}),
      exec::BufferRole::parameter);
  add("half", makeLayout(ElementType::f16, {{"z", 5, all}}),
      exec::BufferRole::parameter);
  builder.beginProgram("init");
  builder.get().model = "state";
  return builder.finish();
}

std::unique_ptr<Session> test::makeStateSession(const MeshSizes &mesh,
                                                Ranks *ranks, int64_t bigRows) {
  Result<std::unique_ptr<Session>> session =
      Session::create(makeStateProgram(mesh, bigRows), {}, openCpuDevices,
                      /*threads=*/1, {}, ranks);
  EXPECT_TRUE(session) << session.getError().message;
  return std::move(*session);
}

State test::makeState(const Executable &executable, uint32_t seed) {
  std::mt19937 random(seed);
  State state;
  for (const auto &variable : executable.data.variables) {
    std::vector<std::byte> bytes(
        size_t(getGlobalElements(*variable->layout) *
               getElementBytes(variable->layout->element)));
    for (std::byte &byte : bytes)
      byte = std::byte(random());
    state[variable->name] = std::move(bytes);
  }
  return state;
}

void test::setState(Session &session, const State &state) {
  for (const auto &variable : session.getExecutable().data.variables)
    ASSERT_TRUE(scatter(session.getDevices(), *variable->layout,
                        variable->buffer, state.at(variable->name)));
}

State test::getState(Session &session) {
  State state;
  for (const auto &variable : session.getExecutable().data.variables) {
    Result<HostArray> array =
        gather(session.getDevices(), *variable->layout, variable->buffer);
    EXPECT_TRUE(array) << array.getError().message;
    state[variable->name] = std::move(array->data);
  }
  return state;
}
