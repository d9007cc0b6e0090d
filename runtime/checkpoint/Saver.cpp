#include "runtime/checkpoint/Saver.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/data/Values.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

/// For the slowest disk of the run to take the largest shard.
static constexpr double patienceSeconds = 6 * 3600;

Saver::Saver(DeviceSet &devices, Ranks *ranks, const SaveRequest &request,
             const TrainingPosition &position)
    : devices(devices), ranks(ranks), request(request), position(position),
      writer(request.bufferBytes), lastStep(position.step),
      lastTime(Clock::now()) {}

Saver::~Saver() {
  if (thread.joinable())
    thread.join();
}

Result<std::unique_ptr<Saver>> Saver::create(DeviceSet &devices, Ranks *ranks,
                                             const SaveRequest &request,
                                             const TrainingPosition &position,
                                             bool resumesFromFolder) {
  std::unique_ptr<Saver> saver(new Saver(devices, ranks, request, position));
  Status ready = saver->lock(resumesFromFolder);
  if (ready)
    ready = saver->prepareBlocks();
  if (!ready)
    return ready.getError();
  // A training that begins with no checkpoint saves its first step, too.
  if (!resumesFromFolder)
    saver->lastStep = -1;
  return saver;
}

/// An error if a training would write over what another one has saved.
static Status checkSteps(const std::string &folder, int64_t step,
                         bool resumesFromFolder) {
  Result<std::vector<int64_t>> steps = listSteps(folder);
  if (!steps)
    return steps.getError();
  if (steps->empty() || (resumesFromFolder && steps->back() <= step))
    return Status::success();
  if (!resumesFromFolder)
    return Error{ErrorCode::HasCheckpoints,
                 fmt::format("'{}' has checkpoints, the last one of step {}",
                             folder, steps->back()),
                 fmt::format("go on from there by --resume {}, or save into "
                             "another folder",
                             folder)};
  return Error{
      ErrorCode::HasCheckpoints,
      fmt::format("'{}' has checkpoints up to step {}, but training is to go "
                  "on from step {}",
                  folder, steps->back(), step),
      "go on from the last one, or save into another folder"};
}

Status Saver::lock(bool resumesFromFolder) {
  if (isFirst()) {
    Result<SaveFolder> locked = SaveFolder::lock(request.folder);
    if (!locked)
      return locked.getError();
    folder = std::move(*locked);
    Status free = checkSteps(request.folder, position.step, resumesFromFolder);
    if (!free)
      return free;
    if (request.best) {
      Result<BestFolder> opened =
          BestFolder::open(request.folder, *request.best, position,
                           resumesFromFolder || request.continues);
      if (!opened)
        return opened.getError();
      best = std::move(*opened);
    }
  }
  if (getNumRanks() == 1)
    return Status::success();
  // Who holds the lock is in its file, which all see if it is one folder.
  Status locked = waitForAll("checkpoint/lock");
  if (!locked)
    return locked;
  Result<std::string> owner = readOwner(request.folder);
  return ranks->agree({{"the lock in the folder of --save",
                        owner ? *owner : owner.getError().message}});
}

Status Saver::prepareBlocks() {
  for (const auto &variable : devices.getExecutable().data.variables) {
    const exec::TensorLayoutT &layout = *variable->layout;
    if (getSharding(layout).isPartial())
      return Error{ErrorCode::Internal,
                   fmt::format("variable '{}' is a partial sum, which is not "
                               "saved",
                               variable->name),
                   ""};
    StoredTensor tensor{variable->name, variable->role, layout.element, {}, {}};
    for (const auto &dim : layout.dims)
      tensor.dims.push_back({dim->name, dim->size});
    tensors.push_back(std::move(tensor));
    addBlocks(*variable);
  }
  // As they will lie in the file.
  std::vector<Block> ordered;
  for (int64_t width : {8, 4, 2, 1})
    for (Block &block : blocks)
      if (getElementBytes(tensors[block.tensor].element) == width)
        ordered.push_back(std::move(block));
  blocks = std::move(ordered);
  return Status::success();
}

