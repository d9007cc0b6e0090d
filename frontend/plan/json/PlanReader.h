#ifndef MESHC_FRONTEND_PLAN_JSON_PLANREADER_H
#define MESHC_FRONTEND_PLAN_JSON_PLANREADER_H

/// Plans that were stored as JSON, as far as plans are compared: what a plan is
/// of, its totals, how its values are split and what is sent. Where things
/// stand in the spec, the order of commands and why they are there is passed
/// over while it is read, which is most of a plan.

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshc::plan {

/// How one device's block of a value lies.
struct ReadSplit {
  struct Dim {
    std::string name;
    int64_t size = 0, localSize = 0;
    std::vector<std::string> axes; ///< major to minor
  };
  std::vector<Dim> dims;
  std::string partialKind; ///< "sum"; empty where blocks are complete
  std::vector<std::string> partialAxes;
};

struct ReadValue {
  std::string name;
  /// The name with the first of the scopes that are alike: b1/h of b4/h.
  std::string pattern;
  ReadSplit split;
  int64_t bytes = 0; ///< on each device
  /// How many values it stands for, itself among them; 0 of those that another
  /// one stands for.
  int64_t times = 0;
};

struct ReadMessage {
  std::string kind;
  std::vector<std::string> axes;
  int64_t payload = 0, sent = 0; ///< bytes of each device
  std::string value, pattern;    ///< as of ReadValue; empty of no named value
};

struct ReadPlan {
  std::string model, program, target;
  std::string sha256, specSha256;
  std::string machine;     ///< its label; empty: none was given
  bool isUnpriced = false; ///< the machine cannot run all of it
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::vector<ReadSplit::Dim> dims; ///< without local sizes
  std::vector<std::string> rules;   ///< of the layout, as they are written
  int64_t memory = 0, flops = 0, payload = 0, sent = 0, transfers = 0;
  std::optional<int64_t> memoryLimit;
  std::map<std::string, int64_t> memoryOf; ///< by category
  std::optional<double> stepUs, computeUs, exposedUs;
  std::vector<ReadValue> values; ///< but those that only lead to one
  std::vector<ReadMessage> messages;

  /// "mlp on data=2 model=2, cpu".
  std::string describeSubject() const;
  /// "batch -> data, hidden -> model", "nothing is split".
  std::string describeLayout() const;
};

/// "batch 3@data, hidden 7, partial sum over model"; "one number".
std::string describe(const ReadSplit &split);
/// "data+model".
std::string joinAxes(const std::vector<std::string> &axes);
/// The sum of bytes or counts; the largest number where it is larger.
int64_t addUp(int64_t left, int64_t right);

/// Whether a file holds JSON rather than a spec, by its first character: specs
/// have none that begins an object.
bool looksLikeJson(std::string_view text);

/// A plan as renderPlanJson() writes it. Nothing, with the reason in `error`,
/// if it is cut off or damaged, or not a plan of this version.
std::optional<ReadPlan> readPlan(std::string_view text, std::string &error);

/// The text of a file or pipe of at most a GiB. Nothing, with the reason in
/// `error`, of what is larger, a folder, or cannot be read.
std::optional<std::string> readPlanText(const std::string &path,
                                        std::string &error);

/// What is wrong with JSON whose fields were read by nlohmann::json, as a
/// sentence: "key 'ops' not found".
std::string describeDamage(const std::exception &damage);

} // namespace meshc::plan

#endif
