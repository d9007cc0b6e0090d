#include "Fibers.h"

#include "codegen/gpu/HostImage.h"

#include <algorithm>
#include <charconv>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define MESHC_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MESHC_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MESHC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MESHC_THREAD_SANITIZER 1
#endif
#endif
#ifdef MESHC_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef MESHC_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

using namespace meshc::emulation;

namespace {

constexpr int32_t warpThreads = 32;
constexpr size_t guardBytes = 4096;
constexpr unsigned char guardByte = 0xA5;
/// All ones is a NaN in each of the four floating-point types.
constexpr unsigned char poisonByte = 0xFF;
constexpr size_t stackBytes = 128 * 1024;
constexpr size_t pageBytes = 4096;

/// What a block's shared memory lies in; `meshc_fiber_shared` is its middle.
struct SharedStorage {
  unsigned char before[guardBytes];
  unsigned char bytes[maxSharedBytes + guardBytes];
};
static_assert(guardBytes == 4096, "the symbol below counts on it");

} // namespace

extern "C" {
alignas(4096)
    __attribute__((used, visibility("hidden"))) SharedStorage meshcShared;
void meshcSwitchFiber(void **from, void *to);
}

// The kernels' name for the middle of the storage.
asm(".globl meshc_fiber_shared\n"
    ".type meshc_fiber_shared, @object\n"
    ".set meshc_fiber_shared, meshcShared + 4096\n"
    ".size meshc_fiber_shared, 236544\n");
static_assert(sizeof(SharedStorage::bytes) == 236544);

// Saves what a callee must keep on the stack, notes its top in *from and goes
// on with the stack `to`, saved in the same way.
asm(".text\n"
    ".globl meshcSwitchFiber\n"
    ".hidden meshcSwitchFiber\n"
    ".type meshcSwitchFiber, @function\n"
    "meshcSwitchFiber:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size meshcSwitchFiber, .-meshcSwitchFiber\n");

namespace {

/// A stack and where it stopped. The launching thread's own has no mapping.
struct Fiber {
  void *top = nullptr; ///< saved stack pointer
  char *stack = nullptr;
  const void *bottom = nullptr; ///< what AddressSanitizer is told
  size_t bytes = 0;
  void *observed = nullptr; ///< what ThreadSanitizer calls it
};

enum class Waits : uint8_t { nothing, barrier, shuffle, ended };

struct Thread {
  Fiber *fiber = nullptr; ///< once it has started
  Waits waits = Waits::nothing;
  int32_t number = 0; ///< of the barrier or shuffle where it waits
  int32_t mask = 0;
  int64_t bits = 0;
};

/// The launch that runs; one at a time.
class Machine {
public:
  std::string run(KernelFunction function, std::string_view name, int64_t grid,
                  int32_t block, int32_t sharedBytes, void **parameters,
                  FiberOrder order);

  void barrier(int32_t number);
  int64_t shuffle(int64_t bits, int32_t mask, int32_t number);
  [[noreturn]] void runFiber();
  void leaveFiber();
  void finishSwitch(const Fiber *self, void *fake);

  bool running = false;
  int64_t blockId = 0;
  int32_t current = -1;
  sigjmp_buf fault;
  const void *faultAddress = nullptr;

private:
  void runBlock();
  void advance(Fiber *self, bool selfIdle);
  void switchTo(Fiber *self, Fiber *to);
  Fiber *takeFiber();
  void reset(Fiber &fiber);
  void resetAll();
  int32_t pick();
  void release(int32_t begin, int32_t end);
  void fail(const std::string &what);
  void checkNumbers(int32_t begin, int32_t end);
  std::string waitingPlace(int32_t thread) const;
  std::string describeDeadlock() const;
  void prepareShared();
  void checkShared();
  std::string place(int32_t thread) const;

  std::mutex mutex;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber *> idle;
  Fiber origin;

  KernelFunction function = nullptr;
  void **parameters = nullptr;
  std::string_view name;
  int32_t sharedBytes = 0;
  FiberOrder order;
  std::mt19937_64 random;

