#include "frontend/driver/Measure.h"

#include "codegen/machine/OutputFile.h"
#include "frontend/driver/Cache.h"
#include "frontend/driver/SpecSession.h"
#include "runtime/exec/Executable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/TargetParser/Host.h"

#include <cassert>
#include <chrono>
#include <cmath>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

using namespace llvm;
using namespace meshc;
using namespace meshc::driver;

/// Of the file; another one after every change of what is measured.
static constexpr int64_t measurementVersion = 2;

static const char *const advice =
    "'meshc doctor --measure' measures this host again";

/// The runtime whose times these are.
static std::string getRuntimeVersion() {
  return fmt::format("meshc 0.1.0, programs {}", runtime::execVersion);
}

static std::string getProcessor() {
  std::string name = sys::getHostCPUName().str();
  auto text = MemoryBuffer::getFileAsStream("/proc/cpuinfo");
  if (!text)
    return name;
  SmallVector<StringRef> lines;
  (*text)->getBuffer().split(lines, '\n');
  for (StringRef line : lines)
    if (line.starts_with("model name"))
      return fmt::format("{} ({})", line.split(':').second.trim().str(), name);
  return name;
}

static int64_t getCores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

Expected<std::string> meshc::driver::getMeasurementPath() {
  Expected<std::string> folder = getCacheFolder();
  if (!folder)
    return folder.takeError();
  constexpr size_t numDigits = 16;
  return fmt::format("{}/host-{}.json", *folder,
                     getSha256(fmt::format("{} {}", getProcessor(), getCores()))
                         .substr(0, numDigits));
}

//===-- The file ----------------------------------------------------------===//

std::string meshc::driver::writeMeasurement(const layout::MeasuredHost &host) {
  layout::MeasuredHost copy = host;
  json::Object constants;
  for (const layout::MeasuredField &field : layout::getFields(copy))
    constants[StringRef(field.key)] = *field.value;
  json::Object file{{"version", measurementVersion},
                    {"runtime", getRuntimeVersion()},
                    {"processor", host.processor},
                    {"cores", host.workers},
                    {"date", host.date},
                    {"constants", std::move(constants)}};
  std::string text;
  raw_string_ostream(text) << formatv("{0:2}\n", json::Value(std::move(file)));
  return text;
}

Expected<layout::MeasuredHost> meshc::driver::readMeasurement(StringRef text) {
  Expected<json::Value> parsed = json::parse(text);
  if (!parsed) {
    consumeError(parsed.takeError());
    return createStringError("it is damaged: no JSON");
  }
  const json::Object *file = parsed->getAsObject();
  auto damaged = [](StringRef what) {
    return createStringError("it is damaged: no \"" + what + "\"");
  };
  if (!file)
    return damaged("version");
  std::optional<int64_t> version = file->getInteger("version");
  if (!version)
    return damaged("version");
  if (*version != measurementVersion)
    return createStringError(
        fmt::format("it has version {}, this meshc reads {}", *version,
                    measurementVersion));
  layout::MeasuredHost host;
  std::optional<StringRef> runtime = file->getString("runtime");
  std::optional<StringRef> processor = file->getString("processor");
  std::optional<StringRef> date = file->getString("date");
  std::optional<int64_t> cores = file->getInteger("cores");
  const json::Object *constants = file->getObject("constants");
  if (!runtime || !processor || !date || !cores || !constants)
    return damaged(!runtime     ? "runtime"
                   : !processor ? "processor"
                   : !date      ? "date"
                   : !cores     ? "cores"
                                : "constants");
  if (*runtime != getRuntimeVersion())
    return createStringError(
        fmt::format("it was measured with '{}', this is '{}'", runtime->str(),
                    getRuntimeVersion()));
  if (*processor != getProcessor() || *cores != getCores())
    return createStringError(fmt::format(
        "it was measured on '{}' with {} cores, this is '{}' with {}",
        processor->str(), *cores, getProcessor(), getCores()));
  host.processor = processor->str();
  host.date = date->str();
  host.workers = *cores;
  for (const layout::MeasuredField &field : layout::getFields(host)) {
    std::optional<double> value = constants->getNumber(StringRef(field.key));
    if (!value)
      return damaged(StringRef(field.key));
    const bool mayBeZero = StringRef(field.key).ends_with("call_us");
    if (!std::isfinite(*value) || *value < 0 || (*value == 0 && !mayBeZero))
      return createStringError(
          fmt::format("it is damaged: \"{}\" is {}", field.key, *value));
    *field.value = *value;
  }
  return host;
}

Expected<std::optional<layout::MeasuredHost>> meshc::driver::findMeasurement() {
  Expected<std::string> path = getMeasurementPath();
  if (!path)
    return path.takeError();
  if (!sys::fs::exists(*path))
    return std::nullopt;
  Expected<std::string> text = readOwnFile(*path);
  Expected<layout::MeasuredHost> host =
      text ? readMeasurement(*text)
           : Expected<layout::MeasuredHost>(text.takeError());
  if (!host)
    return createStringError(fmt::format("cannot use the measurement '{}': {}; "
                                         "{}",
                                         *path, toString(host.takeError()),
                                         advice));
  return std::optional(std::move(*host));
}

