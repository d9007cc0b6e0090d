#include "runtime/ranks/RankIdentity.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// torchrun's, too.
static constexpr uint16_t defaultPort = 29500;

const char *runtime::getName(RankSource source) {
  switch (source) {
  case RankSource::Flags:
    return "flags";
  case RankSource::Launcher:
    return "own launcher";
  case RankSource::Torchrun:
    return "torchrun";
  case RankSource::OpenMpi:
    return "Open MPI";
  case RankSource::Hydra:
    return "Hydra";
  case RankSource::Slurm:
    return "Slurm";
  case RankSource::Single:
    return "single process";
  }
  __builtin_unreachable();
}

std::string runtime::toString(const RankIdentity &identity) {
  return fmt::format("rank {} of {} ({})", identity.rank, identity.ranks,
                     getName(identity.source));
}

static Error getError(std::string message, std::string note = "") {
  return {ErrorCode::WrongRanks, std::move(message), std::move(note)};
}

static std::optional<int64_t> parseNumber(std::string_view text) {
  int64_t value;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0)
    return std::nullopt;
  return value;
}

namespace {

/// Reads variables and keeps the first thing that is wrong with them.
class Variables {
public:
  explicit Variables(const Environment &environment)
      : environment(environment) {}

  bool isSet(const char *name) const { return environment(name) != nullptr; }
  std::string getText(const char *name) const {
    const char *text = environment(name);
    return text ? text : "";
  }
  /// A count that must be there.
  int64_t getNumber(const char *name) {
    const char *text = environment(name);
    if (!text) {
      fail(fmt::format("{} is not set, although {} is", name, witness));
      return 0;
    }
    std::optional<int64_t> value = parseNumber(text);
    if (!value)
      fail(fmt::format("{}: expected an integer of 0 or more, found '{}'", name,
                       text));
    return value.value_or(0);
  }
  int64_t getNumber(const char *name, int64_t otherwise) {
    return isSet(name) ? getNumber(name) : otherwise;
  }
  /// Whether one of these is set; it is named where another one is missing.
  bool hasOneOf(std::initializer_list<const char *> names) {
    for (const char *name : names)
      if (isSet(name)) {
        witness = name;
        return true;
      }
    return false;
  }
  void fail(std::string message) {
    if (!error)
      error = getError(std::move(message));
  }

  std::optional<Error> error;

private:
  const Environment &environment;
  const char *witness = "";
};

} // namespace

std::string runtime::getFirstHost(const std::string &nodeList) {
  const size_t end = nodeList.find_first_of(",[");
  std::string host = nodeList.substr(0, end);
  if (end == std::string::npos || nodeList[end] == ',')
    return host;
  const size_t numberEnd = nodeList.find_first_of("-,]", end);
  if (numberEnd == std::string::npos)
    return "";
  host += nodeList.substr(end + 1, numberEnd - end - 1);
  const size_t close = nodeList.find(']', numberEnd);
  if (close == std::string::npos)
    return "";
  return host +
         nodeList.substr(close + 1, nodeList.find(',', close) - close - 1);
}

/// Tasks on the node of this number, in Slurm's notation: "2(x3),1".
static int64_t getSlurmTasks(const std::string &text, int64_t node) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part =
        std::string_view(text).substr(begin, end - begin);
    const size_t open = part.find("(x");
    std::optional<int64_t> tasks = parseNumber(part.substr(0, open));
    std::optional<int64_t> repeat = 1;
    if (open != std::string_view::npos)
      repeat = part.back() == ')'
                   ? parseNumber(part.substr(open + 2, part.size() - open - 3))
                   : std::nullopt;
    if (!tasks || !repeat)
      return -1;
    if (node < *repeat)
      return *tasks;
    node -= *repeat;
    begin = end + 1;
  }
  return -1;
}

/// A port that the processes of a job agree on without talking: below the
/// range that systems give to clients.
static uint16_t getJobPort(std::string_view job) {
  uint32_t hash = 2166136261; // FNV-1a
  for (unsigned char c : job)
    hash = (hash ^ c) * 16777619;
  return uint16_t(20000 + hash % 12000);
}

static void readMasterAddress(Variables &variables, RankIdentity &identity) {
  identity.store.host = variables.getText("MASTER_ADDR");
  if (identity.store.host.empty())
    variables.fail("MASTER_ADDR: expected a host, found ''");
  const int64_t port = variables.getNumber("MASTER_PORT", defaultPort);
  if (port < 1 || port > 65535)
    variables.fail(fmt::format("MASTER_PORT: expected 1 to 65535, found {}",
                               variables.getText("MASTER_PORT")));
  identity.store.port = uint16_t(port);
}

