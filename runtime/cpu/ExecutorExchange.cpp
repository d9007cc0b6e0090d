/// The part of Executor that has to do with other processes.

#include "runtime/cpu/Executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

using Stage = Collective::Stage;

/// The tag of exchange(); those of groups follow.
static constexpr uint32_t readTag = 0;
/// The token of messages that no group waits for.
static constexpr size_t readToken = size_t(-1);

/// The token of messages for a stage of a group; their tag is one more.
static size_t getToken(size_t slot, Stage stage) {
  return slot * Collective::numStages + size_t(stage);
}

static Stage getNext(Stage stage) { return Stage(size_t(stage) + 1); }

Status Executor::createStaging() {
  size_t numGroups = 0;
  uint64_t bytes = 0;
  for (const CommandList &list : lists) {
    numGroups = std::max(numGroups, list.groups.size());
    // Programs do not overlap.
    bytes = std::max(bytes, list.stagingBytes);
  }
  groupJobs.resize(numGroups);
  arrivals.resize(numGroups);
  pendingParts.resize(numGroups);
  if (!transport)
    return Status::success();
  constexpr size_t maxGroups = maxTransportTag / Collective::numStages;
  if (numGroups > maxGroups)
    return Error{ErrorCode::DoesNotFit,
                 fmt::format("a program has {} groups of collectives, between "
                             "processes there can be {}",
                             numGroups, maxGroups),
                 ""};
  Result<Arenas> created = Arenas::create(1, bytes, 0);
  if (!created)
    return created.getError();
  staging = std::move(*created);
  transport->start(*this);
  return Status::success();
}

void Executor::postReceives() {
  std::vector<TransportMessage> messages;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t slot = 0; slot < current->groups.size(); ++slot) {
      const CommandGroup &place = current->groups[slot];
      const Collective &collective =
          *current->commands[place.command].collective;
      pendingParts[slot].fill(1);
      for (Stage stage : {Stage::Combine, Stage::Spread})
        for (const Collective::Message &message :
             collective.getIncoming(place.group, stage)) {
          ++pendingParts[slot][size_t(stage)];
          const size_t token = getToken(slot, stage);
          messages.push_back({message.peer, uint32_t(token + 1),
                              staging.getData(0) + message.offset,
                              message.bytes, token});
        }
    }
  }
  transport->receive(messages);
}

bool Executor::addPart(size_t slot, Stage stage) {
  for (;;) {
    if (--pendingParts[slot][size_t(stage)] > 0)
      return false;
    Job &job = makeGroupJob(slot, stage);
    if (job.count > 0)
      return true;
    if (stage == Stage::Spread) {
      finishJob(job);
      return false;
    }
    stage = getNext(stage);
  }
}

void Executor::finishStage(Job &job, int worker,
                           std::unique_lock<std::mutex> &lock) {
  const size_t slot = job.command->firstGroup + size_t(job.group);
  if (job.stage == Stage::Spread)
    return finishJob(job);
  const Stage next = getNext(job.stage);
  std::vector<TransportMessage> messages;
  for (const Collective::Message &message :
       job.command->collective->getOutgoing(job.group, job.stage)) {
    const size_t token = getToken(slot, next);
    messages.push_back({message.peer, uint32_t(token + 1),
                        staging.getData(0) + message.offset, message.bytes,
                        token});
  }
  unsentMessages += int64_t(messages.size());
  lock.unlock();
  transport->send(messages);
  lock.lock();
  // What has come in between has not opened the job: this part was missing.
  if (addPart(slot, next))
    startJob(job, worker, lock);
}

void Executor::onReceived(size_t token) {
  std::lock_guard<std::mutex> lock(mutex);
  if (token == readToken) {
    if (--pendingReads == 0)
      changed.notify_all();
    return;
  }
  const size_t slot = token / Collective::numStages;
  if (!addPart(slot, Stage(token % Collective::numStages))) {
    // Its devices may be runnable, of which nobody here takes one.
    if (!ready.empty())
      wake(1);
    return;
  }
  openJobs.push_front(&groupJobs[slot]);
  wake(groupJobs[slot].count);
}

void Executor::onSent(size_t) {
  std::lock_guard<std::mutex> lock(mutex);
  if (--unsentMessages == 0)
    changed.notify_all();
}

void Executor::onBroken(const Error &error) {
  std::lock_guard<std::mutex> lock(mutex);
  broken = error;
  changed.notify_all();
}

Status Executor::exchange(std::span<const TransportMessage> incoming,
                          std::span<const TransportMessage> outgoing) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    pendingReads = int64_t(incoming.size());
    unsentMessages = int64_t(outgoing.size());
  }
  transport->receive(incoming);
  transport->send(outgoing);
  std::unique_lock<std::mutex> lock(mutex);
  auto isDone = [&] { return pendingReads == 0 && unsentMessages == 0; };
  changed.wait(lock, [&] { return broken || isDone(); });
  // A rank may end as soon as it has sent what this one needed last.
  return isDone() ? Status::success() : Status(*broken);
}

Status Executor::fetch(int64_t begin, int64_t end, int buffer, uint64_t bytes) {
  fetched.data.resize(size_t(end - begin) * bytes);
  std::vector<TransportMessage> incoming, outgoing;
  for (int64_t rank = 0; rank < division.ranks; ++rank) {
    const int64_t first = std::max(begin, division.getBegin(rank));
    const int64_t last = std::min(end, division.getBegin(rank + 1));
    if (first >= last)
      continue;
    std::byte *part = fetched.data.data() + uint64_t(first - begin) * bytes;
    const TransportMessage message = {
        rank, readTag, part, uint64_t(last - first) * bytes, readToken};
    if (rank != division.rank) {
      incoming.push_back(message);
      continue;
    }
    for (int64_t device = first; device < last; ++device)
      std::memcpy(part + uint64_t(device - first) * bytes,
                  getBlock(device, buffer), bytes);
    for (int64_t peer = 0; peer < division.ranks; ++peer)
      if (peer != rank) {
        outgoing.push_back(message);
        outgoing.back().peer = peer;
      }
  }
  Status exchanged = exchange(incoming, outgoing);
  fetched.begin = begin;
  fetched.end = end;
  fetched.buffer = exchanged ? buffer : -1;
  fetched.bytes = bytes;
  return exchanged;
}

Result<const std::byte *> Executor::read(int64_t device, int buffer,
                                         uint64_t bytes) {
  if (!transport)
    return getBlock(device, buffer);
  // Small blocks of all devices come at once: whoever reads one reads others.
  constexpr uint64_t smallBytes = 4096;
  const bool isThere = fetched.buffer == buffer && fetched.bytes == bytes &&
                       device >= fetched.begin && device < fetched.end;
  if (!isThere) {
    Status got = bytes <= smallBytes ? fetch(0, numDevices, buffer, bytes)
                                     : fetch(device, device + 1, buffer, bytes);
    if (!got)
      return got.getError();
  }
  return fetched.data.data() + uint64_t(device - fetched.begin) * bytes;
}

Result<uint8_t> Executor::decide(uint8_t mine) {
  if (!transport)
    return mine;
  auto byte = std::byte(mine);
  std::vector<TransportMessage> messages;
  for (int64_t peer = 0; peer < division.ranks; ++peer)
    if (peer != division.rank && (division.rank == 0 || peer == 0))
      messages.push_back({peer, readTag, &byte, 1, readToken});
  Status exchanged =
      division.rank == 0 ? exchange({}, messages) : exchange(messages, {});
  if (!exchanged)
    return exchanged.getError();
  return uint8_t(byte);
}
