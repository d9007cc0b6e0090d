/// What executables send, added up over the messages of the processes and the
/// calls of NCCL, against what a plan says that they send.

#include "layout/ReshardStep.h"
#include "runtime/plans/NcclPlan.h"
#include "tests/layout/Shardings.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using layout::CollectiveKind;
using layout::Sharding;

namespace {

/// Bytes that go over the link of each device.
struct Links {
  std::vector<int64_t> sent, taken;

  explicit Links(int64_t devices)
      : sent(size_t(devices)), taken(size_t(devices)) {}
  /// Of the device that sends or takes most.
  int64_t getMost() const {
    return std::max(*std::ranges::max_element(sent),
                    *std::ranges::max_element(taken));
  }
};

/// Steps of one transfer, with contiguous f32 operands one after the other.
class Transfer {
public:
  Transfer(const layout::Mesh &mesh, const std::vector<int64_t> &sizes,
           const std::vector<layout::ReshardStep> &steps)
      : mesh(mesh), collectives(steps.size()), operands(2 * steps.size()) {
    uint64_t place = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      auto add = [&](std::unique_ptr<exec::TensorLayoutT> &layout,
                     const Sharding &sharding, exec::OperandT &operand) {
        layout = std::make_unique<exec::TensorLayoutT>(
            test::makeLayout(exec::ElementType::f32, sizes, sharding));
        operand.element = exec::ElementType::f32;
        operand.shape = getLocalShape(*layout);
        operand.strides = test::getStrides(operand.shape);
        int64_t bytes = 4;
        for (int64_t size : operand.shape)
          bytes *= size;
        const uint64_t begin = place;
        place += uint64_t(bytes + 255) / 256 * 256;
        return begin;
      };
      exec::OperandT &from = operands[2 * i], &to = operands[2 * i + 1];
      const uint64_t before = add(collectives[i].source, steps[i].source, from);
      const uint64_t after = add(collectives[i].target, steps[i].target, to);
      members.push_back(
          {getShardingChange(collectives[i]), &from, before, &to, after});
    }
  }

  /// Between processes of one device each, as CPU devices send.
  Links countMessages() const {
    const int64_t devices = mesh.getNumDevices();
    Links links(devices);
    for (int64_t device = 0; device < devices; ++device) {
      uint64_t staging = 0;
      const Collective part = Collective::create(
          mesh, members, Division{devices, devices, device}, staging);
      for (int64_t group = 0; group < part.getNumGroups(); ++group)
        for (auto stage : {Collective::Stage::Pack, Collective::Stage::Combine,
                           Collective::Stage::Spread}) {
          for (const Collective::Message &out : part.getOutgoing(group, stage))
            links.sent[size_t(device)] += int64_t(out.bytes);
          for (const Collective::Message &in : part.getIncoming(group, stage))
            links.taken[size_t(device)] += int64_t(in.bytes);
        }
    }
    return links;
  }

  /// By NCCL.
  Links countNccl() const {
    Links links(mesh.getNumDevices());
    const Collective all = Collective::create(mesh, members);
    for (int64_t group = 0; group < all.getNumGroups(); ++group) {
      const std::vector<NativeCollective> native = findNative(all, group);
      for (const NativeCollective &call : native)
        addCall(call, links);
      if (!native.empty())
        continue;
      for (int64_t device : all.getDevices(group)) {
        const NcclMessages messages = planMessages(all, device, 0, 0);
        for (const NcclMessages::Message &message : messages.sends)
          links.sent[size_t(device)] += 4 * message.elements;
        for (const NcclMessages::Message &message : messages.receives)
          links.taken[size_t(device)] += 4 * message.elements;
      }
    }
    return links;
  }

private:
  /// Of a ring: each device passes on p - 1 of p blocks, in an all_reduce
  /// twice.
  static void addCall(const NativeCollective &call, Links &links) {
    const auto devices = int64_t(call.devices.size());
    const int64_t bytes =
        call.kind == NativeCollective::Kind::AllReduce
            ? 2 * (devices - 1) * (4 * call.elements / devices)
            : (devices - 1) * 4 * call.elements;
    for (int64_t device : call.devices) {
      links.sent[size_t(device)] += bytes;
      links.taken[size_t(device)] += bytes;
    }
  }

  const layout::Mesh &mesh;
  std::vector<exec::CollectiveT> collectives;
  std::vector<exec::OperandT> operands;
  std::vector<Collective::Member> members;
};

int64_t getWire(const std::vector<layout::ReshardStep> &steps,
                const layout::Machine &machine) {
  int64_t bytes = 0;
  for (const layout::ReshardStep &step : steps)
    bytes += layout::getSending(step, 4, machine).wireBytes;
  return bytes;
}

