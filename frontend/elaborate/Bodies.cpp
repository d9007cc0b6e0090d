// The model and the statements of bodies.

#include "frontend/elaborate/Elaborator.h"
#include "frontend/syntax/ForeignNames.h"
#include "layout/Spelling.h"

#include <cmath>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

void Elaborator::buildModel(const ast::Model &model) {
  Frame top;
  frame = &top;
  for (const ast::Input &input : model.inputs) {
    std::optional<ElementType> element = getElementType(input.type.element);
    std::optional<Dims> dims = getDims(input.type.dims);
    std::string name(input.name.text);
    Where where = getWhere(join(input.name.span, input.type.span));
    Tensor tensor;
    if (element && dims)
      tensor = checked(builder.input(name, *element, *dims, where));
    else
      builder.declareInput(name, where);
    top.bindings[input.name.text] = {tensor ? Value(tensor) : Value(Poison()),
                                     input.name.span};
  }
  execute(model.body);
  frame = nullptr;
}

/// The name that a statement gives what it computes.
static std::string_view getTarget(const ast::Statement &statement) {
  if (const auto *let = std::get_if<ast::LetStatement>(&statement))
    return let->names.front().text;
  if (const auto *place = std::get_if<ast::PlaceStatement>(&statement))
    return place->name.text;
  if (const auto *output = std::get_if<ast::OutputStatement>(&statement))
    return output->name.text;
  if (std::holds_alternative<ast::ReturnStatement>(statement))
    return "return";
  return {};
}

std::optional<Elaborator::Values>
Elaborator::execute(const std::vector<ast::Statement> &body) {
  for (const ast::Statement &statement : body) {
    if (mustStop() || frame->isRefused)
      return std::nullopt;
    frame->target = getTarget(statement);
    if (const auto *param = std::get_if<ast::ParamStatement>(&statement))
      execute(*param);
    else if (const auto *let = std::get_if<ast::LetStatement>(&statement))
      execute(*let);
    else if (const auto *dim = std::get_if<ast::DimStatement>(&statement))
      execute(*dim);
    else if (const auto *place = std::get_if<ast::PlaceStatement>(&statement))
      execute(*place);
    else if (const auto *loop = std::get_if<ast::LoopStatement>(&statement))
      execute(*loop);
    else if (const auto *branch = std::get_if<ast::IfStatement>(&statement))
      execute(*branch);
    else if (const auto *output = std::get_if<ast::OutputStatement>(&statement))
      execute(*output);
    else if (const auto *assertion =
                 std::get_if<ast::AssertStatement>(&statement)) {
      // What a function does with arguments that it refuses says nothing.
      frame->isRefused = !execute(*assertion) && frame->function;
    } else {
      Values returned;
      for (const ast::ExprPtr &value :
           std::get<ast::ReturnStatement>(statement).values)
        returned.push_back(evaluateBound(*value));
      return returned;
    }
  }
  return std::nullopt;
}

std::optional<ElementType> Elaborator::getElementType(const ast::Name &name) {
  std::vector<std::string> names;
  for (ElementType type : {ElementType::F32, ElementType::F64, ElementType::I32,
                           ElementType::I64, ElementType::I16, ElementType::I8,
                           ElementType::U8, ElementType::Bool}) {
    if (name.text == getName(type))
      return type;
    names.emplace_back(getName(type));
  }
  if (name.text == "f16" || name.text == "bf16") {
    error(Code::NotSupported, name.span,
          fmt::format("not supported yet: elements of type {}", name.text));
    return std::nullopt;
  }
  Diagnostic &unknown =
      error(Code::UnknownElementType, name.span,
            fmt::format("there is no element type \"{}\"", name.text));
  if (!adviseForeign(unknown, ForeignKind::ElementType, name.text))
    unknown.didYouMean(layout::findNearest(name.text, names));
  return std::nullopt;
}

std::optional<Dims> Elaborator::getDims(const std::vector<ast::Name> &names) {
  Dims all;
  bool isValid = true;
  for (const ast::Name &name : names) {
    std::optional<Dims> dims = lookUpDims(name.text, name.span);
    if (dims)
      all.insert(all.end(), dims->begin(), dims->end());
    else
      isValid = false;
  }
  return isValid ? std::optional(all) : std::nullopt;
}

void Elaborator::execute(const ast::ParamStatement &param) {
  std::optional<ElementType> element = getElementType(param.type.element);
  std::optional<Dims> dims = getDims(param.type.dims);
  bool isValid = element && dims;
  if (initialDims) {
    error(Code::MisplacedStatement, param.names.front().span,
          "an initial value has no parameters of its own");
    isValid = false;
  }
  for (const ast::Name &name : param.names) {
    if (frame->numBlocks)
      checkNew(name);
    // One for each: draws are called like the parameter.
    frame->target = name.text;
    std::optional<Initializer> initializer;
    if (isValid)
      initializer = getInitializer(*param.initializer, *element, *dims);
    isValid &= initializer.has_value();
    Tensor tensor;
    if (isValid)
      tensor =
          checked(builder.parameter(std::string(name.text), *element, *dims,
                                    *initializer, getWhere(name.span)));
    frame->bindings[name.text] = {tensor ? Value(tensor) : Value(Poison()),
                                  name.span};
  }
}

void Elaborator::execute(const ast::OutputStatement &output) {
  Value value = evaluateBound(*output.value);
  Tensor tensor = toTensor(value, output.value->span, ElementType::F32);
  builder.output(std::string(output.name.text), tensor,
                 getWhere(join(output.name.span, output.value->span)));
  reportBuildErrors({});
  // Outputs can be used by what follows, as if bound by "let".
  frame->bindings[output.name.text] = {tensor ? Value(tensor) : Value(Poison()),
                                       output.name.span};
}