  std::vector<Thread> threads;
  std::vector<int32_t> ready; ///< threads that can go on, from `next`
  size_t next = 0;
  int32_t atBarrier = 0;
  int32_t ended = 0;
  std::vector<int32_t> atShuffle; ///< per warp
  std::string error;
};

/// Never destroyed: kernels' objects may outlive static destruction.
Machine &getMachine() {
  static Machine *machine = new Machine;
  return *machine;
}

void enterFiber() {
  getMachine().finishSwitch(nullptr, nullptr);
  getMachine().runFiber();
}

void Machine::finishSwitch(const Fiber *self, void *fake) {
#ifdef MESHC_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

/// The thread goes on as `fiber`, in ThreadSanitizer's eyes.
void observeSwitch(const Fiber &fiber) {
#ifdef MESHC_THREAD_SANITIZER
  __tsan_switch_to_fiber(fiber.observed, 0);
#endif
}

void Machine::switchTo(Fiber *self, Fiber *to) {
  void *fake = nullptr;
#ifdef MESHC_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&fake, to->bottom, to->bytes);
#endif
  observeSwitch(*to);
  meshcSwitchFiber(&self->top, to->top);
  finishSwitch(self, fake);
}

void Machine::reset(Fiber &fiber) {
  void **top = reinterpret_cast<void **>(fiber.stack + pageBytes + stackBytes);
  *--top = nullptr; // nobody to return to
  *--top = reinterpret_cast<void *>(enterFiber);
  for (int saved = 0; saved < 6; ++saved)
    *--top = nullptr;
  fiber.top = top;
#ifdef MESHC_THREAD_SANITIZER
  if (fiber.observed)
    __tsan_destroy_fiber(fiber.observed);
  fiber.observed = __tsan_create_fiber(0);
#endif
}

Fiber *Machine::takeFiber() {
  if (idle.empty()) {
    // The lowest page stays closed: a stack that overflows is a fault.
    void *stack =
        mmap(nullptr, pageBytes + stackBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, pageBytes, PROT_NONE)) {
      std::perror("meshc emulation: no memory for a fiber's stack");
      std::abort();
    }
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = static_cast<char *>(stack);
    fiber->bottom = fiber->stack + pageBytes;
    fiber->bytes = stackBytes;
    reset(*fiber);
    idle.push_back(fiber.get());
    fibers.push_back(std::move(fiber));
  }
  Fiber *fiber = idle.back();
  idle.pop_back();
  return fiber;
}

/// After a launch that stopped midway: no fiber goes on where it was.
void Machine::resetAll() {
  idle.clear();
  for (auto &fiber : fibers) {
    reset(*fiber);
    idle.push_back(fiber.get());
  }
}

int32_t Machine::pick() {
  if (order.kind == FiberOrder::random)
    std::swap(ready[next], ready[next + random() % (ready.size() - next)]);
  return ready[next++];
}

/// Lets the threads [begin, end) go on.
void Machine::release(int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    int32_t thread =
        order.kind == FiberOrder::backward ? end - 1 - (i - begin) : i;
    threads[thread].waits = Waits::nothing;
    ready.push_back(thread);
  }
}

/// Gives the turn to the next thread that can go on. With `selfIdle` the thread
/// of `self` has ended and the fiber is free; then this may return with another
/// thread to start on it. Back in the origin when no thread can go on.
void Machine::advance(Fiber *self, bool selfIdle) {
  if (next == ready.size()) {
    ready.clear();
    next = 0;
    if (selfIdle)
      idle.push_back(self);
    switchTo(self, &origin);
    return;
  }
  current = pick();
  Thread &thread = threads[current];
  if (!thread.fiber && selfIdle) {
    thread.fiber = self;
    return;
  }
  if (!thread.fiber)
    thread.fiber = takeFiber();
  if (selfIdle)
    idle.push_back(self);
  if (thread.fiber != self)
    switchTo(self, thread.fiber);
}

