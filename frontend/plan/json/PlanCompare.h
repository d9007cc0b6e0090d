#ifndef MESHC_FRONTEND_PLAN_JSON_PLANCOMPARE_H
#define MESHC_FRONTEND_PLAN_JSON_PLANCOMPARE_H

/// Plans beside each other: of layouts that are tried, or of files.
///
/// Values and collectives are matched by name. What differs in the same way in
/// calls and iterations that are alike is one *fold*, with how many it is of:
/// take two plans of four layers, of which the second one splits `up` of the
/// first three by another axis; that is `b1/up`, 3 times.

#include "frontend/plan/json/PlanReader.h"

#include <span>

namespace meshc::plan {

/// The version of the JSON.
inline constexpr const char *comparisonSchema = "meshc.comparison/1";

/// A plan to compare, or why there is none.
struct PlanToCompare {
  std::string label; ///< what it is of: options, the name of a file
  std::string json;  ///< as renderPlanJson() writes it; not read if `error`
  /// The diagnostics, where it does not compile. UTF-8.
  std::string error;
};

/// What every plan has a number for; nothing where a plan has none.
struct ComparedQuantity {
  enum class Unit : uint8_t { Bytes, Flops, Nanoseconds, Count };
  std::string name; ///< as in the JSON of a plan
  std::string part; ///< of the quantity, such as an axis; empty: the whole
  Unit unit = Unit::Count;
  std::vector<std::optional<int64_t>> numbers; ///< by plan
  /// Whether all plans that compile have the same.
  bool isEqual = true;
};

/// A value that the plans split differently, or that some do not have.
struct ComparedValue {
  std::string name; ///< of the first
  int64_t times = 1;
  std::vector<std::optional<ReadSplit>> splits; ///< by plan
  int64_t bytes = 0; ///< the most that a device has of it in one of the plans
};

/// Collectives of one kind over the same axes for one value, of which the plans
/// have a different number, or other sizes.
struct ComparedMessage {
  std::string kind;
  std::vector<std::string> axes;
  std::string value; ///< of the first; empty: of no named value
  int64_t times = 1;
  /// By plan, how many there are of each payload in bytes; of one of `times`.
  std::vector<std::map<int64_t, int64_t>> counts;
  int64_t bytes = 0; ///< the most that is sent for it in one of the plans
};

/// A plan that cannot be read.
struct UnreadablePlan {
  size_t index = 0;
  std::string reason;
};

struct PlanComparison {
  /// Nothing if one cannot be read. Requires: two plans or more.
  static std::optional<PlanComparison>
  make(std::span<const PlanToCompare> plans, UnreadablePlan &unreadable);

  /// By plan; nothing where it does not compile, then its diagnostics.
  std::vector<std::optional<ReadPlan>> plans;
  std::vector<std::string> labels, errors;
  /// In which the plans differ besides the layout, in sentences.
  std::vector<std::string> notes;
  std::vector<ComparedQuantity> quantities;
  std::vector<ComparedValue> values;     ///< the largest first
  std::vector<ComparedMessage> messages; ///< those that send most first

  /// "A" of the first plan, "AA" of the 27th.
  static std::string getLetter(size_t plan);
};

/// The comparison as JSON, "schema": comparisonSchema; ends in a newline.
/// README.md of this folder describes the fields.
std::string renderComparisonJson(const PlanComparison &comparison);

} // namespace meshc::plan

#endif