std::string meshc::driver::renderMeasurement(const layout::MeasuredHost &host) {
  std::string text = fmt::format("host      {}, {} cores, measured {}\n",
                                 host.processor, host.workers, host.date);
  const layout::MeasuredMachine machine(host);
  for (const layout::MachineConstant &constant : machine.get().getConstants())
    text += fmt::format("  {:<25} {:>12.4g} {:<9} {}\n", constant.name,
                        constant.value, constant.unit,
                        layout::getName(constant.made));
  return text;
}

//===-- Measuring ---------------------------------------------------------===//

namespace {
struct EmbeddedSpec {
  StringRef name, text;
};
constexpr EmbeddedSpec specs[] = {
#include "frontend/driver/MeasureSpecs.inc"
};

/// What a measuring program has said.
struct Report {
  json::Object root;

  double get(StringRef key) const { return root.getNumber(key).value_or(0); }
  const json::Array &getCommands() const { return *root.getArray("commands"); }
  /// The work of all commands whose names begin so, of this kind.
  std::vector<layout::MeasuredWork> find(StringRef kind,
                                         StringRef name = "") const {
    std::vector<layout::MeasuredWork> found;
    for (const json::Value &value : getCommands()) {
      const json::Object &command = *value.getAsObject();
      layout::MeasuredWork work{command.getNumber("flops").value_or(0),
                                command.getNumber("bytes").value_or(0),
                                command.getNumber("us").value_or(0)};
      if (command.getString("kind").value_or("") == kind &&
          command.getString("name").value_or("").starts_with(name) &&
          work.us > 0)
        found.push_back(work);
    }
    return found;
  }
};
} // namespace

/// Compiles the program and runs it for so many seconds.
static Expected<Report> run(StringRef name, StringRef precision, double alone,
                            double together) {
  const auto *spec = find_if(
      specs, [&](const EmbeddedSpec &known) { return known.name == name; });
  assert(spec != std::end(specs) && "it is not embedded");
  Expected<std::string> place = getMeasurementPath();
  if (!place)
    return place.takeError();
  auto source = codegen::TemporaryFile::createBeside(*place);
  auto program = codegen::TemporaryFile::createBeside(*place);
  auto output = codegen::TemporaryFile::createBeside(*place);
  for (auto *file : {&source, &program, &output})
    if (!*file)
      return file->takeError();
  if (Error error = source->write(spec->text))
    return error;

  SpecArguments arguments;
  arguments.path = source->getPath().str();
  if (!precision.empty())
    arguments.precision = precision.str();
  SpecSession session(arguments);
  CompileOptions options;
  options.programs = {"init", "accumulate", "step", "eval"};
  options.main = codegen::MainFunction::Measure;
  options.steps.bucketBytes = 0; // each collective by itself
  // Not by the session, which notes that devices do what others do too.
  if (!session.elaborate() ||
      failed(driver::compile(session.getModule(), options, Stage::Exec,
                             session.getCompilation())) ||
      !session.link(options, program->getPath())) {
    session.reportErrors();
    return createStringError("the program that measures '" + name +
                             "' cannot be compiled");
  }
  const std::string seconds[] = {fmt::format("{}", alone),
                                 fmt::format("{}", together)};
  std::string message;
  std::optional<StringRef> redirects[] = {StringRef(), output->getPath(),
                                          std::nullopt};
  const int code = sys::ExecuteAndWait(
      program->getPath(), {program->getPath(), seconds[0], seconds[1]},
      std::nullopt, redirects, 0, 0, &message);
  if (code != 0)
    return createStringError(fmt::format(
        "the program that measures '{}' ended with exit code {}{}{}",
        name.str(), code, message.empty() ? "" : ": ", message));
  auto text = MemoryBuffer::getFile(output->getPath());
  if (!text)
    return createStringError(text.getError().message());
  Expected<json::Value> parsed = json::parse((*text)->getBuffer());
  if (!parsed)
    return parsed.takeError();
  json::Object *root = parsed->getAsObject();
  if (!root || !root->getArray("commands") || !root->getArray("collectives"))
    return createStringError("the program that measures '" + name +
                             "' has said something else");
  return Report{std::move(*root)};
}

/// Products of products.mesh.
static constexpr size_t numProducts = 13;
/// How many threads and devices there are in a run, beside one another.
static constexpr double numDevices = 4; // of the mesh of the specs

/// What the threads take for a run beside their work.
static double getIdleUs(const Report &report) {
  return std::max(0.0, report.get("run_us") * report.get("threads") -
                           report.get("work_us"));
}

static double getByteRate(const layout::MeasuredWork &work) {
  return work.bytes / work.us;
}
static double getFlopRate(const layout::MeasuredWork &work) {
  return work.flops / work.us;
}

