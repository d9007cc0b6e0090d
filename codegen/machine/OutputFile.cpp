#include "codegen/machine/OutputFile.h"

#include "llvm/Support/Errc.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

#include <fcntl.h>

using namespace llvm;
using namespace meshc::codegen;

static Error failToWrite(StringRef path, std::error_code error) {
  return createStringError(error, "cannot write '%s': %s", path.str().c_str(),
                           error.message().c_str());
}

/// Writes over what is at `path`.
static std::error_code overwrite(StringRef path, StringRef contents) {
  std::error_code error;
  raw_fd_ostream os(path, error, sys::fs::CD_OpenExisting, sys::fs::FA_Write,
                    sys::fs::OF_None);
  if (error)
    return error;
  os << contents;
  if (path == standardOutput) // which stays open
    os.flush();
  else
    os.close();
  error = os.error();
  os.clear_error();
  return error;
}

Expected<TemporaryFile> TemporaryFile::create(StringRef suffix) {
  SmallString<128> prefix;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, prefix);
  sys::path::append(prefix, "meshc-");
  return createUnique(prefix, suffix);
}

Expected<TemporaryFile> TemporaryFile::createBeside(StringRef path) {
  return createUnique((path + ".").str(), "");
}

TemporaryFile::~TemporaryFile() {
  if (path.empty())
    return;
  sys::fs::remove(path);
  sys::DontRemoveFileOnSignal(path);
}

Error TemporaryFile::write(StringRef contents) const {
  if (std::error_code error = overwrite(path, contents))
    return failToWrite(path, error);
  return Error::success();
}

std::error_code TemporaryFile::reserve(uint64_t bytes) const {
  int descriptor;
  if (std::error_code error = sys::fs::openFileForWrite(
          path, descriptor, sys::fs::CD_OpenAlways, sys::fs::OF_None))
    return error;
  int error = posix_fallocate(descriptor, 0, off_t(bytes));
  sys::Process::SafelyCloseFileDescriptor(descriptor);
  return std::error_code(error, std::generic_category());
}

std::error_code TemporaryFile::moveTo(StringRef target) {
  if (std::error_code error = sys::fs::rename(path, target))
    return error;
  sys::DontRemoveFileOnSignal(path);
  path.clear();
  return {};
}

/// At `prefix` with random digits and `suffix`.
Expected<TemporaryFile> TemporaryFile::createUnique(StringRef prefix,
                                                    StringRef suffix) {
  // As often as LLVM tries.
  for (int attempt = 0; attempt < 128; ++attempt) {
    SmallString<128> digits;
    // Without the prefix, in which % would be replaced too.
    sys::fs::createUniquePath("%%%%%%", digits, /*MakeAbsolute=*/false);
    SmallString<128> path = {prefix, digits, suffix};
    // Before it is there: a signal in between would leave it.
    sys::RemoveFileOnSignal(path);
    int descriptor;
    std::error_code error = sys::fs::openFileForWrite(
        path, descriptor, sys::fs::CD_CreateNew, sys::fs::OF_None,
        sys::fs::owner_read | sys::fs::owner_write);
    if (!error) {
      sys::Process::SafelyCloseFileDescriptor(descriptor);
      TemporaryFile file;
      file.path = path;
      return file;
    }
    sys::DontRemoveFileOnSignal(path);
    if (error != errc::file_exists)
      return failToWrite(path, error);
  }
  return createStringError(
      "cannot write '%s': there are files of all such names",
      prefix.str().c_str());
}

ErrorOr<OutputPlace> meshc::codegen::findOutputPlace(StringRef path) {
  if (path.empty())
    return make_error_code(errc::no_such_file_or_directory);
  if (path == standardOutput)
    return OutputPlace{path.str(), /*isStream=*/true};
  std::string place = path.str();
  // As many links as Linux follows.
  for (int numLinks = 0; numLinks < 40; ++numLinks) {
    sys::fs::file_status status;
    std::error_code error = sys::fs::status(place, status);
    if (!error && (status.type() == sys::fs::file_type::character_file ||
                   status.type() == sys::fs::file_type::fifo_file))
      return OutputPlace{place, /*isStream=*/true};
    if (!error && status.type() == sys::fs::file_type::directory_file)
      return make_error_code(errc::is_a_directory);
    if (!error && status.type() != sys::fs::file_type::regular_file)
      return make_error_code(errc::not_supported);
    if (error && error != errc::no_such_file_or_directory)
      return error;
    // A file, or nothing yet: what a link names is what changes.
    std::error_code notLink;
    std::filesystem::path target =
        std::filesystem::read_symlink(place, notLink);
    if (notLink)
      return OutputPlace{place, /*isStream=*/false};
    // An absolute target replaces the folder.
    place = (std::filesystem::path(place).parent_path() / target).string();
  }
  return std::make_error_code(std::errc::too_many_symbolic_link_levels);
}

std::error_code meshc::codegen::checkWritable(StringRef path) {
  ErrorOr<OutputPlace> place = findOutputPlace(path);
  if (std::error_code error = place.getError())
    return error;
  if (place->path == standardOutput)
    return {};
  if (place->isStream)
    return sys::fs::access(place->path, sys::fs::AccessMode::Write);
  StringRef folder = sys::path::parent_path(place->path);
  return sys::fs::access(folder.empty() ? "." : folder,
                         sys::fs::AccessMode::Write);
}

std::error_code meshc::codegen::writeOutput(StringRef path,
                                            StringRef contents) {
  ErrorOr<OutputPlace> place = findOutputPlace(path);
  if (std::error_code error = place.getError())
    return error;
  if (place->isStream)
    return overwrite(place->path, contents);
  // Rights of what is there, else those that the system gives new files.
  ErrorOr<sys::fs::perms> rights = sys::fs::getPermissions(place->path);
  if (!rights)
    rights = sys::fs::perms((sys::fs::all_read | sys::fs::all_write) &
                            ~sys::fs::getUmask());
  Expected<TemporaryFile> file = TemporaryFile::createBeside(place->path);
  if (!file)
    return errorToErrorCode(file.takeError());
  if (std::error_code error = overwrite(file->getPath(), contents))
    return error;
  if (std::error_code error = sys::fs::setPermissions(file->getPath(), *rights))
    return error;
  return file->moveTo(place->path);
}
