#include "Driver.h"

#include "Extension.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

using namespace meshc::emulation;

thread_local bool meshc::emulation::insideHostFunction = false;

Driver &meshc::emulation::getDriver() {
  static Driver *driver = new Driver;
  return *driver;
}

std::vector<Context *> &meshc::emulation::getContextStack() {
  static thread_local std::vector<Context *> stack;
  return stack;
}

// ---- the record -------------------------------------------------------------

std::string meshc::emulation::quote(const std::string &text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      quoted += code;
      continue;
    }
    quoted += c;
  }
  return quoted + '"';
}

void meshc::emulation::record(const std::string &line) {
  // One write per line: several processes may share the file.
  static const int file = [] {
    const std::string &path = getEnvironment().log;
    if (path.empty())
      return -1;
    int opened =
        open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0) {
      std::perror(("meshc emulation: " + path).c_str());
      std::_Exit(2);
    }
    return opened;
  }();
  if (file < 0)
    return;
  std::string text =
      "{\"pid\": " + std::to_string(getpid()) + ", " + line.substr(1) + "\n";
  if (write(file, text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    std::perror("meshc emulation: the record");
    std::_Exit(2);
  }
}

void meshc::emulation::report(const std::string &text) {
  std::fprintf(stderr, "meshc emulation: %s\n", text.c_str());
  record("{\"fault\": " + quote(text) + "}");
}

void meshc::emulation::failContext(Context &context, CUresult code,
                                   const std::string &text) {
  report(text);
  if (context.error == CUDA_SUCCESS)
    context.error = code;
}

namespace {

/// The last look, when the process ends.
struct Farewell {
  ~Farewell() {
    Driver &driver = getDriver();
    if (!driver.initialized)
      return;
    std::unique_lock lock(driver.mutex, std::try_to_lock);
    if (!lock)
      return;
    record("{\"exit\": true, \"allocations\": " +
           std::to_string(driver.memory.getCount()) +
           ", \"streams\": " + std::to_string(driver.streams.objects.size()) +
           ", \"events\": " + std::to_string(driver.events.objects.size()) +
           ", \"graphs\": " +
           std::to_string(driver.graphs.objects.size() +
                          driver.execs.objects.size()) +
           "}");
    std::string broken = driver.memory.checkGuards();
    if (!broken.empty()) {
      report("at exit: " + broken);
      std::abort();
    }
  }
} farewell;

} // namespace

// ---- calls ------------------------------------------------------------------

void Call::note(const char *key, int64_t value) {
  notes += std::string(", \"") + key + "\": " + std::to_string(value);
}

void Call::note(const char *key, const std::string &value) {
  notes += std::string(", \"") + key + "\": " + quote(value);
}

void Call::noteStream(const Stream &stream) { note("stream", stream.id); }

CUresult Call::refuse(CUresult code, const std::string &why) {
  report(std::string(name) + ": " + why);
  return code;
}

bool meshc::emulation::countCall(const char *name, int &code) {
  int64_t call = ++getDriver().calls[name];
  std::string base = name;
  if (size_t end = base.rfind("_v"); end != std::string::npos)
    base.resize(end);
  for (const Failure &failure : getEnvironment().failures) {
    if ((failure.function == name || failure.function == base) &&
        failure.call == call) {
      code = failure.code;
      return true;
    }
  }
  return false;
}

CUresult meshc::emulation::enter(const char *name, Needs needs,
                                 const std::function<CUresult(Call &)> &body) {
  Call call(name);
  if (insideHostFunction)
    return CUDA_ERROR_NOT_PERMITTED;
  Driver &driver = getDriver();
  call.lock = std::unique_lock(driver.mutex);
  if (!getContextStack().empty())
    call.context = getContextStack().back();
  CUresult result;
  int injected;
  if (countCall(name, injected))
    result = injected;
  else if (needs != Needs::nothing && !driver.initialized)
    result = CUDA_ERROR_NOT_INITIALIZED;
  else if (needs == Needs::context && !call.context)
    result = CUDA_ERROR_INVALID_CONTEXT;
  else if (needs == Needs::context && call.context->error)
    result = call.context->error;
  else
    result = body(call);
  std::string line = "{\"call\": " + quote(name);
  if (call.context)
    line += ", \"device\": " + std::to_string(call.context->device);
  record(line + call.notes + ", \"result\": " + std::to_string(result) + "}");
  if (!driver.queue.empty())
    driver.queue.runSome();
  return result;
}

Stream *meshc::emulation::findStream(Call &call, CUstream handle) {
  // CU_STREAM_LEGACY is 1.
  if (reinterpret_cast<uintptr_t>(handle) <= 1)
    return &call.context->legacy;
  return getDriver().streams.find(handle).get();
}

