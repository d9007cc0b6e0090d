#ifndef MESHC_TESTS_EMULATION_DRIVER_H
#define MESHC_TESTS_EMULATION_DRIVER_H

/// What the emulated driver is made of. One lock guards everything; the
/// functions below are called with it held unless they say otherwise.
///
/// Work is queued: an operation knows the operations that must be complete
/// before, by stream order, events and graphs. Nothing runs until a call waits
/// for it or chance (the seed) wants it, and then any operation may run whose
/// predecessors are complete. A program that relies on more order than it asked
/// for gets wrong values, for some seed.

#include "CudaAbi.h"
#include "Environment.h"
#include "Fibers.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace meshc::emulation {

// ---- operations -------------------------------------------------------------

/// What an attempt to run an operation came to.
struct Progress {
  enum State { done, waiting, failed } state = done;
  CUresult code = CUDA_SUCCESS;
  std::string text; ///< of a failure
};

using Run = std::function<Progress()>;
/// What is queued: gives a run for every execution, one per launch of a graph.
using Work = std::function<Run()>;

struct Context;

struct Operation {
  int64_t id = 0;
  std::string text;
  Context *context = nullptr;
  int stream = 0; ///< number of the one it was put into
  Run run;
  bool complete = false;
  int64_t neededFor = 0; ///< the operation that was last asked to wait for it
  int waitsFor = 0;
  std::vector<std::shared_ptr<Operation>> before, after;
  std::chrono::steady_clock::time_point time; ///< of completion
};

using OperationRef = std::shared_ptr<Operation>;

class Queue {
public:
  /// `before` may hold null and complete operations.
  OperationRef add(std::string text, Context *context, int stream,
                   std::vector<OperationRef> before, Run run);
  /// Runs until `target` is complete; null is. Lets go of `lock` while all that
  /// can run waits for other processes.
  void runUntil(const OperationRef &target, std::unique_lock<std::mutex> &lock);
  void runAll(Context *context, std::unique_lock<std::mutex> &lock);
  /// Runs at most one operation, of those that `target` needs if it is given
  /// and chance does not want another. Whether something was completed.
  bool runOne(const OperationRef &target);
  /// After a call: what chance wants.
  void runSome();
  bool empty() const { return pending.empty(); }

private:
  bool attempt(size_t index);
  void mark(const OperationRef &target);
  void order(std::vector<size_t> &candidates);
  void complete(const OperationRef &operation);

  std::mt19937_64 random{getEnvironment().seed};
  /// How likely a call runs something that nothing waits for yet.
  int eagerPercent = -1;
  std::map<int, uint64_t> priorities; ///< of streams, where those decide
  int64_t lastId = 0;
  int64_t markedFor = 0; ///< whose predecessors are marked
  std::map<int64_t, OperationRef> pending;
  std::vector<OperationRef> ready;
};

// ---- objects ----------------------------------------------------------------

/// Objects behind handles. A handle is never used twice, so that one of an
/// object that is gone is found.
template <class Object> class Registry {
public:
  template <class Handle> Handle add(std::shared_ptr<Object> object) {
    next += 16;
    objects[next] = std::move(object);
    return reinterpret_cast<Handle>(next);
  }
  /// Null if there is none.
  template <class Handle> std::shared_ptr<Object> find(Handle handle) const {
    auto found = objects.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects.end() ? nullptr : found->second;
  }
  template <class Handle> bool remove(Handle handle) {
    return objects.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  }
  std::map<uintptr_t, std::shared_ptr<Object>> objects;

private:
  static inline uintptr_t next = 0x5000;
};

struct Graph {
  struct Node {
    std::string text;
    Context *context;
    int stream;
    int priority; ///< of that stream
    Work work;
    std::vector<int> before;
  };
  std::vector<Node> nodes;
};

struct Stream;

/// A capture that goes on.
struct Capture {
  int64_t id = 0;
  Stream *origin = nullptr;
  bool invalid = false;
  int mode = 0;
  Graph graph;
  std::set<Stream *> streams;
};

struct Stream {
  int id = 0;
  Context *context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  OperationRef last;
  std::shared_ptr<Capture> capture;
  std::vector<int> captureLast; ///< nodes that the next one follows
};

struct Event {
  int id = 0;
  Context *context = nullptr;
  unsigned flags = 0;
  OperationRef recorded;
  std::shared_ptr<Capture> capture; ///< if recorded in one
  std::vector<int> captureLast;
};

struct GraphExec {
  Graph graph;
  bool usesNodePriorities = false;
  OperationRef lastLaunch;
};

