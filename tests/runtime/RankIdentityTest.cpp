/// Who a process is, by what launchers set.

#include "runtime/ranks/RankIdentity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

using Variables = std::map<std::string, std::string>;

Result<RankIdentity> detect(const Variables &variables, RankFlags flags = {}) {
  return detectRank(flags, [&](const char *name) -> const char * {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables operator+(Variables left, const Variables &right) {
  for (const auto &[name, value] : right)
    left[name] = value;
  return left;
}

const Variables torchrun = {{"RANK", "5"},           {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "head"}, {"MASTER_PORT", "4711"}};
const Variables openMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"PMIX_NAMESPACE", "3105095681"}};
const Variables hydra = {{"PMI_RANK", "1"},
                         {"PMI_SIZE", "2"},
                         {"MPI_LOCALRANKID", "1"},
                         {"MPI_LOCALNRANKS", "2"}};
const Variables slurm = {{"SLURM_PROCID", "4"},
                         {"SLURM_NTASKS", "7"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_TASKS_PER_NODE", "2(x2),3"},
                         {"SLURM_STEP_NODELIST", "node[07-08],big1"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "0"}};
const Variables launcher = {{"MESHC_RANK", "1"},
                            {"MESHC_RANKS", "3"},
                            {"MESHC_STORE_KEY", "0123456789abcdef"},
                            {"MESHC_STORE", "127.0.0.1:555"}};

struct Expected {
  RankSource source;
  int64_t rank, ranks, localRank, localRanks;
  std::string host;
  uint16_t port; ///< 0: any
};

void expectIdentity(const Variables &variables, const Expected &expected,
                    const RankFlags &flags = {}) {
  Result<RankIdentity> found = detect(variables, flags);
  ASSERT_TRUE(found) << found.getError().message;
  EXPECT_EQ(found->source, expected.source);
  EXPECT_EQ(found->rank, expected.rank);
  EXPECT_EQ(found->ranks, expected.ranks);
  EXPECT_EQ(found->localRank, expected.localRank);
  EXPECT_EQ(found->localRanks, expected.localRanks);
  EXPECT_EQ(found->store.host, expected.host);
  if (expected.port != 0)
    EXPECT_EQ(found->store.port, expected.port);
}

TEST(RankIdentityTest, each_launcher_is_recognised) {
  expectIdentity({}, {RankSource::Single, 0, 1, 0, 1, "", 0});
  expectIdentity(torchrun, {RankSource::Torchrun, 5, 8, 1, 4, "head", 4711});
  expectIdentity(openMpi, {RankSource::OpenMpi, 2, 4, 2, 4, "127.0.0.1", 0});
  expectIdentity(hydra, {RankSource::Hydra, 1, 2, 1, 2, "127.0.0.1", 0});
  expectIdentity(slurm, {RankSource::Slurm, 4, 7, 0, 3, "node07", 0});
  expectIdentity(launcher,
                 {RankSource::Launcher, 1, 3, 1, 3, "127.0.0.1", 555});
  expectIdentity({}, {RankSource::Flags, 3, 4, -1, -1, "10.0.0.1", 99},
                 {3, 4, "10.0.0.1:99", ""});
}

TEST(RankIdentityTest, the_first_source_in_order_decides) {
  const Variables all = torchrun + openMpi + hydra + slurm + launcher;
  expectIdentity(all, {RankSource::Flags, 0, 2, -1, -1, "::1", 99},
                 {0, 2, "[::1]:99", ""});
  expectIdentity(all, {RankSource::Launcher, 1, 3, 1, 3, "127.0.0.1", 555});
  expectIdentity(torchrun + openMpi + hydra + slurm,
                 {RankSource::Torchrun, 5, 8, 1, 4, "head", 4711});
  EXPECT_EQ(detect(openMpi + hydra + slurm)->source, RankSource::OpenMpi);
  EXPECT_EQ(detect(hydra + slurm)->source, RankSource::Hydra);
}

TEST(RankIdentityTest, addresses_come_from_where_there_are_some) {
  // On several machines Open MPI tells none, unless someone sets it.
  const Variables two =
      openMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(detect(two)->store.host, "");
  EXPECT_EQ(detect(two + Variables{{"MASTER_ADDR", "a"}})->store.host, "a");
  EXPECT_EQ(detect(two + Variables{{"MASTER_ADDR", "a"}})->store.port, 29500);
  EXPECT_EQ(detect(slurm + Variables{{"MASTER_ADDR", "a"}})->store.host, "a");
  // torchrun's agent may have the port.
  EXPECT_EQ(
      detect(torchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}})
          ->store.port,
      4712);
  // Processes of one job agree on a port, those of another have another.
  Variables other = openMpi + Variables{{"OMPI_COMM_WORLD_RANK", "3"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}};
  EXPECT_EQ(detect(other)->store.port, detect(openMpi)->store.port);
  EXPECT_EQ(detect(other)->job, detect(openMpi)->job);
  other["PMIX_NAMESPACE"] = "3105095682";
  EXPECT_NE(detect(other)->store.port, detect(openMpi)->store.port);
  EXPECT_NE(detect(other)->job, detect(openMpi)->job);
}

