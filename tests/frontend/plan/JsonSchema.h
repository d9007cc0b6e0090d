#ifndef MESHC_TESTS_FRONTEND_PLAN_JSONSCHEMA_H
#define MESHC_TESTS_FRONTEND_PLAN_JSONSCHEMA_H

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace meshc::plan {

/// Where `value` differs from `schema`. A schema is
///   "string", "integer", "number", "boolean"
///   {"list": schema}, {"nullable": schema}, {"one of": [values]}
///   an object of field -> schema; "field?" may be absent; no other fields.
std::vector<std::string> findViolations(const nlohmann::json &value,
                                        const nlohmann::json &schema,
                                        const std::string &place = "plan");

} // namespace meshc::plan

#endif