struct Module {
  Context *context = nullptr;       ///< null for a library's
  std::optional<HostImage> image;   ///< of host images
  std::set<std::string> entryNames; ///< of others, which cannot run
};

struct Function {
  std::string name;
  std::shared_ptr<Module> module;
  KernelFunction kernel = nullptr;
  int maxDynamicShared = 48 * 1024;
};

struct Context {
  int id = 0;
  int device = 0;
  bool primary = false;
  int retained = 0;
  unsigned flags = 0;
  CUresult error = CUDA_SUCCESS;
  std::set<Context *> peers;
  Stream legacy; ///< the stream 0
};

// ---- memory -----------------------------------------------------------------

/// Memory of the GPUs: every allocation ends at a closed page, begins after
/// one, and is filled with NaN; the bytes between it and the closed pages are
/// compared after every operation.
class Memory {
public:
  CUresult allocate(int device, size_t bytes, CUdeviceptr &address);
  CUresult release(CUdeviceptr address);
  struct Allocation {
    int device;
    size_t bytes;
    unsigned char *mapping;
    size_t mappingBytes;
  };
  /// The allocation that holds [address, address + bytes), null if none does.
  const Allocation *find(CUdeviceptr address, size_t bytes,
                         CUdeviceptr *base = nullptr) const;
  /// A message if a guard zone was written to.
  std::string checkGuards() const;
  size_t getUsed(int device) const;
  size_t getCount() const { return allocations.size(); }

  /// Pinned host memory: by cuMemHostAlloc (owned) or cuMemHostRegister.
  struct Pinned {
    size_t bytes;
    bool owned;
  };
  std::map<uintptr_t, Pinned> pinned;
  bool isPinned(const void *address, size_t bytes) const;

private:
  std::string checkGuard(CUdeviceptr base, const Allocation &allocation) const;
  std::map<CUdeviceptr, Allocation> allocations;
};

// ---- the driver -------------------------------------------------------------

struct Driver {
  std::mutex mutex;
  bool initialized = false;
  Queue queue;
  Memory memory;
  std::vector<std::shared_ptr<Context>> primaries;
  Registry<Context> contexts;
  Registry<Stream> streams;
  Registry<Event> events;
  Registry<Graph> graphs;
  Registry<GraphExec> execs;
  Registry<Module> modules; ///< and libraries
  Registry<Function> functions;
  std::map<std::string, int64_t> calls;
  std::set<std::shared_ptr<Capture>> captures;
  int64_t waits = 0, launches = 0;
  /// By how much work pretends to have taken longer than it did.
  std::chrono::microseconds pretended{0};
  int lastContext = 0, lastStream = 0, lastEvent = 0;
  int64_t lastCapture = 0;
};

/// Never destroyed.
Driver &getDriver();

/// Prints "meshc emulation: TEXT" and records it.
void report(const std::string &text);
void record(const std::string &line);
std::string quote(const std::string &text); ///< as a JSON string

/// What a function needs before it can do anything.
enum class Needs { nothing, initialization, context };

/// A call of the driver under way.
class Call {
public:
  explicit Call(const char *name) : name(name) {}
  void note(const char *key, int64_t value);
  void note(const char *key, const std::string &value);
  void noteStream(const Stream &stream);
  /// Returns `code` after saying why on standard error.
  CUresult refuse(CUresult code, const std::string &why);

  const char *name;
  std::string notes;
  Context *context = nullptr; ///< the thread's current one
  std::unique_lock<std::mutex> lock;
};

/// Runs the body of the function `name` with the lock held, counts and records
/// it, and gives the injected failures.
CUresult enter(const char *name, Needs needs,
               const std::function<CUresult(Call &)> &body);

/// Whether the call is one that the test wants to fail.
bool countCall(const char *name, int &code);

/// The stream behind a handle, the context's own for 0; null if there is none.
/// The second keeps a stream that is being destroyed alive.
Stream *findStream(Call &call, CUstream handle);

/// Puts work into a stream, or into the graph that it captures.
CUresult submit(Call &call, Stream &stream, std::string text, Work work);

/// Runs everything in `stream` up to now. For calls that return when it is
/// done.
CUresult synchronize(Call &call, Stream &stream);

/// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a capture forbids calls that may
/// wait, and makes that capture invalid.
CUresult checkNoCapture(Call &call);

/// Fails the context; every later call in it gives `code`.
void failContext(Context &context, CUresult code, const std::string &text);

std::vector<Context *> &getContextStack();

/// In a host function called by the driver: no calls are allowed.
extern thread_local bool insideHostFunction;

} // namespace meshc::emulation

#endif
