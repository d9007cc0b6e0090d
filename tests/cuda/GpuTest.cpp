/// What is decided about a GPU before anything runs on it.

#include "runtime/cuda/library/Gpu.h"
#include "runtime/cuda/NcclCommunicator.h"
#include "runtime/cuda/library/SystemReport.h"
#include "runtime/plans/GpuMemoryNeed.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include <elf.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using testing::HasSubstr;

namespace {

using Images = std::vector<std::unique_ptr<exec::GpuImageT>>;

Images
makeImages(const std::vector<std::pair<std::string, exec::ImageKind>> &kinds) {
  Images images;
  for (const auto &[architecture, kind] : kinds) {
    images.push_back(std::make_unique<exec::GpuImageT>());
    images.back()->architecture = architecture;
    images.back()->kind = kind;
  }
  return images;
}

GpuProperties makeGpu(int major, int minor, std::string name = "NVIDIA X") {
  GpuProperties gpu;
  gpu.name = std::move(name);
  gpu.major = major;
  gpu.minor = minor;
  return gpu;
}

constexpr exec::ImageKind cubin = exec::ImageKind::cubin;
constexpr exec::ImageKind ptx = exec::ImageKind::ptx;

TEST(ImageTest, takes_the_best_that_the_gpu_can_run) {
  const Images images = makeImages({{"sm_80", cubin},
                                    {"sm_86", cubin},
                                    {"sm_80", ptx},
                                    {"sm_90a", cubin},
                                    {"sm_90", ptx},
                                    {"host", exec::ImageKind::host}});
  auto choose = [&](GpuProperties gpu) {
    Result<const exec::GpuImageT *> image = chooseImage(images, gpu);
    return image ? (*image)->architecture + " " +
                       exec::EnumNameImageKind((*image)->kind)
                 : image.getError().message;
  };
  EXPECT_EQ(choose(makeGpu(8, 0)), "sm_80 cubin");
  EXPECT_EQ(choose(makeGpu(8, 6)), "sm_86 cubin");
  EXPECT_EQ(choose(makeGpu(8, 9)), "sm_86 cubin");
  EXPECT_EQ(choose(makeGpu(9, 0)), "sm_90a cubin");
  EXPECT_EQ(choose(makeGpu(10, 0)), "sm_90 ptx");
  EXPECT_EQ(choose(makeGpu(12, 1)), "sm_90 ptx");
  EXPECT_EQ(choose(makeGpu(7, 5)),
            "GPU 0 (NVIDIA X, sm_75) cannot run this executable, which has "
            "code for sm_80 (cubin), sm_86 (cubin), sm_80 (ptx), sm_90a "
            "(cubin), sm_90 (ptx), host (host)");
  EXPECT_EQ(choose(makeGpu(9, 0, "meshc emulated GPU 0")), "host host");
}

TEST(ImageTest, code_for_one_architecture_alone_is_for_no_other) {
  const Images images = makeImages({{"sm_90a", cubin}, {"sm_90a", ptx}});
  EXPECT_TRUE(chooseImage(images, makeGpu(9, 0)));
  for (auto [major, minor] : {std::pair{9, 1}, std::pair{10, 0}}) {
    Result<const exec::GpuImageT *> image =
        chooseImage(images, makeGpu(major, minor));
    ASSERT_FALSE(image);
    EXPECT_EQ(image.getError().code, ErrorCode::OtherGpu);
    EXPECT_THAT(image.getError().note, HasSubstr("--gpu sm_"));
  }
}

/// A cubin for sm_90 with the kernel "mix", as toolkits write it since 13.0 or
/// before.
std::vector<uint8_t> makeCubin(bool isLater) {
  struct File {
    Elf64_Ehdr header;
    Elf64_Shdr names, text;
    char strings[16];
  } file{};
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_ABIVERSION] = isLater ? 8 : 7;
  file.header.e_machine = 190; // EM_CUDA
  file.header.e_flags = isLater ? 90 << 8 : 90;
  file.header.e_shoff = offsetof(File, names);
  file.header.e_shentsize = sizeof(Elf64_Shdr);
  file.header.e_shnum = 2;
  file.names.sh_offset = offsetof(File, strings);
  file.names.sh_size = sizeof(file.strings);
  file.text.sh_name = 1;
  std::strcpy(file.strings + 1, ".text.mix");
  std::vector<uint8_t> bytes(sizeof(file));
  std::memcpy(bytes.data(), &file, sizeof(file));
  return bytes;
}

std::vector<uint8_t> makePtx(const std::string &version) {
  const std::string text =
      ".version " + version + "\n.target sm_90\n.entry mix() { ret; }\n";
  return {text.begin(), text.end()};
}

/// What an executable with these images loads on a GPU that is not emulated,
/// and whether its kernel is there.
std::string
loadImages(const emulation::Variables &variables,
           const std::vector<std::pair<exec::ImageKind, std::vector<uint8_t>>>
               &images) {
  emulation::Variables all = {{"NAME", "NVIDIA X"}};
  all.insert(all.end(), variables.begin(), variables.end());
  return test::runEmulated(all, [&]() -> std::string {
    exec::ExecutableT executable;
    for (const auto &[kind, data] : images) {
      executable.images.push_back(std::make_unique<exec::GpuImageT>());
      executable.images.back()->architecture = "sm_90";
      executable.images.back()->kind = kind;
      executable.images.back()->data = data;
    }
    Result<const Driver *> driver = Driver::get();
    Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
    Status loaded = (*gpu)->load(executable);
    if (!loaded)
      return loaded.getError().message + "; " + loaded.getError().note;
    if (!(*gpu)->getKernel("mix", 0))
      return "no kernel";
    return (*gpu)->getImageName() + "; " + (*gpu)->getImageComplaint() +
           reportSystem(&executable);
  });
}