/// The geometric mean.
static double getMean(const std::vector<layout::MeasuredWork> &works,
                      double (*get)(const layout::MeasuredWork &)) {
  double sum = 0;
  for (const layout::MeasuredWork &work : works)
    sum += std::log(get(work));
  return std::exp(sum / double(works.size()));
}

Expected<layout::MeasuredHost> meshc::driver::measureHost() {
  layout::MeasuredHost host;
  host.processor = getProcessor();
  host.workers = getCores();
  host.date = fmt::format("{:%Y-%m-%d}", std::chrono::system_clock::now());

  Expected<Report> kernels = run("kernels.mesh", "", 4, 0);
  if (!kernels)
    return kernels.takeError();
  // Of one convolution the flops alone; its call and its bytes are those of a
  // product.
  const std::vector<layout::MeasuredWork> convolutions =
      kernels->find("Convolution");
  std::vector<layout::MeasuredWork> middle =
      kernels->find("Kernel", "sum_middle");
  std::vector<layout::MeasuredWork> large =
      kernels->find("Kernel", "sum_large");
  if (middle.empty() || large.empty())
    return createStringError("a kernel that is measured is not there");
  std::vector<layout::MeasuredWork> arithmetic =
      kernels->find("Kernel", "gelu");
  append_range(arithmetic, kernels->find("Kernel", "softmax"));
  append_range(arithmetic, kernels->find("Kernel", "norm"));
  Expected<Report> updates = run("updates.mesh", "", 3, 0);
  if (!updates)
    return updates.takeError();
  // What is written anew is fetched first, what is written in place is there.
  for (const layout::MeasuredWork &work : updates->find("Kernel"))
    (work.bytes < large.front().bytes / 2 ? middle : large).push_back(work);
  if (convolutions.empty() || middle.size() < 2 || large.size() < 2 ||
      arithmetic.empty())
    return createStringError("a kernel that is measured is not there");
  host.nearBytes = middle.front().bytes;
  host.nearRate = getMean(middle, getByteRate);
  host.farBytes = large.front().bytes;
  host.farRate = getMean(large, getByteRate);

  for (auto [precision, fit] : {std::pair("", &host.matmul32),
                                {"bf16", &host.matmulBf16},
                                {"fp16", &host.matmul16}}) {
    Expected<Report> report = run("products.mesh", precision, 4, 0);
    if (!report)
      return report.takeError();
    const std::vector<layout::MeasuredWork> products = report->find("Matmul");
    if (products.size() < numProducts)
      return createStringError("a product that is measured is not there");
    *fit = layout::fitProducts(products, host.nearBytes, host.farBytes);
  }

  host.convolution = host.matmul32;
  const layout::MeasuredWork &convolution = convolutions.front();
  if (convolution.bytes > host.nearBytes)
    return createStringError("the convolution is not in the caches");
  host.convolution.rate =
      convolution.flops /
      std::max(convolution.us / 2,
               convolution.us - host.matmul32.callUs -
                   convolution.bytes / host.matmul32.byteRate);
  host.arithmetic = getMean(arithmetic, getFlopRate);

  Expected<Report> commands = run("commands.mesh", "", 0.5, 2);
  if (!commands)
    return commands.takeError();
  constexpr double least = 0.01; // us, where a clock shows nothing
  host.commandUs = std::max(
      least, getIdleUs(*commands) /
                 (numDevices * double(commands->getCommands().size())));

  Expected<Report> transfers = run("transfers.mesh", "", 0.5, 2);
  if (!transfers)
    return transfers.takeError();
  Expected<Report> copies = run("copies.mesh", "", 0, 2);
  if (!copies)
    return copies.takeError();
  const json::Array &small = *transfers->root.getArray("collectives");
  const json::Array &all = *copies->root.getArray("collectives");
  if (small.empty() || all.empty())
    return createStringError("a collective that is measured is not there");
  double smallUs =
      getIdleUs(*transfers) -
      host.commandUs * numDevices * double(transfers->getCommands().size());
  for (const json::Value &value : small)
    smallUs += value.getAsObject()->getNumber("us").value_or(0);
  host.collectiveUs =
      std::max(least, smallUs / (numDevices * double(small.size())));
  if (all.size() != 2)
    return createStringError("a collective that is measured is not there");
  auto getBytes = [](const json::Value &copy) {
    return copy.getAsObject()->getNumber("bytes").value_or(0);
  };
  auto getUs = [](const json::Value &copy) {
    return copy.getAsObject()->getNumber("us").value_or(0);
  };
  for (const json::Value &copy : all)
    if (getBytes(copy) <= 0 || getUs(copy) <= 0)
      return createStringError("a collective has no time");
  auto getRate = [&](const json::Value &copy) {
    return numDevices * getBytes(copy) / getUs(copy);
  };
  const bool isAscending = getBytes(all[0]) < getBytes(all[1]);
  const json::Value &few = all[isAscending ? 0 : 1];
  const json::Value &many = all[isAscending ? 1 : 0];
  host.collectiveRate = getRate(few);
  host.collectiveNearBytes = getBytes(few);
  host.collectiveFarRate = getRate(many);
  host.collectiveFarBytes = getBytes(many);
  return host;
}
