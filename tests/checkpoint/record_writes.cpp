/// Loaded before the C library (LD_PRELOAD): writes down what a process does to
/// the files below the folder RECORDED, in order, into the file RECORD. A line
/// of words apart by blanks for each call that succeeds: the process, and
///
///   make FILE PATH | open FILE PATH | write FILE PLACE HEX |
///   length FILE BYTES | sync FILE | folder PATH | syncfolder PATH | rename
///   PATH PATH | remove PATH

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::mutex mutex;
int record = -1;
int numFiles = 0;
struct Opened {
  int number; ///< -1: a folder
  std::string path;
};
std::map<int, Opened> opened; ///< by descriptor

template <typename Function> Function *find(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

/// Whether the path is one to record.
bool isRecorded(const char *path) {
  static const char *folder = std::getenv("RECORDED");
  return folder && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

void append(const std::string &line) {
  static auto *next = find<int(const char *, int, ...)>("open");
  if (record < 0)
    record = next(std::getenv("RECORD"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  // Descriptors and numbers of files are a process's.
  const std::string text = std::to_string(getpid()) + " " + line + "\n";
  static auto *write = find<ssize_t(int, const void *, size_t)>("write");
  if (write(record, text.data(), text.size()) != ssize_t(text.size()))
    std::abort();
}

int noteOpened(int descriptor, const char *path, int flags, bool wasThere) {
  if (descriptor < 0 || !isRecorded(path))
    return descriptor;
  std::lock_guard<std::mutex> lock(mutex);
  struct stat status {};
  fstat(descriptor, &status);
  if (S_ISDIR(status.st_mode)) {
    opened[descriptor] = {-1, path};
  } else if (flags & (O_WRONLY | O_RDWR)) {
    opened[descriptor] = {numFiles++, path};
    append((wasThere ? "open " : "make ") + std::to_string(numFiles - 1) + " " +
           path);
  }
  return descriptor;
}

void noteWrite(int descriptor, const void *data, size_t bytes, off_t place) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = opened.find(descriptor);
  if (found == opened.end())
    return;
  std::string line = "write " + std::to_string(found->second.number) + " " +
                     std::to_string(place) + " ";
  for (size_t i = 0; i < bytes; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x",
                  static_cast<const unsigned char *>(data)[i]);
    line += digits;
  }
  append(line);
}

void note(const std::string &line) {
  std::lock_guard<std::mutex> lock(mutex);
  append(line);
}

} // namespace

extern "C" {

int open(const char *path, int flags, ...) {
  static auto *next = find<int(const char *, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const bool wasThere = access(path, F_OK) == 0;
  return noteOpened(next(path, flags, mode), path, flags, wasThere);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t place) {
  static auto *next = find<ssize_t(int, const void *, size_t, off_t)>("pwrite");
  const ssize_t written = next(descriptor, data, bytes, place);
  if (written > 0)
    noteWrite(descriptor, data, size_t(written), place);
  return written;
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
  static auto *next = find<ssize_t(int, const void *, size_t)>("write");
  const off_t place = lseek(descriptor, 0, SEEK_CUR);
  const ssize_t written = next(descriptor, data, bytes);
  if (written > 0)
    noteWrite(descriptor, data, size_t(written), place);
  return written;
}

int fallocate(int descriptor, int mode, off_t place, off_t bytes) {
  static auto *next = find<int(int, int, off_t, off_t)>("fallocate");
  const int result = next(descriptor, mode, place, bytes);
  std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = opened.find(descriptor);
      result == 0 && found != opened.end())
    append("length " + std::to_string(found->second.number) + " " +
           std::to_string(place + bytes));
  return result;
}

int fsync(int descriptor) {
  static auto *next = find<int(int)>("fsync");
  const int result = next(descriptor);
  std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = opened.find(descriptor);
      result == 0 && found != opened.end())
    append(found->second.number < 0
               ? "syncfolder " + found->second.path
               : "sync " + std::to_string(found->second.number));
  return result;
}

int close(int descriptor) {
  static auto *next = find<int(int)>("close");
  {
    std::lock_guard<std::mutex> lock(mutex);
    opened.erase(descriptor);
  }
  return next(descriptor);
}

int rename(const char *from, const char *to) {
  static auto *next = find<int(const char *, const char *)>("rename");
  const int result = next(from, to);
  if (result == 0 && isRecorded(from))
    note(std::string("rename ") + from + " " + to);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  static auto *next = find<int(const char *, mode_t)>("mkdir");
  const int result = next(path, mode);
  if (result == 0 && isRecorded(path))
    note(std::string("folder ") + path);
  return result;
}

int unlink(const char *path) {
  static auto *next = find<int(const char *)>("unlink");
  const int result = next(path);
  if (result == 0 && isRecorded(path))
    note(std::string("remove ") + path);
  return result;
}

int rmdir(const char *path) {
  static auto *next = find<int(const char *)>("rmdir");
  const int result = next(path);
  if (result == 0 && isRecorded(path))
    note(std::string("remove ") + path);
  return result;
}
}
