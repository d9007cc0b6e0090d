#include "frontend/plan/page/PlanPage.h"
#include "frontend/plan/json/PlanWriter.h"
#include "frontend/plan/page/GraphLayout.h"

#include <array>
#include <cassert>
#include <fmt/format.h>
#include <sodium.h>
#include <string_view>
#include <vector>
#include <zlib.h>

using namespace meshc;
using plan::Json;

namespace {

struct PageFile {
  std::string_view name;
  std::string_view text;
};

// The scripts stand in the order in which they run.
constexpr PageFile pageFiles[] = {
#include "frontend/plan/Page.inc"
};

} // namespace

static std::string_view getFile(std::string_view name) {
  for (const PageFile &file : pageFiles)
    if (file.name == name)
      return file.text;
  return {};
}

/// All scripts within one function: each sees the names of all, the page none.
static std::string getScript() {
  std::string script = "(() => {\n'use strict';\n";
  for (const PageFile &file : pageFiles)
    if (file.name.ends_with(".js"))
      script.append(file.text).append("\n");
  return script + "})();\n";
}

static std::string toBase64(std::span<const unsigned char> bytes) {
  constexpr int variant = sodium_base64_VARIANT_ORIGINAL;
  // With room for the null behind it.
  std::string text(sodium_base64_encoded_len(bytes.size(), variant), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(),
                    variant);
  text.pop_back();
  return text;
}

static std::span<const unsigned char> toBytes(std::string_view text) {
  return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

/// What a policy allows this text by.
static std::string getSourceHash(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(), toBytes(text).data(), text.size());
  return fmt::format("'sha256-{}'", toBase64(hash));
}

/// The plans as the page unpacks them: of 96 layers a tenth of their JSON, and
/// nothing in it can end a script element.
static std::string pack(const std::string &json) {
  uLongf size = compressBound(json.size());
  std::vector<unsigned char> packed(size);
  [[maybe_unused]] int code =
      compress2(packed.data(), &size, toBytes(json).data(), json.size(),
                Z_BEST_COMPRESSION);
  assert(code == Z_OK && "there is room for the bound");
  return toBase64({packed.data(), size});
}

/// What the headline says of a plan, which the page shows before it unpacks all
/// of it. As JSON in a script element it has no "<" that could end that.
static std::string getAnswer(const Json &plan) {
  Json answer = Json::object();
  for (const char *field : {"model", "program", "target", "devices", "mesh",
                            "machine", "totals", "memory"})
    if (plan.contains(field))
      answer[field] = plan[field];
  for (const char *list : {"at_peak", "buffers"})
    answer["memory"].erase(list);
  std::string text;
  for (char letter :
       answer.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (letter == '<')
      text += "\\u003c";
    else
      text += letter;
  return text;
}

/// What the page does not read: of 96 layers written out an eighth of it.
static void dropUnread(Json &plan) {
  for (Json &buffer : plan["memory"]["buffers"])
    for (const char *field : {"name", "tensor", "form", "offset"})
      buffer.erase(field);
}

std::string plan::renderPlanPage(std::span<const std::string> plans) {
  Json all = Json::array();
  for (const std::string &text : plans) {
    Json plan = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    plan["graph"] = layOutGraph(plan);
    dropUnread(plan);
    all.push_back(std::move(plan));
  }
  const std::string script = getScript();
  const std::string_view style = getFile("page.css");
  const std::string policy =
      fmt::format("default-src 'none'; script-src {}; style-src {}; "
                  "base-uri 'none'; form-action 'none'",
                  getSourceHash(script), getSourceHash(style));
  const std::string data =
      pack(all.dump(-1, ' ', false, Json::error_handler_t::replace));

  const std::string answer = getAnswer(all.front());

  // What was put in is not searched again.
  const std::pair<std::string_view, std::string_view> places[] = {
      {"@POLICY@", policy},
      {"@STYLE@", style},
      {"@ANSWER@", answer},
      {"@SCRIPT@", script},
      {"@DATA@", data}};
  std::string page;
  std::string_view rest = getFile("page.html");
  for (const auto &[place, text] : places) {
    const size_t at = rest.find(place);
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + place.size());
  }
  return page.append(rest);
}
