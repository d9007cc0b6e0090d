#include "CudaAbi.h"
#include "ForkedRun.h"
#include "TestImage.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <unistd.h>
#include <vector>

using namespace meshc::emulation;
using testing::HasSubstr;

namespace {

constexpr int64_t count = 640;

/// Ends the process of the test where a call fails that must not.
void must(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", what, name ? name : "?");
  std::_Exit(98);
}
#define MUST(call) must(call, #call)

CUcontext start(int device = 0) {
  CUcontext context;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  return context;
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address = 0;
  MUST(cuMemAlloc_v2(&address, bytes));
  return address;
}

CUstream makeStream() {
  CUstream stream;
  MUST(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

CUevent makeEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent event;
  MUST(cuEventCreate(&event, flags));
  return event;
}

CUmodule loadKernels() {
  static const std::string image = readTestImage();
  CUmodule module;
  MUST(cuModuleLoadData(&module, image.data()));
  return module;
}

CUfunction getFunction(const char *name) {
  CUfunction function;
  MUST(cuModuleGetFunction(&function, loadKernels(), name));
  return function;
}

CUresult launchAddOne(CUfunction function, CUdeviceptr from, CUdeviceptr to,
                      CUstream stream) {
  int64_t n = count;
  void *parameters[] = {&from, &to, &n};
  return cuLaunchKernel(function, count / 64, 1, 1, 64, 1, 1, 0, stream,
                        parameters, nullptr);
}

std::vector<float> makeFloats() {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::string toText(float value) {
  return std::isnan(value) ? "nan" : std::to_string(static_cast<int>(value));
}

/// a -> b on one stream, b -> c on another; with or without a wait between
/// them. Returns the first value of c; 3 is right.
std::string runTwoStreams(bool waits) {
  start();
  CUfunction addOne = getFunction("add_one");
  std::vector<float> values = makeFloats(), read(count);
  CUdeviceptr a = allocate(count * 4), b = allocate(count * 4),
              c = allocate(count * 4);
  MUST(cuMemcpyHtoD_v2(a, values.data(), count * 4));
  CUstream first = makeStream(), second = makeStream();
  CUevent event = makeEvent(), done = makeEvent();
  MUST(launchAddOne(addOne, a, b, first));
  MUST(cuEventRecord(event, first));
  if (waits)
    MUST(cuStreamWaitEvent(second, event, 0));
  MUST(launchAddOne(addOne, b, c, second));
  MUST(cuEventRecord(done, second));
  MUST(cuEventSynchronize(done));
  MUST(cuStreamSynchronize(first));
  MUST(cuMemcpyDtoH_v2(read.data(), c, count * 4));
  return toText(read[0]) + " " + toText(read[count - 1]);
}

int countRight(bool waits, const Variables &others = {}) {
  int right = 0;
  for (int seed = 0; seed < 12; ++seed) {
    Variables variables = others;
    variables.emplace_back("MESHC_EMULATION_SEED", std::to_string(seed));
    ForkedResult result =
        runForked(variables, [&] { return runTwoStreams(waits); });
    EXPECT_EQ(result.exitCode, 0) << result.errors;
    right += result.value == "3 642";
  }
  return right;
}

/// Two streams in a graph: b = a + 1, c = b + 1 on the other one, d = c + 1.
std::string runGraph(bool joins) {
  start();
  CUfunction addOne = getFunction("add_one");
  std::vector<float> values = makeFloats(), read(count);
  CUdeviceptr places[4];
  for (CUdeviceptr &place : places)
    place = allocate(count * 4);
  CUstream first = makeStream(), second = makeStream();
  CUevent fork = makeEvent(), join = makeEvent();
  MUST(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  MUST(launchAddOne(addOne, places[0], places[1], first));
  MUST(cuEventRecord(fork, first));
  MUST(cuStreamWaitEvent(second, fork, 0));
  MUST(launchAddOne(addOne, places[1], places[2], second));
  MUST(cuEventRecord(join, second));
  if (joins)
    MUST(cuStreamWaitEvent(first, join, 0));
  MUST(launchAddOne(addOne, places[2], places[3], first));
  CUgraph graph;
  if (CUresult result = cuStreamEndCapture(first, &graph))
    return std::to_string(result);
  CUgraphExec exec;
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  MUST(cuGraphDestroy(graph));
  MUST(cuGraphUpload(exec, first));
  std::string text;
  for (int i = 0; i < 3; ++i) {
    values[0] = 10 * i;
    MUST(cuMemcpyHtoD_v2(places[0], values.data(), count * 4));
    MUST(cuGraphLaunch(exec, first));
    MUST(cuStreamSynchronize(first));
    MUST(cuMemcpyDtoH_v2(read.data(), places[3], count * 4));
    text += toText(read[0]) + " ";
  }
  MUST(cuGraphExecDestroy(exec));
  return text;
}

} // namespace

TEST(Driver, ReportsWhatItIsToldTo) {
  ForkedResult result =
      runForked({{"MESHC_EMULATION_DEVICES", "3"},
                 {"MESHC_EMULATION_DRIVER", "12000"},
                 {"MESHC_EMULATION_ARCH", "8.6"},
                 {"MESHC_EMULATION_MEMORY", "1048576"}},
                [] {
                  int version, devices, major, minor, canAccess;
                  char name[64];
                  size_t free, total;
                  MUST(cuDriverGetVersion(&version));
                  if (cuDeviceGetCount(&devices) != CUDA_ERROR_NOT_INITIALIZED)
                    return std::string("not initialized");
                  start();
                  MUST(cuDeviceGetCount(&devices));
                  MUST(cuDeviceGetName(name, sizeof name, 2));
                  MUST(cuDeviceGetAttribute(
                      &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2));
                  MUST(cuDeviceGetAttribute(
                      &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 2));
                  MUST(cuDeviceCanAccessPeer(&canAccess, 0, 2));
                  allocate(1000);
                  MUST(cuMemGetInfo_v2(&free, &total));
                  CUdeviceptr address;
                  CUresult big = cuMemAlloc_v2(&address, 1048576);
                  CUcontext context;
                  CUresult missing = cuDevicePrimaryCtxRetain(&context, 3);
                  return std::to_string(version) + " " +
                         std::to_string(devices) + " " + name + " " +
                         std::to_string(major) + "." + std::to_string(minor) +
                         " " + std::to_string(canAccess) + " " +
                         std::to_string(total - free) + " " +
                         std::to_string(big) + " " + std::to_string(missing);
                });
  EXPECT_EQ(result.value, "12000 3 meshc emulated GPU 8.6 1 1024 2 101")
      << result.errors;
}

TEST(Driver, DevicesCanBeHidden) {
  ForkedResult result = runForked(
      {{"MESHC_EMULATION_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", "3,1,9,0"}},
      [] {
        MUST(cuInit(0));
        int count;
        char buses[2][16];
        MUST(cuDeviceGetCount(&count));
        for (int device = 0; device < 2; ++device)
          MUST(cuDeviceGetPCIBusId(buses[device], 16, device));
        return std::to_string(count) + " " + buses[0] + " " + buses[1];
      });
  EXPECT_EQ(result.value, "2 0000:04:00.0 0000:02:00.0") << result.errors;
}

TEST(Driver, NoDevice) {
  ForkedResult result = runForked({{"MESHC_EMULATION_DEVICES", "0"}},
                                  [] { return std::to_string(cuInit(0)); });
  EXPECT_EQ(result.value, "100");
}

TEST(Driver, AWrongVariableEndsTheProcess) {
  ForkedResult result = runForked({{"MESHC_EMULATION_DEVICES", "many"}},
                                  [] { return std::to_string(cuInit(0)); });
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_THAT(
      result.errors,
      HasSubstr("MESHC_EMULATION_DEVICES is 'many', expected a number"));
}

TEST(Driver, FunctionsAreFoundByName) {
  ForkedResult result = runForked({}, [] {
    void *address;
    int status;
    MUST(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, &status));
    bool right = address == reinterpret_cast<void *>(&cuMemAlloc_v2);
    MUST(cuGetProcAddress_v2("cuLaunchKernel", &address, 12000, 0, &status));
    right &= address == reinterpret_cast<void *>(&cuLaunchKernel);
    CUresult missing =
        cuGetProcAddress_v2("cuNothing", &address, 12000, 0, &status);
    return std::to_string(right) + " " + std::to_string(missing) + " " +
           std::to_string(status);
  });
  EXPECT_EQ(result.value, "1 500 1");
}

TEST(Driver, WorkThatWaitsIsRightForEverySeed) {
  EXPECT_EQ(countRight(/*waits=*/true), 12);
}

TEST(Driver, AMissingWaitGivesAWrongValue) {
  EXPECT_LT(countRight(/*waits=*/false), 12);
}

TEST(Driver, ADroppedWaitGivesAWrongValue) {
  EXPECT_LT(countRight(/*waits=*/true, {{"MESHC_EMULATION_DROP_WAIT", "1"}}),
            12);
}

TEST(Driver, AShiftedOffsetGivesAWrongValue) {
  // Inside of an allocation values are wrong; where it ends a kernel fails.
  ForkedResult result = runForked({{"MESHC_EMULATION_SHIFT_OFFSET", "1"}}, [] {
    start();
    CUfunction addOne = getFunction("add_one");
    std::vector<float> values = makeFloats(), read(count);
    CUdeviceptr arena = allocate(3 * count * 4);
    CUdeviceptr from = arena, to = arena + count * 4;
    MUST(cuMemcpyHtoD_v2(from, values.data(), count * 4));
    MUST(launchAddOne(addOne, from, to, nullptr));
    MUST(cuMemcpyDtoH_v2(read.data(), to, count * 4));
    return toText(read[0]) + " " + toText(read[1]);
  });
  EXPECT_EQ(result.value, "nan 2") << result.errors;
  result = runForked({{"MESHC_EMULATION_SHIFT_OFFSET", "1"}},
                     [] { return runTwoStreams(/*waits=*/true); });
  EXPECT_EQ(result.exitCode, 98);
  EXPECT_THAT(result.errors, HasSubstr("block 9, thread 63 accesses"));
}

TEST(Driver, EveryFiberOrderGivesTheSame) {
  for (const char *order : {"forward", "backward", "random:3"})
    EXPECT_EQ(countRight(/*waits=*/true, {{"MESHC_EMULATION_ORDER", order}}),
              12);
}

TEST(Driver, GraphsRunAgainAndAgain) {
  for (int seed = 0; seed < 6; ++seed) {
    ForkedResult result =
        runForked({{"MESHC_EMULATION_SEED", std::to_string(seed)}},
                  [] { return runGraph(/*joins=*/true); });
    EXPECT_EQ(result.value, "3 13 23 ") << result.errors;
  }
}

TEST(Driver, CapturesAreJoined) {
  ForkedResult result = runForked({}, [] { return runGraph(/*joins=*/false); });
  EXPECT_EQ(result.value, std::to_string(CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
}

TEST(Driver, CapturesForbidWhatMayWait) {
  ForkedResult result = runForked({}, [] {
    start();
    CUstream stream = makeStream();
    CUdeviceptr address = allocate(4), another;
    float value = 1;
    std::string text;
    auto attempt = [&](const std::function<CUresult()> &call) {
      MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
      text += std::to_string(call()) + " ";
      CUgraph graph;
      text += std::to_string(cuStreamEndCapture(stream, &graph)) + ", ";
    };
    attempt([&] { return cuStreamSynchronize(stream); });
    attempt([&] { return cuCtxSynchronize(); });
    attempt([&] { return cuMemAlloc_v2(&another, 4); });
    attempt([&] { return cuMemcpyHtoD_v2(address, &value, 4); });
    attempt([&] { return cuMemcpyHtoDAsync_v2(address, &value, 4, stream); });
    attempt([&] { return cuMemsetD8Async(address, 0, 4, stream); });
    return text;
  });
  EXPECT_EQ(result.value, "900 901, 900 901, 900 901, 900 901, 900 901, 0 0, ");
}

TEST(Driver, PageableCopiesAreRead) {
  // A copy from pageable memory has been read when the call returns, one from
  // pinned memory has not.
  ForkedResult result = runForked({}, [] {
    start();
    CUstream stream = makeStream();
    CUdeviceptr address = allocate(4);
    float pageable = 1, read;
    void *pinned;
    MUST(cuMemHostAlloc(&pinned, 4, 0));
    MUST(cuMemcpyHtoDAsync_v2(address, &pageable, 4, stream));
    pageable = 2;
    MUST(cuMemcpyDtoHAsync_v2(&read, address, 4, stream));
    std::string text = toText(read);
    *static_cast<float *>(pinned) = 3;
    MUST(cuMemcpyHtoDAsync_v2(address, pinned, 4, stream));
    *static_cast<float *>(pinned) = 4;
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(&read, address, 4));
    return text + " " + toText(read);
  });
  EXPECT_EQ(result.value, "1 4");
}

TEST(Driver, CopiesAreStrided) {
  ForkedResult result = runForked({}, [] {
    start();
    std::vector<float> values = makeFloats(), read(12, -1);
    CUdeviceptr from = allocate(count * 4), to = allocate(12 * 4);
    CUstream stream = makeStream();
    MUST(cuMemcpyHtoD_v2(from, values.data(), count * 4));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.srcXInBytes = 8;
    copy.srcPitch = 40;
    copy.dstDevice = to;
    copy.dstPitch = 16;
    copy.WidthInBytes = 12;
    copy.Height = 3;
    MUST(cuMemcpy2DAsync_v2(&copy, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(read.data(), to, 12 * 4));
    std::string text;
    for (float value : read)
      text += toText(value) + " ";
    copy.Height = 64;
    return text + std::to_string(cuMemcpy2DAsync_v2(&copy, stream));
  });
  EXPECT_EQ(result.value, "3 4 5 nan 13 14 15 nan 23 24 25 nan 1")
      << result.errors;
}

TEST(Driver, CopiesStayInsideAllocations) {
  ForkedResult result = runForked({}, [] {
    start();
    CUdeviceptr address = allocate(100);
    char bytes[200] = {};
    std::string text;
    text += std::to_string(cuMemcpyHtoD_v2(address, bytes, 100)) + " ";
    text += std::to_string(cuMemcpyHtoD_v2(address, bytes, 101)) + " ";
    text += std::to_string(cuMemcpyHtoD_v2(address - 1, bytes, 1)) + " ";
    text += std::to_string(cuMemcpyDtoH_v2(bytes, address + 50, 51)) + " ";
    text += std::to_string(cuMemsetD8_v2(address, 0, 101)) + " ";
    MUST(cuMemFree_v2(address));
    text += std::to_string(cuMemcpyHtoD_v2(address, bytes, 1)) + " ";
    return text + std::to_string(cuMemFree_v2(address));
  });
  EXPECT_EQ(result.value, "0 1 1 1 1 1 1");
}

TEST(Driver, AKernelThatWritesTooFarIsFound) {
  struct Case {
    int64_t index;
    const char *text;
  };
  // Just behind the data, before it, and on the closed page.
  for (Case c : {Case{25, "byte 100 of an allocation of 100 bytes was written"},
                 Case{-1, "byte -4 of an allocation of 100 bytes was written"},
                 Case{64, "block 0, thread 0 accesses 0x"}}) {
    ForkedResult result = runForked({}, [&] {
      start();
      CUdeviceptr address = allocate(100);
      CUfunction function = getFunction("write_at");
      void *parameters[] = {&address, &c.index};
      MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                          nullptr));
      std::string text = std::to_string(cuCtxSynchronize()) + " ";
      // The context stays broken.
      return text + std::to_string(cuMemsetD8_v2(address, 0, 1));
    });
    EXPECT_EQ(result.value, "700 700");
    EXPECT_THAT(result.errors, HasSubstr("kernel 'write_at', launch 1"));
    EXPECT_THAT(result.errors, HasSubstr(c.text));
  }
}

TEST(Driver, AHostThatWritesTooFarIsFoundAtTheEnd) {
  ForkedResult result = runForked({}, [] {
    start();
    reinterpret_cast<char *>(allocate(100))[101] = 1;
    return std::string();
  });
  EXPECT_EQ(result.exitCode, -SIGABRT);
  EXPECT_THAT(result.errors, HasSubstr("at exit: byte 101 of an allocation"));
}

TEST(Driver, ADeadlockIsAnError) {
  ForkedResult result = runForked({}, [] {
    start();
    CUfunction function = getFunction("lost_thread");
    MUST(cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, nullptr, nullptr,
                        nullptr));
    return std::to_string(cuCtxSynchronize());
  });
  EXPECT_EQ(result.value, "700");
  EXPECT_THAT(result.errors, HasSubstr("block 2, thread 0 waits at barrier 1"));
}

TEST(Driver, LaunchesAreChecked) {
  ForkedResult result = runForked({{"MESHC_EMULATION_DEVICES", "2"}}, [] {
    CUcontext context = start();
    CUfunction function = getFunction("read_shared");
    CUstream stream = makeStream();
    CUdeviceptr address = allocate(256);
    void *parameters[] = {&address};
    auto launch = [&](unsigned grid, unsigned y, unsigned block,
                      unsigned shared, CUstream stream) {
      return std::to_string(cuLaunchKernel(function, grid, y, 1, block, 1, 1,
                                           shared, stream, parameters,
                                           nullptr)) +
             " ";
    };
    std::string text = launch(1, 1, 64, 256, stream);
    text += launch(0, 1, 64, 256, stream) + launch(1, 2, 64, 256, stream);
    text += launch(1, 1, 2048, 256, stream) + launch(1, 1, 64, 65536, stream);
    MUST(cuFuncSetAttribute(
        function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    text += launch(1, 1, 64, 65536, stream);
    start(1);
    text += launch(1, 1, 64, 256, stream);
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamDestroy_v2(stream));
    return text + launch(1, 1, 64, 256, stream);
  });
  EXPECT_EQ(result.value, "0 1 1 1 1 0 400 400 ") << result.errors;
}

TEST(Driver, ManyParametersAreCopiedWhenLaunched) {
  ForkedResult result = runForked({}, [] {
    start();
    CUfunction function = getFunction("add_one");
    std::vector<float> values = makeFloats(), read(count);
    CUdeviceptr from = allocate(count * 4), to = allocate(count * 4);
    MUST(cuMemcpyHtoD_v2(from, values.data(), count * 4));
    CUstream stream = makeStream();
    MUST(launchAddOne(function, from, to, stream));
    // The parameters of that launch are gone by now.
    int64_t n = count;
    CUdeviceptr buffer[] = {to, from, static_cast<CUdeviceptr>(n)};
    size_t bytes = sizeof buffer;
    void *extra[] = {reinterpret_cast<void *>(1), buffer,
                     reinterpret_cast<void *>(2), &bytes, nullptr};
    MUST(cuLaunchKernel(function, count / 64, 1, 1, 64, 1, 1, 0, stream,
                        nullptr, extra));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(read.data(), from, count * 4));
    return toText(read[0]) + " " + toText(read[count - 1]);
  });
  EXPECT_EQ(result.value, "3 642") << result.errors;
}

TEST(Driver, ImagesHaveArchitectures) {
  ForkedResult result = runForked({{"MESHC_EMULATION_ARCH", "8.6"}}, [] {
    start();
    auto makePtx = [](const char *target) {
      return std::string("//\n.version 8.0\n.target ") + target +
             "\n.address_size 64\n.visible .entry scale(\n)\n{ret;}\n";
    };
    CUmodule module;
    std::string older = makePtx("sm_80"), newer = makePtx("sm_90");
    std::string text;
    text += std::to_string(cuModuleLoadData(&module, newer.c_str())) + " ";
    text += std::to_string(cuModuleLoadData(&module, "no image")) + " ";
    text += std::to_string(cuModuleLoadData(&module, older.c_str())) + " ";
    CUfunction function;
    text += std::to_string(cuModuleGetFunction(&function, module, "other"));
    MUST(cuModuleGetFunction(&function, module, "scale"));
    return text + " " +
           std::to_string(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                         nullptr, nullptr));
  });
  EXPECT_EQ(result.value, "209 200 0 500 801") << result.errors;
}

