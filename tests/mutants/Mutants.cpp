/// Mutants of programs, specs and data files, many in one process:
///
///   meshc-mutants program|spec|idx|npy SEED COUNT FOLDER FILE...
///
/// A child works through them; its parent sees it crash, or take more than two
/// seconds for one, notes that, keeps the mutant in FOLDER and has the rest
/// done by another child. Prints a JSON object of counts; exits with 1 if any
/// mutant crashed or hung.

#include "frontend/Spec.h"
#include "frontend/plan/PlanJson.h"
#include "frontend/plan/PlanText.h"
#include "runtime/Data/Idx.h"
#include "runtime/Devices/Executor.h"
#include "runtime/Npy.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace meshc;

namespace {

constexpr auto patience = std::chrono::seconds(2);

/// What the child tells its parent.
struct Shared {
  std::atomic<uint64_t> mutant;   ///< the one in work
  std::atomic<uint64_t> accepted; ///< taken as sound
  std::atomic<uint64_t> refused;
};

class Mutator {
public:
  Mutator(std::vector<std::string> files, uint64_t seed, bool isText)
      : files(std::move(files)), seed(seed), isText(isText) {}

  std::string make(uint64_t number) {
    random.seed(seed * 1000003 + number);
    std::string bytes = files[pick(files.size())];
    for (size_t edits = 1 + (pick(2) ? 0 : pick(4)); edits > 0; --edits)
      edit(bytes);
    return bytes;
  }

private:
  size_t pick(size_t count) { return count ? random() % count : 0; }

  void edit(std::string &bytes) {
    const size_t at = pick(bytes.size() + 1);
    const size_t left = bytes.size() - at;
    switch (pick(isText ? 8 : 7)) {
    case 0: // a bit
      if (left)
        bytes[at] = char(bytes[at] ^ (1 << pick(8)));
      return;
    case 1: // a byte
      if (left)
        bytes[at] = char(random());
      return;
    case 2: { // a number that means something somewhere
      static const int64_t numbers[] = {
          0,   1,       -1,      2,         63,        64,       127,
          128, 1 << 20, 1 << 30, INT32_MAX, INT64_MAX, INT64_MIN};
      const int64_t number = numbers[pick(std::size(numbers))];
      if (isText)
        bytes.insert(at, std::to_string(number));
      else
        std::memcpy(bytes.data() + at, &number,
                    std::min(left, size_t(1) << pick(4)));
      return;
    }
    case 3: // a part less
      bytes.erase(at, pick(32));
      return;
    case 4: // the end less
      if (pick(4) == 0)
        bytes.resize(at);
      return;
    case 5: { // a part of it, or of another one, once more
      const std::string &other = files[pick(files.size())];
      const size_t from = pick(other.size());
      const std::string part = other.substr(from, pick(64));
      if (pick(2))
        bytes.insert(at, part);
      else
        bytes.replace(at, std::min(left, part.size()), part);
      return;
    }
    case 6: // two places exchanged
      if (left)
        std::swap(bytes[at], bytes[pick(bytes.size())]);
      return;
    default: { // a token
      static const char *const tokens[] = {"(",       ")",
                                           "{",       "}",
                                           "[",       "]",
                                           "->",      "=",
                                           ",",       "-",
                                           "^",       "@",
                                           "1e308",   "let",
                                           "fn",      "for",
                                           "as",      "//",
                                           "\"",      "over",
                                           "dim",     "mesh",
                                           "inf",     "where",
                                           "\n",      "0",
                                           "mean",    "einsum",
                                           "sum",     "rename",
                                           "import",  "gather",
                                           "softmax", "precision fp16",
                                           "layout {"};
      bytes.insert(at,
                   std::string(" ") + tokens[pick(std::size(tokens))] + " ");
    }
    }
  }