CUresult meshc::emulation::checkNoCapture(Call &call) {
  for (const auto &capture : getDriver().captures) {
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
      capture->invalid = true;
      return call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                         "a stream is being captured");
    }
  }
  return CUDA_SUCCESS;
}

CUresult meshc::emulation::submit(Call &call, Stream &stream, std::string text,
                                  Work work) {
  Driver &driver = getDriver();
  if (stream.context != call.context)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE,
                       "the stream is not of the current context");
  if (stream.capture) {
    Capture &capture = *stream.capture;
    if (capture.invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    int node = static_cast<int>(capture.graph.nodes.size());
    capture.graph.nodes.push_back({std::move(text), stream.context, stream.id,
                                   stream.priority, std::move(work),
                                   stream.captureLast});
    stream.captureLast = {node};
    call.note("node", node);
    return CUDA_SUCCESS;
  }
  std::vector<OperationRef> before = {stream.last};
  // The legacy stream and the blocking ones of its context wait for each other.
  bool isLegacy = &stream == &stream.context->legacy;
  if (!isLegacy && !(stream.flags & CU_STREAM_NON_BLOCKING))
    before.push_back(stream.context->legacy.last);
  for (auto &[handle, other] : driver.streams.objects) {
    if (!isLegacy || other->context != stream.context ||
        (other->flags & CU_STREAM_NON_BLOCKING))
      continue;
    if (other->capture) {
      other->capture->invalid = true;
      return call.refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                         "the stream 0 would wait for a captured stream");
    }
    before.push_back(other->last);
  }
  stream.last = driver.queue.add(std::move(text), stream.context, stream.id,
                                 std::move(before), work());
  call.note("operation", stream.last->id);
  return CUDA_SUCCESS;
}

CUresult meshc::emulation::synchronize(Call &call, Stream &stream) {
  getDriver().queue.runUntil(stream.last, call.lock);
  return stream.context->error;
}

// ---- what the other emulated libraries use ----------------------------------

namespace {

/// Runs the queue while the program does something else, as a GPU would: other
/// processes may wait for what this one has queued. Before, everything happens
/// in calls, in an order that the seed decides alone.
void startBackground() {
  static bool started = false;
  if (started)
    return;
  started = true;
  std::thread([] {
    Driver &driver = getDriver();
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::lock_guard lock(driver.mutex);
      for (int i = 0; i < 16 && driver.queue.runOne(nullptr); ++i)
        ;
    }
  }).detach();
}

/// One execution of a library's work.
struct LibraryRun {
  explicit LibraryRun(const meshcEmulationWork &work)
      : work(work), state(work.begin(work.data)) {}
  LibraryRun(const LibraryRun &) = delete;
  ~LibraryRun() { work.end(state); }
  const meshcEmulationWork &work;
  void *state;
};

} // namespace

extern "C" {

MESHC_EMULATION_API CUresult
meshcEmulationSubmit(CUstream handle, const meshcEmulationWork *work) {
  std::shared_ptr<meshcEmulationWork> owned(new meshcEmulationWork(*work),
                                            [](meshcEmulationWork *work) {
                                              work->destroy(work->data);
                                              delete work;
                                            });
  std::string text = work->text;
  return enter("submit", Needs::context, [&](Call &call) -> CUresult {
    Stream *stream = findStream(call, handle);
    if (!stream)
      return call.refuse(CUDA_ERROR_INVALID_HANDLE, "no such stream");
    call.noteStream(*stream);
    call.note("work", text);
    if (owned->waits)
      startBackground();
    return submit(call, *stream, text, [owned]() -> Run {
      auto run = std::make_shared<LibraryRun>(*owned);
      return [owned, run]() -> Progress {
        int result = run->work.poll(run->state);
        if (result > 0)
          return {Progress::waiting, CUDA_SUCCESS, ""};
        if (result < 0)
          return {Progress::failed, -result, "failed"};
        return {};
      };
    });
  });
}

MESHC_EMULATION_API bool meshcEmulationCall(const char *function,
                                            const char *arguments, int *code) {
  std::lock_guard lock(getDriver().mutex);
  record("{\"call\": " + quote(function) + (*arguments ? ", " : "") +
         arguments + "}");
  return countCall(function, *code);
}

MESHC_EMULATION_API CUresult meshcEmulationCheckRange(CUdeviceptr address,
                                                      size_t bytes) {
  std::lock_guard lock(getDriver().mutex);
  return bytes == 0 || getDriver().memory.find(address, bytes)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Work takes time while it runs, under the driver's lock.
MESHC_EMULATION_API void meshcEmulationTakeTime(int64_t microseconds) {
  getDriver().pretended += std::chrono::microseconds(microseconds);
}

MESHC_EMULATION_API int meshcEmulationCurrentBus(void) {
  std::lock_guard lock(getDriver().mutex);
  const auto &stack = getContextStack();
  return stack.empty() ? -1 : getEnvironment().visible[stack.back()->device];
}

} // extern "C"
