#include "Environment.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace meshc::emulation;

namespace {

[[noreturn]] void refuse(const char *variable, std::string_view text,
                         const char *expected) {
  std::fprintf(stderr, "meshc emulation: %s is '%.*s', expected %s\n", variable,
               static_cast<int>(text.size()), text.data(), expected);
  std::_Exit(2);
}

template <class Number> bool parse(std::string_view text, Number &number) {
  const char *end = text.data() + text.size();
  auto [stop, status] = std::from_chars(text.data(), end, number);
  return status == std::errc() && stop == end;
}

template <class Number>
void readVariable(const char *variable, Number &number) {
  const char *text = std::getenv(variable);
  if (text && !parse(text, number))
    refuse(variable, text, "a number");
}

void readVariable(const char *variable, std::string &value) {
  if (const char *text = std::getenv(variable))
    value = text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

void readVariable(const char *variable, RankCall &call) {
  const char *text = std::getenv(variable);
  if (!text)
    return;
  auto parts = split(text, ':');
  if (parts.size() != 2 || !parse(parts[0], call.rank) ||
      !parse(parts[1], call.call))
    refuse(variable, text, "'RANK:CALL'");
}

void readVariable(const char *variable, SplitSums &sums) {
  const char *text = std::getenv(variable);
  if (!text)
    return;
  auto parts = split(text, ':');
  if (parts.size() != 2 || !parse(parts[0], sums.splits) || sums.splits < 1 ||
      !parse(parts[1], sums.algorithms))
    refuse(variable, text, "'SPLITS:ALGORITHMS'");
}

void readArchitecture(Environment &environment) {
  const char *text = std::getenv("MESHC_EMULATION_ARCH");
  if (!text)
    return;
  auto parts = split(text, '.');
  if (parts.size() != 2 || !parse(parts[0], environment.major) ||
      !parse(parts[1], environment.minor))
    refuse("MESHC_EMULATION_ARCH", text, "'MAJOR.MINOR'");
}

/// As the driver: numbers up to the first that is no device's.
void readVisible(Environment &environment) {
  const char *text = std::getenv("CUDA_VISIBLE_DEVICES");
  for (int device = 0; device < environment.devices && !text; ++device)
    environment.visible.push_back(device);
  for (std::string_view entry :
       text ? split(text, ',') : std::vector<std::string_view>()) {
    int device;
    if (!parse(entry, device) || device < 0 || device >= environment.devices)
      break;
    environment.visible.push_back(device);
  }
  environment.devices = static_cast<int>(environment.visible.size());
}

/// Numbers, none of them negative.
void readVariable(const char *variable, std::vector<int> &numbers) {
  const char *text = std::getenv(variable);
  for (std::string_view entry :
       text ? split(text, ',') : std::vector<std::string_view>()) {
    int number;
    if (!parse(entry, number) || number < 0)
      refuse(variable, text, "'NUMBER,...'");
    numbers.push_back(number);
  }
}

void readFailures(Environment &environment) {
  const char *text = std::getenv("MESHC_EMULATION_FAIL");
  if (!text)
    return;
  for (std::string_view entry : split(text, ',')) {
    auto parts = split(entry, ':');
    Failure failure;
    if (parts.size() != 3 || !parse(parts[1], failure.call) ||
        !parse(parts[2], failure.code))
      refuse("MESHC_EMULATION_FAIL", text, "'FUNCTION:CALL:CODE,...'");
    failure.function = parts[0];
    environment.failures.push_back(failure);
  }
}

} // namespace

const Environment &meshc::emulation::getEnvironment() {
  static const Environment *environment = [] {
    auto *read = new Environment;
    readVariable("MESHC_EMULATION_DEVICES", read->devices);
    readVariable("MESHC_EMULATION_MEMORY", read->memoryBytes);
    readVariable("MESHC_EMULATION_DRIVER", read->driverVersion);
    readVariable("MESHC_EMULATION_CUBLASLT", read->blasLtVersion);
    readVariable("MESHC_EMULATION_NCCL", read->ncclVersion);
    readVariable("MESHC_EMULATION_NCCL_MEMORY", read->ncclBytes);
    readVariable("MESHC_EMULATION_NAME", read->name);
    readVariable("MESHC_EMULATION_SEED", read->seed);
    readVariable("MESHC_EMULATION_LOG", read->log);
    readVariable("MESHC_EMULATION_DROP_WAIT", read->dropWait);
    readVariable("MESHC_EMULATION_SHIFT_OFFSET", read->shiftOffset);
    readVariable("MESHC_EMULATION_SWAP_COLLECTIVES", read->swapCollectives);
    readVariable("MESHC_EMULATION_KILL", read->kill);
    readVariable("MESHC_EMULATION_NETWORK_ERROR", read->networkError);
    readVariable("MESHC_EMULATION_HANG", read->hang);
    readVisible(*read);
    readArchitecture(*read);
    readVariable("MESHC_EMULATION_MATMUL_TIMES", read->matmulTimes);
    readVariable("MESHC_EMULATION_MATMUL_LAUNCH_TIMES",
                 read->matmulLaunchTimes);
    readVariable("MESHC_EMULATION_MATMUL_NOISE", read->matmulNoise);
    readVariable("MESHC_EMULATION_MISSING_EPILOGUES", read->missingEpilogues);
    readVariable("MESHC_EMULATION_MISSING_BATCHES", read->missingBatches);
    readVariable("MESHC_EMULATION_MISSING_STATUS", read->missingStatus);
    readVariable("MESHC_EMULATION_SPLIT_SUMS", read->splitSums);
    readFailures(*read);
    return read;
  }();
  return *environment;
}
