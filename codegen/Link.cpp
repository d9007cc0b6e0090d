#include "codegen/Link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Errc.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

using namespace llvm;
using namespace meshc;

namespace {
/// A file that is gone when the object is, or when a signal ends the process,
/// unless it was moved to where it belongs.
class TemporaryFile {
public:
  /// In the folder for temporary files.
  static Expected<TemporaryFile> create(StringRef suffix) {
    SmallString<128> prefix;
    sys::path::system_temp_directory(/*ErasedOnReboot=*/true, prefix);
    sys::path::append(prefix, "meshc-");
    return createUnique(prefix, suffix);
  }
  /// Beside `path`, so that it can be moved there in one step.
  static Expected<TemporaryFile> createBeside(StringRef path) {
    return createUnique((path + ".").str(), "");
  }
  TemporaryFile(TemporaryFile &&other) : path(std::move(other.path)) {
    other.path.clear();
  }
  ~TemporaryFile() {
    if (path.empty())
      return;
    sys::fs::remove(path);
    sys::DontRemoveFileOnSignal(path);
  }

  StringRef getPath() const { return path; }
  std::error_code moveTo(StringRef target) {
    if (std::error_code error = sys::fs::rename(path, target))
      return error;
    sys::DontRemoveFileOnSignal(path);
    path.clear();
    return {};
  }

private:
  TemporaryFile() = default;

  /// At `prefix` with random digits and `suffix`.
  static Expected<TemporaryFile> createUnique(StringRef prefix,
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
        return createStringError(error, "cannot write '%s': %s", path.c_str(),
                                 error.message().c_str());
    }
    return createStringError(
        "cannot write '%s': there are files of all such names",
        prefix.str().c_str());
  }

  SmallString<128> path;
};
} // namespace

ErrorOr<codegen::OutputPlace> meshc::codegen::findOutputPlace(StringRef path) {
  if (path.empty())
    return make_error_code(errc::no_such_file_or_directory);
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

static Error writeFile(StringRef path, StringRef contents) {
  std::error_code error;
  raw_fd_ostream os(path, error, sys::fs::OF_None);
  if (!error) {
    os << contents;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error)
    return createStringError(error, "cannot write '%s': %s", path.str().c_str(),
                             error.message().c_str());
  return Error::success();
}

/// A compiler driver that can link C++: the one meshc was built with, or any on
/// the search path.
static Expected<std::string> findLinker() {
  for (StringRef name : {MESHC_LINKER, "clang++-22", "c++", "g++", "clang++"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return *path;
  return createStringError(
      "no compiler driver to link with; install clang-22 or g++");
}

/// Runs a linker that writes what it has to say about `output` to `log`.
static Error runLinker(ArrayRef<StringRef> arguments, StringRef output,
                       StringRef log) {
  std::string failure;
  std::optional<StringRef> redirects[] = {StringRef(""), log, log};
  int status = sys::ExecuteAndWait(arguments.front(), arguments, std::nullopt,
                                   redirects, 0, 0, &failure);
  if (status == 0)
    return Error::success();
  ErrorOr<std::unique_ptr<MemoryBuffer>> words = MemoryBuffer::getFile(log);
  return createStringError("cannot link '%s': %s%s", output.str().c_str(),
                           failure.c_str(),
                           words ? (*words)->getBuffer().str().c_str() : "");
}

Expected<std::string> meshc::codegen::linkSharedObject(StringRef object) {
  Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  Expected<TemporaryFile> objectFile = TemporaryFile::create(".o");
  if (!objectFile)
    return objectFile.takeError();
  Expected<TemporaryFile> linked = TemporaryFile::create(".so");
  if (!linked)
    return linked.takeError();
  Expected<TemporaryFile> messages = TemporaryFile::create(".log");
  if (!messages)
    return messages.takeError();
  if (Error error = writeFile(objectFile->getPath(), object))
    return error;
  if (Error error =
          runLinker({*linker, "-shared", "-nostdlib", "-fuse-ld=lld", "-o",
                     linked->getPath(), objectFile->getPath(), "-lm", "-lc"},
                    "the kernels", messages->getPath()))
    return error;
  ErrorOr<std::unique_ptr<MemoryBuffer>> shared =
      MemoryBuffer::getFile(linked->getPath());
  if (std::error_code error = shared.getError())
    return createStringError(error, "cannot read the linked kernels: %s",
                             error.message().c_str());
  return (*shared)->getBuffer().str();
}

std::vector<std::string>
meshc::codegen::getRuntimeLibraries(exec::Target target) {
  const std::string devices =
      std::string("meshc_runtime_") + exec::EnumNameTarget(target);
  return {devices + "_main", devices, "meshc_runtime", "meshc_layout"};
}

Error meshc::codegen::linkExecutable(StringRef object, exec::Target target,
                                     StringRef output,
                                     StringRef libraryFolder) {
  Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  Expected<TemporaryFile> objectFile = TemporaryFile::create(".o");
  if (!objectFile)
    return objectFile.takeError();
  Expected<TemporaryFile> messages = TemporaryFile::create(".log");
  if (!messages)
    return messages.takeError();
  if (Error error = writeFile(objectFile->getPath(), object))
    return error;

  ErrorOr<OutputPlace> place = findOutputPlace(output);
  if (std::error_code error = place.getError())
    return createStringError(error, "cannot write '%s': %s",
                             output.str().c_str(), error.message().c_str());
  Expected<TemporaryFile> linked =
      place->isStream ? TemporaryFile::create(".out")
                      : TemporaryFile::createBeside(place->path);
  if (!linked)
    return linked.takeError();

  SmallVector<std::string> libraries;
  for (const std::string &name : getRuntimeLibraries(target))
    libraries.push_back((libraryFolder + "/lib" + name + ".a").str());
  SmallVector<StringRef> arguments = {*linker, "-o", linked->getPath(),
                                      objectFile->getPath()};
  llvm::append_range(arguments, libraries);
  // Products on CPUs are oneDNN's, which uses OpenMP.
  if (target == exec::Target::cpu)
    llvm::append_range(arguments,
                       std::initializer_list<StringRef>{"-ldnnl", "-lgomp"});
  llvm::append_range(arguments, std::initializer_list<StringRef>{
                                    "-lfmt", "-lsodium", "-lz", "-lm",
                                    "-pthread", MESHC_LINK_FLAGS});
  // Libraries that the runtime loads only when it needs them. Never $ORIGIN:
  // whoever writes to the folder of the executable would choose its libz.
  llvm::append_range(
      arguments, std::initializer_list<StringRef>{"-Xlinker", "-rpath",
                                                  "-Xlinker", libraryFolder});
  if (Error error = runLinker(arguments, output, messages->getPath()))
    return error;
  if (place->isStream) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> program =
        MemoryBuffer::getFile(linked->getPath());
    if (std::error_code error = program.getError())
      return createStringError(error, "cannot read '%s': %s",
                               linked->getPath().str().c_str(),
                               error.message().c_str());
    return writeFile(place->path, (*program)->getBuffer());
  }
  if (std::error_code error = linked->moveTo(place->path))
    return createStringError(error, "cannot write '%s': %s",
                             output.str().c_str(), error.message().c_str());
  return Error::success();
}