TEST(Driver, QueriesMakeProgress) {
  for (int seed = 0; seed < 4; ++seed) {
    ForkedResult result =
        runForked({{"MESHC_EMULATION_SEED", std::to_string(seed)}}, [] {
          start();
          CUstream stream = makeStream();
          CUdeviceptr address = allocate(64);
          CUevent begin = makeEvent(CU_EVENT_DEFAULT),
                  end = makeEvent(CU_EVENT_DEFAULT);
          MUST(cuEventRecord(begin, stream));
          for (int i = 0; i < 20; ++i)
            MUST(cuMemsetD32Async(address, i, 16, stream));
          MUST(cuEventRecord(end, stream));
          int polls = 1;
          while (cuEventQuery(end) == CUDA_ERROR_NOT_READY)
            ++polls;
          float milliseconds = -1;
          MUST(cuEventElapsedTime(&milliseconds, begin, end));
          return std::to_string(polls <= 22 && milliseconds >= 0);
        });
    EXPECT_EQ(result.value, "1") << result.errors;
  }
}

TEST(Driver, TheStreamZeroWaitsForBlockingStreams) {
  for (int seed = 0; seed < 8; ++seed) {
    ForkedResult result =
        runForked({{"MESHC_EMULATION_SEED", std::to_string(seed)}}, [] {
          start();
          CUfunction addOne = getFunction("add_one");
          std::vector<float> values = makeFloats(), read(count);
          CUdeviceptr a = allocate(count * 4), b = allocate(count * 4);
          CUstream blocking;
          MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
          MUST(cuMemcpyHtoD_v2(a, values.data(), count * 4));
          MUST(launchAddOne(addOne, a, b, blocking));
          MUST(launchAddOne(addOne, b, a, nullptr));
          MUST(launchAddOne(addOne, a, b, blocking));
          MUST(cuMemcpyDtoH_v2(read.data(), b, count * 4));
          return toText(read[0]);
        });
    EXPECT_EQ(result.value, "4") << result.errors;
  }
}

