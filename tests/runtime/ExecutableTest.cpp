/// Programs that are damaged: cut off, with flipped bits, or sound FlatBuffers
/// that mean nothing. Each is refused with exit code 4; none may crash.

#include "runtime/app/Session.h"
#include "runtime/cpu/Executor.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

exec::ExecutableT makeSound() {
  exec::ExecutableT data;
  std::vector<uint8_t> bytes = LinearModel::makeProgram(2);
  exec::GetExecutable(bytes.data())->UnPackTo(&data);
  return data;
}

TEST(ExecutableTest, a_sound_program) {
  EXPECT_EQ(checkExecutable(makeSound()), "");
  Result<Executable> executable = Executable::load(LinearModel::makeProgram(2));
  ASSERT_TRUE(executable);
  EXPECT_EQ(executable->getNumDevices(), 2);
  EXPECT_NE(executable->findProgram("step"), nullptr);
  EXPECT_EQ(executable->findProgram("infer"), nullptr);
  EXPECT_NE(executable->findVariable("w"), nullptr);
}

TEST(ExecutableTest, cut_off_anywhere) {
  const std::vector<uint8_t> sound = LinearModel::makeProgram(2);
  int refused = 0;
  for (size_t size = 0; size < sound.size(); ++size) {
    std::vector<uint8_t> bytes(sound.begin(), sound.begin() + ptrdiff_t(size));
    Result<Executable> executable = Executable::load(bytes);
    if (executable)
      continue; // only padding was lost
    EXPECT_EQ(executable.getError().code, ErrorCode::DamagedProgram);
    ++refused;
  }
  EXPECT_GT(refused, int(sound.size()) - 16);
}

TEST(ExecutableTest, flipped_bits_never_crash) {
  const std::vector<uint8_t> sound = LinearModel::makeProgram(2);
  int refused = 0;
  auto tryLoad = [&](const std::vector<uint8_t> &bytes) {
    Result<Executable> executable = Executable::load(bytes);
    if (executable)
      return;
    EXPECT_EQ(executable.getError().code, ErrorCode::DamagedProgram);
    EXPECT_NE(executable.getError().message, "");
    ++refused;
  };
  for (size_t i = 0; i < sound.size(); ++i)
    for (uint8_t mask : {0x01, 0x10, 0x80, 0xff}) {
      std::vector<uint8_t> bytes = sound;
      bytes[i] ^= mask;
      tryLoad(bytes);
    }
  EXPECT_GT(refused, int(sound.size()));
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes = sound;
    for (int change = 0; change < 4; ++change)
      bytes[random() % bytes.size()] = uint8_t(random());
    tryLoad(bytes);
  }
}

TEST(ExecutableTest, what_passes_with_flipped_bits_can_be_prepared) {
  const std::vector<uint8_t> sound = LinearModel::makeProgram(2);
  std::mt19937 random(2);
  int prepared = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> bytes = sound;
    bytes[random() % bytes.size()] ^= uint8_t(1u << random() % 8);
    Result<Executable> executable = Executable::load(bytes);
    // Larger meshes and arenas are sound, but take their time.
    if (!executable || executable->getNumDevices() > 64 ||
        executable->data.arena_bytes > 1 << 20)
      continue;
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(*executable, LinearModel::getKernels(), 1);
    prepared += executor ? 1 : 0;
  }
  EXPECT_GT(prepared, 100);
}

TEST(ExecutableTest, another_version) {
  std::vector<uint8_t> bytes = LinearModel::makeProgram(2);
  auto *root = flatbuffers::GetMutableRoot<flatbuffers::Table>(bytes.data());
  ASSERT_TRUE(root->SetField<int32_t>(exec::Executable::VT_VERSION,
                                      execVersion + 1, 0));
  Result<Executable> executable = Executable::load(bytes);
  ASSERT_FALSE(executable);
  EXPECT_EQ(executable.getError().code, ErrorCode::DamagedProgram);
  EXPECT_EQ(executable.getError().message,
            fmt::format("the program has version {}, expected {}",
                        execVersion + 1, execVersion));
}

