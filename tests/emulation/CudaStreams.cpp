// Streams, events, captures and graphs of the emulated driver.

#include "Driver.h"

#include <algorithm>

using namespace meshc::emulation;

namespace {

CUresult createStream(Call &call, CUstream *handle, unsigned flags,
                      int priority) {
  if (!handle || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  Driver &driver = getDriver();
  auto stream = std::make_shared<Stream>();
  stream->id = ++driver.lastStream;
  stream->context = call.context;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  *handle = driver.streams.add<CUstream>(stream);
  call.noteStream(*stream);
  call.note("flags", flags);
  call.note("priority", priority);
  return CUDA_SUCCESS;
}

CUresult missing(Call &call, const char *what) {
  return call.refuse(CUDA_ERROR_INVALID_HANDLE, std::string("no such ") + what);
}

/// Calls that ask about or wait for a captured stream spoil the capture.
CUresult spoil(Call &call, Capture &capture, CUresult code, const char *why) {
  capture.invalid = true;
  return call.refuse(code, why);
}

CUresult createEvent(Call &call, CUevent *handle, unsigned flags) {
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  if (!handle || (flags & ~known))
    return CUDA_ERROR_INVALID_VALUE;
  Driver &driver = getDriver();
  auto event = std::make_shared<Event>();
  event->id = ++driver.lastEvent;
  event->context = call.context;
  event->flags = flags;
  *handle = driver.events.add<CUevent>(event);
  call.note("event", event->id);
  call.note("flags", flags);
  return CUDA_SUCCESS;
}

CUresult recordEvent(Call &call, CUevent handle, CUstream streamHandle) {
  auto event = getDriver().events.find(handle);
  Stream *stream = findStream(call, streamHandle);
  if (!event || !stream)
    return missing(call, event ? "stream" : "event");
  call.note("event", event->id);
  call.noteStream(*stream);
  if (event->context != stream->context)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE,
                       "event and stream are of different contexts");
  if (stream->capture) {
    event->capture = stream->capture;
    event->captureLast = stream->captureLast;
    return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                    : CUDA_SUCCESS;
  }
  event->capture = nullptr;
  CUresult result =
      submit(call, *stream, "event " + std::to_string(event->id),
             []() -> Run { return []() -> Progress { return {}; }; });
  if (result == CUDA_SUCCESS)
    event->recorded = stream->last;
  return result;
}

/// Lets what follows in a captured stream, or one that joins, follow the event.
CUresult waitInCapture(Call &call, Stream &stream, Event &event) {
  if (!event.capture) {
    if (!event.recorded)
      return CUDA_SUCCESS;
    return spoil(call, *stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                 "the event was recorded outside of the capture");
  }
  Capture &capture = *event.capture;
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->invalid = true;
    return spoil(call, capture, CUDA_ERROR_STREAM_CAPTURE_MERGE,
                 "the event is of another capture");
  }
  if (capture.invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!stream.capture) {
    if (&stream == &stream.context->legacy)
      return spoil(call, capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                   "the stream 0 cannot be captured");
    stream.capture = event.capture;
    stream.captureLast.clear();
    capture.streams.insert(&stream);
  }
  for (int node : event.captureLast)
    if (std::find(stream.captureLast.begin(), stream.captureLast.end(), node) ==
        stream.captureLast.end())
      stream.captureLast.push_back(node);
  return CUDA_SUCCESS;
}

CUresult waitEvent(Call &call, CUstream streamHandle, CUevent handle) {
  Driver &driver = getDriver();
  Stream *stream = findStream(call, streamHandle);
  auto event = driver.events.find(handle);
  if (!event || !stream)
    return missing(call, event ? "stream" : "event");
  call.noteStream(*stream);
  call.note("event", event->id);
  if (++driver.waits == getEnvironment().dropWait) {
    call.note("dropped", 1);
    return CUDA_SUCCESS;
  }
  if (event->capture && !driver.captures.count(event->capture))
    return call.refuse(CUDA_ERROR_CAPTURED_EVENT,
                       "the event was recorded in a capture that has ended");
  if (event->capture || stream->capture)
    return waitInCapture(call, *stream, *event);
  if (!event->recorded || event->recorded->complete)
    return CUDA_SUCCESS;
  // The stream may be of another GPU than the current context.
  stream->last = driver.queue.add("wait for event " + std::to_string(event->id),
                                  stream->context, stream->id,
                                  {stream->last, event->recorded},
                                  []() -> Progress { return {}; });
  return CUDA_SUCCESS;
}

// ---- captures ---------------------------------------------------------------

