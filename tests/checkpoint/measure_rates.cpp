/// How fast a state is saved and loaded beside what the disk does with as many
/// bytes, in turns, and how much memory that takes above the state:
///
///   meshc-checkpoint-rates FOLDER [MIB [ROUNDS]]
///
/// The state is split over a mesh of 2 x 2 and loaded by one of 3. The disk's
/// rate is that of a file written in pieces of 4 MiB and synced, and read from
/// the first byte to the last; files are dropped from the system's cache before
/// they are read. Both are done with the state in memory, and every second
/// round the other one comes first: who does may have to wait for the system's
/// memory (a virtual machine gives back what it does not use, and gets it at
/// 0.7 GB/s).

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Saver.h"
#include "tests/checkpoint/StateProgram.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

using Clock = std::chrono::steady_clock;

static void require(const Status &status) {
  if (status)
    return;
  fmt::print(stderr, "{}\n", status.getError().message);
  std::exit(1);
}

/// A line of /proc/self/status, in MiB.
static double getMemory(const std::string &name) {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":"))
      return std::strtod(line.c_str() + name.size() + 1, nullptr) / 1024;
  std::abort();
}

/// From now on VmHWM is the most there was from here.
static void resetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

static void dropFromCache(const std::string &path) {
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(path)) {
    const OwnedFile file(open(entry.path().c_str(), O_RDONLY));
    fdatasync(file.get());
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// Of all rounds together.
struct Rate {
  double bytes = 0, seconds = 0;
  double last = 0; ///< of the last round, in MB/s

  double get() const { return bytes / seconds / 1e6; }

  void add(double newBytes, const std::function<void()> &body) {
    const Clock::time_point start = Clock::now();
    body();
    const double took =
        std::chrono::duration<double>(Clock::now() - start).count();
    bytes += newBytes;
    seconds += took;
    last = newBytes / took / 1e6;
  }
};

/// Both, which one comes first changes from round to round.
static void inTurns(int round, const std::function<void()> &a,
                    const std::function<void()> &b) {
  (round % 2 == 0 ? a : b)();
  (round % 2 == 0 ? b : a)();
}

static void saveState(Session &session, const std::string &folder) {
  SaveRequest request;
  request.folder = folder;
  Result<std::unique_ptr<Saver>> saver = Saver::create(
      session.getDevices(), nullptr, request, TrainingPosition(), false);
  if (!saver)
    require(saver.getError());
  require((*saver)->save(1));
  require((*saver)->finish());
}

static void loadState(Session &session, const std::string &folder) {
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    require(checkpoint.getError());
  require(checkpoint->load(session.getDevices()));
}

static void writePlain(const std::string &path, uint64_t bytes) {
  const std::vector<char> piece(pieceBytes, 'x');
  const OwnedFile file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  for (uint64_t place = 0; place < bytes; place += piece.size())
    if (write(file.get(), piece.data(), piece.size()) < 0)
      std::abort();
  if (fsync(file.get()) != 0)
    std::abort();
}

static void readPlain(const std::string &path) {
  std::vector<char> piece(pieceBytes);
  const OwnedFile file(open(path.c_str(), O_RDONLY));
  while (read(file.get(), piece.data(), piece.size()) > 0) {
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} FOLDER [MIB [ROUNDS]]\n", argv[0]);
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/meshc-rates";
  const int64_t mib = argc > 2 ? std::atoll(argv[2]) : 2048;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 4;
  // Of two tensors of f32 with rows of five.
  const int64_t rows = (mib << 20) / 2 / 20;
  Rate save, write, load, read;
  double saving = 0, loading = 0;
  const std::string plain = folder + "/plain";
  const double bytes = 2 * 20 * double(rows);
  for (int round = 0; round < rounds; ++round) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    {
      std::unique_ptr<Session> session =
          makeStateSession({2, 2}, nullptr, rows);
      setState(*session, makeState(session->getExecutable(), 1));
      inTurns(
          round,
          [&] {
            const double before = getMemory("VmRSS");
            resetPeak();
            save.add(bytes, [&] { saveState(*session, folder + "/saved"); });
            saving = std::max(saving, getMemory("VmHWM") - before);
          },
          [&] {
            write.add(bytes, [&] { writePlain(plain, uint64_t(bytes)); });
          });
    }
    {
      std::unique_ptr<Session> session = makeStateSession({3}, nullptr, rows);
      // The arenas are there before anything is loaded.
      setState(*session, makeState(session->getExecutable(), 2));
      dropFromCache(folder);
      inTurns(
          round,
          [&] {
            const double before = getMemory("VmRSS");
            resetPeak();
            load.add(bytes, [&] { loadState(*session, folder + "/saved"); });
            loading = std::max(loading, getMemory("VmHWM") - before);
          },
          [&] { read.add(bytes, [&] { readPlain(plain); }); });
    }
    fmt::print("save {:.0f} MB/s, disk writes {:.0f} MB/s; load {:.0f} MB/s, "
               "disk reads {:.0f} MB/s\n",
               save.last, write.last, load.last, read.last);
    std::fflush(stdout);
  }
  std::filesystem::remove_all(folder);
  fmt::print("means: save {:.0f} % of {:.0f} MB/s, load {:.0f} % of {:.0f} "
             "MB/s; memory above the state: saving {:.0f} MiB, loading {:.0f} "
             "MiB\n",
             100 * save.get() / write.get(), write.get(),
             100 * load.get() / read.get(), read.get(), saving, loading);
  return 0;
}
