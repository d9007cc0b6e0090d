#include "CudaAbi.h"
#include "ForkedRun.h"
#include "NcclAbi.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace meshc::emulation;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

namespace {

ncclUniqueId makeId() {
  static int last = 0;
  ncclUniqueId id{};
  std::snprintf(id.internal, sizeof id.internal, "test-%d-%d", getpid(),
                ++last);
  return id;
}

/// One rank, in its process.
class Rank {
public:
  Rank(const ncclUniqueId &id, int ranks, int rank, int device,
       bool blocks = true)
      : ranks(ranks), rank(rank) {
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    ncclConfig_t config;
    config.blocking = blocks;
    status = settle(ncclCommInitRankConfig(&world, ranks, id, rank, &config));
  }

  /// Waits for what is in progress.
  int settle(int result) { return settle(result, world); }
  int settle(int result, ncclComm_t comm) {
    while (result == ncclInProgress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ncclCommGetAsyncError(comm, &result);
    }
    return result;
  }

  /// Until the stream is done or the communicator has failed: its error.
  int wait(ncclComm_t comm) {
    for (;;) {
      int error;
      CUresult query = cuStreamQuery(stream);
      ncclCommGetAsyncError(comm, &error);
      if (error != ncclSuccess && error != ncclInProgress)
        return error;
      if (query != CUDA_ERROR_NOT_READY)
        return query == CUDA_SUCCESS ? ncclSuccess : 100;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  int wait() { return wait(world); }

  template <class Element> CUdeviceptr put(const std::vector<Element> &values) {
    CUdeviceptr address;
    cuMemAlloc_v2(&address, values.size() * sizeof(Element));
    cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(Element));
    return address;
  }

  template <class Element>
  std::vector<Element> get(CUdeviceptr address, size_t count) {
    std::vector<Element> values(count);
    cuMemcpyDtoH_v2(values.data(), address, count * sizeof(Element));
    return values;
  }

  void end() {
    settle(ncclCommFinalize(world));
    ncclCommDestroy(world);
  }

  int ranks, rank, status;
  CUcontext context;
  CUstream stream, other;
  ncclComm_t world = nullptr;
};

void *at(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

using Body = std::function<std::string(Rank &)>;

/// Runs every rank in a process of its own.
std::vector<ForkedResult> runRanks(int ranks, const Body &body,
                                   Variables variables = {},
                                   bool blocks = true) {
  ncclUniqueId id = makeId();
  variables.emplace_back("MESHC_EMULATION_DEVICES", std::to_string(ranks));
  std::vector<std::unique_ptr<ForkedRun>> runs;
  for (int rank = 0; rank < ranks; ++rank)
    runs.push_back(std::make_unique<ForkedRun>(variables, [&, rank] {
      Rank own(id, ranks, rank, rank, blocks);
      return own.status ? "init " + std::to_string(own.status) : body(own);
    }));
  std::vector<ForkedResult> results;
  for (auto &run : runs)
    results.push_back(run->wait());
  return results;
}

std::vector<std::string> getValues(const std::vector<ForkedResult> &results) {
  std::vector<std::string> values;
  for (const ForkedResult &result : results)
    values.push_back(result.exitCode == 0
                         ? result.value
                         : "exit " + std::to_string(result.exitCode) +
                               result.errors);
  return values;
}

std::string getErrors(const std::vector<ForkedResult> &results) {
  std::string errors;
  for (const ForkedResult &result : results)
    errors += result.errors;
  return errors;
}

float makeValue(int rank, size_t i) {
  return static_cast<float>(std::sin(rank * 7.1 + i * 0.37));
}

std::vector<float> makeValues(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = makeValue(rank, i);
  return values;
}

/// In the order of ranks, as every rank must find it to the bit.
std::vector<float> sumValues(int ranks, size_t count) {
  std::vector<float> sums = makeValues(0, count);
  for (int rank = 1; rank < ranks; ++rank)
    for (size_t i = 0; i < count; ++i)
      sums[i] += makeValue(rank, i);
  return sums;
}

/// Every collective once; what is wrong.
std::string runAll(Rank &own) {
  constexpr size_t count = 37;
  int ranks = own.ranks, rank = own.rank;
  std::string wrong;
  auto note = [&](const char *what, bool right) {
    if (!right)
      wrong += std::string(what) + " ";
  };
  auto finish = [&](int result) {
    note("call", own.settle(result) == ncclSuccess);
    note("wait", own.wait() == ncclSuccess);
  };
  CUdeviceptr in = own.put(makeValues(rank, count * ranks));
  CUdeviceptr out = own.put(std::vector<float>(count * ranks, -1));

  finish(ncclAllReduce(at(in), at(out), count, ncclFloat32, ncclSum, own.world,
                       own.stream));
  note("all_reduce", own.get<float>(out, count) == sumValues(ranks, count));

  finish(ncclReduceScatter(at(in), at(out), count, ncclFloat32, ncclSum,
                           own.world, own.stream));
  std::vector<float> sums = sumValues(ranks, count * ranks);
  note("reduce_scatter",
       own.get<float>(out, count) ==
           std::vector<float>(sums.begin() + rank * count,
                              sums.begin() + (rank + 1) * count));

  finish(ncclAllGather(at(in), at(out), count, ncclFloat32, own.world,
                       own.stream));
  std::vector<float> gathered;
  for (int i = 0; i < ranks; ++i)
    for (float value : makeValues(i, count))
      gathered.push_back(value);
  note("all_gather", own.get<float>(out, count * ranks) == gathered);

  finish(ncclBroadcast(at(in), at(out), count, ncclFloat32, ranks - 1,
                       own.world, own.stream));
  note("broadcast", own.get<float>(out, count) == makeValues(ranks - 1, count));

  finish(
      ncclAlltoAll(at(in), at(out), count, ncclFloat32, own.world, own.stream));
  std::vector<float> exchanged;
  for (int i = 0; i < ranks; ++i)
    for (size_t j = 0; j < count; ++j)
      exchanged.push_back(makeValue(i, rank * count + j));
  note("all_to_all", own.get<float>(out, count * ranks) == exchanged);

  // Round a ring, both ways in one group; more than a socket takes at once.
  constexpr size_t large = 1 << 20;
  CUdeviceptr ring = own.put(makeValues(rank, large));
  CUdeviceptr left = own.put(std::vector<float>(large, -1));
  CUdeviceptr right = own.put(std::vector<float>(large, -1));
  int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
  ncclGroupStart();
  ncclSend(at(ring), large, ncclFloat32, after, own.world, own.stream);
  ncclSend(at(ring), large - 5, ncclFloat32, before, own.world, own.stream);
  ncclRecv(at(left), large, ncclFloat32, before, own.world, own.stream);
  ncclRecv(at(right), large - 5, ncclFloat32, after, own.world, own.stream);
  finish(ncclGroupEnd());
  note("ring from before",
       own.get<float>(left, large) == makeValues(before, large));
  note("ring from after",
       own.get<float>(right, large - 5) == makeValues(after, large - 5));

  // In place.
  finish(ncclAllReduce(at(in), at(in), count, ncclFloat32, ncclMax, own.world,
                       own.stream));
  std::vector<float> most = makeValues(0, count);
  for (int i = 1; i < ranks; ++i)
    for (size_t j = 0; j < count; ++j)
      most[j] = std::max(most[j], makeValue(i, j));
  note("max", own.get<float>(in, count) == most);
  own.end();
  return wrong;
}

} // namespace

TEST(Nccl, CollectivesOfAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 5}) {
    for (bool blocks : {true, false}) {
      auto results = runRanks(
          ranks, runAll,
          {{"MESHC_EMULATION_SEED", std::to_string(ranks + blocks)}}, blocks);
      EXPECT_THAT(getValues(results), Each("")) << getErrors(results);
      EXPECT_EQ(getErrors(results), "");
    }
  }
}

