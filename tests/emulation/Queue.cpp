#include "Driver.h"

#include <algorithm>
#include <array>
#include <thread>

using namespace meshc::emulation;

/// Launches that a real queue takes before it makes the host wait; about 1,000
/// on the GPUs that say. More would only slow the search.
static constexpr size_t maxPending = 4096;

OperationRef Queue::add(std::string text, Context *context, int stream,
                        std::vector<OperationRef> before, Run run) {
  auto operation = std::make_shared<Operation>();
  operation->id = ++lastId;
  operation->text = std::move(text);
  operation->context = context;
  operation->stream = stream;
  operation->run = std::move(run);
  for (OperationRef &other : before) {
    if (!other || other->complete)
      continue;
    ++operation->waitsFor;
    other->after.push_back(operation);
    operation->before.push_back(std::move(other));
  }
  pending[operation->id] = operation;
  if (operation->waitsFor == 0)
    ready.push_back(operation);
  return operation;
}

void Queue::complete(const OperationRef &operation) {
  operation->complete = true;
  operation->time = std::chrono::steady_clock::now() + getDriver().pretended;
  operation->before.clear();
  operation->run = nullptr;
  for (OperationRef &next : operation->after)
    if (--next->waitsFor == 0)
      ready.push_back(next);
  operation->after.clear();
  pending.erase(operation->id);
}

/// Tries the operation ready[index]; whether it is complete now.
bool Queue::attempt(size_t index) {
  OperationRef operation = ready[index];
  Context &context = *operation->context;
  // After an error nothing runs in a context any more.
  if (context.error == CUDA_SUCCESS && operation->run) {
    Progress progress = operation->run();
    if (progress.state == Progress::waiting)
      return false;
    if (progress.state == Progress::failed)
      failContext(context, progress.code,
                  operation->text + ": " + progress.text);
    std::string broken = getDriver().memory.checkGuards();
    if (!broken.empty())
      failContext(context, CUDA_ERROR_ILLEGAL_ADDRESS,
                  operation->text + ": " + broken);
    record("{\"ran\": " + quote(operation->text) +
           ", \"operation\": " + std::to_string(operation->id) + "}");
  }
  ready[index] = ready.back();
  ready.pop_back();
  complete(operation);
  return true;
}

/// Marks everything that must be complete before `target`. What is queued later
/// is not among it.
void Queue::mark(const OperationRef &target) {
  if (markedFor == target->id)
    return;
  markedFor = target->id;
  std::vector<Operation *> open = {target.get()};
  while (!open.empty()) {
    Operation *operation = open.back();
    open.pop_back();
    if (operation->neededFor == markedFor)
      continue;
    operation->neededFor = markedFor;
    for (const OperationRef &other : operation->before)
      open.push_back(other.get());
  }
}

/// How likely a call that waits for something runs anything instead. Seed 0
/// never does: what nobody waits for does not run at all.
static int strayPercent() {
  return std::array{0, 25, 25, 50}[getEnvironment().seed % 4];
}

/// After how many comparisons of a stream its priority changes: some times in a
/// training step of the samples.
static constexpr uint64_t changeEvery = 1000;

/// Which of those that can run is tried first. By chance, or, to hold one
/// stream back for long, by priorities of streams that change now and then
/// (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of
/// finding bugs", ASPLOS 2010).
void Queue::order(std::vector<size_t> &candidates) {
  std::shuffle(candidates.begin(), candidates.end(), random);
  if (getEnvironment().seed % 4 < 2)
    return;
  for (size_t candidate : candidates) {
    auto [entry, isAbsent] =
        priorities.try_emplace(ready[candidate]->stream, 0);
    if (isAbsent || random() % changeEvery == 0)
      entry->second = random();
  }
  std::sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
    return priorities[ready[a]->stream] > priorities[ready[b]->stream];
  });
}

bool Queue::runOne(const OperationRef &target) {
  std::vector<size_t> candidates;
  bool any = !target || static_cast<int>(random() % 100) < strayPercent();
  if (target && !target->complete)
    mark(target);
  for (size_t i = 0; i < ready.size(); ++i)
    if (any || ready[i]->neededFor == target->id)
      candidates.push_back(i);
  order(candidates);
  for (size_t candidate : candidates)
    if (attempt(candidate))
      return true;
  return false;
}

void Queue::runUntil(const OperationRef &target,
                     std::unique_lock<std::mutex> &lock) {
  while (target && !target->complete) {
    if (runOne(target) || runOne(nullptr))
      continue;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

void Queue::runAll(Context *context, std::unique_lock<std::mutex> &lock) {
  for (;;) {
    auto last =
        std::find_if(pending.rbegin(), pending.rend(), [&](auto &entry) {
          return entry.second->context == context;
        });
    if (last == pending.rend())
      return;
    runUntil(OperationRef(last->second), lock);
  }
}

void Queue::runSome() {
  // Even seeds run everything as late as can be.
  if (eagerPercent < 0)
    eagerPercent = std::array{0, 20, 0, 70}[getEnvironment().seed % 4];
  if (static_cast<int>(random() % 100) < eagerPercent ||
      pending.size() > maxPending)
    runOne(nullptr);
}
