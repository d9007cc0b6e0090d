#include "codegen/machine/Link.h"

#include "codegen/machine/OutputFile.h"
#include "runtime/exec/ExecutableSeal.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <filesystem>
#include <unistd.h>

using namespace llvm;
using namespace meshc;
using codegen::getOutputName;
using codegen::TemporaryFile;

/// A compiler driver that can link C++: the one meshc was built with, or any on
/// the search path.
static Expected<std::string> findLinker() {
  for (StringRef name : {MESHC_LINKER, "clang++-22", "c++", "g++", "clang++"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return *path;
  return createStringError(
      "no compiler driver to link with; install clang-22 or g++");
}

static Error failToWrite(StringRef output, std::error_code error) {
  return createStringError(error, "cannot write '%s': %s",
                           getOutputName(output).str().c_str(),
                           error.message().c_str());
}

/// Runs a linker that writes what it has to say about `output` to `log`.
static Error runLinker(ArrayRef<StringRef> arguments, StringRef output,
                       StringRef log) {
  std::string failure;
  std::optional<StringRef> redirects[] = {StringRef(""), log, log};
  SmallVector<StringRef> environment;
  for (char **variable = environ; *variable; ++variable)
    environment.push_back(*variable);
  // Else what it dumps when it is ended by a signal leaves files.
  environment.push_back("LLVM_DISABLE_SYMBOLIZATION=1");
  int status = sys::ExecuteAndWait(arguments.front(), arguments,
                                   ArrayRef<StringRef>(environment), redirects,
                                   0, 0, &failure);
  if (status == 0)
    return Error::success();
  ErrorOr<std::unique_ptr<MemoryBuffer>> words = MemoryBuffer::getFile(log);
  if (words)
    failure += (*words)->getBuffer();
  // Its words may have met the same full disk.
  if (failure.empty())
    failure = "the linker failed without a word; is the disk full?";
  return createStringError("cannot link '%s': %s",
                           getOutputName(output).str().c_str(),
                           failure.c_str());
}

/// lld writes to a file of its own beside `linked`, which it does not always
/// remove when a signal ends it.
static void removeLinkerFiles(StringRef linked) {
  const std::filesystem::path path = std::filesystem::absolute(linked.str());
  const std::string prefix = path.filename().string() + ".tmp";
  std::error_code ignored;
  for (std::filesystem::directory_iterator file(path.parent_path(), ignored),
       end;
       file != end; file.increment(ignored))
    if (StringRef(file->path().filename().string()).starts_with(prefix))
      std::filesystem::remove(file->path(), ignored);
}

/// What is wrong with a link that has failed with `error`. lld maps its output:
/// on a full disk it is ended by a signal and prints a dump of itself, so that
/// room for all that goes in is asked for.
static Error explainFailure(Error error, const TemporaryFile &linked,
                            StringRef output, uint64_t bytes) {
  removeLinkerFiles(linked.getPath());
  std::error_code full = linked.reserve(bytes);
  if (!full)
    return error;
  consumeError(std::move(error));
  return failToWrite(output, full);
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
  if (Error error = objectFile->write(object))
    return error;
  if (Error error =
          runLinker({*linker, "-shared", "-nostdlib", "-fuse-ld=lld", "-o",
                     linked->getPath(), objectFile->getPath(), "-lm", "-lc"},
                    "the kernels", messages->getPath()))
    return explainFailure(std::move(error), *linked, linked->getPath(),
                          object.size());
  ErrorOr<std::unique_ptr<MemoryBuffer>> shared =
      MemoryBuffer::getFile(linked->getPath());
  if (std::error_code error = shared.getError())
    return createStringError(error, "cannot read the linked kernels: %s",
                             error.message().c_str());
  return (*shared)->getBuffer().str();
}

/// Ends a linked executable with the digest of what is loaded of it.
static Error seal(StringRef path) {
  Expected<object::OwningBinary<object::ObjectFile>> file =
      object::ObjectFile::createObjectFile(path);
  if (!file)
    return file.takeError();
  uint64_t loadedBytes = 0;
  auto headers = cast<object::ELF64LEObjectFile>(file->getBinary())
                     ->getELFFile()
                     .program_headers();
  if (!headers)
    return headers.takeError();
  for (const object::ELF64LE::Phdr &header : *headers)
    if (header.p_type == ELF::PT_LOAD)
      loadedBytes =
          std::max<uint64_t>(loadedBytes, header.p_offset + header.p_filesz);
  runtime::Status sealed = runtime::sealExecutable(path.str(), loadedBytes);
  if (!sealed)
    return createStringError(sealed.getError().message);
  return Error::success();
}

std::vector<std::string>
meshc::codegen::getRuntimeLibraries(exec::Target target, MainFunction main) {
  const std::string devices =
      std::string("meshc_runtime_") + exec::EnumNameTarget(target);
  return {main == MainFunction::Measure ? "meshc_runtime_measure"
                                        : devices + "_main",
          devices, "meshc_runtime", "meshc_layout"};
}

Error meshc::codegen::linkExecutable(StringRef object, exec::Target target,
                                     StringRef output, StringRef libraryFolder,
                                     MainFunction main) {
  Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  Expected<TemporaryFile> objectFile = TemporaryFile::create(".o");
  if (!objectFile)
    return objectFile.takeError();
  Expected<TemporaryFile> messages = TemporaryFile::create(".log");
  if (!messages)
    return messages.takeError();
  if (Error error = objectFile->write(object))
    return error;

  ErrorOr<OutputPlace> place = findOutputPlace(output);
  if (std::error_code error = place.getError())
    return failToWrite(output, error);
  Expected<TemporaryFile> linked =
      place->isStream ? TemporaryFile::create(".out")
                      : TemporaryFile::createBeside(place->path);
  if (!linked)
    return linked.takeError();

  SmallVector<std::string> libraries;
  uint64_t bytes = object.size();
  for (const std::string &name : getRuntimeLibraries(target, main)) {
    libraries.push_back((libraryFolder + "/lib" + name + ".a").str());
    uint64_t size = 0;
    if (sys::fs::file_size(libraries.back(), size))
      return createStringError("the runtime of programs for target " +
                               std::string(exec::EnumNameTarget(target)) +
                               " is not built: no '" + libraries.back() +
                               "'; 'cmake --build' without a target builds it");
    bytes += size;
  }
  SmallVector<StringRef> arguments = {*linker, "-o", linked->getPath(),
                                      objectFile->getPath()};
  llvm::append_range(arguments, libraries);
  // Products on CPUs are oneDNN's, which uses OpenMP.
  if (target == exec::Target::cpu)
    llvm::append_range(arguments,
                       std::initializer_list<StringRef>{"-ldnnl", "-lgomp"});
  llvm::append_range(arguments,
                     std::initializer_list<StringRef>{
                         "-l:libcsv.a", "-l:libpng16.a", "-l:libturbojpeg.a",
                         "-lfmt", "-lsodium", "-lz", "-lm", "-pthread",
                         MESHC_LINK_FLAGS});
  // Libraries that the runtime loads only when it needs them. Never $ORIGIN:
  // whoever writes to the folder of the executable would choose its libz.
  llvm::append_range(
      arguments, std::initializer_list<StringRef>{"-Xlinker", "-rpath",
                                                  "-Xlinker", libraryFolder});
  if (Error error = runLinker(arguments, output, messages->getPath()))
    return explainFailure(std::move(error), *linked,
                          place->isStream ? linked->getPath() : output, bytes);
  if (Error error = seal(linked->getPath()))
    return error;
  if (place->isStream) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> program =
        MemoryBuffer::getFile(linked->getPath());
    std::error_code error = program.getError();
    if (error)
      return createStringError(error, "cannot read '%s': %s",
                               linked->getPath().str().c_str(),
                               error.message().c_str());
    error = writeOutput(place->path, (*program)->getBuffer());
    return error ? failToWrite(output, error) : Error::success();
  }
  if (std::error_code error = linked->moveTo(place->path))
    return failToWrite(output, error);
  return Error::success();
}