static void readTorchrun(Variables &variables, RankIdentity &identity) {
  identity.rank = variables.getNumber("RANK");
  identity.ranks = variables.getNumber("WORLD_SIZE");
  identity.localRank = variables.getNumber("LOCAL_RANK", -1);
  identity.localRanks = variables.getNumber("LOCAL_WORLD_SIZE", -1);
  identity.job = variables.getText("TORCHELASTIC_RUN_ID") + ":" +
                 variables.getText("TORCHELASTIC_RESTART_COUNT");
  if (identity.ranks <= 1)
    return;
  if (!variables.isSet("MASTER_ADDR"))
    variables.fail("MASTER_ADDR is not set, although RANK is");
  readMasterAddress(variables, identity);
  // torchrun's agent listens on the port itself then.
  if (variables.getText("TORCHELASTIC_USE_AGENT_STORE") == "True" &&
      identity.store.port < 65535)
    ++identity.store.port;
}

static void readSlurmAddress(Variables &variables, RankIdentity &identity) {
  identity.store.host = getFirstHost(variables.getText("SLURM_STEP_NODELIST"));
  if (identity.store.host.empty())
    variables.fail(fmt::format("SLURM_STEP_NODELIST: expected a list of hosts, "
                               "found '{}'",
                               variables.getText("SLURM_STEP_NODELIST")));
  identity.store.port = getJobPort(identity.job);
}

static std::string getSlurmJob(const Variables &variables) {
  return variables.getText("SLURM_JOB_ID") + "." +
         variables.getText("SLURM_STEP_ID");
}

/// For launchers that give no address: MASTER_ADDR, or where Slurm's list
/// begins, or this machine if there is no other. Else it is left empty.
static void findAddress(Variables &variables, RankIdentity &identity) {
  if (identity.ranks <= 1)
    return;
  if (variables.isSet("MASTER_ADDR")) {
    readMasterAddress(variables, identity);
  } else if (variables.isSet("SLURM_STEP_NODELIST")) {
    identity.job = getSlurmJob(variables);
    readSlurmAddress(variables, identity);
  } else if (identity.localRanks == identity.ranks) {
    identity.store = {"127.0.0.1", getJobPort(identity.job)};
  }
}

static void readOpenMpi(Variables &variables, RankIdentity &identity) {
  identity.rank = variables.getNumber("OMPI_COMM_WORLD_RANK");
  identity.ranks = variables.getNumber("OMPI_COMM_WORLD_SIZE");
  identity.localRank = variables.getNumber("OMPI_COMM_WORLD_LOCAL_RANK", -1);
  identity.localRanks = variables.getNumber("OMPI_COMM_WORLD_LOCAL_SIZE", -1);
  identity.job = variables.getText("PMIX_NAMESPACE") + ":" +
                 variables.getText("OMPI_MCA_ess_base_jobid");
  findAddress(variables, identity);
}

static void readHydra(Variables &variables, RankIdentity &identity) {
  identity.rank = variables.getNumber("PMI_RANK");
  identity.ranks = variables.getNumber("PMI_SIZE");
  identity.localRank = variables.getNumber("MPI_LOCALRANKID", -1);
  identity.localRanks = variables.getNumber("MPI_LOCALNRANKS", -1);
  // Hydra names no job, but its proxy is the parent of all on one machine.
  identity.job = fmt::format("hydra {}", getppid());
  findAddress(variables, identity);
  if (identity.localRanks != identity.ranks)
    identity.job = "hydra";
}

static void readSlurm(Variables &variables, RankIdentity &identity) {
  identity.rank = variables.getNumber("SLURM_PROCID");
  identity.ranks = variables.getNumber("SLURM_NTASKS");
  identity.localRank = variables.getNumber("SLURM_LOCALID", -1);
  identity.localRanks = -1;
  if (variables.isSet("SLURM_TASKS_PER_NODE")) {
    identity.localRanks =
        getSlurmTasks(variables.getText("SLURM_TASKS_PER_NODE"),
                      variables.getNumber("SLURM_NODEID", 0));
    if (identity.localRanks < 0)
      variables.fail(
          fmt::format("SLURM_TASKS_PER_NODE: expected tasks of node {}, "
                      "found '{}'",
                      variables.getNumber("SLURM_NODEID", 0),
                      variables.getText("SLURM_TASKS_PER_NODE")));
  }
  identity.job = getSlurmJob(variables);
  if (identity.ranks <= 1)
    return;
  if (variables.isSet("MASTER_ADDR"))
    readMasterAddress(variables, identity);
  else
    readSlurmAddress(variables, identity);
}

