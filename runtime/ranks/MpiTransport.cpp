#include "runtime/ranks/MpiTransport.h"

#include "runtime/ranks/Socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

static constexpr const char *libraryName = "libmeshc_mpi.so";

static Error getMpiError(std::string what) {
  return {ErrorCode::NoMpi, "MPI: " + std::move(what), ""};
}

/// What a call for a message to or from another rank has failed with: that rank
/// is gone, or cannot be reached.
static Error getPeerError(int64_t rank, const std::string &what) {
  return getConnectionError(rank, "MPI: " + what);
}

namespace {
/// MPI once it has been started, which can be done once in a process.
struct StartedMpi {
  const meshcMpiFunctions *functions;
  int rank, ranks, maxTag;
};
} // namespace

static Error getLoadError(const std::string &library, std::string_view why) {
  return {ErrorCode::NoMpi,
          fmt::format("cannot load {}, which a run by an MPI launcher needs: "
                      "{}",
                      library, why),
          "put it beside the executable or give --transport tcp; meshc builds "
          "it where it finds MPI"};
}

/// The library beside the executable; null if there is none. The folder may be
/// one that others write to: nothing else is looked for there, and what is
/// loaded belongs to root, to the user or to whom the executable belongs.
static Result<void *> loadBesideExecutable() {
  std::error_code failed;
  const std::filesystem::path executable =
      std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed)
    return nullptr;
  const std::string path = executable.parent_path() / libraryName;
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT)
      return nullptr;
    return getLoadError(path, std::strerror(errno));
  }
  struct stat own, found;
  const bool isKnown =
      stat("/proc/self/exe", &own) == 0 && fstat(file, &found) == 0;
  const bool isTrusted =
      isKnown && (found.st_uid == 0 || found.st_uid == geteuid() ||
                  found.st_uid == own.st_uid);
  if (!isTrusted || !S_ISREG(found.st_mode)) {
    close(file);
    return getLoadError(path, isTrusted ? "it is no file"
                                        : "it belongs to another user");
  }
  // Through the descriptor: what was looked at is what is loaded.
  void *library = dlopen(fmt::format("/proc/self/fd/{}", file).c_str(),
                         RTLD_NOW | RTLD_GLOBAL);
  close(file);
  if (!library)
    return getLoadError(path, dlerror());
  return library;
}

static Result<StartedMpi> loadMpi() {
  Result<void *> beside = loadBesideExecutable();
  if (!beside)
    return beside.getError();
  // Else in the folder of meshc's libraries, which is the executable's run
  // path. MPI's own plugins look for its symbols.
  void *library =
      *beside ? *beside : dlopen(libraryName, RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return getLoadError(libraryName, dlerror());
  auto *get =
      reinterpret_cast<meshcGetMpiFunction *>(dlsym(library, "meshcGetMpi"));
  if (!get || get()->version != meshcMpiVersion)
    return Error{ErrorCode::NoMpi,
                 fmt::format("{} is of another version of meshc", libraryName),
                 ""};
  StartedMpi started{get(), 0, 1, 0};
  if (const char *error = started.functions->start(
          &started.rank, &started.ranks, &started.maxTag))
    return getMpiError(error);
  return started;
}

/// The one MPI of this process; nothing before it is asked for.
static std::optional<Result<StartedMpi>> onlyMpi;

static const Result<StartedMpi> &getMpi() {
  if (!onlyMpi)
    onlyMpi = loadMpi();
  return *onlyMpi;
}

void runtime::finishMpi() {
  // Everything is done: nobody would be helped by an error.
  if (onlyMpi && *onlyMpi)
    (void)(**onlyMpi).functions->finish();
}

static Status checkRanks(const StartedMpi &mpi, const RankIdentity &identity) {
  if (mpi.rank == identity.rank && mpi.ranks == identity.ranks)
    return Status::success();
  return Error{ErrorCode::WrongRanks,
               fmt::format("MPI says rank {} of {}, expected rank {} of {}",
                           mpi.rank, mpi.ranks, identity.rank, identity.ranks),
               "libmeshc_mpi.so may be built with another MPI than the "
               "launcher's"};
}

Result<std::unique_ptr<Transport>> MpiTransport::create(const Ranks &ranks) {
  const Result<StartedMpi> &mpi = getMpi();
  if (!mpi)
    return mpi.getError();
  Status same = checkRanks(*mpi, ranks.getIdentity());
  if (!same)
    return same.getError();
  if (uint32_t(mpi->maxTag) < maxTransportTag)
    return getMpiError(fmt::format("it has tags up to {}, expected {}",
                                   mpi->maxTag, maxTransportTag));
  return std::unique_ptr<Transport>(new MpiTransport(*mpi->functions));
}

MpiTransport::~MpiTransport() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void MpiTransport::start(Listener &newListener) {
  listener = &newListener;
  thread = std::thread([this] { work(); });
}

void MpiTransport::add(std::span<const TransportMessage> messages,
                       bool isReceive) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const TransportMessage &message : messages)
      added.push_back({message, isReceive});
  }
  changed.notify_all();
}