void Saver::addBlocks(const exec::VariableT &variable) {
  const exec::TensorLayoutT &layout = *variable.layout;
  const layout::Mesh &mesh = devices.getExecutable().mesh;
  const std::vector<int64_t> sizes = getSizes(layout);
  const layout::Sharding sharding = getSharding(layout);
  struct Owned {
    int64_t device;
    Placement placement;
  };
  std::vector<Owned> local;
  std::map<std::vector<int64_t>, int64_t> owners; ///< by first element
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    Placement placement = getPlacement(mesh, sizes, sharding, device);
    std::vector<int64_t> first;
    for (const layout::Range &range : placement.owned)
      first.push_back(range.offset);
    if (getVolume(placement.owned) > 0 &&
        owners.emplace(first, device).second && devices.isLocal(device))
      local.push_back({device, std::move(placement)});
  }
  if (local.empty())
    return;
  // Blocks of one process that are a box together are stored as one.
  Box hull = local[0].placement.owned;
  int64_t volume = 0;
  for (const Owned &owned : local) {
    hull = getHull(hull, owned.placement.owned);
    volume += getVolume(owned.placement.owned);
  }
  const bool areOne = volume == getVolume(hull);
  for (const Owned &owned : local) {
    if (&owned == &local[0] || !areOne)
      blocks.push_back(
          {tensors.size() - 1, areOne ? hull : owned.placement.owned, {}});
    std::vector<int64_t> origin;
    for (const layout::Range &range : owned.placement.owned)
      origin.push_back(range.offset);
    blocks.back().parts.push_back(
        {owned.device, variable.buffer,
         BoxRuns(owned.placement.owned, blocks.back().box, origin,
                 owned.placement.block, getElementBytes(layout.element))});
  }
}

bool Saver::isDue(int64_t step) {
  if (request.everySteps)
    return step % *request.everySteps == 0;
  return request.everySeconds &&
         std::chrono::duration<double>(Clock::now() - lastTime).count() >=
             *request.everySeconds;
}

SafetensorsHeader Saver::makeHeader(int64_t step) const {
  SafetensorsHeader header;
  header.metadata = {{"format", "meshc"},
                     {"model", devices.getExecutable().data.model},
                     {"step", std::to_string(step)}};
  for (const Block &block : blocks) {
    const StoredTensor &tensor = tensors[block.tensor];
    SafetensorsEntry entry;
    entry.name = tensor.getName(block.box);
    entry.element = tensor.element;
    for (const layout::Range &range : block.box)
      entry.shape.push_back(range.count);
    header.entries.push_back(std::move(entry));
  }
  return header;
}

Status Saver::save(int64_t step) {
  Status before = finish();
  if (!before || step == lastStep)
    return before;
  lastStep = step;
  lastTime = Clock::now();
  return start({step, request.folder, std::nullopt});
}

Status Saver::saveBest(int64_t step, double value) {
  Status before = finish();
  if (!before)
    return before;
  if (best)
    best->setBest(step, value);
  return start(
      {step, getBestPath(request.folder), Evaluation{*request.best, value}});
}