TEST(Nccl, SumsOfSixteenBitsAreRoundedOnce) {
  // 256 + 1 + 1 + 1: in bf16 each step would stay at 256; rounded once it is
  // 260 (to even, from 259).
  auto results = runRanks(4, [](Rank &own) {
    float value = own.rank == 0 ? 256 : 1;
    auto bfloat = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    CUdeviceptr memory = own.put(std::vector<uint16_t>(3, bfloat));
    ncclAllReduce(at(memory), at(memory), 3, ncclBfloat16, ncclSum, own.world,
                  own.stream);
    own.wait();
    auto sum = std::bit_cast<float>(
        static_cast<uint32_t>(own.get<uint16_t>(memory, 3)[2]) << 16);
    // The same in f16, whose steps are 2 from 2048 on.
    _Float16 half = own.rank == 0 ? 2048 : 1;
    CUdeviceptr halves = own.put(std::vector<_Float16>(2, half));
    ncclAllReduce(at(halves), at(halves), 2, ncclFloat16, ncclSum, own.world,
                  own.stream);
    own.wait();
    auto halfSum = static_cast<float>(own.get<_Float16>(halves, 2)[1]);
    CUdeviceptr numbers = own.put(std::vector<int32_t>{INT32_MAX, own.rank});
    ncclAllReduce(at(numbers), at(numbers), 2, ncclInt32, ncclSum, own.world,
                  own.stream);
    own.wait();
    std::vector<int32_t> integers = own.get<int32_t>(numbers, 2);
    own.end();
    return std::to_string(sum) + " " + std::to_string(halfSum) + " " +
           std::to_string(integers[0]) + " " + std::to_string(integers[1]);
  });
  EXPECT_THAT(getValues(results), Each("260.000000 2052.000000 -4 6"));
}

