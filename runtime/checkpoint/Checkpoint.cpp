#include "runtime/checkpoint/Checkpoint.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/StrictJson.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

using namespace meshc;
using namespace meshc::runtime;

/// The folder of the checkpoint that is meant.
static Result<std::string> findCheckpoint(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path + "/" + manifestName, ignored))
    return path;
  if (!fs::exists(path, ignored))
    return Error{ErrorCode::NoCheckpoint,
                 fmt::format("there is no folder '{}'", path), ""};
  Result<std::vector<int64_t>> steps = listSteps(path);
  if (!steps)
    return steps.getError();
  if (steps->empty())
    return Error{ErrorCode::NoCheckpoint,
                 fmt::format("'{}' has no checkpoints", path), ""};
  return path + "/" + getStepName(steps->back());
}

Result<Checkpoint> Checkpoint::open(const std::string &path) {
  Result<std::string> found = findCheckpoint(path);
  if (!found)
    return found.getError();
  Checkpoint checkpoint;
  checkpoint.path = *found;
  const std::string manifestPath = *found + "/" + manifestName;
  uint64_t bytes = 0;
  Result<OwnedFile> file = openStored(manifestPath, bytes);
  if (!file)
    return file.getError();
  if (bytes > maxJsonBytes)
    return Error{ErrorCode::DamagedFile,
                 fmt::format("'{}' is damaged: it has {} bytes, expected at "
                             "most {}",
                             manifestPath, bytes, maxJsonBytes),
                 ""};
  std::string text(size_t(bytes), '\0');
  Status read = readFully(*file, 0, std::as_writable_bytes(std::span(text)),
                          manifestPath);
  if (!read)
    return read.getError();
  Result<Manifest> manifest = parseManifest(text, manifestPath);
  if (!manifest)
    return manifest.getError();
  checkpoint.manifest = std::make_unique<Manifest>(std::move(*manifest));
  checkpoint.digest = toHex(runtime::digest(std::as_bytes(std::span(text))));
  Status opened = checkpoint.openFiles();
  return opened ? Result<Checkpoint>(std::move(checkpoint)) : opened.getError();
}

Status Checkpoint::openFiles() {
  for (const StoredTensor &tensor : manifest->tensors)
    places.emplace_back(tensor.blocks.size());
  for (const StoredFile &stored : manifest->files) {
    OpenedFile opened{path + "/" + stored.name, OwnedFile(), &stored};
    uint64_t bytes = 0;
    Result<OwnedFile> file = openStored(opened.path, bytes);
    if (!file)
      return file.getError();
    if (bytes != stored.bytes)
      return Error{ErrorCode::DamagedFile,
                   fmt::format("'{}' is damaged: it has {} bytes, expected {}",
                               opened.path, bytes, stored.bytes),
                   ""};
    opened.file = std::move(*file);
    files.push_back(std::move(opened));
  }
  for (size_t i = 0; i < files.size(); ++i)
    if (Status read = readHeader(int64_t(i)); !read)
      return read;
  return Status::success();
}

Status Checkpoint::readHeader(int64_t number) {
  const OpenedFile &file = files[size_t(number)];
  // Piece by piece, so that the digests say whether it is sound. How many are
  // read ahead is a guess until then.
  uint64_t length = 0;
  if (file.stored->bytes >= sizeof(length))
    if (Status got =
            readFully(file.file, 0,
                      std::as_writable_bytes(std::span(&length, 1)), file.path);
        !got)
      return got;
  const uint64_t guess = std::min(length, maxJsonBytes) + sizeof(length);
  std::vector<PiecePlace> order;
  for (int64_t i = 0;
       i < getNumPieces(std::min<uint64_t>(guess, file.stored->bytes)); ++i)
    order.push_back({number, i});
  PieceReader reader(files, std::move(order));
  std::span<const std::byte> piece;
  uint64_t begin = 0, end = 0; ///< of the piece
  auto read = [&](uint64_t place, std::span<std::byte> target) -> Status {
    while (!target.empty()) {
      if (place >= end) {
        Result<std::span<const std::byte>> next = reader.next();
        if (!next)
          return next.getError();
        piece = *next;
        begin = end;
        end += piece.size();
      }
      const size_t count =
          size_t(std::min<uint64_t>(target.size(), end - place));
      std::memcpy(target.data(), piece.data() + (place - begin), count);
      place += count;
      target = target.subspan(count);
    }
    return Status::success();
  };
  Result<SafetensorsHeader> header =
      readSafetensorsHeader(read, file.stored->bytes, file.path);
  if (!header)
    return header.getError();
  std::map<std::string_view, const SafetensorsEntry *> entries;
  for (const SafetensorsEntry &entry : header->entries)
    entries[entry.name] = &entry;
  size_t numFound = 0;
  for (size_t i = 0; i < manifest->tensors.size(); ++i) {
    const StoredTensor &tensor = manifest->tensors[i];
    for (size_t j = 0; j < tensor.blocks.size(); ++j) {
      const StoredBlock &block = tensor.blocks[j];
      if (block.file != number)
        continue;
      const std::string name = tensor.getName(block.box);
      const auto found = entries.find(name);
      std::vector<int64_t> shape;
      for (const layout::Range &range : block.box)
        shape.push_back(range.count);
      if (found == entries.end() || found->second->shape != shape ||
          found->second->element != tensor.element ||
          !found->second->foreignType.empty())
        return Error{ErrorCode::DamagedFile,
                     fmt::format("'{}' is damaged: it has no tensor '{}' as "
                                 "'{}' says",
                                 file.path, name, manifestName),
                     ""};
      places[i][j] = found->second->begin;
      ++numFound;
    }
  }
  if (numFound != entries.size())
    return Error{ErrorCode::DamagedFile,
                 fmt::format("'{}' is damaged: it has {} tensors, '{}' names "
                             "{} of it",
                             file.path, entries.size(), manifestName, numFound),
                 ""};
  return Status::success();
}