void Machine::runFiber() {
  for (;;) {
    Fiber *self = threads[current].fiber;
    function(parameters);
    threads[current].waits = Waits::ended;
    ++ended;
    advance(self, /*selfIdle=*/true);
  }
}

/// Before a jump back into the origin.
void Machine::leaveFiber() { observeSwitch(origin); }

void Machine::barrier(int32_t number) {
  Thread &thread = threads[current];
  thread.waits = Waits::barrier;
  thread.number = number;
  if (++atBarrier == static_cast<int32_t>(threads.size())) {
    atBarrier = 0;
    checkNumbers(0, static_cast<int32_t>(threads.size()));
    release(0, static_cast<int32_t>(threads.size()));
  }
  advance(thread.fiber, /*selfIdle=*/false);
}

int64_t Machine::shuffle(int64_t bits, int32_t mask, int32_t number) {
  int32_t self = current;
  Thread &thread = threads[self];
  thread.waits = Waits::shuffle;
  thread.number = number;
  thread.bits = bits;
  thread.mask = mask;
  int32_t warp = self / warpThreads, begin = warp * warpThreads;
  int32_t end = std::min<int32_t>(begin + warpThreads, threads.size());
  if (++atShuffle[warp] == end - begin) {
    atShuffle[warp] = 0;
    checkNumbers(begin, end);
    std::vector<int64_t> values(end - begin);
    for (int32_t i = begin; i < end; ++i) {
      int32_t from = begin + ((i - begin) ^ threads[i].mask);
      if (threads[i].mask != mask)
        fail(place(i) + " shuffles by " + std::to_string(threads[i].mask) +
             ", thread " + std::to_string(self) + " of its warp by " +
             std::to_string(mask));
      else if (from < begin || from >= end)
        fail(place(i) + " shuffles with thread " + std::to_string(from) +
             ", which is not in its warp");
      else
        values[i - begin] = threads[from].bits;
    }
    for (int32_t i = begin; i < end; ++i)
      threads[i].bits = values[i - begin];
    release(begin, end);
  }
  advance(thread.fiber, /*selfIdle=*/false);
  return threads[self].bits;
}

/// Threads [begin, end) meet: all of them have to be at the same place. A GPU
/// that lets them pass does so by chance.
void Machine::checkNumbers(int32_t begin, int32_t end) {
  for (int32_t i = begin + 1; i < end; ++i)
    if (threads[i].number != threads[begin].number)
      return fail(place(i) + " waits at " + waitingPlace(i) + " while thread " +
                  std::to_string(begin) + " waits at " + waitingPlace(begin));
}

std::string Machine::waitingPlace(int32_t thread) const {
  return (threads[thread].waits == Waits::barrier ? "barrier " : "shuffle ") +
         std::to_string(threads[thread].number);
}

std::string Machine::place(int32_t thread) const {
  return "kernel '" + std::string(name) + "', block " +
         std::to_string(blockId) + ", thread " + std::to_string(thread);
}

void Machine::fail(const std::string &what) {
  if (error.empty())
    error = what;
}

std::string Machine::describeDeadlock() const {
  auto find = [&](auto matches) {
    return std::find_if(threads.begin(), threads.end(), matches) -
           threads.begin();
  };
  auto waiting = find([](const Thread &thread) {
    return thread.waits == Waits::barrier || thread.waits == Waits::shuffle;
  });
  auto other = find([&](const Thread &thread) {
    return thread.waits != threads[waiting].waits;
  });
  // Without another thread in another place the shuffles of a warp are split.
  std::string text = place(waiting) + " waits at " + waitingPlace(waiting) +
                     " that not every thread reaches";
  if (other == static_cast<ptrdiff_t>(threads.size()))
    return text;
  return text + ": thread " + std::to_string(other) +
         (threads[other].waits == Waits::ended
              ? " has ended"
              : " waits at " + waitingPlace(other));
}

