#include "frontend/driver/Report.h"

#include "codegen/machine/OutputFile.h"
#include "frontend/driver/SpecSession.h"
#include "layout/Machine.h"
#include "runtime/io/StandardStreams.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

std::string meshc::driver::getErrorPrefix() {
  return getMessageFormat({}) == frontend::MessageFormat::ColouredText
             ? frontend::paint(frontend::MessagePart::Error, "meshc: error:") +
                   " "
             : "meshc: error: ";
}

void meshc::driver::printError(const std::string &text) {
  runtime::printMessage(text);
}

int meshc::driver::fail(const SpecArguments &spec, frontend::Code code,
                        std::string message, std::vector<std::string> notes) {
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  diagnostics.report(code, {}, std::move(message)).notes = std::move(notes);
  printError(frontend::render(diagnostics, getMessageFormat(spec)));
  return code == frontend::Code::DamagedPlan ? exitDamaged : exitWrongInput;
}

int meshc::driver::failToWrite(const SpecArguments &spec, llvm::StringRef path,
                               std::error_code error) {
  return fail(spec, frontend::Code::CannotWrite,
              fmt::format("cannot write \"{}\": {}",
                          codegen::getOutputName(path).str(), error.message()));
}

std::string meshc::driver::toText(llvm::Error error) {
  return llvm::toString(std::move(error));
}

int meshc::driver::write(const SpecArguments &spec, llvm::StringRef path,
                         llvm::StringRef text) {
  std::error_code error = codegen::writeOutput(path, text);
  return error ? failToWrite(spec, path, error) : exitSuccess;
}

/// `level` is "warning" or "note".
static void mention(const SpecArguments &spec, const std::string &level,
                    const std::string &message) {
  // Of any bytes, where it names a file.
  const std::string text = llvm::json::fixUTF8(message);
  if (spec.messageFormat == "text")
    return printError("meshc: " + level + ": " + message + "\n");
  llvm::json::Object object{{"$message_type", "diagnostic"},
                            {"message", text},
                            {"code", nullptr},
                            {"level", level},
                            {"spans", llvm::json::Array()},
                            {"children", llvm::json::Array()},
                            {"rendered", level + ": " + text + "\n"}};
  printError(llvm::formatv("{0}\n", llvm::json::Value(std::move(object))));
}

void meshc::driver::warn(const SpecArguments &spec,
                         const std::string &message) {
  mention(spec, "warning", message);
}

void meshc::driver::noteAssumedMachine(const SpecArguments &spec) {
  if (spec.assumesMachine)
    mention(spec, "note",
            fmt::format("planned for {}; --machine names another kind of GPU",
                        layout::findMachine(spec.machine)->getLabel()));
}
