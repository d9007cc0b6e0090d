#include "runtime/ranks/Ranks.h"

#include "runtime/io/Escape.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/ranks/Handshake.h"
#include "runtime/ranks/StoreClient.h"
#include "runtime/ranks/StoreMessage.h"
#include "runtime/ranks/StoreServer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// Rank 0 may be about to find the same error by itself: one that another rank
/// has reported, or one of the connections to a rank that is lost.
static constexpr double ownErrorSeconds = 1;
static constexpr double lostRankSeconds = 0.2;
/// For rank 0 to report before a launcher that has seen another rank end kills
/// it.
static constexpr double reportSeconds = 5;
/// For the store to notice what a connection has shown.
static constexpr double noticeSeconds = 2;
/// Between the turns of ranks to say that another one is lost: longer than one
/// may notice it later than another (2 s, see StoreClient::read) and mpirun
/// takes to kill the others (1 s after SIGTERM, its odls_base_sigkill_timeout).
static constexpr double turnSeconds = 4;
/// So that not each of many waits for all before it.
static constexpr int64_t maxTurns = 2;
/// For the others to come to the same place: they may load data, or compute.
static constexpr double agreeSeconds = 600;

// The colours of GCC and Clang, where messages are coloured.
static constexpr const char *red = "31", *magenta = "35", *cyan = "36";

/// "meshc: WORD: text" and the end of the line.
static std::string getLine(const std::string &word, const char *color,
                           std::string_view text) {
  const std::string escaped = escapeForTerminal(text);
  return colorsMessages() ? fmt::format("meshc: \x1b[1;{}m{}:\x1b[0m {}\n",
                                        color, word, escaped)
                          : fmt::format("meshc: {}: {}\n", word, escaped);
}

void runtime::printError(const Error &error) {
  std::string text = getLine(fmt::format("error[MR{:04}]", int(error.code)),
                             red, error.message);
  if (!error.note.empty())
    text += getLine("note", cyan, error.note);
  printMessage(text);
}

void runtime::printWarning(std::string_view text) {
  printMessage(getLine("warning", magenta, text));
}

void runtime::printNote(std::string_view text) {
  printMessage(getLine("note", cyan, text));
}

Ranks::Ranks(RankIdentity identity, RanksOptions options)
    : identity(std::move(identity)), joinSeconds(options.joinSeconds),
      silenceSeconds(options.silenceSeconds),
      failureCallback(std::move(options.onFailure)),
      stopCallback(std::move(options.onStop)) {}

Ranks::~Ranks() = default;

std::string Ranks::getHost() const {
  return client ? client->getLocalAddress().host : "127.0.0.1";
}

Result<std::unique_ptr<Ranks>> Ranks::connect(RankIdentity identity,
                                              RanksOptions options) {
  std::unique_ptr<Ranks> ranks(
      new Ranks(std::move(identity), std::move(options)));
  const RankIdentity &self = ranks->identity;
  if (self.ranks == 1)
    return ranks;
  if (self.store.host.empty())
    return Error{
        ErrorCode::WrongRanks,
        fmt::format("{} does not tell where rank 0 is", getName(self.source)),
        "set MASTER_ADDR and MASTER_PORT, or give --rank, --ranks and --store"};
  if (!self.key.isGiven() && !isLoopback(self.store).value_or(true))
    return getNoKey(self.store);
  if (self.rank == 0) {
    Socket listener(self.listener);
    if (!listener.isOpen()) {
      Result<Socket> opened = listenOn(self.store);
      if (!opened)
        return opened.getError();
      listener = std::move(*opened);
    }
    if (isWildcard(getLocalAddress(listener)))
      printWarning(
          fmt::format("{} stands for every network of this machine; give the "
                      "one address by which the other ranks reach it",
                      toString(self.store)));
    ranks->server = std::make_unique<StoreServer>(
        std::move(listener),
        StoreServer::Options{self.ranks, self.job, ranks->silenceSeconds,
                             self.key, self.endings, printNote,
                             ranks->stopCallback});
  }
  // Until all are there, whoever is stopped has the time to go on.
  Result<std::unique_ptr<StoreClient>> client = StoreClient::connect(
      self, getDeadline(ranks->joinSeconds), ranks->joinSeconds,
      [ranks = ranks.get()](StoreClient &caller, const Error &error,
                            bool isOver) {
        ranks->onFailure(caller, error, isOver);
      });
  if (!client)
    return client.getError();
  ranks->client = std::move(*client);
  ranks->store = ranks->client.get();
  return ranks;
}