TEST(Nccl, SplitsAreMeshAxes) {
  // 2 x 3: rows by color, ranks within them turned round by the key.
  auto results = runRanks(6, [](Rank &own) {
    ncclComm_t row, column, none;
    ncclConfig_t config;
    config.blocking = 0;
    int status = own.settle(
        ncclCommSplit(own.world, own.rank / 3, -own.rank, &row, &config));
    status += own.settle(
        ncclCommSplit(own.world, own.rank % 3, own.rank, &column, &config));
    status += own.settle(ncclCommSplit(
        own.world, own.rank == 4 ? splitNoColor : 0, 0, &none, &config));
    if (status || (none == nullptr) != (own.rank == 4))
      return std::string("split");
    int rank, size;
    ncclCommUserRank(row, &rank);
    ncclCommCount(column, &size);
    std::vector<float> value = {static_cast<float>(own.rank)};
    CUdeviceptr from = own.put(value), to = own.put(std::vector<float>(5));
    ncclAllGather(at(from), at(to), 1, ncclFloat32, row, own.stream);
    ncclAllReduce(at(from), at(to + 12), 1, ncclFloat32, ncclSum, column,
                  own.stream);
    if (none)
      ncclAllReduce(at(from), at(to + 16), 1, ncclFloat32, ncclSum, none,
                    own.stream);
    own.wait(row);
    std::string text = std::to_string(rank) + " of " + std::to_string(size);
    for (float value : own.get<float>(to, 5))
      text += " " + std::to_string(static_cast<int>(value));
    for (ncclComm_t comm : {row, column, none})
      if (comm)
        ncclCommDestroy(comm);
    own.end();
    return text;
  });
  EXPECT_EQ(getValues(results),
            (std::vector<std::string>{"2 of 2 2 1 0 3 11", "1 of 2 2 1 0 5 11",
                                      "0 of 2 2 1 0 7 11", "2 of 2 5 4 3 3 11",
                                      "1 of 2 5 4 3 5 0", "0 of 2 5 4 3 7 11"}))
      << getErrors(results);
}

TEST(Nccl, SplitsThatDoNotBlockGiveTheirChildWhenTheParentIsReady) {
  for (int seed : {0, 1}) {
    auto results = runRanks(
        2,
        [](Rank &own) {
          CUdeviceptr memory = own.put(std::vector<int32_t>{own.rank + 1});
          ncclComm_t child, other;
          ncclConfig_t config;
          config.blocking = 0;
          std::string text;
          auto note = [&](int status) { text += std::to_string(status) + " "; };
          note(ncclCommSplit(own.world, 0, own.rank, &child, &config));
          // Long after it could be there.
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          note(child != nullptr);
          // Until it is known to be ready, the parent is of no use.
          note(ncclCommSplit(own.world, 0, own.rank, &other, &config));
          note(ncclAllReduce(at(memory), at(memory), 1, ncclInt32, ncclSum,
                             own.world, own.stream));
          note(ncclCommFinalize(own.world));
          note(ncclCommDestroy(own.world));
          note(own.settle(ncclInProgress));
          note(own.settle(ncclAllReduce(at(memory), at(memory), 1, ncclInt32,
                                        ncclSum, child, own.stream),
                          child));
          note(own.wait(child));
          note(own.get<int32_t>(memory, 1)[0]);
          ncclCommFinalize(child);
          ncclCommDestroy(child);
          own.end();
          return text;
        },
        {{"MESHC_EMULATION_SEED", std::to_string(seed)}}, /*blocks=*/false);
    const char *begun = seed % 2 ? "7" : "0";
    EXPECT_THAT(getValues(results),
                Each(std::string(begun) + " 0 4 4 4 4 0 0 0 3 "))
        << getErrors(results);
  }
}

