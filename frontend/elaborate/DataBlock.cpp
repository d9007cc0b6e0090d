// The data block.

#include "frontend/DataReaders.h"
#include "frontend/elaborate/Elaborator.h"
#include "layout/Spelling.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

void Elaborator::buildData(const ast::Data &data) {
  if (!lookUpDims(data.over.text, data.over.span))
    return;
  for (const ast::DataBinding &binding : data.bindings)
    buildBinding(data.over, binding);
  reportBuildErrors({});
}

/// "a, b" as two names.
static std::vector<std::string> splitColumns(std::string_view text) {
  std::vector<std::string> columns;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    while (name.starts_with(' '))
      name.remove_prefix(1);
    while (name.ends_with(' '))
      name.remove_suffix(1);
    columns.emplace_back(name);
    if (comma == std::string_view::npos)
      return columns;
    text.remove_prefix(comma + 1);
  }
}

bool Elaborator::setDataArgument(DataSpec &spec, std::string_view parameter,
                                 const ast::Expr &value) {
  if (parameter == "stride") {
    std::optional<Number> number = evaluateNumber(value, "\"stride\"");
    if (!number)
      return false;
    std::optional<int64_t> stride = toInteger(*number);
    if (stride && *stride > 0 && *stride <= int64_t(1) << 32) {
      spec.stride = *stride;
      return true;
    }
    error(Code::InvalidSetting, value.span,
          fmt::format("\"stride\" is a positive integer up to 2^32, found {}",
                      toString(*number)));
    return false;
  }
  if (parameter == "type") {
    if (value.kind == ExprKind::Name) {
      spec.units = static_cast<const ast::NameExpr &>(value).name;
      return true;
    }
    error(Code::WrongKind, value.span, "expected a type: u16 or i32");
    return false;
  }
  if (value.kind != ExprKind::String) {
    error(Code::WrongKind, value.span,
          fmt::format("expected {} in quotes",
                      parameter == "train" || parameter == "test"
                          ? "a file name"
                          : fmt::format("\"{}\"", parameter)));
    return false;
  }
  const std::string text(static_cast<const ast::StringExpr &>(value).value);
  if ((parameter == "train" || parameter == "test") && text.empty()) {
    error(Code::InvalidSetting, value.span, "the name of the file is empty");
    return false;
  }
  assert(parameter == "train" || parameter == "test" || parameter == "tokens" ||
         parameter == "columns");
  if (parameter == "train")
    spec.train = text;
  else if (parameter == "test")
    spec.test = text;
  else if (parameter == "tokens")
    spec.units = text;
  else
    spec.columns = splitColumns(text);
  return true;
}

/// input = idx("train file", test = "test file")
void Elaborator::buildBinding(const ast::Name &over,
                              const ast::DataBinding &binding) {
  const ast::Expr &reader = *binding.value;
  if (reader.kind == ExprKind::Chain) {
    const auto &chain = static_cast<const ast::ChainExpr &>(reader);
    error(Code::InvalidSetting, chain.opSpans.front(),
          "data comes as it is in its file")
        .help(fmt::format("compute in the model: f32({}) / 255",
                          binding.input.text));
    return;
  }
  if (reader.kind != ExprKind::Call) {
    error(Code::UnknownReader, reader.span,
          "expected a data reader such as idx(\"train file\", test = \"test "
          "file\")");
    return;
  }
  const auto &call = static_cast<const ast::CallExpr &>(reader);
  const DataReader *known = findDataReader(call.callee.text);
  if (!known) {
    std::vector<std::string> names;
    for (const DataReader &other : getDataReaders())
      names.emplace_back(other.name);
    error(Code::UnknownReader, call.callee.span,
          fmt::format("there is no data reader \"{}\"", call.callee.text))
        .note(fmt::format("readers are {}", fmt::join(names, ", ")))
        .didYouMean(layout::findNearest(call.callee.text, names));
    return;
  }
  std::vector<std::string> parameters = {"train", "test"};
  parameters.insert(parameters.end(), known->parameters.begin(),
                    known->parameters.end());
  std::optional<Arguments> arguments = bind(call, parameters, 1);
  if (!arguments)
    return;
  DataSpec spec;
  spec.input = binding.input.text;
  spec.over = over.text;
  spec.reader = known->name;
  for (size_t i = 0; i < parameters.size(); ++i)
    if ((*arguments)[i] &&
        !setDataArgument(spec, parameters[i], *(*arguments)[i]->value))
      return;
  builder.data(std::move(spec), getWhere(binding.input.span));
}