void Machine::prepareShared() {
  std::memset(meshcShared.before, guardByte, guardBytes);
  std::memset(meshcShared.bytes + sharedBytes, guardByte, guardBytes);
}

void Machine::checkShared() {
  auto check = [&](const unsigned char *zone, ptrdiff_t from) {
    for (size_t i = 0; i < guardBytes; ++i)
      if (zone[i] != guardByte)
        return fail("kernel '" + std::string(name) + "', block " +
                    std::to_string(blockId) +
                    " writes outside its shared memory of " +
                    std::to_string(sharedBytes) + " bytes, at byte " +
                    std::to_string(from + static_cast<ptrdiff_t>(i)));
  };
  check(meshcShared.before, -static_cast<ptrdiff_t>(guardBytes));
  check(meshcShared.bytes + sharedBytes, sharedBytes);
}

void Machine::runBlock() {
  std::memset(meshcShared.bytes, poisonByte, sharedBytes);
  std::fill(threads.begin(), threads.end(), Thread());
  std::fill(atShuffle.begin(), atShuffle.end(), 0);
  atBarrier = ended = 0;
  release(0, static_cast<int32_t>(threads.size()));
  advance(&origin, /*selfIdle=*/false);
  current = -1;
  if (ended != static_cast<int32_t>(threads.size())) {
    fail(describeDeadlock());
    resetAll();
  }
  checkShared();
}

extern "C" void receiveFault(int, siginfo_t *info, void *) {
  Machine &machine = getMachine();
  machine.faultAddress = info->si_addr;
  machine.leaveFiber();
  siglongjmp(machine.fault, 1);
}

/// Catches accesses to memory that is not mapped while it lives.
class FaultGuard {
public:
  FaultGuard() {
    stack_t stack{};
    stack.ss_sp = handlerStack;
    stack.ss_size = sizeof handlerStack;
    sigaltstack(&stack, &oldStack);
    struct sigaction action {};
    action.sa_sigaction = receiveFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &oldSegmentation);
    sigaction(SIGBUS, &action, &oldBus);
  }
  ~FaultGuard() {
    sigaction(SIGBUS, &oldBus, nullptr);
    sigaction(SIGSEGV, &oldSegmentation, nullptr);
    sigaltstack(&oldStack, nullptr);
  }

private:
  alignas(16) static inline char handlerStack[64 * 1024];
  stack_t oldStack;
  struct sigaction oldSegmentation, oldBus;
};

std::string Machine::run(KernelFunction function, std::string_view name,
                         int64_t grid, int32_t block, int32_t sharedBytes,
                         void **parameters, FiberOrder order) {
  std::string kernel = "kernel '" + std::string(name) + "'";
  if (grid < 1 || grid > INT32_MAX)
    return kernel + " has a grid of " + std::to_string(grid) + " blocks";
  if (block < 1 || block > maxBlockThreads)
    return kernel + " has blocks of " + std::to_string(block) + " threads";
  if (sharedBytes < 0 || sharedBytes > maxSharedBytes)
    return kernel + " has " + std::to_string(sharedBytes) +
           " bytes of shared memory";
  std::lock_guard lock(mutex);
  this->function = function;
  this->name = name;
  this->sharedBytes = sharedBytes;
  this->parameters = parameters;
  this->order = order;
  random.seed(order.seed);
  threads.resize(block);
  atShuffle.resize((block + warpThreads - 1) / warpThreads);
  error.clear();
  ready.clear();
  next = 0;

  std::vector<int32_t> blocks(order.kind == FiberOrder::random ? grid : 0);
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = static_cast<int32_t>(i);
  std::shuffle(blocks.begin(), blocks.end(), random);

  prepareShared();
#ifdef MESHC_THREAD_SANITIZER
  origin.observed = __tsan_get_current_fiber();
#endif
  FaultGuard guard;
  running = true;
  if (sigsetjmp(fault, 1) == 0) {
    for (int64_t i = 0; i < grid && error.empty(); ++i) {
      blockId = order.kind == FiberOrder::forward    ? i
                : order.kind == FiberOrder::backward ? grid - 1 - i
                                                     : blocks[i];
      runBlock();
    }
  } else {
    char address[32];
    std::snprintf(address, sizeof address, "%p", faultAddress);
    fail(place(current) + " accesses " + address + ", which is not mapped");
    resetAll();
  }
  running = false;
  return error;
}