  std::vector<std::string> files;
  uint64_t seed;
  bool isText;
  std::mt19937_64 random;
};

/// Takes the place of every kernel: what these touch is in their tables.
void skip(void *const *, const int64_t *, int64_t, int64_t) {}

/// Whether the program was taken as sound; it is planned and, with every
/// product, collective and copy, run.
bool tryProgram(const std::string &bytes) {
  auto executable = runtime::Executable::load(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  if (!executable)
    return false;
  plan::renderPlanText(executable->data, {});
  plan::renderPlanJson(executable->data);
  if (executable->data.target != exec::Target::cpu ||
      executable->data.arena_bytes > uint64_t(1) << 28 ||
      executable->getNumDevices() > 16)
    return true;
  std::vector<meshcKernelEntry> kernels;
  for (const auto &program : executable->data.programs)
    for (const auto &command : program->commands)
      if (const exec::KernelT *kernel = command->action.AsKernel())
        kernels.push_back({kernel->symbol.c_str(), skip});
  auto executor = runtime::Executor::create(*executable, kernels, 1);
  if (!executor)
    return true;
  for (const auto &program : executable->data.programs)
    static_cast<void>((*executor)->run(*program));
  return true;
}

bool trySpec(const std::string &text) {
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  frontend::SpecOptions options{"mutant.mesh"};
  options.text = text;
  const bool isSound(
      frontend::compileSpec(options, context, sources, diagnostics));
  frontend::render(diagnostics, frontend::MessageFormat::Text);
  frontend::render(diagnostics, frontend::MessageFormat::Json);
  return isSound;
}

std::span<const std::byte> getBytes(const std::string &text) {
  return std::as_bytes(std::span(text));
}

bool tryIdx(const std::string &bytes) {
  auto file = runtime::parseIdx(
      std::make_unique<runtime::MemoryReader>(getBytes(bytes)), "mutant");
  if (!file)
    return false;
  file->getItemSize();
  double sum = 0;
  if (file->getNumItems() > 0)
    for (int64_t i = 0; i < file->getNumItems() * file->getItemSize(); ++i)
      sum += file->getElement(i);
  return sum == sum || sum != sum;
}

bool tryNpy(const std::string &bytes) {
  runtime::MemoryReader reader(getBytes(bytes));
  return bool(runtime::parseNpy(reader, "mutant"));
}

using Try = bool (*)(const std::string &);

Try findTry(const std::string &kind) {
  return kind == "program" ? tryProgram
         : kind == "spec"  ? trySpec
         : kind == "idx"   ? tryIdx
         : kind == "npy"   ? tryNpy
                           : nullptr;
}

/// Works through the mutants from `first` on; false: it took too long over the
/// one in `shared`, or a signal ended it.
bool workThrough(Mutator &mutator, Try tryOne, uint64_t first, uint64_t count,
                 Shared &shared) {
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
      try {
        if (tryOne(mutator.make(number)))
          ++shared.accepted;
        else
          ++shared.refused;
      } catch (const std::bad_alloc &) {
        ++shared.refused; // exit code 5
      }
    }
    _exit(0);
  }
  auto last = std::chrono::steady_clock::now();
  for (uint64_t seen = first;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const auto now = std::chrono::steady_clock::now();
    if (shared.mutant != seen) {
      seen = shared.mutant;
      last = now;
    } else if (now - last > patience) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

} // namespace

int main(int argc, char **argv) {
  const Try tryOne = argc > 5 ? findTry(argv[1]) : nullptr;
  if (!tryOne) {
    fmt::print(stderr, "usage: meshc-mutants program|spec|idx|npy SEED COUNT "
                       "FOLDER FILE...\n");
    return 2;
  }
  std::vector<std::string> files;
  for (int i = 5; i < argc; ++i) {
    std::ostringstream text;
    text << std::ifstream(argv[i], std::ios::binary).rdbuf();
    files.push_back(text.str());
  }
  const uint64_t count = std::stoull(argv[3]);
  Mutator mutator(std::move(files), std::stoull(argv[2]),
                  std::string(argv[1]) == "spec");
  auto &shared = *static_cast<Shared *>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<uint64_t> faults;
  for (uint64_t next = 0; next < count; next = shared.mutant + 1) {
    if (workThrough(mutator, tryOne, next, count, shared))
      break;
    faults.push_back(shared.mutant);
    std::ofstream(
        fmt::format("{}/{}-{}-{}", argv[4], argv[1], argv[2], faults.back()),
        std::ios::binary)
        << mutator.make(faults.back());
  }
  fmt::print("{{\"kind\": \"{}\", \"mutants\": {}, \"accepted\": {}, "
             "\"refused\": {}, \"faults\": {}}}\n",
             argv[1], count, uint64_t(shared.accepted),
             uint64_t(shared.refused), faults.size());
  return faults.empty() ? 0 : 1;
}