TEST(ExecutableTest, another_kind_of_file) {
  std::vector<uint8_t> bytes = LinearModel::makeProgram(2);
  bytes[4] = 'X';
  Result<Executable> executable = Executable::load(bytes);
  ASSERT_FALSE(executable);
  EXPECT_THAT(executable.getError().message,
              HasSubstr("does not carry the mark \"MSHX\""));
}

struct Defect {
  std::string message;
  std::function<void(exec::ExecutableT &)> inflict;
};

exec::CommandT &getStepCommand(exec::ExecutableT &data, size_t index) {
  return *data.programs[1]->commands[index];
}

// Commands of "step": matmul, subtract, measure, matmul, scale, all_reduce,
// update.
exec::MatmulT &getMatmul(exec::ExecutableT &data) {
  return *getStepCommand(data, 0).action.AsMatmul();
}
/// Makes the matmul a convolution of single positions.
exec::ConvolutionT &makeConvolution(exec::ExecutableT &data) {
  const exec::MatmulT matmul = getMatmul(data);
  exec::ConvolutionT shape;
  shape.batch = matmul.m;
  shape.groups = 1;
  shape.inputs = matmul.k;
  shape.outputs = matmul.n;
  shape.source = shape.weights = shape.destination = {1};
  shape.stride = shape.dilation = {1};
  shape.pad = {0};
  shape.source_strides = {matmul.a_strides[0], 0, matmul.a_strides[1], 1};
  shape.weights_strides = {0, matmul.b_strides[1], matmul.b_strides[0], 1};
  shape.destination_strides = {matmul.c_strides[0], 0, matmul.c_strides[1], 1};
  getStepCommand(data, 0).action.Set(std::move(shape));
  return *getStepCommand(data, 0).action.AsConvolution();
}
exec::CollectiveT &getCollective(exec::ExecutableT &data) {
  return *getStepCommand(data, 5).action.AsCollective();
}

/// Merges the collective with itself.
void addMember(exec::ExecutableT &data) {
  exec::CommandT &command = getStepCommand(data, 5);
  getCollective(data).merged.push_back(
      std::make_unique<exec::CollectiveT>(getCollective(data)));
  command.operands.insert(
      command.operands.begin() + 1,
      std::make_unique<exec::OperandT>(*command.operands[0]));
  command.operands.push_back(
      std::make_unique<exec::OperandT>(*command.operands.back()));
  ++command.results;
}

/// A tensor like the parameter.
exec::TensorT &addTensor(exec::ExecutableT &data) {
  auto tensor = std::make_unique<exec::TensorT>();
  tensor->name = "w";
  tensor->layout =
      std::make_unique<exec::TensorLayoutT>(*data.variables[0]->layout);
  data.tensors.push_back(std::move(tensor));
  return *data.tensors.back();
}

