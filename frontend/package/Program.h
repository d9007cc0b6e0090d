#ifndef MESHC_FRONTEND_PACKAGE_PROGRAM_H
#define MESHC_FRONTEND_PACKAGE_PROGRAM_H

#include "frontend/Builder.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace meshc {

/// A spec, and what takes the place of parts of it, as on meshc's command line.
struct SpecFile {
  std::string path;
  std::vector<std::string> defines = {};            ///< "hidden=64", as of -D
  std::optional<std::string> mesh = std::nullopt;   ///< "data=4,model=2"
  std::optional<std::string> layout = std::nullopt; ///< "batch=data"
  std::optional<std::string> precision = std::nullopt; ///< "bf16"
};

/// What a program is compiled for.
struct ProgramOptions {
  std::string name = "program"; ///< of the model; of a spec its own
  std::string target = "cpu";   ///< cpu, or cuda
  /// The kind of machine by whose prices it is planned: "h100"; empty: CPU
  /// devices, or the GPUs that meshc assumes.
  std::string machine = {};
  std::string cpu = "native"; ///< or x86-64-v3, x86-64-v4
  std::vector<std::string> gpus = {"sm_80", "sm_90"}; ///< for cuda alone
};

/// A program that is compiled: its plan, and what writes its executable.
///
///   meshc::Program program(builder);
///   if (!program) { std::cerr << program.getErrors(); return 1; }
///   std::cout << program.getPlan();
///   program.write("mlp");
///
/// Nothing is thrown. Not for several threads at once.
class Program {
public:
  /// What `builder` has built, which has to stay as long as the program; calls
  /// its finish(). It is empty afterwards.
  explicit Program(frontend::Builder &builder, ProgramOptions options = {});
  /// A spec. Notes go to standard error, as meshc's.
  explicit Program(const SpecFile &spec, ProgramOptions options = {});
  ~Program();
  Program(Program &&) noexcept;
  Program &operator=(Program &&) noexcept;

  /// Whether it could be compiled.
  explicit operator bool() const;
  /// What is wrong with it, or has gone wrong in the last write(), each with
  /// its place, "mlp.cpp:12: error[MC0401]: ..."; empty without errors.
  const std::string &getErrors() const;

  // Of a program without errors:
  /// The plan as `meshc plan` prints it, in lines of `columns`.
  std::string getPlan(size_t columns = 100) const;
  /// As `meshc plan --emit json`; frontend/plan/json/FIELDS.md describes it.
  std::string getPlanJson() const;
  /// As a page, HTML in one file.
  std::string getPlanPage() const;
  /// Why a collective ("c2"), a value or an operation is as it is, as `meshc
  /// explain` says it; nothing where the plan has no such.
  std::optional<std::string> explain(const std::string &id) const;
  /// Writes the executable, which needs no compiler. False with errors.
  bool write(const std::string &path);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace meshc

#endif
