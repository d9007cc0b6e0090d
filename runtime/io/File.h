#ifndef MESHC_RUNTIME_IO_FILE_H
#define MESHC_RUNTIME_IO_FILE_H

#include "runtime/exec/Error.h"
#include "runtime/io/ByteListener.h"
#include "runtime/io/OwnedFile.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace meshc::runtime {

/// Bytes that are read once, from the first to the last.
class ByteReader {
public:
  virtual ~ByteReader() = default;
  /// Fills `target`, and returns how many bytes there were: fewer only at the
  /// end.
  virtual Result<size_t> read(std::span<std::byte> target) = 0;
  /// How many bytes can still come, at most, where that is known without
  /// reading them.
  virtual std::optional<uint64_t> getMost() const = 0;
  /// Whether there are as many, and no fewer.
  virtual bool isMostExact() const { return getMost().has_value(); }
};

/// Those of a file, or of a pipe that a shell has made.
class FileReader : public ByteReader {
public:
  /// `listener` is told what was read of a file, of those that have a length.
  /// Errors: as of openToRead.
  static Result<std::unique_ptr<FileReader>> open(const std::string &path,
                                                  ByteListener listener = {});

  /// Errors: CannotRead with the system's reason, or where a file changes.
  Result<size_t> read(std::span<std::byte> target) override;
  std::optional<uint64_t> getMost() const override;

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };

  std::string path;
  std::unique_ptr<std::FILE, Close> file;
  std::optional<FileState> state; ///< when it was opened; pipes have none
  uint64_t position = 0;
  ByteListener listener;
};

/// Those of a part of the memory, which has to stay.
class MemoryReader : public ByteReader {
public:
  explicit MemoryReader(std::span<const std::byte> bytes) : bytes(bytes) {}

  Result<size_t> read(std::span<std::byte> target) override;
  std::optional<uint64_t> getMost() const override { return bytes.size(); }

private:
  std::span<const std::byte> bytes;
};

/// All the bytes that are left; `path` is for messages. Errors: the reader's;
/// DoesNotFit.
Result<std::vector<std::byte>> readAll(ByteReader &reader,
                                       const std::string &path);

/// The elements of an array, which are the rest of a file: as many bytes as its
/// header declares, no more and no fewer. Never more memory than that, and none
/// where the reader cannot have so many.
/// Errors: the reader's; DoesNotFit; DamagedFile, with `path`, what was
/// declared and found. `declared` is without a value where no file can be so
/// long; `sizes` names the header's in the message: "sizes 2 x 3".
Result<std::vector<std::byte>> readElements(ByteReader &reader,
                                            std::optional<uint64_t> declared,
                                            const std::string &sizes,
                                            const std::string &path);

/// All bytes of a file. Errors: CannotRead, DoesNotFit.
Result<std::vector<std::byte>> readFile(const std::string &path);

/// Writes a whole file or, where that fails or the process is killed, leaves
/// what was there: under another name first (".part"), unless it is no plain
/// file of this user in a folder where he may make one. Errors: CannotWrite
/// with the system's reason.
Status writeFile(const std::string &path, std::string_view text);

/// Where a file's bytes go until they are all there.
struct FreshFile {
  std::string path;
  int descriptor = -1;        ///< -1: it is to be written in place
  std::optional<mode_t> mode; ///< of the file that it replaces
};

/// Opens what writeFile() writes to, under another name; whoever calls it
/// renames or removes it. Errors: CannotWrite with the system's reason.
Result<FreshFile> openFresh(const std::string &path);

/// Whether writeFile() could write the file now; it stays as it is. Nothing
/// tells whether the bytes will fit. Errors: CannotWrite with the system's
/// reason.
Status checkWritable(const std::string &path);

} // namespace meshc::runtime

#endif
