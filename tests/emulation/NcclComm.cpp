#include "NcclComm.h"

#include "BlasLtAbi.h"
#include "Elements.h"
#include "Environment.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

using namespace meshc::emulation;

namespace {

// ---- what ranks tell each other ---------------------------------------------

/// The part of a request that all ranks of a collective share.
struct Header {
  int32_t kind, type, operation, root;
  uint64_t count;
};

const char *getName(int32_t kind) {
  switch (static_cast<CollectiveKind>(kind)) {
  case CollectiveKind::allReduce:
    return "all_reduce";
  case CollectiveKind::reduceScatter:
    return "reduce_scatter";
  case CollectiveKind::allGather:
    return "all_gather";
  case CollectiveKind::broadcast:
    return "broadcast";
  case CollectiveKind::allToAll:
    return "all_to_all";
  case CollectiveKind::send:
    return "send";
  case CollectiveKind::recv:
    return "recv";
  }
  return "something unknown";
}

bool reduces(int32_t kind) {
  return kind == static_cast<int32_t>(CollectiveKind::allReduce) ||
         kind == static_cast<int32_t>(CollectiveKind::reduceScatter);
}

std::string describe(const Header &header) {
  std::string text = std::string(getName(header.kind)) + " of " +
                     std::to_string(header.count) + " elements of type " +
                     std::to_string(header.type);
  if (reduces(header.kind))
    text += ", operation " + std::to_string(header.operation);
  if (header.kind == static_cast<int32_t>(CollectiveKind::broadcast))
    text += ", root " + std::to_string(header.root);
  return text;
}

Header makeHeader(const Request &request) {
  return {static_cast<int32_t>(request.kind), request.type, request.operation,
          request.root, request.count};
}

/// The request, and how many collectives this rank has begun before it on each
/// communicator it has.
std::string makeText(const Request &request,
                     const std::map<uint64_t, uint64_t> &begun) {
  Header header = makeHeader(request);
  std::string text(reinterpret_cast<const char *>(&header), sizeof header);
  for (auto [communicator, count] : begun) {
    uint64_t entry[] = {communicator, count};
    text.append(reinterpret_cast<const char *>(entry), sizeof entry);
  }
  return text;
}

Header readHeader(const std::string &text) {
  Header header;
  std::memcpy(&header, text.data(), sizeof header);
  return header;
}

std::map<uint64_t, uint64_t> readOrder(const std::string &text) {
  std::map<uint64_t, uint64_t> order;
  for (size_t at = sizeof(Header); at < text.size(); at += 16) {
    uint64_t entry[2];
    std::memcpy(entry, text.data() + at, sizeof entry);
    order[entry[0]] = entry[1];
  }
  return order;
}

// ---- reductions -------------------------------------------------------------

template <class Element> Element reduce(Element a, Element b, int operation) {
  switch (operation) {
  case ncclSum:
    return a + b;
  case ncclProd:
    return a * b;
  case ncclMax:
    return std::max(a, b);
  case ncclMin:
    return std::min(a, b);
  }
  __builtin_unreachable(); // checked when it was asked for
}

template <class Element>
void reduceIntegers(const std::vector<std::string> &parts, int operation,
                    std::string &to) {
  for (size_t i = 0; i < to.size() / sizeof(Element); ++i) {
    Element result = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      Element next;
      std::memcpy(&next, parts[part].data() + i * sizeof next, sizeof next);
      result = part == 0 ? next : reduce(result, next, operation);
    }
    std::memcpy(to.data() + i * sizeof result, &result, sizeof result);
  }
}

/// Sum is that of the sums; each element is rounded once, at the end.
template <class Sum>
void reduceFloats(const std::vector<std::string> &parts, int operation,
                  int type, std::string &to) {
  auto *result = reinterpret_cast<unsigned char *>(to.data());
  for (size_t i = 0; i < to.size() / getTypeBytes(type); ++i) {
    Sum sum = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      auto next = static_cast<Sum>(loadElement(
          type, reinterpret_cast<const unsigned char *>(parts[part].data()),
          i));
      if (part == 0)
        sum = next;
      else if (operation == ncclMax)
        sum = std::fmax(sum, next);
      else if (operation == ncclMin)
        sum = std::fmin(sum, next);
      else
        sum = reduce(sum, next, operation);
    }
    storeElement(type, result, i, sum);
  }
}

