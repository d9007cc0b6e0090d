#ifndef MESHC_TESTS_MUTANTS_SUBJECTS_H
#define MESHC_TESTS_MUTANTS_SUBJECTS_H

/// What mutants are given to, one kind of file each.

#include "tests/mutants/Mutator.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace meshc::mutants {

/// What became of a mutant.
struct Outcome {
  bool isSound = false;    ///< taken as such
  bool wasPlanned = false; ///< specs
  bool hasRun = false;     ///< programs, with the kernels that they had
  /// What must not be, of what neither crashes nor hangs; empty: nothing.
  std::string defect = {};
};

class Subject {
public:
  virtual ~Subject() = default;

  /// What mutants are made of.
  std::vector<std::string> files;

  virtual Outcome take(const Mutator::Mutant &mutant) = 0;
};

/// Programs. A path that ends with .mesh is a spec, which is compiled: mutants
/// of its program that are sound run, with its kernels. Others are programs as
/// `meshc plan` leaves them. An empty result: it has said why.
std::unique_ptr<Subject> makePrograms(const std::vector<std::string> &paths,
                                      const std::string &folder);

/// Specs. Sound ones of moderate size are planned, IR verified after every
/// pass.
std::unique_ptr<Subject> makeSpecs(const std::vector<std::string> &paths);

std::unique_ptr<Subject> makeIdx(const std::vector<std::string> &paths);
std::unique_ptr<Subject> makeNpy(const std::vector<std::string> &paths);

std::string readFile(const std::string &path);

} // namespace meshc::mutants

#endif