TEST(Driver, CallsFailWhereTheTestWantsThemTo) {
  ForkedResult result = runForked(
      {{"MESHC_EMULATION_FAIL", "cuMemAlloc:2:2,cuStreamCreate:1:719"}}, [] {
        start();
        CUdeviceptr address;
        CUstream stream;
        std::string text;
        for (int i = 0; i < 3; ++i)
          text += std::to_string(cuMemAlloc_v2(&address, 4)) + " ";
        text += std::to_string(cuStreamCreate(&stream, 0)) + " ";
        return text + std::to_string(cuStreamCreate(&stream, 0));
      });
  EXPECT_EQ(result.value, "0 2 0 719 0");
}

TEST(Driver, CallsAreRecorded) {
  std::string path =
      testing::TempDir() + "meshc-record-" + std::to_string(getpid());
  ForkedResult result = runForked({{"MESHC_EMULATION_LOG", path}},
                                  [] { return runTwoStreams(true); });
  EXPECT_EQ(result.exitCode, 0) << result.errors;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::remove(path.c_str());
  EXPECT_THAT(text, HasSubstr("\"call\": \"cuLaunchKernel\", \"device\": 0, "
                              "\"kernel\": \"add_one\", \"stream\": 1, "
                              "\"grid\": 10, \"block\": 64"));
  EXPECT_THAT(text, HasSubstr("\"ran\": \"kernel 'add_one', launch 2\""));
  EXPECT_THAT(text, HasSubstr("\"exit\": true, \"allocations\": 3"));
}

