#include "codegen/Link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace meshc;

namespace {
/// A file that is gone when the object is.
class TemporaryFile {
public:
  static Expected<TemporaryFile> create(StringRef prefix, StringRef suffix) {
    TemporaryFile file;
    if (std::error_code error =
            sys::fs::createTemporaryFile(prefix, suffix, file.path))
      return createStringError(error, "cannot create a temporary file: %s",
                               error.message().c_str());
    file.remover = std::make_unique<FileRemover>(file.path);
    return file;
  }
  StringRef getPath() const { return path; }

private:
  SmallString<128> path;
  std::unique_ptr<FileRemover> remover;
};
} // namespace

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

Error meshc::codegen::linkExecutable(StringRef object, StringRef output,
                                     StringRef libraryFolder) {
  Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  Expected<TemporaryFile> objectFile = TemporaryFile::create("meshc", "o");
  if (!objectFile)
    return objectFile.takeError();
  Expected<TemporaryFile> messages = TemporaryFile::create("meshc", "log");
  if (!messages)
    return messages.takeError();
  if (Error error = writeFile(objectFile->getPath(), object))
    return error;

  // A sibling, so that the rename that makes it visible stays on one file
  // system.
  SmallString<128> linked;
  if (std::error_code error =
          sys::fs::createUniqueFile(output + ".%%%%%%", linked))
    return createStringError(error, "cannot write '%s': %s",
                             output.str().c_str(), error.message().c_str());
  FileRemover removeLinked(linked);

  SmallVector<std::string> libraries;
  for (StringRef name : {"meshc_runtime_main", "meshc_runtime", "meshc_layout"})
    libraries.push_back((libraryFolder + "/lib" + name + ".a").str());
  SmallVector<StringRef> arguments = {*linker, "-o", linked,
                                      objectFile->getPath()};
  llvm::append_range(arguments, libraries);
  llvm::append_range(arguments, std::initializer_list<StringRef>{
                                    "-ldnnl", "-lgomp", "-lfmt", "-lz", "-lm",
                                    "-pthread", MESHC_LINK_FLAGS});
  std::string failure;
  std::optional<StringRef> redirects[] = {StringRef(""), messages->getPath(),
                                          messages->getPath()};
  int status = sys::ExecuteAndWait(*linker, arguments, std::nullopt, redirects,
                                   0, 0, &failure);
  if (status != 0) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> log =
        MemoryBuffer::getFile(messages->getPath());
    return createStringError("cannot link '%s': %s%s", output.str().c_str(),
                             failure.c_str(),
                             log ? (*log)->getBuffer().str().c_str() : "");
  }
  if (std::error_code error = sys::fs::rename(linked, output))
    return createStringError(error, "cannot write '%s': %s",
                             output.str().c_str(), error.message().c_str());
  removeLinked.releaseFile();
  return Error::success();
}