CUresult beginCapture(Call &call, CUstream handle, int mode) {
  Driver &driver = getDriver();
  Stream *stream = findStream(call, handle);
  if (!stream)
    return missing(call, "stream");
  call.noteStream(*stream);
  if (stream == &stream->context->legacy)
    return call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       "the stream 0 cannot be captured");
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture)
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       "the stream is being captured already");
  auto capture = std::make_shared<Capture>();
  capture->id = ++driver.lastCapture;
  capture->origin = stream;
  capture->mode = mode;
  capture->streams.insert(stream);
  stream->capture = capture;
  stream->captureLast.clear();
  driver.captures.insert(capture);
  return CUDA_SUCCESS;
}

/// Whether the origin follows everything that was captured.
bool isJoined(const Capture &capture) {
  std::vector<bool> reached(capture.graph.nodes.size());
  std::vector<int> open = capture.origin->captureLast;
  while (!open.empty()) {
    int node = open.back();
    open.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    const std::vector<int> &before = capture.graph.nodes[node].before;
    open.insert(open.end(), before.begin(), before.end());
  }
  return std::all_of(reached.begin(), reached.end(), [](bool r) { return r; });
}

CUresult endCapture(Call &call, CUstream handle, CUgraph *graph) {
  Driver &driver = getDriver();
  Stream *stream = findStream(call, handle);
  if (!stream)
    return missing(call, "stream");
  call.noteStream(*stream);
  if (!graph)
    return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return call.refuse(CUDA_ERROR_ILLEGAL_STATE,
                       "the stream is not being captured");
  if (capture->origin != stream)
    return spoil(call, *capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                 "the capture began in another stream");
  bool joined = isJoined(*capture);
  for (Stream *member : capture->streams) {
    member->capture = nullptr;
    member->captureLast.clear();
  }
  driver.captures.erase(capture);
  if (capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined)
    return call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                       "a stream was not joined to the one that began");
  call.note("nodes", capture->graph.nodes.size());
  *graph = driver.graphs.add<CUgraph>(
      std::make_shared<Graph>(std::move(capture->graph)));
  return CUDA_SUCCESS;
}

CUresult launchGraph(Call &call, CUgraphExec handle, CUstream streamHandle) {
  Driver &driver = getDriver();
  auto exec = driver.execs.find(handle);
  Stream *stream = findStream(call, streamHandle);
  if (!exec || !stream)
    return missing(call, exec ? "stream" : "graph");
  call.noteStream(*stream);
  if (stream->context != call.context)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE,
                       "the stream is not of the current context");
  if (stream->capture)
    return spoil(call, *stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 "graphs in captures are not emulated");
  // Everything before in the stream, and the graph's launch before.
  CUresult begun = submit(call, *stream, "graph begins", []() -> Run {
    return []() -> Progress { return {}; };
  });
  if (begun != CUDA_SUCCESS)
    return begun;
  std::vector<OperationRef> run, all;
  for (const Graph::Node &node : exec->graph.nodes) {
    std::vector<OperationRef> before = {stream->last, exec->lastLaunch};
    for (int other : node.before)
      before.push_back(run[other]);
    run.push_back(driver.queue.add(node.text, node.context, node.stream,
                                   std::move(before), node.work()));
  }
  std::set<int> priorities;
  for (const Graph::Node &node : exec->graph.nodes)
    priorities.insert(exec->usesNodePriorities ? node.priority
                                               : stream->priority);
  call.note("priorities", priorities.size());
  all = run;
  all.push_back(stream->last);
  stream->last =
      driver.queue.add("graph ends", stream->context, stream->id,
                       std::move(all), []() -> Progress { return {}; });
  exec->lastLaunch = stream->last;
  call.note("nodes", run.size());
  return CUDA_SUCCESS;
}

/// What a query of something answers that may not be complete. Time passes:
/// now and then something runs.
CUresult query(Call &call, const OperationRef &operation) {
  if (operation && !operation->complete)
    getDriver().queue.runOne(operation);
  if (call.context->error)
    return call.context->error;
  return operation && !operation->complete ? CUDA_ERROR_NOT_READY
                                           : CUDA_SUCCESS;
}

