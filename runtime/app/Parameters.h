#ifndef MESHC_RUNTIME_APP_PARAMETERS_H
#define MESHC_RUNTIME_APP_PARAMETERS_H

#include "runtime/app/Session.h"
#include "runtime/data/ParameterSource.h"
#include "runtime/weights/NameMap.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// Where the parameters of an evaluation come from.
struct ParameterRequest {
  std::string from;             ///< what has all of them; empty: nothing
  std::string names;            ///< the map of its names; empty: none
  std::vector<NamedFile> files; ///< instead of what `from` has
  bool drawsMissing = false;    ///< the others start as in a training
  int64_t seed = 0;             ///< of these
  /// Those of a training step, where evaluations have running means.
  bool isOfStep = false;
};

/// The parameters of an evaluation, found but not read.
class Parameters {
public:
  /// Errors: Usage where a map is given for others than safetensors files;
  /// RepeatedInput, UnknownName; MissingInput where a parameter is
  /// given nowhere and is not to be drawn; WrongArray, WrongParameters where
  /// one has another type or shape; those of the sources.
  static Result<Parameters> open(const Session &session,
                                 const ParameterRequest &request);

  /// The files that are read.
  std::vector<std::string> getFiles() const;

  /// Sets the variables from the seed, and then the parameters that are given,
  /// each device its part of them. What takes long is shown. Errors: those of
  /// the sources, RanksDiffer where other processes have read other arrays.
  Status set(Session &session) const;

private:
  /// A parameter and what it is set from.
  struct Setting {
    const exec::VariableT *parameter;
    const exec::VariableT *mean; ///< that is set likewise; null: none
    const ParameterSource *source;
    const ParameterSource::Entry *entry;
  };

  static Status setOne(Session &session, const Setting &setting,
                       const exec::VariableT &variable);
  Status compareRanks(Session &session) const;

  std::unique_ptr<ParameterSource> from, files; ///< null: nothing is given
  std::vector<Setting> settings;
  int64_t seed = 0;
};

/// Whether --from names safetensors files, whose names a map may translate.
bool hasOtherNames(const std::string &path);

/// Opens what --from names: a checkpoint, with the running means of those
/// parameters that have one unless `isOfStep`, safetensors files under the
/// names of a map, which is null for others, or a folder of .npy files. Errors:
/// those of the sources.
Result<std::unique_ptr<ParameterSource>>
openSource(const std::string &path, const NameMap *map,
           std::span<const exec::VariableT *const> parameters,
           bool isOfStep = false);

/// The map of a path; none without one. Errors: as of readNameMap.
Result<std::optional<NameMap>> openNames(const std::string &path);

/// An error if two of `files` are for one thing, which is a `kind`.
Status checkUnique(std::string_view kind, const std::vector<NamedFile> &files);

} // namespace meshc::runtime

#endif