TEST(Nccl, CollectivesAreWorkOfTheirStream) {
  // A kernel's place is taken by a fill on another stream, which the collective
  // must wait for.
  auto countRight = [](bool waits) {
    int right = 0;
    for (int seed = 0; seed < 10; ++seed) {
      auto results =
          runRanks(2,
                   [&](Rank &own) {
                     CUdeviceptr memory = own.put(std::vector<int32_t>{0});
                     cuCtxSynchronize();
                     CUevent event;
                     cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
                     cuMemsetD32Async(memory, own.rank + 5, 1, own.other);
                     cuEventRecord(event, own.other);
                     if (waits)
                       cuStreamWaitEvent(own.stream, event, 0);
                     ncclAllReduce(at(memory), at(memory), 1, ncclInt32,
                                   ncclSum, own.world, own.stream);
                     own.wait();
                     int32_t sum = own.get<int32_t>(memory, 1)[0];
                     own.end();
                     return std::to_string(sum);
                   },
                   {{"MESHC_EMULATION_SEED", std::to_string(seed)}});
      auto values = getValues(results);
      right += values == std::vector<std::string>{"11", "11"};
    }
    return right;
  };
  EXPECT_EQ(countRight(true), 10);
  EXPECT_LT(countRight(false), 10);
}

TEST(Nccl, CollectivesRunInGraphs) {
  auto results = runRanks(3, [](Rank &own) {
    CUdeviceptr memory = own.put(std::vector<int32_t>{own.rank + 1});
    cuCtxSynchronize();
    cuStreamBeginCapture_v2(own.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ncclAllReduce(at(memory), at(memory), 1, ncclInt32, ncclSum, own.world,
                  own.stream);
    ncclGroupStart();
    ncclSend(at(memory), 1, ncclInt32, (own.rank + 1) % 3, own.world,
             own.stream);
    ncclRecv(at(memory), 1, ncclInt32, (own.rank + 2) % 3, own.world,
             own.stream);
    ncclGroupEnd();
    CUgraph graph;
    CUgraphExec exec;
    std::string text;
    text += std::to_string(cuStreamEndCapture(own.stream, &graph));
    text += std::to_string(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; ++i)
      text += std::to_string(cuGraphLaunch(exec, own.stream));
    text += std::to_string(own.wait());
    text += " " + std::to_string(own.get<int32_t>(memory, 1)[0]);
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    own.end();
    return text;
  });
  EXPECT_THAT(getValues(results), Each("000000 54")) << getErrors(results);
}

TEST(Nccl, CommunicatorsEndBehindTheGraphsThatHaveThem) {
  for (bool aborts : {false, true}) {
    auto results = runRanks(2, [&](Rank &own) {
      CUdeviceptr memory = own.put(std::vector<int32_t>{own.rank + 1});
      cuCtxSynchronize();
      cuStreamBeginCapture_v2(own.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
      ncclAllReduce(at(memory), at(memory), 1, ncclInt32, ncclSum, own.world,
                    own.stream);
      CUgraph graph;
      CUgraphExec exec;
      cuStreamEndCapture(own.stream, &graph);
      cuGraphInstantiateWithFlags(&exec, graph, 0);
      cuGraphDestroy(graph);
      cuGraphLaunch(exec, own.stream);
      // The other one may have aborted.
      own.wait();
      int status = 0;
      std::atomic<bool> hasEnded = false;
      std::thread end([&] {
        cuCtxSetCurrent(own.context);
        status = aborts ? ncclCommAbort(own.world) : ncclCommDestroy(own.world);
        hasEnded = true;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      std::string text = hasEnded ? "early " : "";
      cuGraphExecDestroy(exec);
      end.join();
      return text + std::to_string(status);
    });
    EXPECT_THAT(getValues(results), Each("0")) << getErrors(results);
  }
}

TEST(Nccl, MemoryIsFreedBehindWorkThatHangs) {
  auto results =
      runRanks(2,
               [](Rank &own) {
                 CUdeviceptr memory = own.put(std::vector<float>(64));
                 ncclAllReduce(at(memory), at(memory), 8, ncclFloat32, ncclSum,
                               own.world, own.stream);
                 std::atomic<bool> hasEnded = false;
                 std::thread end([&] {
                   cuCtxSetCurrent(own.context);
                   cuMemFree_v2(memory);
                   hasEnded = true;
                 });
                 std::this_thread::sleep_for(std::chrono::milliseconds(200));
                 std::string text = hasEnded ? "early " : "";
                 int error;
                 ncclCommGetAsyncError(own.world, &error);
                 ncclCommAbort(own.world);
                 end.join();
                 return text + std::to_string(error);
               },
               {{"MESHC_EMULATION_NETWORK_ERROR", "0:1"},
                {"MESHC_EMULATION_HANG", "1:1"}});
  EXPECT_EQ(getValues(results), (std::vector<std::string>{"2", "0"}));
  EXPECT_THAT(getErrors(results), HasSubstr("rank 0: the network is down"));
}

TEST(Nccl, TheHostOfOneRankMayBeLate) {
  // A GPU goes on while its host does something else: rank 0 has queued its
  // part and waits for nothing until rank 1 is done.
  auto results = runRanks(2, [](Rank &own) {
    CUdeviceptr memory = own.put(std::vector<int32_t>{own.rank + 1});
    cuCtxSynchronize();
    ncclAllReduce(at(memory), at(memory), 1, ncclInt32, ncclSum, own.world,
                  own.stream);
    if (own.rank == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    auto begin = std::chrono::steady_clock::now();
    own.wait();
    bool early = std::chrono::steady_clock::now() - begin <
                 std::chrono::milliseconds(1200);
    int32_t sum = own.get<int32_t>(memory, 1)[0];
    own.end();
    return std::to_string(early) + " " + std::to_string(sum);
  });
  EXPECT_THAT(getValues(results), Each("1 3"));
}

TEST(Nccl, RanksThatDisagreeAreToldOfBoth) {
  struct Case {
    const char *first, *second;
    std::function<int(Rank &, CUdeviceptr)> run;
  };
  std::vector<Case> cases = {
      {"all_reduce of 4 elements of type 7, operation 0", "all_gather of 4",
       [](Rank &own, CUdeviceptr m) {
         return own.rank == 0 ? ncclAllReduce(at(m), at(m), 4, ncclFloat32,
                                              ncclSum, own.world, own.stream)
                              : ncclAllGather(at(m), at(m + 64), 4, ncclFloat32,
                                              own.world, own.stream);
       }},
      {"all_reduce of 3 elements", "all_reduce of 4 elements",
       [](Rank &own, CUdeviceptr m) {
         return ncclAllReduce(at(m), at(m), 3 + own.rank, ncclFloat32, ncclSum,
                              own.world, own.stream);
       }},
      {"of type 7", "of type 2",
       [](Rank &own, CUdeviceptr m) {
         return ncclAllReduce(at(m), at(m), 4,
                              own.rank ? ncclInt32 : ncclFloat32, ncclSum,
                              own.world, own.stream);
       }},
      {"operation 0", "operation 2",
       [](Rank &own, CUdeviceptr m) {
         return ncclAllReduce(at(m), at(m), 4, ncclFloat32,
                              own.rank ? ncclMax : ncclSum, own.world,
                              own.stream);
       }},
      {"root 0", "root 1",
       [](Rank &own, CUdeviceptr m) {
         return ncclBroadcast(at(m), at(m), 4, ncclFloat32, own.rank, own.world,
                              own.stream);
       }},
      {"send of 5 elements", "recv of 4 elements",
       [](Rank &own, CUdeviceptr m) {
         return own.rank == 0
                    ? ncclSend(at(m), 5, ncclFloat32, 1, own.world, own.stream)
                    : ncclRecv(at(m), 4, ncclFloat32, 0, own.world, own.stream);
       }}};
  for (const Case &c : cases) {
    auto results = runRanks(
        2,
        [&](Rank &own) {
          CUdeviceptr memory = own.put(std::vector<float>(64));
          own.settle(c.run(own, memory));
          // The sender of a message alone would be content.
          int error = ncclSuccess;
          for (int i = 0; i < 5000 && !error; ++i) {
            ncclCommGetAsyncError(own.world, &error);
            cuStreamQuery(own.stream);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          std::string text = ncclGetLastError(own.world);
          ncclCommAbort(own.world);
          int after = cuStreamSynchronize(own.stream);
          return std::to_string(error) + " " + std::to_string(after) + " " +
                 text;
        },
        {}, /*blocks=*/false);
    for (const std::string &value : getValues(results)) {
      EXPECT_THAT(value, HasSubstr("5 0 "));
      EXPECT_THAT(value, AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"),
                               HasSubstr(c.first), HasSubstr(c.second)));
    }
  }
}

TEST(Nccl, TwoCommunicatorsInDifferentOrdersAreReported) {
  for (bool oneStream : {true, false}) {
    auto results = runRanks(2, [&](Rank &own) {
      ncclComm_t second;
      ncclCommSplit(own.world, 0, own.rank, &second, nullptr);
      CUdeviceptr memory = own.put(std::vector<float>(64));
      ncclComm_t comms[] = {own.world, second};
      CUstream streams[] = {own.stream, oneStream ? own.stream : own.other};
      for (int i = 0; i < 2; ++i) {
        int which = i ^ own.rank;
        ncclAllReduce(at(memory), at(memory), 4, ncclFloat32, ncclSum,
                      comms[which], streams[which]);
      }
      int error = ncclSuccess, other = ncclSuccess;
      for (int i = 0; i < 5000 && !error && !other; ++i) {
        ncclCommGetAsyncError(own.world, &error);
        ncclCommGetAsyncError(second, &other);
        cuStreamQuery(own.stream);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      // What one of them has under way may wait in a stream for the other's.
      std::thread abort([&] { ncclCommAbort(second); });
      ncclCommAbort(own.world);
      abort.join();
      // The other one may have heard by now that its peer gives up.
      return std::to_string(error == ncclInvalidUsage ? error : other);
    });
    EXPECT_THAT(getValues(results), Each("5"));
    EXPECT_THAT(getErrors(results),
                HasSubstr("collectives of another communicator, rank"));
  }
}

TEST(Nccl, ASwappedCollectiveIsFound) {
  // Three sums of different sizes, of which rank 1 swaps two.
  auto results =
      runRanks(2,
               [](Rank &own) {
                 CUdeviceptr memory = own.put(std::vector<float>(64));
                 for (size_t count : {3, 5, 7})
                   ncclAllReduce(at(memory), at(memory), count, ncclFloat32,
                                 ncclSum, own.world, own.stream);
                 int error = own.wait();
                 ncclCommAbort(own.world);
                 return std::to_string(error);
               },
               {{"MESHC_EMULATION_SWAP_COLLECTIVES", "1:2"}});
  EXPECT_THAT(getValues(results), Each("5"));
  EXPECT_THAT(getErrors(results), AllOf(HasSubstr("all_reduce of 5"),
                                        HasSubstr("all_reduce of 7")));
}

TEST(Nccl, ARankThatDiesIsNoticed) {
  auto results = runRanks(
      3,
      [](Rank &own) {
        CUdeviceptr memory = own.put(std::vector<float>(64));
        int error = ncclSuccess;
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 4 && !error; ++i) {
          ncclAllReduce(at(memory), at(memory), 8, ncclFloat32, ncclSum,
                        own.world, own.stream);
          error = own.wait();
        }
        // Milliseconds, where the machine has time.
        bool quick =
            std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
        std::string text = ncclGetLastError(own.world);
        ncclCommAbort(own.world);
        return std::to_string(error) + " " + std::to_string(quick) + " " + text;
      },
      {{"MESHC_EMULATION_KILL", "1:3"}});
  EXPECT_EQ(results[1].exitCode, -SIGKILL);
  for (int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exitCode, 0);
    // Or that the other survivor, who knew first, has aborted.
    EXPECT_THAT(results[rank].value,
                AnyOf("6 1 rank 1 has died", HasSubstr(" has aborted")));
    EXPECT_THAT(results[rank].value, HasSubstr("6 1 "));
  }
  EXPECT_THAT(getErrors(results), HasSubstr("rank 1 has died"));
}

TEST(Nccl, ARankThatLeavesEarlyIsNoticed) {
  auto results = runRanks(2, [](Rank &own) {
    if (own.rank == 0) {
      own.end();
      return std::string("6");
    }
    CUdeviceptr memory = own.put(std::vector<float>(64));
    ncclAllReduce(at(memory), at(memory), 8, ncclFloat32, ncclSum, own.world,
                  own.stream);
    int error = own.wait();
    ncclCommAbort(own.world);
    return std::to_string(error);
  });
  EXPECT_THAT(getValues(results), Each("6"));
  EXPECT_THAT(getErrors(results),
              HasSubstr("rank 0 has left while rank 1 waits for it"));
}

TEST(Nccl, TwoRanksOnOneGpuAreRefused) {
  ncclUniqueId id = makeId();
  std::vector<std::unique_ptr<ForkedRun>> runs;
  for (int rank = 0; rank < 2; ++rank)
    runs.push_back(std::make_unique<ForkedRun>(Variables{}, [&, rank] {
      Rank own(id, 2, rank, 0);
      return std::to_string(own.status) + " " + ncclGetLastError(own.world);
    }));
  for (auto &run : runs)
    EXPECT_EQ(run->wait().value, "5 Duplicate GPU detected : rank 0 and rank 1 "
                                 "both on CUDA device 1000");
}

TEST(Nccl, EachRankMaySeeOneGpuOnly) {
  ncclUniqueId id = makeId();
  std::vector<std::unique_ptr<ForkedRun>> runs;
  for (int rank = 0; rank < 2; ++rank) {
    Variables variables = {{"MESHC_EMULATION_DEVICES", "2"},
                           {"CUDA_VISIBLE_DEVICES", std::to_string(rank)}};
    runs.push_back(std::make_unique<ForkedRun>(variables, [&, rank] {
      Rank own(id, 2, rank, 0);
      int device = -1;
      ncclCommCuDevice(own.world, &device);
      own.end();
      return std::to_string(own.status) + " " + std::to_string(device);
    }));
  }
  for (auto &run : runs)
    EXPECT_EQ(run->wait().value, "0 0");
}

TEST(Nccl, ARankThatIsMissingCanBeGivenUp) {
  ForkedResult result =
      runForked({{"MESHC_EMULATION_DEVICES", "2"}}, []() -> std::string {
        CUcontext context;
        cuInit(0);
        cuDevicePrimaryCtxRetain(&context, 0);
        cuCtxSetCurrent(context);
        ncclConfig_t config;
        config.blocking = 0;
        ncclComm_t world;
        ncclUniqueId id;
        int status, begun;
        ncclGetUniqueId(&id);
        begun = ncclCommInitRankConfig(&world, 2, id, 0, &config);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ncclCommGetAsyncError(world, &status);
        int ended = ncclCommAbort(world);
        return std::to_string(begun) + std::to_string(status) +
               std::to_string(ended);
      });
  EXPECT_EQ(result.value, "770");
  EXPECT_EQ(result.exitCode, 0);
}

TEST(Nccl, WrongCallsAreRefused) {
  auto results = runRanks(2, [](Rank &own) {
    CUdeviceptr memory = own.put(std::vector<float>(64));
    std::string text;
    auto note = [&](int status) { text += std::to_string(status) + " "; };
    note(ncclAllReduce(at(memory), at(memory), 65, ncclFloat32, ncclSum,
                       own.world, own.stream)); // too long
    note(ncclAllReduce(at(memory), at(memory + 4), 4, ncclFloat32, ncclSum,
                       own.world, own.stream)); // overlaps
    note(ncclAllReduce(at(memory), at(memory), 4, 77, ncclSum, own.world,
                       own.stream));
    note(ncclAllReduce(at(memory), at(memory), 4, ncclFloat32, ncclAvg,
                       own.world, own.stream));
    note(ncclBroadcast(at(memory), at(memory), 4, ncclFloat32, 2, own.world,
                       own.stream));
    note(ncclAllReduce(at(memory), at(memory), 4, ncclFloat32, ncclSum, nullptr,
                       own.stream));
    note(ncclGroupEnd());
    note(own.wait());
    own.end();
    note(ncclAllReduce(at(memory), at(memory), 4, ncclFloat32, ncclSum,
                       own.world, own.stream));
    return text;
  });
  EXPECT_THAT(getValues(results), Each("4 5 4 4 4 4 5 0 4 "));
}
