#ifndef MESHC_RUNTIME_EXEC_ERROR_H
#define MESHC_RUNTIME_EXEC_ERROR_H

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace meshc::runtime {

/// Exit codes of an executable; the same numbers as those of the compiler.
enum class ExitCode : int {
  Success = 0,
  WrongInput = 1,    ///< what the user gave does not fit the program
  Usage = 2,         ///< wrong flags
  CheckFailed = 3,   ///< of a run that went well by itself
  Damaged = 4,       ///< a file is damaged, or needs another processor
  DoesNotFit = 5,    ///< not enough memory
  RankLost = 6,      ///< another process of the run is missing or has ended
  Internal = 70,     ///< a defect of meshc
  HungUp = 129,      ///< stopped by SIGHUP
  Interrupted = 130, ///< stopped by SIGINT
  Terminated = 143,  ///< stopped by SIGTERM
};

/// Every kind of error; ErrorCodes.def says what each is for. A message begins
/// with the number, `error[MR0203]`, so that scripts can tell them apart.
enum class ErrorCode : uint16_t {
#define MESHC_ERROR(NAME, NUMBER, EXIT, EXPLANATION) NAME = NUMBER,
#include "runtime/exec/ErrorCodes.def"
};

constexpr ExitCode getExitCode(ErrorCode code) {
  switch (code) {
#define MESHC_ERROR(NAME, NUMBER, EXIT, EXPLANATION)                           \
  case ErrorCode::NAME:                                                        \
    return ExitCode::EXIT;
#include "runtime/exec/ErrorCodes.def"
  }
  __builtin_unreachable();
}

/// What went wrong: one line, lower case, no final period, naming what was
/// expected and what was found; `note` says what to do or why, or is empty.
struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string message;
  std::string note;
};

/// A value or the reason why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return content.index() == 0; }
  T &operator*() { return std::get<0>(content); }
  const T &operator*() const { return std::get<0>(content); }
  T *operator->() { return &std::get<0>(content); }
  const T *operator->() const { return &std::get<0>(content); }
  const Error &getError() const { return std::get<1>(content); }

private:
  std::variant<T, Error> content;
};

/// Success or the reason of a failure.
class [[nodiscard]] Status {
public:
  static Status success() { return Status(); }
  Status(Error error) : failed(true), error(std::move(error)) {}

  /// True on success.
  explicit operator bool() const { return !failed; }
  const Error &getError() const { return error; }

private:
  Status() = default;

  bool failed = false;
  Error error;
};

} // namespace meshc::runtime

#endif