class SentBytesTest : public testing::Test {
protected:
  /// Every step between all shardings of the first two dimensions; the last is
  /// long enough that processes add up in shares, of whole cache lines.
  void checkAll(const layout::Mesh &mesh, int64_t rows, int64_t columns,
                const std::vector<layout::AxisRef> &parts) {
    const std::vector<int64_t> sizes = {rows, columns, 16 * 360 * 3};
    std::vector<Sharding> shardings =
        layout::test::getAllShardings(mesh, parts, 2, layout::ReduceKind::Sum);
    for (Sharding &sharding : shardings)
      sharding.dims.emplace_back();
    for (const Sharding &source : shardings)
      for (const Sharding &target : shardings)
        for (int kind = 0; kind < int(CollectiveKind::Slice); ++kind)
          if (source != target &&
              isReshardStep(mesh, sizes, CollectiveKind(kind), source, target))
            check(mesh, sizes,
                  getReshardStep(mesh, sizes, CollectiveKind(kind), source,
                                 target));
  }

  void check(const layout::Mesh &mesh, const std::vector<int64_t> &sizes,
             const layout::ReshardStep &step) {
    SCOPED_TRACE(layout::getName(step.kind) +
                 (" " + layout::test::spell(mesh, step.source)) + " to " +
                 layout::test::spell(mesh, step.target) + " of " +
                 testing::PrintToString(sizes));
    const Transfer transfer(mesh, sizes, {step});
    const int64_t calls = transfer.countNccl().getMost();
    const int64_t messages = transfer.countMessages().getMost();
    const int64_t ofCalls = getWire({step}, h100);
    const int64_t ofMessages = getWire({step}, layout::getCpuMachine());
    // An exchange that does what another kind does is sent as that, and groups
    // whose blocks are full have a call where others have none.
    if (step.source.isPartial() &&
        (step.kind == CollectiveKind::Exchange || !step.hasContiguousBlocks)) {
      EXPECT_LE(calls, ofCalls);
      EXPECT_LE(messages, ofMessages);
    } else {
      EXPECT_EQ(calls, ofCalls);
      EXPECT_EQ(messages, ofMessages);
    }
    ++checked[step.kind];
  }

  const layout::Machine &h100 = *layout::findMachine("h100");
  std::map<CollectiveKind, int> checked;
};

TEST_F(SentBytesTest, are_what_the_plan_says) {
  const layout::Mesh mesh({{"x", 2}, {"y", 3}});
  for (auto [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{6, 12}, {7, 5}, {6, 2}})
    checkAll(mesh, rows, columns, layout::test::getWholeAxes(mesh));
  EXPECT_EQ(checked.size(), size_t(CollectiveKind::Slice));
}

/// Borders of blocks, around a ring and backwards too, and positions that only
/// one device has.
TEST_F(SentBytesTest, of_windows) {
  const layout::Mesh mesh({{"x", 2}, {"y", 3}});
  const layout::AxisRef x = mesh.getWholeAxis(0), y = mesh.getWholeAxis(1);
  const std::vector<int64_t> sizes = {13, 16 * 360 * 3};
  for (const layout::Window &window :
       {layout::Window{"row", 13, 1, -1, 1}, layout::Window{"row", 7, 2, -1, 0},
        layout::Window{"row", 13, 1, 1, 2, 1, 13},
        layout::Window{"row", 13, -1, 12, 12}, layout::Window{"", 1, 1, 5, 6}})
    for (const layout::DimSplit &split :
         std::vector<layout::DimSplit>{{}, {x}, {y}, {x, y}}) {
      const Sharding target{
          {split, {}}, layout::ReduceKind::None, {}, {window, {}}};
      if (!getViolation(mesh, target, 2).empty())
        continue; // a loop that is not split has no window
      for (const Sharding &source : layout::test::getAllShardings(
               mesh, {x, y}, 2, layout::ReduceKind::Sum))
        if (isReshardStep(mesh, sizes, CollectiveKind::Exchange, source,
                          target))
          check(mesh, sizes,
                getReshardStep(mesh, sizes, CollectiveKind::Exchange, source,
                               target));
    }
  EXPECT_GT(checked[CollectiveKind::Exchange], 100);
}

TEST_F(SentBytesTest, are_those_of_all_members) {
  const layout::Mesh mesh({{"x", 2}, {"y", 3}});
  const layout::AxisRef x = mesh.getWholeAxis(0), y = mesh.getWholeAxis(1);
  const auto sum = layout::ReduceKind::Sum;
  const Sharding terms{{{}, {}}, sum, {y}}, termsOfRows{{{x}, {}}, sum, {y}};
  const std::vector<int64_t> sizes = {6, 16 * 360 * 3};
  for (auto [kind, targets] :
       {std::pair<CollectiveKind, std::vector<layout::DimSplit>>{
            CollectiveKind::AllReduce, {{}, {x}}},
        {CollectiveKind::ReduceScatter, {{y}, {x, y}}}}) {
    std::vector<layout::ReshardStep> steps;
    for (size_t i = 0; i < 2; ++i)
      steps.push_back(
          getReshardStep(mesh, sizes, kind, i == 0 ? terms : termsOfRows,
                         {{targets[i], {}}, layout::ReduceKind::None, {}}));
    const Transfer transfer(mesh, sizes, steps);
    EXPECT_EQ(transfer.countNccl().getMost(), getWire(steps, h100));
    EXPECT_EQ(transfer.countMessages().getMost(),
              getWire(steps, layout::getCpuMachine()));
  }
}

} // namespace