Status Saver::start(Job job) {
  SafetensorsHeader header = makeHeader(job.step);
  const std::string front = layOut(header);
  const uint64_t bytes = blocks.empty() ? 0 : header.entries.back().end;
  writer.begin(bytes);
  isWriting = true; // there is no thread
  thread = std::thread([this, job = std::move(job), bytes] {
    Status saved = Status::success();
    try {
      saved = write(job, bytes);
    } catch (const std::exception &) {
      saved = getCaughtError();
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (!saved)
      failure = saved.getError();
    isWriting = false;
    changed.notify_all();
  });
  Status copied = bytes > 0 ? copyState(header, front) : Status::success();
  if (!copied)
    writer.fail(copied.getError());
  return copied ? check() : copied;
}

Status Saver::copyState(const SafetensorsHeader &header,
                        const std::string &front) {
  const uint64_t bytes = header.entries.back().end;
  size_t first = 0; ///< block that ends behind what is filled
  Status copied = Status::success();
  for (uint64_t begin = 0; begin < bytes; begin += pieceBytes) {
    // What is not copied has no one to read it, but the threads wait for it.
    const std::span<std::byte> piece = writer.getPiece();
    if (written)
      written(writer.getWrittenBytes(), bytes);
    const uint64_t end = begin + piece.size();
    if (begin < front.size())
      std::memcpy(piece.data(), front.data() + begin,
                  size_t(std::min<uint64_t>(end, front.size()) - begin));
    for (size_t i = first; i < blocks.size() && copied; ++i) {
      const SafetensorsEntry &entry = header.entries[i];
      if (entry.begin >= end)
        break;
      const uint64_t from = std::max(begin, entry.begin);
      const uint64_t to = std::min(end, entry.end);
      copied =
          copyBlock(blocks[i], int64_t(from - entry.begin),
                    int64_t(to - entry.begin), piece.data() + (from - begin));
      first = entry.end <= end ? i + 1 : i;
    }
  }
  writer.endPieces();
  return copied;
}

Status Saver::copyBlock(const Block &block, int64_t begin, int64_t end,
                        std::byte *target) {
  for (const Part &part : block.parts) {
    const layout::Range local = part.runs.getLocalBytes(begin, end);
    if (local.count == 0)
      continue;
    Status read = devices.readLocal(
        part.device, part.buffer, uint64_t(local.offset), uint64_t(local.count),
        [&](const std::byte *source) {
          part.runs.visit(begin, end, [&](const RunRow &row) {
            copyRuns(target + (row.stored - begin), row.storedStep,
                     source + (row.local - local.offset), row.localStep,
                     row.bytes, row.count);
          });
        });
    if (!read)
      return read;
  }
  return Status::success();
}

Status Saver::check() {
  std::lock_guard<std::mutex> lock(mutex);
  return failure ? Status(*failure) : Status::success();
}

Status Saver::finish() {
  if (thread.joinable()) {
    const uint64_t bytes = writer.getFileBytes();
    std::unique_lock<std::mutex> lock(mutex);
    while (written && bytes > 0 &&
           !changed.wait_for(lock, std::chrono::milliseconds(100),
                             [&] { return !isWriting; }))
      written(writer.getWrittenBytes(), bytes);
    lock.unlock();
    thread.join();
  }
  return check();
}

//===----------------------------------------------------------------------===//
// In the thread
//===----------------------------------------------------------------------===//

Status Saver::waitForAll(const char *name) {
  return getNumRanks() > 1 ? ranks->getStore().barrier(name, patienceSeconds)
                           : Status::success();
}

/// Where a rank puts its report.
static std::string getReportKey(int64_t rank) {
  return fmt::format("checkpoint/{}", rank);
}

Status Saver::write(const Job &job, uint64_t bytes) {
  StoredFile file{getShardName(getRank(), getNumRanks()), bytes, {}};
  auto writeShard = [&]() -> Status {
    if (isFirst()) {
      Result<std::string> begun = getFolder(job).begin(job.step);
      if (!begun)
        return begun.getError();
    }
    Status made = waitForAll("checkpoint/folder");
    if (!made || bytes == 0)
      return made;
    const std::string part = getPartPath(job.folder, job.step);
    Status opened = writer.open(part + "/" + file.name);
    if (!opened)
      return opened;
    Result<std::vector<Digest>> written = writer.end();
    if (!written)
      return written.getError();
    file.pieces = std::move(*written);
    return Status::success();
  };
  Status written = writeShard();
  if (!written)
    writer.fail(written.getError());
  if (written && !isFirst())
    written = report(file);
  if (written)
    written = waitForAll("checkpoint/shards");
  if (written && isFirst())
    written = commit(job, file);
  if (written)
    written = waitForAll("checkpoint/committed");
  if (!written && isFirst())
    getFolder(job).abandon(job.step);
  return written;
}

/// The ranges of a box, as the manifest has them.
static std::string spellBox(const Box &box) {
  std::string text;
  for (const layout::Range &range : box)
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", range.offset,
                        range.count);
  return text;
}