TEST(ImageTest, a_driver_that_cannot_read_a_cubin_compiles_its_ptx) {
  const auto later = std::pair(cubin, makeCubin(true));
  const auto earlier = std::pair(cubin, makeCubin(false));
  const auto text = std::pair(ptx, makePtx("7.8"));
  EXPECT_THAT(loadImages({{"DRIVER", "13000"}}, {later, text}),
              testing::AllOf(testing::StartsWith("sm_90 (cubin); driver"),
                             HasSubstr("; runs sm_90 (cubin)\n")));
  EXPECT_THAT(loadImages({{"DRIVER", "12040"}}, {earlier, text}),
              testing::StartsWith("sm_90 (cubin); driver"));
  const std::string compiled =
      "GPU 0 (NVIDIA X, sm_90) runs sm_90 (ptx), which the driver compiles at "
      "every start: it is of CUDA 12.4 and cannot read sm_90 (cubin)";
  EXPECT_THAT(loadImages({{"DRIVER", "12040"}}, {later, text}),
              testing::AllOf(testing::StartsWith("sm_90 (ptx); " + compiled),
                             HasSubstr("GiB free; " + compiled + "\n")));
  // Whichever way the driver puts it; what says something else is an error.
  for (const char *status : {"200", "209", "218", "222"})
    EXPECT_THAT(
        loadImages({{"FAIL", std::string("cuModuleLoadData:1:") + status}},
                   {later, text}),
        testing::StartsWith("sm_90 (ptx); "))
        << status;
  EXPECT_THAT(loadImages({{"FAIL", "cuModuleLoadData:1:2"}}, {later, text}),
              testing::StartsWith("cuModuleLoadData failed: out of memory"));
}

TEST(ImageTest, images_that_no_driver_reads_are_named) {
  const auto later = std::pair(cubin, makeCubin(true));
  const std::string refused =
      "cuModuleLoadData failed: device kernel image is invalid "
      "(CUDA_ERROR_INVALID_IMAGE), while GPU 0 (NVIDIA X, sm_90) loaded the "
      "code for sm_90 (cubin)";
  const std::string note = "; the driver is of CUDA 12.4; a later one may read "
                           "it";
  EXPECT_EQ(loadImages({{"DRIVER", "12040"}}, {later}), refused + note);
  EXPECT_EQ(loadImages({{"DRIVER", "12040"}}, {later, {ptx, makePtx("8.5")}}),
            refused +
                "; sm_90 (ptx): cuModuleLoadData failed: the provided PTX was "
                "compiled with an unsupported toolchain. "
                "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)" +
                note);
}

TEST(ImageTest, a_plan_has_none) {
  Result<const exec::GpuImageT *> image = chooseImage({}, makeGpu(9, 0));
  ASSERT_FALSE(image);
  EXPECT_EQ(image.getError().code, ErrorCode::DamagedProgram);
  EXPECT_THAT(image.getError().message, HasSubstr("no GPU kernels"));
}

TEST(ImageTest, an_emulated_gpu_runs_nothing_else) {
  EXPECT_FALSE(chooseImage(makeImages({{"sm_90", cubin}}),
                           makeGpu(9, 0, "meshc emulated GPU")));
}

TEST(MemoryNeedTest, counts_each_byte_once) {
  exec::ExecutableT data;
  data.arena_bytes = 1024;
  auto add = [&](exec::BufferRole role, uint64_t offset, uint64_t bytes) {
    auto buffer = std::make_unique<exec::BufferT>();
    buffer->role = role;
    buffer->offset = offset;
    buffer->bytes = bytes;
    data.buffers.push_back(std::move(buffer));
  };
  add(exec::BufferRole::gradient, 256, 256);
  add(exec::BufferRole::parameter, 0, 128);
  add(exec::BufferRole::state, 128, 64);
  add(exec::BufferRole::activation, 192, 128);
  add(exec::BufferRole::workspace, 500, 100);
  GpuMemoryNeed need = getArenaNeed(data);
  EXPECT_EQ(need.parameters, 128u);
  EXPECT_EQ(need.state, 64u);
  EXPECT_EQ(need.activations, 128u);
  EXPECT_EQ(need.gradients, 512u - 320u);
  EXPECT_EQ(need.workspace, 600u - 512u);
  EXPECT_EQ(need.unused, 1024u - 600u);
  EXPECT_EQ(need.getTotal(), 1024u);
  EXPECT_TRUE(checkMemory(need, 1, 1024, "GPU 0"));
  Status fits = checkMemory(need, 1, 1023, "GPU 0");
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.getError().code, ErrorCode::DoesNotFit);
  EXPECT_EQ(fits.getError().message,
            "1 device needs 1.00 KiB on GPU 0, which has 1023 B free");
  EXPECT_THAT(fits.getError().note,
              HasSubstr("parameters 128 B, optimizer 64 B"));
}

TEST(MemoryNeedTest, adds_up_for_any_buffers) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    exec::ExecutableT data;
    data.arena_bytes = 300;
    std::vector<bool> used(300);
    for (int i = 0; i < 8; ++i) {
      auto buffer = std::make_unique<exec::BufferT>();
      buffer->role =
          exec::BufferRole(random() % (int(exec::BufferRole::MAX) + 1));
      buffer->offset = random() % 200;
      buffer->bytes = random() % 100;
      for (uint64_t b = 0; b < buffer->bytes; ++b)
        used[buffer->offset + b] = true;
      data.buffers.push_back(std::move(buffer));
    }
    const GpuMemoryNeed need = getArenaNeed(data);
    EXPECT_EQ(need.getTotal(), 300u);
    EXPECT_EQ(need.unused,
              uint64_t(std::count(used.begin(), used.end(), false)));
  }
}

} // namespace