const std::vector<Defect> defects = {
    {"it has no mesh", [](auto &data) { data.mesh.reset(); }},
    {"mesh axis 'data' has size 0",
     [](auto &data) { data.mesh->axes[0]->size = 0; }},
    {"mesh axis 'data' has size -1",
     [](auto &data) { data.mesh->axes[0]->size = -1; }},
    {"more than 1048576 devices",
     [](auto &data) { data.mesh->axes[0]->size = (1 << 20) + 1; }},
    {"more than 1048576 devices",
     [](auto &data) { data.mesh->axes[0]->size = int64_t(1) << 62; }},
    {"two mesh axes are called 'data'",
     [](auto &data) {
       data.mesh->axes.push_back(
           std::make_unique<exec::AxisT>(*data.mesh->axes[0]));
     }},
    {"device order names 1 devices, expected 2",
     [](auto &data) { data.mesh->device_order = {0}; }},
    {"not a permutation",
     [](auto &data) {
       data.mesh->device_order = {1, 1};
     }},
    {"not a permutation",
     [](auto &data) {
       data.mesh->device_order = {0, -1};
     }},
    {"buffer 'x' is not aligned: offset 65",
     [](auto &data) { data.buffers[1]->offset = 65; }},
    {"buffer 'x' lies outside the arena",
     [](auto &data) { data.buffers[1]->bytes = data.arena_bytes; }},
    {"buffer 'x' lies outside the arena",
     [](auto &data) { data.buffers[1]->offset = ~uint64_t(63); }},
    {"unknown buffer role 42",
     [](auto &data) { data.buffers[1]->role = exec::BufferRole(42); }},
    {"its arena has 18446744073709551615 bytes",
     [](auto &data) { data.arena_bytes = ~uint64_t(0); }},
    {"variable 'w': buffer 99 of 9",
     [](auto &data) { data.variables[0]->buffer = 99; }},
    {"variable 'w': buffer -1 of 9",
     [](auto &data) { data.variables[0]->buffer = -1; }},
    {"variable 'w': buffer 'loss' has 4 bytes, its tensor needs 12",
     [](auto &data) { data.variables[0]->buffer = 6; }},
    {"variable 'w': a layout is missing",
     [](auto &data) { data.variables[0]->layout.reset(); }},
    {"variable 'w': unknown element type 99",
     [](auto &data) {
       data.variables[0]->layout->element = exec::ElementType(99);
     }},
    {"variable 'w': dimension 'feature' has size 0",
     [](auto &data) { data.variables[0]->layout->dims[0]->size = 0; }},
    {"larger than any memory",
     [](auto &data) {
       data.variables[0]->layout->dims[0]->size = int64_t(1) << 61;
     }},
    {"variable 'w': impossible sharding",
     [](auto &data) {
       data.variables[0]->layout->dims[0]->axes = {{7, 1, 2}};
     }},
    {"variable 'w': impossible sharding",
     [](auto &data) {
       data.variables[0]->layout->dims[0]->axes = {{-1, 1, 2}};
     }},
    {"variable 'w': impossible sharding",
     [](auto &data) {
       data.variables[0]->layout->dims[0]->axes = {
           {0, int64_t(1) << 62, int64_t(1) << 62}};
     }},
    {"variable 'w': impossible sharding",
     [](auto &data) {
       data.variables[0]->layout->dims[0]->axes = {{0, 1, 0}};
     }},
    {"variable 'w': its layout is partial",
     [](auto &data) {
       data.variables[0]->layout->partial = exec::ReduceKind::sum;
       data.variables[0]->layout->partial_axes = {{0, 1, 2}};
     }},
    {"variable 'w': the name is given twice",
     [](auto &data) {
       data.variables.push_back(
           std::make_unique<exec::VariableT>(*data.variables[0]));
     }},
    {"two programs are called 'step'",
     [](auto &data) { data.programs[0]->name = "step"; }},
    {"program 'step', input 'y': its index bound is -5",
     [](auto &data) { data.programs[1]->inputs[1]->index_bound = -5; }},
    {"program 'step', output 'loss': the name is given twice",
     [](auto &data) { data.programs[1]->outputs[1]->name = "loss"; }},
    {"command 0 ('matmul'): operand 0 names buffer 100 of 9",
     [](auto &data) { getStepCommand(data, 0).operands[0]->buffer = 100; }},
    {"command 1 ('subtract'): operand 0 reaches byte",
     [](auto &data) { getStepCommand(data, 1).operands[0]->offset = 64; }},
    {"command 1 ('subtract'): operand 0 is not aligned: offset 2",
     [](auto &data) { getStepCommand(data, 1).operands[0]->offset = 2; }},
    {"operand 0 reaches byte",
     [](auto &data) {
       getStepCommand(data, 1).operands[0]->offset = ~uint64_t(3);
     }},
    {"operand 0 overflows",
     [](auto &data) {
       getStepCommand(data, 1).operands[0]->shape = {int64_t(1) << 60};
     }},
    {"operand 0 has a negative size or stride",
     [](auto &data) { getStepCommand(data, 1).operands[0]->strides = {-1}; }},
    {"operand 0 has 1 sizes and 2 strides",
     [](auto &data) {
       getStepCommand(data, 1).operands[0]->strides = {1, 1};
     }},
    {"9 results among 3 operands",
     [](auto &data) { getStepCommand(data, 1).results = 9; }},
    {"waits for command 1, which is not before it",
     [](auto &data) {
       getStepCommand(data, 1).waits = {0, 1};
     }},
    {"waits for command -1",
     [](auto &data) { getStepCommand(data, 1).waits = {-1}; }},
    {"it has no action",
     [](auto &data) { getStepCommand(data, 1).action.Reset(); }},
    {"unknown queue or phase",
     [](auto &data) { getStepCommand(data, 1).queue = exec::Queue(9); }},
    {"its extent is -1",
     [](auto &data) {
       getStepCommand(data, 1).action.AsKernel()->extent = -1;
     }},
    // One changed byte of it, which would run for hours and write anywhere.
    {"its extent is 72057594037927942, its operands have 18 elements",
     [](auto &data) {
       getStepCommand(data, 1).action.AsKernel()->extent |= int64_t(1) << 56;
     }},
    {"its extent is 70, its operands have 18 elements",
     [](auto &data) {
       getStepCommand(data, 1).action.AsKernel()->extent |= 64;
     }},
    {"its kernel has no symbol",
     [](auto &data) {
       getStepCommand(data, 1).action.AsKernel()->symbol = "";
     }},
    {"a matmul has 2 operands, expected 3",
     [](auto &data) { getStepCommand(data, 0).operands.pop_back(); }},
    {"a matmul has 3 operands, expected 4",
     [](auto &data) { getMatmul(data).has_bias = true; }},
    {"a matmul's factors differ in element type",
     [](auto &data) {
       getStepCommand(data, 0).operands[1]->element = exec::ElementType::i32;
     }},
    {"a matmul of element type bool is not supported",
     [](auto &data) {
       for (auto &operand : getStepCommand(data, 0).operands)
         operand->element = exec::ElementType::boolean;
     }},
    {"a matmul of element type i8 is not supported",
     [](auto &data) {
       for (auto &operand : getStepCommand(data, 0).operands)
         operand->element = exec::ElementType::i8;
     }},
    {"a matmul of element type f32 has a result of bf16",
     [](auto &data) {
       getStepCommand(data, 0).operands[2]->element = exec::ElementType::bf16;
     }},
    {"a matmul of element type bf16 has a result of f16",
     [](auto &data) {
       for (auto &operand : getStepCommand(data, 0).operands)
         operand->element = exec::ElementType::bf16;
       getStepCommand(data, 0).operands[2]->element = exec::ElementType::f16;
     }},
    {"a matmul of integers has a gelu",
     [](auto &data) {
       for (auto &operand : getStepCommand(data, 0).operands)
         operand->element = exec::ElementType::i32;
       getMatmul(data).activation = exec::Activation::gelu_erf;
     }},
    {"a matmul on CPUs has an end that only GPUs have",
     [](auto &data) {
       getMatmul(data).column_sum = exec::ColumnSum::b;
       auto &operands = getStepCommand(data, 0).operands;
       operands.push_back(std::make_unique<exec::OperandT>(*operands.back()));
       getStepCommand(data, 0).results = 2;
     }},
    {"a matmul has 1 results, expected 2",
     [](auto &data) {
       getMatmul(data).column_sum = exec::ColumnSum::b;
       auto &operands = getStepCommand(data, 0).operands;
       operands.push_back(std::make_unique<exec::OperandT>(*operands.back()));
     }},
    {"unknown column sum 9",
     [](auto &data) { getMatmul(data).column_sum = exec::ColumnSum(9); }},
    {"unknown activation 9",
     [](auto &data) { getMatmul(data).activation = exec::Activation(9); }},
    {"operand 0 has 2 sizes and 1 strides",
     [](auto &data) { getMatmul(data).a_strides = {1}; }},
    {"operand 0 reaches byte", [](auto &data) { getMatmul(data).m = 1000; }},
    {"negative size or stride", [](auto &data) { getMatmul(data).k = -1; }},
    {"operand 1 reaches byte",
     [](auto &data) {
       getMatmul(data).b_strides = {100, 1};
     }},
    {"operand 2 has one element written several times",
     [](auto &data) {
       getMatmul(data).c_strides = {0, 1};
     }},
    {"operand 2 has one element written several times",
     [](auto &data) {
       getMatmul(data).n = 2;
       getMatmul(data).b_strides = {1, 0};
       getMatmul(data).m = 3;
     }},
    {"operand 0 has 18 elements, of which 24 are used",
     [](auto &data) {
       getMatmul(data).a_strides = {1, 1};
       getMatmul(data).m = 6;
       getMatmul(data).k = 4;
     }},
    {"a matmul sums one product 72057594037927936 times",
     [](auto &data) {
       getMatmul(data).k = int64_t(1) << 56;
       getMatmul(data).a_strides[1] = 0;
       getMatmul(data).b_strides[0] = 0;
     }},
    {"a collective has 1 operands",
     [](auto &data) { getStepCommand(data, 5).operands.pop_back(); }},
    {"a convolution has 2 operands and 1 results, expected 3 and 1",
     [](auto &data) {
       makeConvolution(data);
       getStepCommand(data, 0).operands.pop_back();
     }},
    {"a convolution has 3 operands and 2 results, expected 3 and 1",
     [](auto &data) {
       makeConvolution(data);
       getStepCommand(data, 0).results = 2;
     }},
    {"a convolution computes an unknown tensor 3",
     [](auto &data) {
       makeConvolution(data).result = exec::ConvolutionTensor(3);
     }},
    {"a convolution of element type i32 is not supported",
     [](auto &data) {
       makeConvolution(data);
       getStepCommand(data, 0).operands[0]->element = exec::ElementType::i32;
     }},
    {"a convolution's operands differ in element type",
     [](auto &data) {
       makeConvolution(data);
       getStepCommand(data, 0).operands[1]->element = exec::ElementType::bf16;
     }},
    {"a convolution's operands differ in element type",
     [](auto &data) {
       makeConvolution(data);
       getStepCommand(data, 0).operands[2]->element = exec::ElementType::bf16;
     }},
    {"a convolution has 0 dimensions of space, expected 1 to 3",
     [](auto &data) { makeConvolution(data).source.clear(); }},
    {"a convolution's tensors differ in rank",
     [](auto &data) { makeConvolution(data).dilation = {1, 1}; }},
    {"a convolution has a size, stride or dilation of 0",
     [](auto &data) { makeConvolution(data).stride = {0}; }},
    {"a convolution has a size, stride or dilation of -1",
     [](auto &data) { makeConvolution(data).groups = -1; }},
    {"a convolution has a size, stride or dilation of 2147483648",
     [](auto &data) { makeConvolution(data).inputs = int64_t(1) << 31; }},
    {"a convolution reaches farther than any tensor",
     [](auto &data) { makeConvolution(data).pad = {int64_t(1) << 31}; }},
    {"a convolution reaches farther than any tensor",
     [](auto &data) {
       auto &shape = makeConvolution(data);
       shape.destination = shape.stride = {int64_t(1) << 29};
     }},
    {"a convolution sees nothing of its source",
     [](auto &data) { makeConvolution(data).pad = {1}; }},
    {"a convolution sees nothing of its source",
     [](auto &data) { makeConvolution(data).pad = {-1}; }},
    {"a convolution does not compute all of its source",
     [](auto &data) {
       auto &shape = makeConvolution(data);
       shape.result = exec::ConvolutionTensor::source;
       shape.source = {2};
     }},
    {"a convolution's strides are not as many as its dimensions",
     [](auto &data) { makeConvolution(data).weights_strides.pop_back(); }},
    {"operand 0 reaches byte",
     [](auto &data) {
       auto &shape = makeConvolution(data);
       shape.source = {1000};
       shape.weights = {1000};
       shape.weights_strides[3] = 0;
     }},
    {"one element written several times",
     [](auto &data) {
       auto &shape = makeConvolution(data);
       shape.weights = {1};
       shape.source = shape.destination = {2};
       shape.source_strides[3] = shape.destination_strides[3] = 0;
     }},
    {"a convolution's groups of channels lie apart",
     [](auto &data) {
       auto &shape = makeConvolution(data);
       shape.batch = 1;
       shape.groups = 2;
       shape.inputs = 2;
       shape.source_strides = {0, 0, 1, 1};
     }},
    {"a convolution reads the memory it writes",
     [](auto &data) {
       makeConvolution(data);
       auto &operands = getStepCommand(data, 0).operands;
       operands[2]->buffer = operands[0]->buffer;
       operands[2]->offset = operands[0]->offset;
     }},
    {"command 0 ('matmul'): the number of its operations is 37, expected 0 to "
     "36",
     [](auto &data) {
       makeConvolution(data);
       getStepCommand(data, 0).flops = 37;
     }},
    {"a collective has 2 operands, expected 4",
     [](auto &data) {
       getCollective(data).merged.push_back(
           std::make_unique<exec::CollectiveT>(getCollective(data)));
     }},
    {"a merged collective has merged ones of its own",
     [](auto &data) {
       addMember(data);
       exec::CollectiveT &member = *getCollective(data).merged[0];
       member.merged.push_back(
           std::make_unique<exec::CollectiveT>(getCollective(data)));
     }},
    {"merged collectives differ in kind, axes, element type or reduction",
     [](auto &data) {
       addMember(data);
       getCollective(data).merged[0]->kind = exec::CollectiveKind::exchange;
     }},
    {"merged collectives differ in kind, axes, element type or reduction",
     [](auto &data) {
       addMember(data);
       getCollective(data).merged[0]->axes = {{0, 1, 2}};
     }},
    {"merged collectives differ in kind, axes, element type or reduction",
     [](auto &data) {
       addMember(data);
       getCollective(data).merged[0]->source->partial = exec::ReduceKind::max;
     }},
    {"merged collectives share memory", [](auto &data) { addMember(data); }},
    {"operand 1 of a collective has not the shape of its block",
     [](auto &data) {
       addMember(data);
       getStepCommand(data, 5).operands[1]->shape = {2};
       getStepCommand(data, 5).operands[1]->strides = {1};
     }},
    {"unknown collective kind 77",
     [](auto &data) { getCollective(data).kind = exec::CollectiveKind(77); }},
    {"operand 0 names tensor 3 of 0",
     [](auto &data) { getStepCommand(data, 5).operands[0]->tensor = 3; }},
    {"dimension 'd': impossible rule",
     [](auto &data) {
       data.dims.push_back(std::make_unique<exec::NamedDimT>());
       data.dims.back()->name = "d";
       data.dims.back()->axes = {{9, 1, 2}};
     }},
    {"a source span names file 7 of",
     [](auto &data) {
       data.dims.push_back(std::make_unique<exec::NamedDimT>());
       data.dims.back()->span = std::make_unique<exec::Span>(7, 1, 1, 1, 2);
     }},
    // What only says something, see QuantityCheck.cpp.
    {"command 1 ('subtract'): the number of its operations is -1, expected 0 "
     "to 72057594037927936",
     [](auto &data) { getStepCommand(data, 1).flops = -1; }},
    {"the number of its operations is 72057594037927937",
     [](auto &data) {
       getStepCommand(data, 1).flops = (int64_t(1) << 56) + 1;
     }},
    {"command 0 ('matmul'): the number of its operations is 37, expected 0 to "
     "36",
     [](auto &data) { getStepCommand(data, 0).flops = 37; }},
    {"a matmul computes more than any machine",
     [](auto &data) {
       constexpr int64_t size = int64_t(1) << 20;
       exec::CommandT &command = getStepCommand(data, 0);
       data.arena_bytes = uint64_t(1) << 46;
       for (uint64_t i = 0; i < 3; ++i) {
         exec::OperandT &operand = *command.operands[i];
         operand.shape = {size, size};
         operand.strides = {size, 1};
         data.buffers[size_t(operand.buffer)]->offset = i << 43;
         data.buffers[size_t(operand.buffer)]->bytes = uint64_t(1) << 43;
       }
       auto &matmul = getMatmul(data);
       matmul.m = matmul.n = matmul.k = size;
       matmul.a_strides = matmul.b_strides = matmul.c_strides = {size, 1};
     }},
    {"what it reads and writes is -9",
     [](auto &data) { getStepCommand(data, 1).bytes = -9; }},
    {"the number of all operations so far is 4611686018427387905, expected 0 "
     "to 4611686018427387904",
     [](auto &data) {
       auto &commands = data.programs[1]->commands;
       commands[1]->flops = int64_t(1) << 56;
       for (int i = 1; i < 64; ++i)
         commands.push_back(std::make_unique<exec::CommandT>(*commands[1]));
       commands[2]->flops = 1;
     }},
    {"what is read and written so far is",
     [](auto &data) {
       auto &commands = data.programs[1]->commands;
       commands[1]->bytes = int64_t(1) << 56;
       for (int i = 1; i < 65; ++i)
         commands.push_back(std::make_unique<exec::CommandT>(*commands[1]));
     }},
    {"a collective's group size is 3, expected 0 to 2",
     [](auto &data) {
       getCollective(data).axes = {{0, 1, 2}};
       getCollective(data).group_size = 3;
     }},
    {"a collective's payload in elements is 4, expected 0 to 3",
     [](auto &data) { getCollective(data).payload_elements = 4; }},
    {"a collective's payload in bytes is -12, expected 0 to 12",
     [](auto &data) { getCollective(data).payload_bytes = -12; }},
    {"what a collective sends is 13, expected 0 to 12",
     [](auto &data) {
       getCollective(data).axes = {{0, 1, 2}};
       getCollective(data).wire_bytes = 13;
     }},
    {"an alternative costs nan us",
     [](auto &data) {
       auto cause = std::make_unique<exec::CauseT>();
       cause->alternative = std::make_unique<exec::AlternativeT>();
       cause->alternative->cost_us = NAN;
       getCollective(data).causes.push_back(std::move(cause));
     }},
    {"an alternative costs -1 us",
     [](auto &data) {
       auto cause = std::make_unique<exec::CauseT>();
       cause->alternative = std::make_unique<exec::AlternativeT>();
       cause->alternative->chosen_cost_us = -1;
       getCollective(data).causes.push_back(std::move(cause));
     }},
    {"tensor 'w': its size in bytes is 13, expected 0 to 12",
     [](auto &data) { addTensor(data).bytes_global = 13; }},
    {"tensor 'w': its size in bytes on each device is 13, expected 0 to 12",
     [](auto &data) { addTensor(data).bytes_per_device = 13; }},
    {"input 'x': its index bound is 5, expected 0 to 0",
     [](auto &data) { data.programs[1]->inputs[0]->index_bound = 5; }},
    {"input 'x': its index bound is 2147483649, expected 0 to 2147483648",
     [](auto &data) {
       exec::PortT &port = *data.programs[1]->inputs[0];
       port.layout->element = exec::ElementType::i32;
       port.index_bound = (int64_t(1) << 31) + 1;
     }},
    {"input 'x': its index bound is 257, expected 0 to 256",
     [](auto &data) {
       exec::PortT &port = *data.programs[1]->inputs[0];
       port.layout->element = exec::ElementType::u8;
       port.index_bound = 257;
     }},
    {"input 'x': its index bound is 129, expected 0 to 128",
     [](auto &data) {
       exec::PortT &port = *data.programs[1]->inputs[0];
       port.layout->element = exec::ElementType::i8;
       port.index_bound = 129;
     }},
    {"input 'x': its index bound is 32769, expected 0 to 32768",
     [](auto &data) {
       exec::PortT &port = *data.programs[1]->inputs[0];
       port.layout->element = exec::ElementType::i16;
       port.index_bound = 32769;
     }},
    {"data for 'x': its stride is -1",
     [](auto &data) { data.data[0]->stride = -1; }},
    {"data for 'x': its stride is 0",
     [](auto &data) { data.data[0]->reader = exec::DataReader::tokens; }},
    {"a copy reads the memory it writes",
     [](auto &data) {
       exec::CommandT &command = getStepCommand(data, 1);
       command.action.Set(exec::CopyT());
       command.operands.pop_back();
       *command.operands[1] = *command.operands[0];
     }},
    {"a copy reads the memory it writes",
     [](auto &data) {
       exec::CommandT &command = getStepCommand(data, 1);
       command.action.Set(exec::CopyT());
       command.operands.pop_back();
       *command.operands[1] = *command.operands[0];
       command.operands[0]->shape = command.operands[1]->shape = {4};
       command.operands[1]->offset = 8;
     }},
    {"a matmul's operand 0 shares memory with operand 2, which it writes",
     [](auto &data) {
       exec::CommandT &command = getStepCommand(data, 0);
       command.operands[2]->buffer = command.operands[0]->buffer;
     }},
    {"a collective communicates over impossible axes",
     [](auto &data) { getCollective(data).axes = {{9, 1, 2}}; }},
    {"a collective communicates over impossible axes",
     [](auto &data) { getCollective(data).axes = {{0, 1, 7}}; }},
    {"a layout is missing",
     [](auto &data) { getCollective(data).target.reset(); }},
    {"a collective changes the sizes",
     [](auto &data) { getCollective(data).target->dims[0]->size = 2; }},
    {"operand 0 of a collective has not the shape of its block",
     [](auto &data) {
       getCollective(data).source->dims[0]->axes = {{0, 1, 2}};
       getCollective(data).source->partial = exec::ReduceKind::none;
       getCollective(data).source->partial_axes.clear();
     }},
    {"a collective changes the element type",
     [](auto &data) {
       getStepCommand(data, 5).operands[1]->element = exec::ElementType::i32;
     }},
    // Operands hold u8 as i8.
    {"a collective changes the element type",
     [](auto &data) {
       exec::CollectiveT &collective = getCollective(data);
       collective.source->element = collective.target->element =
           exec::ElementType::u8;
       for (auto &operand : getStepCommand(data, 5).operands)
         operand->element = exec::ElementType::u8;
     }},
    {"a collective compares elements that are for data",
     [](auto &data) {
       exec::CollectiveT &collective = getCollective(data);
       collective.source->partial = exec::ReduceKind::max;
       collective.source->element = collective.target->element =
           exec::ElementType::u8;
       for (auto &operand : getStepCommand(data, 5).operands)
         operand->element = exec::ElementType::i8;
     }},
    {"a collective reads the memory it writes",
     [](auto &data) {
       // The target one element further on in the same buffer.
       data.buffers[8]->bytes = 16;
       getStepCommand(data, 5).operands[1]->offset = 4;
     }},
    {"operand 1 has one element written several times",
     [](auto &data) { getStepCommand(data, 5).operands[1]->strides = {0}; }},
    {"data for 'x': the input is fed twice",
     [](auto &data) { data.data[1]->input = "x"; }},
    {"data for 'x': unknown reader 7",
     [](auto &data) { data.data[0]->reader = exec::DataReader(7); }},
    {"training: it minimises 'nothing', which program 'step' does not give",
     [](auto &data) { data.training->minimize = "nothing"; }},
    {"training: the number of epochs is -1, expected 0 to 1073741824",
     [](auto &data) { data.training->epochs = -1; }},
    {"training: the number of steps is -1",
     [](auto &data) { data.training->steps = -1; }},
    {"a source span names file 0 of 0",
     [](auto &data) {
       getStepCommand(data, 1).span =
           std::make_unique<exec::Span>(0, 1, 1, 1, 2);
     }},
    {"its arena has 1000000 bytes, the executable's",
     [](auto &data) { data.programs[1]->arena_bytes = 1000000; }},
};

TEST(ExecutableTest, every_defect_is_named) {
  for (const Defect &defect : defects) {
    exec::ExecutableT data = makeSound();
    defect.inflict(data);
    EXPECT_THAT(checkExecutable(data), HasSubstr(defect.message));
    // The same from bytes, where they can be written.
    if (!data.mesh)
      continue;
    flatbuffers::FlatBufferBuilder builder;
    exec::FinishExecutableBuffer(builder,
                                 exec::CreateExecutable(builder, &data));
    Result<Executable> executable =
        Executable::load({builder.GetBufferPointer(), builder.GetSize()});
    ASSERT_FALSE(executable) << defect.message;
    EXPECT_EQ(executable.getError().code, ErrorCode::DamagedProgram);
  }
}

} // namespace
