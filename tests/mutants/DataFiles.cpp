#include "tests/mutants/Subjects.h"

#include "runtime/data/Npy.h"
#include "runtime/samples/Idx.h"

using namespace meshc;
using namespace meshc::mutants;

static std::span<const std::byte> getBytes(const std::string &text) {
  return std::as_bytes(std::span(text));
}

static bool readIdx(const std::string &bytes) {
  auto file = runtime::parseIdx(
      std::make_unique<runtime::MemoryReader>(getBytes(bytes)), "mutant");
  if (!file)
    return false;
  volatile double sum = 0; // all of it is read
  if (file->getNumItems() > 0)
    for (int64_t i = 0; i < file->getNumItems() * file->getItemSize(); ++i)
      sum = sum + file->getElement(i);
  return true;
}

static bool readNpy(const std::string &bytes) {
  runtime::MemoryReader reader(getBytes(bytes));
  return bool(runtime::parseNpy(reader, "mutant"));
}

namespace {

class DataFiles : public Subject {
public:
  using Read = bool (*)(const std::string &);

  DataFiles(const std::vector<std::string> &paths, Read read) : read(read) {
    for (const std::string &path : paths)
      files.push_back(readFile(path));
  }

  Outcome take(const Mutator::Mutant &mutant) override {
    Outcome outcome;
    outcome.isSound = read(mutant.bytes);
    return outcome;
  }

private:
  Read read;
};

} // namespace

std::unique_ptr<Subject>
mutants::makeIdx(const std::vector<std::string> &paths) {
  return std::make_unique<DataFiles>(paths, readIdx);
}

std::unique_ptr<Subject>
mutants::makeNpy(const std::vector<std::string> &paths) {
  return std::make_unique<DataFiles>(paths, readNpy);
}