Status Checkpoint::verify(const ByteListener &listener) const {
  std::vector<PiecePlace> order;
  for (size_t file = 0; file < files.size(); ++file)
    for (size_t i = 0; i < files[file].stored->pieces.size(); ++i)
      order.push_back({int64_t(file), int64_t(i)});
  const size_t count = order.size();
  PieceReader reader(files, std::move(order));
  for (size_t i = 0; i < count; ++i) {
    if (Result<std::span<const std::byte>> piece = reader.next(); !piece)
      return piece.getError();
    if (listener)
      listener((i + 1) * pieceBytes, count * pieceBytes);
  }
  return Status::success();
}

std::vector<Checkpoint::Segment>
Checkpoint::find(const StoredTensor &tensor, const Box &box,
                 std::span<const int64_t> blockShape) const {
  std::vector<int64_t> origin;
  for (const layout::Range &range : box)
    origin.push_back(range.offset);
  const size_t number = size_t(&tensor - manifest->tensors.data());
  std::vector<Segment> segments;
  for (size_t i = 0; i < tensor.blocks.size(); ++i) {
    const StoredBlock &block = tensor.blocks[i];
    const Box part = intersect(box, block.box);
    if (getVolume(part) == 0)
      continue;
    Segment segment{block.file,
                    places[number][i],
                    BoxRuns(part, block.box, origin, blockShape,
                            getElementBytes(tensor.element)),
                    {}};
    const int64_t first = int64_t(
        (segment.begin + uint64_t(segment.runs.getBegin())) / pieceBytes);
    const int64_t last = int64_t(
        (segment.begin + uint64_t(segment.runs.getEnd()) - 1) / pieceBytes);
    for (int64_t piece = first; piece <= last; ++piece) {
      const int64_t begin =
          piece * int64_t(pieceBytes) - int64_t(segment.begin);
      if (segment.runs.getLocalBytes(begin, begin + int64_t(pieceBytes)).count >
          0)
        segment.pieces.push_back(piece);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

/// A part of a stored block that blocks of devices take from one of its pieces.
struct Checkpoint::PieceCopy {
  PiecePlace place;
  const Segment *segment;
  size_t target; ///< which of the blocks that are filled together
};

std::vector<Checkpoint::PieceCopy>
Checkpoint::listCopies(std::span<const std::vector<Segment> *const> targets) {
  std::vector<PieceCopy> copies;
  for (size_t i = 0; i < targets.size(); ++i)
    for (const Segment &segment : *targets[i])
      for (int64_t piece : segment.pieces)
        copies.push_back({{segment.file, piece}, &segment, i});
  std::sort(copies.begin(), copies.end(),
            [](const PieceCopy &a, const PieceCopy &b) {
              return std::tuple(a.place.file, a.place.piece, a.target) <
                     std::tuple(b.place.file, b.place.piece, b.target);
            });
  return copies;
}

/// Takes pieces that are read in the order in which they are asked for.
class Checkpoint::PieceSequence {
public:
  /// `listener` may be empty.
  PieceSequence(std::span<const OpenedFile> files,
                std::vector<PiecePlace> places, const ByteListener &listener)
      : listener(listener) {
    // What follows itself is read once.
    places.erase(std::unique(places.begin(), places.end()), places.end());
    count = places.size();
    reader.emplace(files, std::move(places));
  }

  /// The piece at a place: that of the last call, or the one that follows it.
  Result<std::span<const std::byte>> get(const PiecePlace &place) {
    if (!piece.empty() && current == place)
      return piece;
    Result<std::span<const std::byte>> next = reader->next();
    if (!next)
      return next;
    piece = *next;
    current = place;
    ++numRead;
    if (listener)
      listener(numRead * pieceBytes, count * pieceBytes);
    return piece;
  }

private:
  ByteListener listener;
  std::optional<PieceReader> reader;
  size_t count = 0, numRead = 0;
  std::span<const std::byte> piece;
  PiecePlace current;
};

Status Checkpoint::copyPieces(PieceSequence &pieces,
                              std::span<const PieceCopy> copies,
                              std::span<std::byte *const> targets) {
  for (const auto &[place, segment, target] : copies) {
    Result<std::span<const std::byte>> piece = pieces.get(place);
    if (!piece)
      return piece.getError();
    // In bytes of the block.
    const int64_t begin =
        place.piece * int64_t(pieceBytes) - int64_t(segment->begin);
    segment->runs.visit(begin, begin + int64_t(piece->size()),
                        [&, block = targets[target]](const RunRow &row) {
                          copyRuns(block + row.local, row.localStep,
                                   piece->data() + (row.stored - begin),
                                   row.storedStep, row.bytes, row.count);
                        });
  }
  return Status::success();
}

Result<HostArray> Checkpoint::read(const StoredTensor &tensor) const {
  HostArray array{tensor.element, tensor.getSizes(), {}};
  array.data.resize(size_t(tensor.getBytes()));
  Status read = readBlock(tensor, {getWhole(array.shape), array.shape},
                          array.data.data());
  return read ? Result<HostArray>(std::move(array)) : read.getError();
}

Status Checkpoint::readBlock(const StoredTensor &tensor,
                             const Placement &placement,
                             std::byte *target) const {
  if (getVolume(placement.owned) == 0)
    return Status::success();
  const std::vector<Segment> segments =
      find(tensor, placement.owned, placement.block);
  const std::vector<PieceCopy> copies = listCopies({{&segments}});
  std::vector<PiecePlace> places;
  for (const PieceCopy &copy : copies)
    places.push_back(copy.place);
  PieceSequence pieces(files, std::move(places), {});
  return copyPieces(pieces, copies, {{target}});
}

namespace {

/// A block of a device, `bytes` of which are filled.
struct LoadedBlock {
  int64_t device;
  int buffer;
  uint64_t bytes;
};

} // namespace

/// Has `fill` write to all blocks at once.
static Status
writeTogether(DeviceSet &devices, std::span<const LoadedBlock> blocks,
              std::vector<std::byte *> &opened,
              const std::function<Status(std::span<std::byte *const>)> &fill) {
  if (opened.size() == blocks.size())
    return fill(opened);
  const auto [device, buffer, bytes] = blocks[opened.size()];
  Status filled = Status::success();
  Status written = devices.write(device, buffer, bytes, [&](std::byte *memory) {
    opened.push_back(memory);
    filled = writeTogether(devices, blocks, opened, fill);
  });
  return filled ? written : filled;
}

Status Checkpoint::load(DeviceSet &devices,
                        const ByteListener &listener) const {
  const Executable &executable = devices.getExecutable();
  // Blocks of a variable, filled together, so that a piece that several devices
  // have parts of is read once.
  struct Group {
    std::vector<LoadedBlock> blocks;
    std::vector<std::vector<Segment>> segments;
    std::vector<PieceCopy> copies;
  };
  std::vector<Group> groups;
  const auto maxBlocks = size_t(devices.getMaxOpenWrites());
  for (const auto &variable : executable.data.variables) {
    const StoredTensor *tensor = manifest->find(variable->name);
    if (!tensor)
      continue;
    const exec::TensorLayoutT &layout = *variable->layout;
    const std::vector<int64_t> sizes = getSizes(layout);
    const layout::Sharding sharding = getSharding(layout);
    const uint64_t bytes =
        uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
    bool isNew = true;
    for (int64_t device = 0; device < executable.getNumDevices(); ++device) {
      const Placement placement =
          getPlacement(executable.mesh, sizes, sharding, device);
      if (!devices.isLocal(device) || getVolume(placement.owned) == 0)
        continue;
      if (isNew || groups.back().blocks.size() == maxBlocks)
        groups.emplace_back();
      isNew = false;
      Group &group = groups.back();
      group.blocks.push_back({device, variable->buffer, bytes});
      group.segments.push_back(find(*tensor, placement.owned, placement.block));
    }
  }
  for (Group &group : groups) {
    std::vector<const std::vector<Segment> *> targets;
    for (const std::vector<Segment> &segments : group.segments)
      targets.push_back(&segments);
    group.copies = listCopies(targets);
  }
  // As the files have them: a piece with many small variables is read once.
  auto getPlace = [](const Group &group) {
    const PieceCopy &first = group.copies[0];
    return std::tuple(first.place.file, first.segment->begin,
                      group.blocks[0].device);
  };
  std::sort(groups.begin(), groups.end(), [&](const Group &a, const Group &b) {
    return getPlace(a) < getPlace(b);
  });
  std::vector<PiecePlace> places;
  for (const Group &group : groups)
    for (const PieceCopy &copy : group.copies)
      places.push_back(copy.place);
  PieceSequence pieces(files, std::move(places), listener);
  for (const Group &group : groups) {
    std::vector<std::byte *> opened;
    Status loaded = writeTogether(
        devices, group.blocks, opened, [&](std::span<std::byte *const> blocks) {
          return copyPieces(pieces, group.copies, blocks);
        });
    if (!loaded)
      return loaded;
  }
  return Status::success();
}
