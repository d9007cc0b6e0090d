#include "frontend/driver/LastPlan.h"

#include "codegen/BuildExecutable.h"
#include "codegen/machine/OutputFile.h"
#include "frontend/driver/Cache.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

using namespace llvm;
using namespace meshc;
using namespace meshc::driver;

/// Digits of SHA-256 in a name: enough that no two of a user's folders share.
static constexpr size_t numDigits = 16;
/// Plans that are kept: more terminals and folders than one works with.
static constexpr size_t maxPlans = 32;

static std::string readLine(const std::string &path) {
  auto text = MemoryBuffer::getFileAsStream(path);
  return text ? (*text)->getBuffer().trim().str() : "";
}

/// Tells the terminal, or whatever session the process belongs to, from all
/// others that were or will be: numbers of processes return, so that the boot
/// and the start of the session's first process are needed too (proc(5), stat,
/// field 22). Where that has ended all such sessions are one.
static std::string getSession() {
  const pid_t leader = getsid(0);
  std::string status = readLine(fmt::format("/proc/{}/stat", leader));
  // The name of the program, in parentheses, may hold anything.
  SmallVector<StringRef> fields;
  StringRef(status).rsplit(')').second.split(fields, ' ', -1,
                                             /*KeepEmpty=*/false);
  constexpr size_t startTime = 22 - 3;
  if (fields.size() <= startTime)
    return "";
  return fmt::format("{} {} {}", readLine("/proc/sys/kernel/random/boot_id"),
                     leader, fields[startTime].str());
}

/// What the names of this folder's plans begin with.
static std::string getPrefix() {
  SmallString<256> folder;
  if (sys::fs::real_path(".", folder))
    folder.clear();
  return fmt::format("last-plan-{}-{}-", geteuid(),
                     getSha256(folder).substr(0, numDigits));
}

namespace {
struct KeptPlan {
  std::string name;
  sys::TimePoint<> time;
};
} // namespace

/// Plans whose names begin so, the last one first.
static std::vector<KeptPlan>
listPlans(const std::string &folder, const std::string &prefix, size_t length) {
  std::vector<KeptPlan> plans;
  std::error_code error;
  for (sys::fs::directory_iterator entry(folder, error, /*follow=*/false), end;
       entry != end && !error; entry.increment(error)) {
    StringRef name = sys::path::filename(entry->path());
    sys::fs::file_status status;
    if (name.size() == length && name.starts_with(prefix) &&
        !sys::fs::status(entry->path(), status, /*follow=*/false))
      plans.push_back({name.str(), status.getLastModificationTime()});
  }
  std::sort(plans.begin(), plans.end(),
            [](const KeptPlan &a, const KeptPlan &b) {
              return std::tie(a.time, a.name) > std::tie(b.time, b.name);
            });
  return plans;
}

Error meshc::driver::rememberPlan(const exec::ExecutableT &executable) {
  Expected<std::string> folder = getCacheFolder();
  if (!folder)
    return folder.takeError();
  const std::string prefix = getPrefix();
  const std::string name =
      prefix + getSha256(getSession()).substr(0, numDigits);
  const std::string path = *folder + "/" + name;
  // In the place of what is there, a link too.
  Expected<codegen::TemporaryFile> file =
      codegen::TemporaryFile::createBeside(path);
  if (!file)
    return file.takeError();
  if (Error error = file->write(codegen::serialize(executable)))
    return error;
  if (std::error_code error = file->moveTo(path))
    return errorCodeToError(error);
  std::vector<KeptPlan> plans =
      listPlans(*folder, fmt::format("last-plan-{}-", geteuid()), name.size());
  for (size_t i = maxPlans; i < plans.size(); ++i)
    // What cannot be removed stays, and is tried again another time.
    (void)sys::fs::remove(*folder + "/" + plans[i].name);
  return Error::success();
}

Expected<std::string> meshc::driver::findLastPlan() {
  Expected<std::string> folder = getCacheFolder();
  if (!folder)
    return folder.takeError();
  const std::string prefix = getPrefix();
  const std::string own = prefix + getSha256(getSession()).substr(0, numDigits);
  std::vector<KeptPlan> plans = listPlans(*folder, prefix, own.size());
  if (plans.empty())
    return std::string();
  bool isOwn = std::any_of(plans.begin(), plans.end(),
                           [&](const KeptPlan &p) { return p.name == own; });
  return *folder + "/" + (isOwn ? own : plans.front().name);
}
