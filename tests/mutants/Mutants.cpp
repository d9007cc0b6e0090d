/// Mutants of programs, specs and data files, many in one process:
///
///   meshc-mutants program|spec|idx|npy SEED COUNT FOLDER FILE...
///   meshc-mutants program|spec|idx|npy SEED FIRST-END FOLDER FILE...
///
/// A child works through them; its parent sees it crash, or take more than two
/// seconds of processor time for one, notes that, keeps the mutant in FOLDER
/// and has the rest done by another child. Prints a JSON object of counts;
/// exits with 1 if there were faults.

#include "tests/mutants/Subjects.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace meshc::mutants;

namespace {

/// For one mutant: of processor time, on which other work of the machine has no
/// influence; and of time for who waits and does nothing.
constexpr double processorSeconds = 2;
constexpr auto patience = std::chrono::seconds(60);

/// What the child tells its parent.
struct Shared {
  std::atomic<uint64_t> mutant;   ///< the one in work
  std::atomic<uint64_t> accepted; ///< taken as sound
  std::atomic<uint64_t> refused;
  std::atomic<uint64_t> planned;
  std::atomic<uint64_t> run;
  std::atomic<uint64_t> longest; ///< nanoseconds of processor time for one
};

} // namespace

std::string meshc::mutants::readFile(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

static uint64_t getNanoseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return uint64_t(time.tv_sec) * 1000000000 + uint64_t(time.tv_nsec);
}

/// What the child does with one.
static void takeMutant(Subject &subject, const Mutator::Mutant &mutant,
                       Shared &shared) {
  try {
    const Outcome outcome = subject.take(mutant);
    if (!outcome.defect.empty()) {
      fmt::print(stderr, "mutant {}: {}\n", uint64_t(shared.mutant),
                 outcome.defect);
      _exit(1);
    }
    shared.planned += outcome.wasPlanned;
    shared.run += outcome.hasRun;
    ++(outcome.isSound ? shared.accepted : shared.refused);
  } catch (const std::bad_alloc &) {
    ++shared.refused; // exit code 5
  }
}

/// Works through the mutants from `first` on; false: it took too long over the
/// one in `shared`, or a signal ended it, or a defect.
static bool workThrough(Subject &subject, Mutator &mutator, uint64_t first,
                        uint64_t count, Shared &shared) {
  const pid_t child = fork();
  if (child == 0) {
    // What a mutant asks for is refused, not taken from the machine.
    const rlimit memory = {rlim_t(4) << 30, rlim_t(4) << 30};
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
    setrlimit(RLIMIT_AS, &memory);
#endif
    static_cast<void>(memory);
    for (uint64_t number = first; number < count; ++number) {
      shared.mutant = number;
      const uint64_t start = getNanoseconds(CLOCK_PROCESS_CPUTIME_ID);
      takeMutant(subject, mutator.make(number), shared);
      shared.longest =
          std::max(uint64_t(shared.longest),
                   getNanoseconds(CLOCK_PROCESS_CPUTIME_ID) - start);
    }
    _exit(0);
  }
  clockid_t clock;
  clock_getcpuclockid(child, &clock);
  auto last = std::chrono::steady_clock::now();
  uint64_t lastProcessor = 0;
  for (uint64_t seen = first;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const auto now = std::chrono::steady_clock::now();
    const uint64_t processor = getNanoseconds(clock);
    if (shared.mutant != seen) {
      seen = shared.mutant;
      last = now;
      lastProcessor = processor;
    } else if (now - last > patience ||
               double(processor - lastProcessor) > processorSeconds * 1e9) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

static std::unique_ptr<Subject>
makeSubject(const std::string &kind, const std::string &folder,
            const std::vector<std::string> &paths) {
  return kind == "program" ? makePrograms(paths, folder)
         : kind == "spec"  ? makeSpecs(paths)
         : kind == "idx"   ? makeIdx(paths)
         : kind == "npy"   ? makeNpy(paths)
                           : nullptr;
}

int main(int argc, char **argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::unique_ptr<Subject> subject;
  if (words.size() > 4)
    subject = makeSubject(words[0], words[3], {words.begin() + 4, words.end()});
  if (!subject) {
    fmt::print(stderr, "usage: meshc-mutants program|spec|idx|npy SEED "
                       "COUNT|FIRST-END FOLDER FILE...\n");
    return 2;
  }
  const size_t dash = words[2].find('-');
  const bool isRange = dash != std::string::npos;
  const uint64_t first = isRange ? std::stoull(words[2]) : 0;
  const uint64_t end =
      std::stoull(isRange ? words[2].substr(dash + 1) : words[2]);
  Mutator mutator(subject->files, std::stoull(words[1]), words[0] == "spec");
  auto &shared = *static_cast<Shared *>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  uint64_t faults = 0;
  for (uint64_t next = first; next < end; next = shared.mutant + 1) {
    if (workThrough(*subject, mutator, next, end, shared))
      break;
    ++faults;
    const uint64_t number = shared.mutant;
    std::ofstream(
        fmt::format("{}/{}-{}-{}", words[3], words[0], words[1], number),
        std::ios::binary)
        << mutator.make(number).bytes;
  }
  fmt::print("{{\"kind\": \"{}\", \"mutants\": {}, \"accepted\": {}, "
             "\"refused\": {}, \"planned\": {}, \"run\": {}, \"faults\": {}, "
             "\"longest\": {:.3f}}}\n",
             words[0], end - first, uint64_t(shared.accepted),
             uint64_t(shared.refused), uint64_t(shared.planned),
             uint64_t(shared.run), faults, 1e-9 * double(shared.longest));
  return faults == 0 ? 0 : 1;
}