/// The parts combined in their order.
std::string reduceParts(const std::vector<std::string> &parts, int type,
                        int operation) {
  std::string result(parts[0].size(), '\0');
  switch (type) {
  case ncclInt8:
    reduceIntegers<int8_t>(parts, operation, result);
    break;
  case ncclUint8:
    reduceIntegers<uint8_t>(parts, operation, result);
    break;
  case ncclInt32:
    // Signed sums wrap.
    if (operation == ncclMax || operation == ncclMin)
      reduceIntegers<int32_t>(parts, operation, result);
    else
      reduceIntegers<uint32_t>(parts, operation, result);
    break;
  case ncclUint32:
    reduceIntegers<uint32_t>(parts, operation, result);
    break;
  case ncclInt64:
    if (operation == ncclMax || operation == ncclMin)
      reduceIntegers<int64_t>(parts, operation, result);
    else
      reduceIntegers<uint64_t>(parts, operation, result);
    break;
  case ncclUint64:
    reduceIntegers<uint64_t>(parts, operation, result);
    break;
  case ncclFloat16:
    reduceFloats<float>(parts, operation, CUDA_R_16F, result);
    break;
  case ncclBfloat16:
    reduceFloats<float>(parts, operation, CUDA_R_16BF, result);
    break;
  case ncclFloat32:
    reduceFloats<float>(parts, operation, CUDA_R_32F, result);
    break;
  case ncclFloat64:
    reduceFloats<double>(parts, operation, CUDA_R_64F, result);
    break;
  }
  return result;
}

} // namespace

