// meshc-fuzz: random specs, compiled and run, against what they mean.

#include "tests/fuzz/Check.h"
#include "tests/fuzz/Condition.h"
#include "tests/fuzz/Generate.h"
#include "tests/fuzz/Isolate.h"
#include "tests/fuzz/Reduce.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

using namespace meshc;
using namespace meshc::fuzz;
using Clock = std::chrono::steady_clock;

namespace {

struct Options {
  std::string seeds = "0..400";
  double minutes = 0; ///< 0: as long as the seeds take
  std::vector<std::string> without;
  bool shows = false;
  bool stays = false; ///< in this process, for a debugger
  int layouts = 2;
  int deviceEvery = 3; ///< kernels are run of each so-many-th case
  /// On which devices and in which precision, in turns.
  std::vector<std::string> devices = {"cpus"}, precisions = {"f32"};
  int reduceAttempts = 400;
  int maxFailures = 20;
};

constexpr Precision precisions[] = {Precision::F32, Precision::BF16,
                                    Precision::FP16};

/// Meshes whose axes differ, up to twelve devices.
constexpr const char *meshes[] = {"a=2,c=3", "a=3,c=2", "a=4,c=1", "a=1,c=5",
                                  "a=2,c=2", "a=4,c=3", "a=2,c=6", "a=7,c=1"};

/// The first program of a seed that can be compared.
Case makeCase(uint64_t seed, const Kinds &leftOut, Precision precision) {
  Case item;
  for (uint64_t attempt = 0; attempt < 50; ++attempt) {
    item.seed = seed * 64 + attempt;
    item.tree = generate(item.seed, 3 + int(seed % 9), leftOut);
    check(item.tree); // its types
    if (findProblem(item.tree, item.seed, precision).empty())
      break;
  }
  return item;
}

class Fuzz {
public:
  explicit Fuzz(const Options &options) : options(options) {
    leftOut.insert(options.without.begin(), options.without.end());
  }

  /// The seeds from `first` to below `last`; the exit code.
  int run(uint64_t first, uint64_t last) {
    fmt::print("seeds {} to {}, without {}\n", first, last - 1,
               fmt::join(leftOut, ", "));
    const auto start = Clock::now();
    uint64_t seed = first;
    for (; seed < last && numFailures < options.maxFailures; ++seed) {
      const std::chrono::duration<double> passed = Clock::now() - start;
      if (options.minutes > 0 && passed.count() > 60 * options.minutes)
        break;
      runSeed(seed);
    }
    const std::chrono::duration<double> passed = Clock::now() - start;
    fmt::print("{} seeds in {:.0f} s, {} failures\n", seed - first,
               passed.count(), numFailures);
    for (const auto &[stage, seeds] : stages)
      fmt::print("  {}: seeds {}\n", stage, fmt::join(seeds, ", "));
    return numFailures == 0 ? 0 : 1;
  }

private:
  std::vector<meshc::test::Layout> draw(const Case &item) const {
    std::vector<meshc::test::Layout> layouts;
    for (int i = 0; i < options.layouts; ++i)
      layouts.push_back(drawLayout(
          item.tree, meshes[(item.seed + uint64_t(i) * 3) % std::size(meshes)],
          item.seed + uint64_t(i)));
    return layouts;
  }

  /// The kinds of devices in turns, and with each the precisions in turns.
  std::optional<DeviceSetting> chooseDevices(uint64_t seed) const {
    const auto every = uint64_t(options.deviceEvery);
    if (leftOut.contains("kernels") || seed % every != 0)
      return std::nullopt;
    const uint64_t turn = seed / every, kinds = options.devices.size();
    DeviceSetting setting;
    setting.kind = DeviceKind(
        std::ranges::find(getDeviceKinds(), options.devices[turn % kinds]) -
        getDeviceKinds().begin());
    const std::string &name =
        options.precisions[turn / kinds % options.precisions.size()];
    for (Precision precision : precisions)
      if (name == getName(precision))
        setting.precision = precision;
    // Some of what is larger, and nearly all.
    constexpr std::optional<int64_t> tiles[] = {std::nullopt, 1024, 64};
    if (!leftOut.contains("tiles"))
      setting.tileBytes = tiles[turn / kinds % std::size(tiles)];
    return setting;
  }