/// The functions for kernels are called by kernels only.
Machine &getRunningMachine() {
  Machine &machine = getMachine();
  if (!machine.running) {
    std::fputs("meshc emulation: a kernel runs outside of a launch\n", stderr);
    std::abort();
  }
  return machine;
}

} // namespace

extern "C" {

MESHC_EMULATION_API int32_t meshc_fiber_thread_id(void) {
  return getRunningMachine().current;
}

MESHC_EMULATION_API int32_t meshc_fiber_block_id(void) {
  return static_cast<int32_t>(getRunningMachine().blockId);
}

MESHC_EMULATION_API void meshc_fiber_barrier(int32_t number) {
  getRunningMachine().barrier(number);
}

MESHC_EMULATION_API int64_t meshc_fiber_shuffle_xor(int64_t bits, int32_t mask,
                                                    int32_t number) {
  return getRunningMachine().shuffle(bits, mask, number);
}

} // extern "C"

std::optional<FiberOrder>
meshc::emulation::parseFiberOrder(std::string_view text) {
  if (text == "forward")
    return FiberOrder{FiberOrder::forward, 0};
  if (text == "backward")
    return FiberOrder{FiberOrder::backward, 0};
  constexpr std::string_view prefix = "random:";
  FiberOrder order{FiberOrder::random, 0};
  const char *end = text.data() + text.size();
  if (!text.starts_with(prefix) || text.size() == prefix.size())
    return std::nullopt;
  auto [stop, status] =
      std::from_chars(text.data() + prefix.size(), end, order.seed);
  if (status != std::errc() || stop != end)
    return std::nullopt;
  return order;
}

FiberOrder meshc::emulation::getFiberOrder() {
  const char *text = std::getenv("MESHC_EMULATION_ORDER");
  if (!text)
    return {};
  std::optional<FiberOrder> order = parseFiberOrder(text);
  if (!order) {
    std::fprintf(stderr,
                 "meshc emulation: MESHC_EMULATION_ORDER is '%s', expected "
                 "'forward', 'backward' or 'random:SEED'\n",
                 text);
    std::_Exit(2);
  }
  return *order;
}

std::string meshc::emulation::launch(KernelFunction function,
                                     std::string_view name, int64_t grid,
                                     int32_t block, int32_t sharedBytes,
                                     void **parameters, FiberOrder order) {
  return getMachine().run(function, name, grid, block, sharedBytes, parameters,
                          order);
}

std::optional<HostImage> HostImage::load(std::string_view data,
                                         std::string &error) {
  // Images find the functions for kernels among the global symbols.
  static void *promoted = [] {
    Dl_info own;
    if (!dladdr(reinterpret_cast<void *>(&meshc_fiber_barrier), &own))
      return static_cast<void *>(nullptr);
    return dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }();
  if (!promoted) {
    error = "the emulation is not a loaded library";
    return std::nullopt;
  }
  // The descriptor stays open: the loader knows images by their path.
  int file = memfd_create("meshc-host-image", MFD_CLOEXEC);
  for (size_t done = 0; file >= 0 && done < data.size();) {
    ssize_t count = write(file, data.data() + done, data.size() - done);
    if (count < 0) {
      close(file);
      file = -1;
    }
    done += count;
  }
  if (file < 0) {
    error = std::string("cannot write the image: ") + std::strerror(errno);
    return std::nullopt;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    error = dlerror();
    close(file);
    return std::nullopt;
  }
  return HostImage(handle);
}

KernelFunction HostImage::find(const std::string &name) const {
  return reinterpret_cast<KernelFunction>(dlsym(handle, name.c_str()));
}