TEST(Driver, ASeedGivesTheSameOrderAgain) {
  auto getOrder = [](int seed) {
    std::string path =
        testing::TempDir() + "meshc-order-" + std::to_string(getpid());
    runForked({{"MESHC_EMULATION_LOG", path},
               {"MESHC_EMULATION_SEED", std::to_string(seed)}},
              []() -> std::string {
                start();
                CUdeviceptr address = allocate(4);
                CUstream streams[5];
                for (CUstream &stream : streams)
                  stream = makeStream();
                for (int i = 0; i < 100; ++i)
                  MUST(cuMemsetD32Async(address, i, 1, streams[i * 7 % 5]));
                MUST(cuCtxSynchronize());
                return "";
              });
    std::ifstream file(path);
    std::string line, order;
    while (std::getline(file, line))
      if (size_t at = line.find("\"operation\": ");
          line.find("\"ran\"") != std::string::npos)
        order += line.substr(at);
    std::remove(path.c_str());
    return order;
  };
  std::set<std::string> orders;
  for (int seed = 0; seed < 8; ++seed) {
    std::string order = getOrder(seed);
    EXPECT_GT(order.size(), 1000u);
    EXPECT_EQ(getOrder(seed), order);
    orders.insert(order);
  }
  // Priorities of five streams may agree.
  EXPECT_GE(orders.size(), 6u);
}