  void runSeed(uint64_t seed) {
    Checks checks;
    checks.devices = chooseDevices(seed);
    Case item = makeCase(seed, leftOut, checks.getPrecision());
    if (options.shows)
      fmt::print("{}\n", describe(item));
    checks.draw = [&] { return draw(item); };
    Failure failure =
        options.stays ? fuzz::run(item, checks) : runIsolated(item, checks);
    if (!failure)
      return;
    ++numFailures;
    fmt::print("\nseed {}: {}\n{}\n", seed, failure.stage, failure.message);
    std::fflush(stdout);
    const bool isFirst = stages[failure.stage].empty();
    stages[failure.stage].push_back(seed);
    if (options.reduceAttempts == 0)
      return;
    checks.draw = nullptr;
    if (!isOfWhole(failure))
      item.layouts = draw(item);
    // Further ones of a stage in fewer runs: they may be the same.
    const Case reduced =
        reduce(item, failure, checks,
               isFirst ? options.reduceAttempts : options.reduceAttempts / 2);
    const Failure again = runIsolated(reduced, checks);
    fmt::print("reduced:\n{}{}: {}\n", describe(reduced), again.stage,
               again.message);
    std::fflush(stdout);
  }

  const Options &options;
  Kinds leftOut;
  int numFailures = 0;
  std::map<std::string, std::vector<uint64_t>> stages;
};

} // namespace

/// "A..B" or "A" as the first seed and the one behind the last; nothing where
/// that is no range with a seed in it.
static std::optional<std::pair<uint64_t, uint64_t>>
parseSeeds(std::string_view text) {
  auto parse = [](std::string_view digits) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const char *end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && rest == end ? std::optional(value)
                                               : std::nullopt;
  };
  const size_t dots = text.find("..");
  const std::optional<uint64_t> first = parse(text.substr(0, dots));
  std::optional<uint64_t> last;
  if (dots != std::string_view::npos)
    last = parse(text.substr(dots + 2));
  else if (first)
    last = *first + 1;
  if (!first || !last || *first >= *last)
    return std::nullopt;
  return std::pair(*first, *last);
}

int main(int argc, char **argv) {
  Options options;
  bool listsKinds = false;
  CLI::App app("Random specs, compiled and run, against what they mean.");
  app.add_option("--seeds", options.seeds, "A..B: from A to below B; or one");
  app.add_option("--minutes", options.minutes, "stop after that long");
  std::vector<std::string> names;
  for (const Kind &kind : getKinds())
    names.emplace_back(kind.name);
  app.add_option("--without", options.without, "kinds to leave out")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_flag("--show", options.shows, "print every spec with its layouts");
  app.add_flag("--no-fork", options.stays,
               "run in this process, for a debugger");
  app.add_flag("--kinds", listsKinds, "list the kinds and end");
  app.add_option("--layouts", options.layouts, "for each spec");
  app.add_option("--device-every", options.deviceEvery,
                 "run kernels of every so-many-th spec")
      ->check(CLI::PositiveNumber);
  app.add_option("--devices", options.devices,
                 "of these kinds, in turns: cpus, cpu-ranks, gpu, gpu-ranks")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(getDeviceKinds().begin(),
                                                     getDeviceKinds().end())));
  app.add_option("--precisions", options.precisions,
                 "in these, in turns: f32, bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16", "fp16"}));
  app.add_option("--reduce", options.reduceAttempts,
                 "runs to reduce a failure; 0: as it is");
  app.add_option("--failures", options.maxFailures, "stop after so many");
  CLI11_PARSE(app, argc, argv);
  if (listsKinds) {
    for (const Kind &kind : getKinds())
      fmt::print("{:<18} {}\n", kind.name, kind.meaning);
    return 0;
  }
  const auto seeds = parseSeeds(options.seeds);
  if (!seeds) {
    fmt::print(stderr, "--seeds {}: expected A..B, with A below B, or one\n",
               options.seeds);
    return 2;
  }
  return Fuzz(options).run(seeds->first, seeds->second);
}