void MpiTransport::receive(std::span<const TransportMessage> messages) {
  add(messages, /*isReceive=*/true);
}

void MpiTransport::send(std::span<const TransportMessage> messages) {
  add(messages, /*isReceive=*/false);
}

bool MpiTransport::begin(Operation &operation) {
  const TransportMessage &message = operation.message;
  const char *error =
      operation.isReceive
          ? mpi.receive(int(message.peer), int(message.tag), message.data,
                        message.bytes, &operation.request)
          : mpi.send(int(message.peer), int(message.tag), message.data,
                     message.bytes, &operation.request);
  if (error)
    listener->onBroken(getPeerError(message.peer, error));
  return !error;
}

bool MpiTransport::test(Operation &operation, bool &isComplete) {
  int complete = 0;
  const char *error = mpi.test(operation.request, &complete);
  isComplete = complete != 0;
  if (error)
    listener->onBroken(getPeerError(operation.message.peer, error));
  else if (isComplete && operation.isReceive)
    listener->onReceived(operation.message.token);
  else if (isComplete)
    listener->onSent(operation.message.token);
  return !error;
}

void MpiTransport::work() {
  using std::chrono::microseconds;
  constexpr microseconds shortest(5), longest(200);
  microseconds pause = shortest;
  std::vector<Operation> active;
  std::vector<Operation> fresh;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      if (active.empty())
        changed.wait(lock, [&] { return stopping || !added.empty(); });
      // What is still active then is never to come.
      if (stopping)
        return;
      fresh.swap(added);
    }
    for (Operation &operation : fresh) {
      if (!begin(operation))
        return;
      active.push_back(operation);
    }
    bool progressed = !fresh.empty();
    fresh.clear();
    for (size_t i = 0; i < active.size();) {
      bool isComplete = false;
      if (!test(active[i], isComplete))
        return;
      progressed |= isComplete;
      if (isComplete)
        active.erase(active.begin() + ptrdiff_t(i));
      else
        ++i;
    }
    pause = progressed ? shortest : std::min(2 * pause, longest);
    if (!progressed) {
      // A message that is added ends the pause.
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait_for(lock, pause, [&] { return stopping || !added.empty(); });
    }
  }
}

/// The first address of this machine that others may reach.
static std::string getOwnHost() {
  std::string host = "127.0.0.1";
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    return host;
  for (ifaddrs *one = all; one; one = one->ifa_next) {
    std::array<char, NI_MAXHOST> text;
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
        !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK) ||
        getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text.data(),
                    text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    host = text.data();
    break;
  }
  freeifaddrs(all);
  return host;
}

Status runtime::findStoreByMpi(RankIdentity &identity) {
  const Result<StartedMpi> &mpi = getMpi();
  if (!mpi)
    return mpi.getError();
  Status same = checkRanks(*mpi, identity);
  if (!same)
    return same;
  // An empty text is rank 0's failure.
  std::array<char, 256> text{};
  Result<Socket> listener = Socket();
  if (identity.rank == 0) {
    listener = listenOn({getOwnHost(), 0});
    if (listener) {
      const std::string address = toString(getLocalAddress(*listener));
      std::copy(address.begin(), address.end(), text.begin());
    }
  }
  // Whoever MPI lets in is one of the run, where no key says so.
  std::array<char, 256> key{};
  if (identity.rank == 0) {
    const std::string made = RankKey::makeText();
    std::copy(made.begin(), made.end(), key.begin());
  }
  for (std::array<char, 256> *shared : {&text, &key})
    if (const char *error =
            mpi->functions->broadcast(shared->data(), shared->size()))
      return getMpiError(error);
  if (!listener)
    return listener.getError();
  Result<Address> store = parseAddress("MPI", text.data());
  if (!store)
    return store.getError();
  if (!identity.key.isGiven()) {
    Result<RankKey> made = RankKey::fromText("MPI", key.data());
    if (!made)
      return made.getError();
    identity.key = std::move(*made);
  }
  identity.store = *store;
  identity.listener = listener->release();
  return Status::success();
}
