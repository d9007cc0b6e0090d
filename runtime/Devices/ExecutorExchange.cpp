/// The part of Executor that has to do with other processes.

#include "runtime/Devices/Executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

/// The tag of exchange(); groups have their number and one more.
static constexpr uint32_t readTag = 0;
/// The token of messages that no group waits for.
static constexpr size_t readToken = size_t(-1);

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
  if (numGroups >= maxTransportTag)
    return Error{ErrorCode::DoesNotFit,
                 fmt::format("a program has {} groups of collectives, between "
                             "processes there can be {}",
                             numGroups, maxTransportTag),
                 ""};
  Result<Arena> created = Arena::create(bytes, 0);
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
      pendingParts[slot] = 1;
      for (const Collective::Message &message :
           collective.getIncoming(place.group)) {
        ++pendingParts[slot];
        messages.push_back({message.peer, uint32_t(slot + 1),
                            staging->getData() + message.offset, message.bytes,
                            slot});
      }
    }
  }
  transport->receive(messages);
}

Executor::Job Executor::makeGroupJob(size_t slot, bool packs) const {
  const CommandGroup &place = current->groups[slot];
  const PreparedCommand &command = current->commands[place.command];
  const Collective &collective = *command.collective;
  const int64_t count = packs ? collective.getNumPackPieces(place.group)
                              : collective.getNumPieces(place.group);
  return {&command, -1, place.group, packs, 0, count, count};
}

void Executor::finishPacking(Job &job, int worker,
                             std::unique_lock<std::mutex> &lock) {
  const Collective &collective = *job.command->collective;
  const size_t slot = job.command->firstGroup + size_t(job.group);
  std::vector<TransportMessage> messages;
  for (const Collective::Message &message : collective.getOutgoing(job.group))
    messages.push_back({message.peer, uint32_t(slot + 1),
                        staging->getData() + message.offset, message.bytes,
                        slot});
  unsentMessages += int64_t(messages.size());
  lock.unlock();
  transport->send(messages);
  lock.lock();
  // What has come in between has not opened the job: this part was missing.
  if (--pendingParts[slot] > 0)
    return;
  job = makeGroupJob(slot, /*packs=*/false);
  startJob(job, worker, lock);
}

void Executor::onReceived(size_t token) {
  std::lock_guard<std::mutex> lock(mutex);
  if (token == readToken) {
    if (--pendingReads == 0)
      changed.notify_all();
    return;
  }
  if (--pendingParts[token] > 0)
    return;
  Job &job = groupJobs[token];
  job = makeGroupJob(token, /*packs=*/false);
  if (job.count == 0) {
    finishJob(job);
    wake(1);
    return;
  }
  openJobs.push_front(&job);
  wake(job.count);
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

Result<bool> Executor::decide(bool mine) {
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
  return bool(byte);
}