static void readLauncher(Variables &variables, RankIdentity &identity) {
  identity.rank = variables.getNumber("MESHC_RANK");
  identity.ranks = variables.getNumber("MESHC_RANKS");
  identity.localRank = identity.rank;
  identity.localRanks = identity.ranks;
  identity.listener = int(variables.getNumber("MESHC_STORE_LISTENER", -1));
  identity.endings = int(variables.getNumber("MESHC_ENDINGS", -1));
  Result<Address> store =
      parseAddress("MESHC_STORE", variables.getText("MESHC_STORE"));
  if (store)
    identity.store = *store;
  else
    variables.fail(store.getError().message);
}

static Result<RankIdentity> readFlags(const RankFlags &flags) {
  if (!flags.rank || !flags.ranks || flags.store.empty())
    return getError(fmt::format("{} is missing", !flags.rank    ? "--rank"
                                                 : !flags.ranks ? "--ranks"
                                                                : "--store"),
                    "a process that is told its rank needs --rank, --ranks and "
                    "--store HOST:PORT");
  Result<Address> store = parseAddress("--store", flags.store);
  if (!store)
    return store.getError();
  RankIdentity identity;
  identity.source = RankSource::Flags;
  identity.rank = *flags.rank;
  identity.ranks = *flags.ranks;
  identity.localRank = identity.localRanks = -1;
  identity.store = *store;
  return identity;
}

/// The key of the run: the own launcher has made one for its ranks, and nothing
/// is read from a file then.
static Result<RankKey> readKey(const RankFlags &flags, RankSource source,
                               const Environment &environment) {
  if (!flags.storeKey.empty() && source != RankSource::Launcher)
    return RankKey::fromFile(flags.storeKey);
  const char *text = environment(storeKeyVariable);
  return text ? RankKey::fromText(storeKeyVariable, text) : RankKey();
}

/// Whether the numbers of a source agree with each other.
static Status checkNumbers(const RankIdentity &identity) {
  const char *source = getName(identity.source);
  // More than any machine room has, and small enough for all arithmetic.
  constexpr int64_t maxRanks = 1 << 20;
  if (identity.ranks < 1 || identity.ranks > maxRanks)
    return getError(fmt::format("{}: expected 1 to {} ranks, found {}", source,
                                maxRanks, identity.ranks));
  if (identity.rank < 0 || identity.rank >= identity.ranks)
    return getError(fmt::format("{}: there is no rank {} of {}", source,
                                identity.rank, identity.ranks));
  const bool hasLocal = identity.localRank >= 0 && identity.localRanks >= 0;
  if (hasLocal && (identity.localRank >= identity.localRanks ||
                   identity.localRanks > identity.ranks ||
                   identity.localRank > identity.rank))
    return getError(fmt::format("{}: local rank {} of {} contradicts rank {} "
                                "of {}",
                                source, identity.localRank, identity.localRanks,
                                identity.rank, identity.ranks));
  return Status::success();
}

Result<RankIdentity> runtime::detectRank(const RankFlags &flags,
                                         const Environment &environment) {
  RankIdentity identity;
  Variables variables(environment);
  auto use = [&](RankSource source, void (*read)(Variables &, RankIdentity &)) {
    identity.source = source;
    read(variables, identity);
  };
  if (flags.rank || flags.ranks || !flags.store.empty()) {
    Result<RankIdentity> given = readFlags(flags);
    if (!given)
      return given;
    identity = *given;
  } else if (variables.hasOneOf({"MESHC_RANK", "MESHC_RANKS"})) {
    use(RankSource::Launcher, readLauncher);
  } else if (variables.hasOneOf({"RANK", "WORLD_SIZE"})) {
    use(RankSource::Torchrun, readTorchrun);
  } else if (variables.hasOneOf(
                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) {
    use(RankSource::OpenMpi, readOpenMpi);
  } else if (variables.hasOneOf({"PMI_RANK", "PMI_SIZE"})) {
    use(RankSource::Hydra, readHydra);
  } else if (variables.hasOneOf({"SLURM_STEP_NODELIST"}) &&
             variables.isSet("SLURM_PROCID")) {
    // A batch script has SLURM_PROCID too, without being one of several.
    use(RankSource::Slurm, readSlurm);
  }
  if (variables.error)
    return *variables.error;
  Status numbers = checkNumbers(identity);
  if (!numbers)
    return numbers.getError();
  if (identity.ranks == 1) {
    identity.localRank = 0;
    identity.localRanks = 1;
    return identity;
  }
  if (identity.localRank < 0 || identity.localRanks < 0)
    identity.localRank = identity.localRanks = -1;
  Result<RankKey> key = readKey(flags, identity.source, environment);
  if (!key)
    return key.getError();
  identity.key = std::move(*key);
  return identity;
}