size_t meshc::emulation::getNcclTypeBytes(int type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

std::string meshc::emulation::describe(const Request &request) {
  return ::describe(makeHeader(request));
}

// ---- communicators ----------------------------------------------------------

bool Communicator::hasMember(int rankOfWorld) const {
  return std::find(members.begin(), members.end(), rankOfWorld) !=
         members.end();
}

void Communicator::fail(int code, const std::string &why) {
  if (error != ncclSuccess || aborted)
    return;
  failAlone(code, why);
  tell(code, why);
}

void Communicator::failAlone(int code, const std::string &why) {
  if (error != ncclSuccess || aborted)
    return;
  std::fprintf(stderr, "meshc emulation: NCCL: rank %d: %s\n", world->rank,
               why.c_str());
  adopt(code, why);
}

void Communicator::adopt(int code, const std::string &why) {
  if (error != ncclSuccess || aborted)
    return;
  error = code;
  text = why;
}

void Communicator::tell(int code, const std::string &why) {
  for (int member : members)
    if (member != world->rank)
      world->send(
          member, {hash, MessageKind::failure, 0, world->rank},
          std::string(reinterpret_cast<const char *>(&code), sizeof code), why);
}

void Communicator::check(uint64_t sequence, int from,
                         const std::string &header) {
  auto own = issued.find(sequence);
  if (own == issued.end())
    return; // compared when it is begun
  Header here = readHeader(own->second), there = readHeader(header);
  std::string where = "collective " + std::to_string(sequence + 1) + " of " +
                      name + ": rank " + std::to_string(world->rank) + " runs ";
  bool agree = here.kind == there.kind && here.type == there.type &&
               here.count == there.count && here.root == there.root &&
               (!reduces(here.kind) || here.operation == there.operation);
  if (!agree)
    return fail(ncclInvalidUsage, where + ::describe(here) + ", rank " +
                                      std::to_string(from) + " runs " +
                                      ::describe(there));
  std::map<uint64_t, uint64_t> ownOrder = readOrder(own->second);
  for (auto [other, count] : readOrder(header)) {
    auto found = ownOrder.find(other);
    if (found != ownOrder.end() && found->second != count)
      return fail(ncclInvalidUsage,
                  where + ::describe(here) + " after " +
                      std::to_string(found->second) +
                      " collectives of another communicator, rank " +
                      std::to_string(from) + " after " + std::to_string(count));
  }
}

// ---- executions -------------------------------------------------------------

Execution::Execution(CommunicatorRef communicator)
    : communicator(std::move(communicator)), world(*this->communicator->world),
      number(++world.executions) {}

bool Execution::hasArrived(const MessageKey &key) {
  if (world.find(key))
    return true;
  if (world.left[key.from])
    communicator->fail(ncclRemoteError, "rank " + std::to_string(key.from) +
                                            " has left while rank " +
                                            std::to_string(world.rank) +
                                            " waits for it");
  return false;
}

int Execution::poll() {
  std::lock_guard lock(world.mutex);
  auto isFault = [&](const RankCall &fault) {
    return fault.rank == world.rank && fault.call == number;
  };
  if (isFault(getEnvironment().networkError))
    communicator->failAlone(ncclSystemError, "the network is down");
  // Like a real kernel, that of a communicator in error goes on until it is
  // aborted.
  if (communicator->aborted)
    return 0;
  if (communicator->error || isFault(getEnvironment().hang))
    return 1;
  return advance() && !communicator->error ? 0 : 1;
}

namespace {

class CollectiveExecution : public Execution {
public:
  CollectiveExecution(const CommunicatorRef &communicator,
                      const Request &request)
      : Execution(communicator), request(request),
        bytes(request.count * getNcclTypeBytes(request.type)) {
    Communicator &own = *communicator;
    sequence = own.begun++;
    header = makeText(request, world.begun);
    ++world.begun[own.hash];
    own.issued[sequence] = header;
    for (int member : own.members)
      if (const Message *early =
              world.find({own.hash, MessageKind::firstPhase, sequence, member}))
        own.check(sequence, member, early->header);
  }

protected:
  bool advance() override {
    Communicator &own = *communicator;
    if (own.done != sequence)
      return false; // one after the other
    if (phase == 0) {
      sendFirst();
      phase = 1;
    }
    if (phase == 1) {
      if (!haveAll(MessageKind::firstPhase))
        return false;
      receiveFirst();
      phase = 2;
    }
    if (request.kind == CollectiveKind::allReduce) {
      if (!haveAll(MessageKind::secondPhase))
        return false;
      std::string whole = takeAll(MessageKind::secondPhase);
      std::memcpy(request.to, whole.data(), whole.size());
    }
    own.issued.erase(sequence);
    ++own.done;
    return true;
  }

private:
  MessageKey makeKey(MessageKind kind, int from) const {
    return {communicator->hash, kind, sequence, from};
  }

  bool haveAll(MessageKind kind) {
    return std::all_of(
        communicator->members.begin(), communicator->members.end(),
        [&](int member) { return hasArrived(makeKey(kind, member)); });
  }

  std::vector<std::string> takeParts(MessageKind kind) {
    std::vector<std::string> parts;
    for (int member : communicator->members)
      parts.push_back(world.take(makeKey(kind, member)).payload);
    return parts;
  }

  std::string takeAll(MessageKind kind) {
    std::string all;
    for (const std::string &part : takeParts(kind))
      all += part;
    return all;
  }

  std::string slice(size_t begin, size_t end) const {
    return {reinterpret_cast<const char *>(request.from) + begin, end - begin};
  }

  /// Where the part of an all_reduce begins that `member` sums.
  size_t cut(int member) const {
    size_t element = getNcclTypeBytes(request.type);
    return request.count * member / communicator->size() * element;
  }

  std::string getFirst(int member) const {
    size_t place = static_cast<size_t>(member) * bytes;
    switch (request.kind) {
    case CollectiveKind::allReduce:
      return slice(cut(member), cut(member + 1));
    case CollectiveKind::reduceScatter:
    case CollectiveKind::allToAll:
      return slice(place, place + bytes);
    case CollectiveKind::allGather:
      return slice(0, bytes);
    case CollectiveKind::broadcast:
      return request.root == communicator->rank ? slice(0, bytes) : "";
    case CollectiveKind::send:
    case CollectiveKind::recv:
      break;
    }
    __builtin_unreachable(); // those are points
  }

  void sendFirst() {
    for (int member = 0; member < communicator->size(); ++member)
      world.send(communicator->members[member],
                 makeKey(MessageKind::firstPhase, world.rank), header,
                 getFirst(member));
  }

  void receiveFirst() {
    switch (request.kind) {
    case CollectiveKind::allReduce: {
      std::string sum = reduceParts(takeParts(MessageKind::firstPhase),
                                    request.type, request.operation);
      for (int member : communicator->members)
        world.send(member, makeKey(MessageKind::secondPhase, world.rank),
                   header, sum);
      return;
    }
    case CollectiveKind::reduceScatter: {
      std::string sum = reduceParts(takeParts(MessageKind::firstPhase),
                                    request.type, request.operation);
      std::memcpy(request.to, sum.data(), sum.size());
      return;
    }
    case CollectiveKind::allGather:
    case CollectiveKind::allToAll:
    case CollectiveKind::broadcast: {
      // Only the root's part of a broadcast is not empty.
      std::string whole = takeAll(MessageKind::firstPhase);
      std::memcpy(request.to, whole.data(), whole.size());
      return;
    }
    case CollectiveKind::send:
    case CollectiveKind::recv:
      break;
    }
    __builtin_unreachable(); // those are points
  }

  Request request;
  size_t bytes;
  uint64_t sequence = 0;
  std::string header;
  int phase = 0;
};

class PointsExecution : public Execution {
public:
  PointsExecution(const CommunicatorRef &communicator,
                  const std::vector<Request> &requests)
      : Execution(communicator) {
    for (const Request &request : requests) {
      bool sends = request.kind == CollectiveKind::send;
      uint64_t sequence = communicator->points[{request.root, sends}]++;
      int other = communicator->members[request.root];
      MessageKey key{communicator->hash, MessageKind::point, sequence,
                     sends ? world.rank : other};
      (sends ? toSend : toReceive).push_back({request, key});
    }
  }

protected:
  bool advance() override {
    for (const Point &point : toSend) {
      const Request &request = point.request;
      size_t bytes = request.count * getNcclTypeBytes(request.type);
      world.send(communicator->members[request.root], point.key,
                 makeText(request, {}),
                 {reinterpret_cast<const char *>(request.from), bytes});
    }
    toSend.clear();
    for (auto point = toReceive.begin(); point != toReceive.end();) {
      if (!hasArrived(point->key)) {
        ++point;
        continue;
      }
      receive(*point);
      point = toReceive.erase(point);
    }
    return toReceive.empty();
  }

private:
  struct Point {
    Request request;
    MessageKey key;
  };

  void receive(const Point &point) {
    Message message = world.take(point.key);
    Header there = readHeader(message.header);
    if (there.type != point.request.type || there.count != point.request.count)
      return communicator->fail(ncclInvalidUsage,
                                "rank " + std::to_string(world.rank) +
                                    " runs " + describe(point.request) +
                                    ", rank " + std::to_string(point.key.from) +
                                    " runs " + ::describe(there));
    std::memcpy(point.request.to, message.payload.data(),
                message.payload.size());
  }

  std::vector<Point> toSend, toReceive;
};

} // namespace

std::unique_ptr<Execution>
meshc::emulation::beginCollective(const CommunicatorRef &communicator,
                                  const Request &request) {
  std::lock_guard lock(communicator->world->mutex);
  return std::make_unique<CollectiveExecution>(communicator, request);
}

std::unique_ptr<Execution>
meshc::emulation::beginPoints(const CommunicatorRef &communicator,
                              const std::vector<Request> &requests) {
  std::lock_guard lock(communicator->world->mutex);
  return std::make_unique<PointsExecution>(communicator, requests);
}