Status Ranks::start() {
  Status all = store->barrier(StoreServer::startBarrier, joinSeconds);
  if (all && client)
    client->setSilence(silenceSeconds);
  return all && identity.localRank < 0 ? findLocalRank() : all;
}

Status Ranks::findLocalRank() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string host = name.data();
  auto getKey = [](int64_t rank) { return fmt::format("host/{}", rank); };
  Status set = store->set(getKey(identity.rank), host);
  identity.localRank = identity.localRanks = 0;
  for (int64_t rank = 0; rank < identity.ranks && set; ++rank) {
    Result<std::string> other = store->get(getKey(rank), joinSeconds);
    if (!other)
      return other.getError();
    if (*other != host)
      continue;
    identity.localRank += rank < identity.rank;
    ++identity.localRanks;
  }
  return set;
}

Status Ranks::agree(const Agreements &items) {
  if (!client)
    return Status::success();
  const std::string stage = fmt::format("agree/{}", numAgreements++);
  auto getKey = [&](int64_t rank) { return fmt::format("{}/{}", stage, rank); };
  auto write = [](const Agreements &list) {
    MessageWriter writer(StoreMessage::Set, 0);
    writer.number(list.size());
    for (const auto &[name, value] : list)
      writer.text(name).text(value);
    return writer.finish().substr(4);
  };
  Status set = store->set(getKey(identity.rank), write(items));
  if (!set)
    return set;
  const std::string verdictKey = stage + "/verdict";
  if (!isFirst()) {
    Result<std::string> verdict = store->get(verdictKey, agreeSeconds);
    if (!verdict)
      return verdict.getError();
    MessageReader reader(*verdict);
    Error error = reader.error();
    return error.message.empty() ? Status::success() : Status(error);
  }

  // By item, and by what the ranks have instead.
  std::vector<std::vector<int64_t>> differing(items.size());
  std::vector<std::string> found(items.size());
  for (int64_t rank = 1; rank < identity.ranks; ++rank) {
    Result<std::string> text = store->get(getKey(rank), agreeSeconds);
    if (!text)
      return text.getError();
    MessageReader reader(*text);
    std::map<std::string, std::string> others;
    for (uint64_t count = reader.number(); count > 0 && reader.isValid();
         --count) {
      std::string name = reader.text();
      others[std::move(name)] = reader.text();
    }
    for (size_t i = 0; i < items.size(); ++i) {
      auto other = others.find(items[i].first);
      const std::string value = other == others.end() ? "" : other->second;
      if (value == items[i].second)
        continue;
      if (differing[i].empty())
        found[i] = value;
      differing[i].push_back(rank);
    }
  }
  Error error;
  for (size_t i = 0; i < items.size() && error.message.empty(); ++i) {
    if (differing[i].empty())
      continue;
    const bool isOne = differing[i].size() == 1;
    error = {ErrorCode::RanksDiffer,
             fmt::format("{} and rank 0 differ in {}", listRanks(differing[i]),
                         items[i].first),
             fmt::format("rank 0 has '{}', {} '{}'", items[i].second,
                         isOne ? listRanks(differing[i])
                               : listRanks({differing[i][0]}),
                         found[i])};
  }
  Status told = store->set(
      verdictKey,
      MessageWriter(StoreMessage::Error, 0).error(error).finish().substr(4));
  if (!told)
    return told;
  return error.message.empty() ? Status::success() : Status(error);
}

Status Ranks::check() const {
  const std::optional<Error> failure =
      client ? client->waitForFailure(getDeadline(0)) : std::nullopt;
  return failure ? Status(*failure) : Status::success();
}

Status Ranks::finish() {
  Status all = store->barrier(StoreServer::endBarrier, agreeSeconds);
  if (!all)
    return all;
  // Nothing that comes now changes how the run has ended. A thread that wanted
  // to end it is told so, and gives way.
  beginEnd();
  if (!client)
    return Status::success();
  client->leave();
  client.reset();
  store = &localStore;
  // The others have arrived, and have only to leave.
  if (server)
    server->waitForEnd(getDeadline(reportSeconds));
  server.reset();
  return Status::success();
}

void Ranks::beginEnd() {
  while (isEnding.exchange(true))
    isEnding.wait(true);
}

void Ranks::giveWay() {
  isEnding = false;
  isEnding.notify_all();
}