CUresult elapsed(Call &call, float *milliseconds, CUevent begin, CUevent end) {
  Driver &driver = getDriver();
  auto first = driver.events.find(begin), second = driver.events.find(end);
  if (!first || !second)
    return missing(call, "event");
  if (!milliseconds)
    return CUDA_ERROR_INVALID_VALUE;
  if ((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "the event takes no time");
  if (!first->recorded || !second->recorded)
    return call.refuse(CUDA_ERROR_INVALID_HANDLE, "the event was not recorded");
  if (!first->recorded->complete || !second->recorded->complete)
    return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(
                      second->recorded->time - first->recorded->time)
                      .count();
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

MESHC_EMULATION_API CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return enter("cuStreamCreate", Needs::context, [&](Call &call) {
    return createStream(call, stream, flags, 0);
  });
}

MESHC_EMULATION_API CUresult cuStreamCreateWithPriority(CUstream *stream,
                                                        unsigned flags,
                                                        int priority) {
  return enter("cuStreamCreateWithPriority", Needs::context, [&](Call &call) {
    return createStream(call, stream, flags, priority);
  });
}

MESHC_EMULATION_API CUresult cuStreamDestroy_v2(CUstream handle) {
  return enter("cuStreamDestroy_v2", Needs::context,
               [&](Call &call) -> CUresult {
                 Driver &driver = getDriver();
                 auto stream = driver.streams.find(handle);
                 if (!stream)
                   return missing(call, "stream");
                 call.noteStream(*stream);
                 if (stream->capture)
                   return spoil(call, *stream->capture,
                                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                "the stream is being captured");
                 // Its work goes on, and a wait for the device for it too.
                 driver.streams.remove(handle);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuStreamSynchronize(CUstream handle) {
  return enter("cuStreamSynchronize", Needs::context,
               [&](Call &call) -> CUresult {
                 Stream *stream = findStream(call, handle);
                 if (!stream)
                   return missing(call, "stream");
                 call.noteStream(*stream);
                 if (stream->capture)
                   return spoil(call, *stream->capture,
                                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                "the stream is being captured");
                 return synchronize(call, *stream);
               });
}

MESHC_EMULATION_API CUresult cuStreamQuery(CUstream handle) {
  return enter("cuStreamQuery", Needs::context, [&](Call &call) -> CUresult {
    Stream *stream = findStream(call, handle);
    if (!stream)
      return missing(call, "stream");
    call.noteStream(*stream);
    if (stream->capture)
      return spoil(call, *stream->capture,
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   "the stream is being captured");
    return query(call, stream->last);
  });
}

MESHC_EMULATION_API CUresult cuStreamGetPriority(CUstream handle,
                                                 int *priority) {
  return enter("cuStreamGetPriority", Needs::context,
               [&](Call &call) -> CUresult {
                 Stream *stream = findStream(call, handle);
                 if (!stream || !priority)
                   return missing(call, "stream");
                 *priority = stream->priority;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuStreamGetFlags(CUstream handle,
                                              unsigned *flags) {
  return enter("cuStreamGetFlags", Needs::context, [&](Call &call) -> CUresult {
    Stream *stream = findStream(call, handle);
    if (!stream || !flags)
      return missing(call, "stream");
    *flags = stream->flags;
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuStreamGetCtx(CUstream handle,
                                            CUcontext *context) {
  return enter("cuStreamGetCtx", Needs::context, [&](Call &call) -> CUresult {
    Stream *stream = findStream(call, handle);
    if (!stream || !context)
      return missing(call, "stream");
    for (const auto &[value, object] : getDriver().contexts.objects)
      if (object.get() == stream->context)
        *context = reinterpret_cast<CUcontext>(value);
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event,
                                               unsigned flags) {
  return enter("cuStreamWaitEvent", Needs::context,
               [&](Call &call) -> CUresult {
                 if (flags != 0)
                   return CUDA_ERROR_INVALID_VALUE;
                 return waitEvent(call, stream, event);
               });
}

MESHC_EMULATION_API CUresult cuLaunchHostFunc(CUstream handle,
                                              CUhostFn function, void *data) {
  return enter("cuLaunchHostFunc", Needs::context, [&](Call &call) -> CUresult {
    Stream *stream = findStream(call, handle);
    if (!stream || !function)
      return missing(call, "stream");
    call.noteStream(*stream);
    return submit(call, *stream, "host function", [=]() -> Run {
      return [=]() -> Progress {
        insideHostFunction = true;
        function(data);
        insideHostFunction = false;
        return {};
      };
    });
  });
}

MESHC_EMULATION_API CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return enter("cuEventCreate", Needs::context,
               [&](Call &call) { return createEvent(call, event, flags); });
}

MESHC_EMULATION_API CUresult cuEventDestroy_v2(CUevent event) {
  return enter(
      "cuEventDestroy_v2", Needs::context, [&](Call &call) -> CUresult {
        return getDriver().events.remove(event) ? CUDA_SUCCESS
                                                : missing(call, "event");
      });
}

MESHC_EMULATION_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enter("cuEventRecord", Needs::context,
               [&](Call &call) { return recordEvent(call, event, stream); });
}

MESHC_EMULATION_API CUresult cuEventQuery(CUevent handle) {
  return enter("cuEventQuery", Needs::context, [&](Call &call) -> CUresult {
    auto event = getDriver().events.find(handle);
    if (!event)
      return missing(call, "event");
    call.note("event", event->id);
    if (event->capture)
      return spoil(call, *event->capture, CUDA_ERROR_CAPTURED_EVENT,
                   "the event was recorded in a capture");
    return query(call, event->recorded);
  });
}

MESHC_EMULATION_API CUresult cuEventSynchronize(CUevent handle) {
  return enter(
      "cuEventSynchronize", Needs::context, [&](Call &call) -> CUresult {
        auto event = getDriver().events.find(handle);
        if (!event)
          return missing(call, "event");
        call.note("event", event->id);
        if (event->capture)
          return spoil(call, *event->capture, CUDA_ERROR_CAPTURED_EVENT,
                       "the event was recorded in a capture");
        getDriver().queue.runUntil(event->recorded, call.lock);
        return event->context->error;
      });
}

MESHC_EMULATION_API CUresult cuEventElapsedTime(float *milliseconds,
                                                CUevent begin, CUevent end) {
  return enter("cuEventElapsedTime", Needs::context, [&](Call &call) {
    return elapsed(call, milliseconds, begin, end);
  });
}

MESHC_EMULATION_API CUresult cuEventElapsedTime_v2(float *milliseconds,
                                                   CUevent begin, CUevent end) {
  return enter("cuEventElapsedTime_v2", Needs::context, [&](Call &call) {
    return elapsed(call, milliseconds, begin, end);
  });
}

MESHC_EMULATION_API CUresult cuStreamBeginCapture_v2(CUstream stream,
                                                     int mode) {
  return enter("cuStreamBeginCapture_v2", Needs::context,
               [&](Call &call) { return beginCapture(call, stream, mode); });
}

MESHC_EMULATION_API CUresult cuStreamEndCapture(CUstream stream,
                                                CUgraph *graph) {
  return enter("cuStreamEndCapture", Needs::context,
               [&](Call &call) { return endCapture(call, stream, graph); });
}

MESHC_EMULATION_API CUresult cuStreamIsCapturing(CUstream handle, int *status) {
  return enter("cuStreamIsCapturing", Needs::context,
               [&](Call &call) -> CUresult {
                 Stream *stream = findStream(call, handle);
                 if (!stream || !status)
                   return missing(call, "stream");
                 *status = !stream->capture ? CU_STREAM_CAPTURE_STATUS_NONE
                           : stream->capture->invalid
                               ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  static thread_local int current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return enter("cuThreadExchangeStreamCaptureMode", Needs::initialization,
               [&](Call &) -> CUresult {
                 if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
                     *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
                   return CUDA_ERROR_INVALID_VALUE;
                 std::swap(current, *mode);
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes,
                                             size_t *count) {
  return enter("cuGraphGetNodes", Needs::context, [&](Call &call) -> CUresult {
    auto graph = getDriver().graphs.find(handle);
    if (!graph || !count)
      return missing(call, "graph");
    if (nodes)
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED,
                         "the emulation tells the number of nodes only");
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
  });
}

MESHC_EMULATION_API CUresult cuGraphDestroy(CUgraph graph) {
  return enter("cuGraphDestroy", Needs::context, [&](Call &call) -> CUresult {
    return getDriver().graphs.remove(graph) ? CUDA_SUCCESS
                                            : missing(call, "graph");
  });
}

MESHC_EMULATION_API CUresult cuGraphInstantiateWithFlags(
    CUgraphExec *exec, CUgraph handle, unsigned long long flags) {
  return enter("cuGraphInstantiateWithFlags", Needs::context,
               [&](Call &call) -> CUresult {
                 Driver &driver = getDriver();
                 auto graph = driver.graphs.find(handle);
                 if (!graph)
                   return missing(call, "graph");
                 constexpr unsigned long long known =
                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
                 if (!exec || (flags & ~known))
                   return CUDA_ERROR_INVALID_VALUE;
                 auto instance = std::make_shared<GraphExec>();
                 instance->graph = *graph;
                 instance->usesNodePriorities = flags & known;
                 *exec = driver.execs.add<CUgraphExec>(instance);
                 call.note("nodes", graph->nodes.size());
                 return CUDA_SUCCESS;
               });
}

MESHC_EMULATION_API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return enter("cuGraphExecDestroy", Needs::context,
               [&](Call &call) -> CUresult {
                 return getDriver().execs.remove(exec) ? CUDA_SUCCESS
                                                       : missing(call, "graph");
               });
}

MESHC_EMULATION_API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return enter("cuGraphUpload", Needs::context, [&](Call &call) -> CUresult {
    if (!getDriver().execs.find(exec))
      return missing(call, "graph");
    return findStream(call, stream) ? CUDA_SUCCESS : missing(call, "stream");
  });
}

MESHC_EMULATION_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return enter("cuGraphLaunch", Needs::context,
               [&](Call &call) { return launchGraph(call, exec, stream); });
}

} // extern "C"