TEST(RankIdentityTest, a_single_process_needs_no_address) {
  expectIdentity({{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                 {RankSource::Torchrun, 0, 1, 0, 1, "", 0});
  // A batch script of Slurm is not one of its tasks.
  Variables script = slurm;
  script.erase("SLURM_STEP_NODELIST");
  EXPECT_EQ(detect(script)->source, RankSource::Single);
}

TEST(RankIdentityTest, slurm_lists_are_read) {
  EXPECT_EQ(getFirstHost("a"), "a");
  EXPECT_EQ(getFirstHost("a,b"), "a");
  EXPECT_EQ(getFirstHost("n[3,5-7]"), "n3");
  EXPECT_EQ(getFirstHost("n[003-005]-ib,x"), "n003-ib");
  EXPECT_EQ(getFirstHost("n[003-005"), "");
  EXPECT_EQ(getFirstHost("n["), "");
  for (auto [node, tasks] : {std::pair{"0", 2}, {"1", 2}, {"2", 3}})
    EXPECT_EQ(detect(slurm + Variables{{"SLURM_NODEID", node}})->localRanks,
              tasks);
}

struct Wrong {
  Variables variables;
  std::string message;
  RankFlags flags = {};
};

TEST(RankIdentityTest, what_is_malformed_or_contradicts_is_an_error) {
  const Wrong cases[] = {
      {torchrun + Variables{{"RANK", "x"}}, "RANK: expected an integer"},
      {torchrun + Variables{{"RANK", ""}}, "found ''"},
      {torchrun + Variables{{"RANK", "-1"}}, "found '-1'"},
      {torchrun + Variables{{"RANK", "8"}}, "there is no rank 8 of 8"},
      {torchrun + Variables{{"WORLD_SIZE", "0"}}, "found 0"},
      {torchrun + Variables{{"WORLD_SIZE", "99999999999999999999"}},
       "WORLD_SIZE: expected an integer"},
      {torchrun + Variables{{"LOCAL_RANK", "4"}}, "local rank 4 of 4"},
      {torchrun + Variables{{"LOCAL_WORLD_SIZE", "9"}}, "local rank 1 of 9"},
      {torchrun + Variables{{"MASTER_PORT", "0"}}, "MASTER_PORT"},
      {torchrun + Variables{{"MASTER_PORT", "65536"}}, "MASTER_PORT"},
      {torchrun + Variables{{"MASTER_PORT", "12x"}}, "MASTER_PORT"},
      {torchrun + Variables{{"MASTER_ADDR", ""}}, "MASTER_ADDR"},
      {{{"RANK", "1"}}, "WORLD_SIZE is not set, although RANK is"},
      {{{"WORLD_SIZE", "2"}}, "RANK is not set, although WORLD_SIZE is"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR is not set"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, "OMPI_COMM_WORLD_SIZE is not set"},
      {{{"PMI_SIZE", "1"}}, "PMI_RANK is not set"},
      {{{"PMI_RANK", "0"}}, "PMI_SIZE is not set, although PMI_RANK is"},
      {{{"SLURM_STEP_NODELIST", "a"}, {"SLURM_PROCID", "0"}},
       "SLURM_NTASKS is not set, although SLURM_STEP_NODELIST is"},
      {{{"MESHC_RANK", "0"}, {"MESHC_STORE", "a:1"}},
       "MESHC_RANKS is not set, although MESHC_RANK is"},
      {openMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}},
       "Open MPI: local rank 3 of 4 contradicts rank 2 of 4"},
      {slurm + Variables{{"SLURM_TASKS_PER_NODE", "2(x"}},
       "SLURM_TASKS_PER_NODE"},
      {slurm + Variables{{"SLURM_TASKS_PER_NODE", "2"}},
       "SLURM_TASKS_PER_NODE"},
      {slurm + Variables{{"SLURM_STEP_NODELIST", "["}}, "SLURM_STEP_NODELIST"},
      {launcher + Variables{{"MESHC_STORE", "nowhere"}}, "MESHC_STORE"},
      {{}, "--ranks is missing", {0, std::nullopt, "a:1", ""}},
      {{}, "--rank is missing", {std::nullopt, 1, "a:1", ""}},
      {{}, "--store is missing", {0, 1, "", ""}},
      {{}, "there is no rank 2 of 2", {2, 2, "a:1", ""}},
      {{}, "there is no rank -1 of 2", {-1, 2, "a:1", ""}},
      {{}, "expected HOST:PORT, found 'a'", {0, 2, "a", ""}},
      {{}, "expected HOST:PORT, found ':1'", {0, 2, ":1", ""}},
      {{}, "expected HOST:PORT, found 'a:b'", {0, 2, "a:b", ""}},
      {{}, "expected HOST:PORT, found 'a:70000'", {0, 2, "a:70000", ""}},
      {{}, "expected HOST:PORT, found '::1:5'", {0, 2, "::1:5", ""}},
  };
  for (const Wrong &wrong : cases) {
    Result<RankIdentity> found = detect(wrong.variables, wrong.flags);
    ASSERT_FALSE(found) << wrong.message;
    EXPECT_EQ(found.getError().code, ErrorCode::WrongRanks);
    EXPECT_THAT(found.getError().message, HasSubstr(wrong.message));
  }
}

} // namespace