/// Whether another launcher than our own ends all ranks where one has ended in
/// error, so that they say one by one what each finds by itself.
static bool takesTurns(const RankIdentity &identity) {
  return identity.source != RankSource::Flags &&
         identity.source != RankSource::Launcher;
}

void runtime::waitForTurn(const RankIdentity &identity, bool isLast) {
  if (!takesTurns(identity))
    return;
  const int64_t turn =
      isLast ? maxTurns : std::clamp<int64_t>(identity.rank - 1, 0, maxTurns);
  std::this_thread::sleep_for(double(turn) *
                              std::chrono::duration<double>(turnSeconds));
}

void Ranks::printLost(const Error &error, bool wasStopped,
                      const std::function<void(const Error &)> &print) {
  // The own launcher sees rank 0 end, and why.
  if (!isFirst() && identity.source == RankSource::Launcher)
    return;
  if (takesTurns(identity)) {
    speechlessCode = int(getExitCode(error.code));
    waitForTurn(identity, wasStopped);
    speechlessCode = 0;
  }
  print(error);
}

void Ranks::waitForOwnEnd(double seconds) const {
  for (const Deadline deadline = getDeadline(seconds);
       !isEnding && getSecondsUntil(deadline) > 0;)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void Ranks::onFailure(StoreClient &caller, const Error &error, bool isOver) {
  if (failureCallback)
    return failureCallback(error);
  if (isFirst())
    waitForOwnEnd(error.code == ErrorCode::RankLost ? lostRankSeconds
                                                    : ownErrorSeconds);
  if (isEnding.exchange(true))
    return;
  const bool wasStopped =
      (server && server->wasStopped()) || caller.wasStopped();
  if (wasStopped || (isOver && !isFirst()))
    printLost(error, wasStopped, printError);
  else if (isFirst())
    printError(error);
  if (!isFirst() && !isOver)
    caller.waitForServer(getDeadline(reportSeconds));
  _exit(int(getExitCode(error.code)));
}

/// What says by itself whom it is about.
static bool isOfTheRun(ErrorCode code) {
  switch (code) {
  case ErrorCode::RankLost:
  case ErrorCode::RanksDiffer:
  case ErrorCode::Interrupted:
  case ErrorCode::Terminated:
  case ErrorCode::HungUp:
    return true;
  default:
    return false;
  }
}

std::optional<int>
Ranks::tryEnd(const Error &error,
              const std::function<void(const Error &)> &print) {
  if (isEnding.exchange(true)) {
    const int code = speechlessCode;
    return code ? std::optional<int>(code) : std::nullopt;
  }
  if (tell(error, print))
    return int(getExitCode(error.code));
  giveWay();
  return std::nullopt;
}

bool Ranks::tell(const Error &error,
                 const std::function<void(const Error &)> &print) {
  if (!client) {
    print(error);
    return true;
  }
  Error told = error;
  if (!isFirst() && !isOfTheRun(error.code))
    told.message = fmt::format("rank {}: {}", identity.rank, error.message);
  const auto isTold = client->fail(told, getDeadline(reportSeconds));
  if (isTold == StoreClient::Told::Ended)
    return false;
  if (!isFirst() && isTold == StoreClient::Told::Yes) {
    client->waitForServer(getDeadline(reportSeconds));
    return true;
  }
  // This is rank 0, or that one has not taken it, so that it says nothing. A
  // launcher that ends one that was stopped has it go on first, with SIGTERM.
  const bool wasStopped =
      (server && server->wasStopped()) || client->wasStopped();
  // Where rank 0 is gone, one that was about to end all with it says no more.
  const bool isFound = !isFirst() && (error.code == ErrorCode::RankLost ||
                                      isTold == StoreClient::Told::Gone);
  if (wasStopped || isFound)
    printLost(told, wasStopped, print);
  else
    print(told);
  return true;
}

int Ranks::end(const Error &found,
               const std::function<void(const Error &)> &print) {
  // A connection that breaks says less than the store, which hears of it at
  // about the same time.
  Error error = found;
  if (client && (found.code == ErrorCode::RankLost ||
                 found.code == ErrorCode::CommunicationFailed))
    error = client->waitForFailure(getDeadline(noticeSeconds)).value_or(found);
  beginEnd();
  // What went wrong here after all was well is this rank's alone.
  if (!tell(error, print))
    print(error);
  return int(getExitCode(error.code));
}

void Ranks::requestStop(int signal) {
  if (const int code = speechlessCode)
    _exit(code);
  if (client)
    client->requestStop(signal);
}