Status Saver::report(const StoredFile &file) {
  std::string pieces, list;
  for (const Digest &piece : file.pieces)
    pieces += fmt::format("{}\"{}\"", pieces.empty() ? "" : ", ", toHex(piece));
  for (const Block &block : blocks)
    list += fmt::format("{}{{\"tensor\": {}, \"box\": [{}]}}",
                        list.empty() ? "" : ", ", block.tensor,
                        spellBox(block.box));
  return ranks->getStore().set(
      getReportKey(getRank()),
      fmt::format("{{\"bytes\": {}, \"pieces\": [{}], \"blocks\": [{}]}}",
                  file.bytes, pieces, list));
}

/// "data = 2, model = 2".
static std::string describeMesh(const layout::Mesh &mesh) {
  std::string text;
  for (const layout::MeshAxis &axis : mesh.getAxes())
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", axis.name,
                        axis.size);
  return text;
}

/// Adds what a rank says that it has written: one of this run, which has the
/// same program and is believed.
static Status addReport(Manifest &manifest, std::string_view report,
                        std::string name) {
  Result<nlohmann::json> parsed = parseStrictJson(report, name);
  if (!parsed)
    return parsed.getError();
  JsonFields fields(*parsed);
  StoredFile file{std::move(name), uint64_t(fields.getNumber("bytes")), {}};
  for (const nlohmann::json &piece : fields.getList("pieces"))
    file.pieces.push_back(fromHex(piece.get<std::string>()).value());
  for (const nlohmann::json &object : fields.getList("blocks")) {
    StoredBlock block{int64_t(manifest.files.size()), {}};
    for (const nlohmann::json &range : object.at("box"))
      block.box.push_back(
          {range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
    manifest.tensors.at(object.at("tensor").get<size_t>())
        .blocks.push_back(std::move(block));
  }
  if (file.bytes > 0)
    manifest.files.push_back(std::move(file));
  return Status::success();
}

Status Saver::commit(const Job &job, const StoredFile &own) {
  const exec::ExecutableT &data = devices.getExecutable().data;
  Manifest manifest;
  manifest.producer = data.producer;
  manifest.model = data.model;
  manifest.specSha256 = data.spec_sha256;
  manifest.mesh = describeMesh(devices.getExecutable().mesh);
  manifest.precision = data.training ? data.training->precision : "";
  manifest.processes = getNumRanks();
  manifest.savedAt = int64_t(std::time(nullptr));
  manifest.position = position;
  manifest.position.step = job.step;
  manifest.evaluation = job.evaluation;
  manifest.tensors = tensors;
  if (own.bytes > 0) {
    manifest.files.push_back(own);
    for (const Block &block : blocks)
      manifest.tensors[block.tensor].blocks.push_back({0, block.box});
  }
  for (int64_t rank = 1; rank < getNumRanks(); ++rank) {
    Result<std::string> report =
        ranks->getStore().get(getReportKey(rank), patienceSeconds);
    if (!report)
      return report.getError();
    Status added =
        addReport(manifest, *report, getShardName(rank, getNumRanks()));
    if (!added)
      return added;
  }
  const SaveFolder &target = getFolder(job);
  Status committed = target.commit(job.step, renderManifest(manifest));
  if (!committed)
    return committed;
  return job.evaluation ? target.keepOnly(job.step)
                        : target.keepLast(request.keep);
}
