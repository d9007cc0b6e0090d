// The model and the statements of bodies.

#include "frontend/elaborate/Elaborator.h"
#include "frontend/syntax/ForeignNames.h"
#include "layout/Spelling.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

void Elaborator::buildModel(const ast::Model &model) {
  Frame top;
  frame = &top;
  for (const ast::Input &input : model.inputs) {
    std::optional<ElementType> element = getElementType(*input.type.element);
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
  const size_t numStates = frame->states.size();
  std::optional<Values> returned = executeStatements(body);
  keepStates(numStates);
  return returned;
}

std::optional<Elaborator::Values>
Elaborator::executeStatements(const std::vector<ast::Statement> &body) {
  for (const ast::Statement &statement : body) {
    if (mustStop() || frame->isRefused)
      return std::nullopt;
    frame->target = getTarget(statement);
    if (const auto *variable = std::get_if<ast::VariableStatement>(&statement))
      execute(*variable);
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
          fmt::format("not supported yet: elements of type {}", name.text))
        .help(
            fmt::format("write f32, and \"precision {0}\" above the model, or "
                        "--precision {0}: then what is computed is {0}",
                        name.text == "f16" ? "fp16" : "bf16"));
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

std::optional<Dims>
Elaborator::getDims(const std::vector<ast::ExprPtr> &names) {
  Dims all;
  bool isValid = true;
  for (const ast::ExprPtr &name : names) {
    std::optional<Dims> dims = evaluateDims(*name);
    if (dims)
      all.insert(all.end(), dims->begin(), dims->end());
    else
      isValid = false;
  }
  return isValid ? std::optional(all) : std::nullopt;
}

/// f64 where a tensor that the function takes has it, else f32.
ElementType Elaborator::getFloatOfArguments() const {
  for (const ast::Parameter &parameter : frame->function->parameters) {
    const auto bound = frame->bindings.find(parameter.name.text);
    if (bound == frame->bindings.end())
      continue;
    const auto *tensor = std::get_if<Tensor>(&bound->second.value);
    if (tensor && *tensor && tensor->getElementType() == ElementType::F64)
      return ElementType::F64;
  }
  return ElementType::F32;
}

std::optional<ElementType>
Elaborator::getElementType(const ast::VariableStatement &variable) {
  if (variable.type.element)
    return getElementType(*variable.type.element);
  if (updated)
    return updatedElement;
  if (frame->function)
    return getFloatOfArguments();
  error(Code::UnknownElementType, variable.type.span,
        "expected an element type in front of the dimensions")
      .note("in a function it needs none: it has f64 where a tensor that the "
            "function takes has, else f32; the state of an optimizer has the "
            "elements of the parameter");
  return std::nullopt;
}

void Elaborator::execute(const ast::VariableStatement &variable) {
  std::optional<ElementType> element = getElementType(variable);
  std::optional<Dims> dims = getDims(variable.type.dims);
  bool isValid = element && dims;
  if (initialDims) {
    error(Code::MisplacedStatement, variable.names.front().span,
          fmt::format("an initial value has no {} of its own",
                      variable.isState ? "state" : "parameters"));
    isValid = false;
  }
  if (updated && !variable.isState) {
    error(Code::MisplacedStatement, variable.names.front().span,
          "an optimizer has no parameters of its own")
        .help("what it remembers from step to step is state");
    isValid = false;
  }
  hasTrainingProgram |= variable.isState;
  for (const ast::Name &name : variable.names) {
    if (frame->numBlocks)
      checkNew(name);
    // One for each: draws are called like the variable.
    frame->target = name.text;
    std::optional<Initializer> initializer;
    if (isValid)
      initializer = getInitializer(*variable.initializer, *element, *dims);
    isValid &= initializer.has_value();
    Tensor tensor;
    if (isValid) {
      const std::string text(name.text);
      const Where where = getWhere(name.span);
      tensor = checked(
          variable.isState
              ? builder.modelState(text, *element, *dims, *initializer, where)
              : builder.parameter(text, *element, *dims, *initializer, where));
    }
    if (variable.isState && tensor)
      frame->states.push_back({name, tensor});
    frame->bindings[name.text] = {tensor ? Value(tensor) : Value(Poison()),
                                  name.span};
  }
}

void Elaborator::keepStates(size_t first) {
  // What is executed twice for the training step is checked there.
  if (std::get<bool>(training) && !mustStop() && !frame->isRefused)
    for (size_t i = first; i < frame->states.size(); ++i)
      keepState(frame->states[i]);
  frame->states.resize(first);
}

void Elaborator::keepState(const DeclaredState &state) {
  const Binding &binding = frame->bindings[state.name.text];
  const auto *tensor = std::get_if<Tensor>(&binding.value);
  if (isPoison(binding.value) || (tensor && *tensor == state.start))
    return;
  const std::vector<Operand> operands = {{binding.span, state.start}};
  Tensor value =
      toTensor(binding.value, binding.span, state.start.getElementType());
  if (value && !tensor && !state.start.getDims().empty())
    value = checked(builder.broadcast(value,
                                      {state.start.getDims().begin(),
                                       state.start.getDims().end()},
                                      getWhere(binding.span)),
                    operands);
  builder.setModelState(std::string(state.name.text), value,
                        getWhere(binding.span));
  reportBuildErrors(operands);
}

bool Elaborator::checkNoState(const ast::Name &name,
                              std::optional<Span> keyword) {
  const auto state =
      std::ranges::find_if(frame->states, [&](const DeclaredState &known) {
        return known.name.text == name.text;
      });
  if (state == frame->states.end())
    return true;
  Diagnostic &bound =
      error(Code::NameIsBound, name.span,
            fmt::format("\"{}\" is state, which this would not set", name.text))
          .alsoAt(getUserSpan(state->name.span), "declared here");
  if (keyword)
    bound.fix({keyword->source, keyword->begin, name.span.begin}, "",
              "without \"let\" it is what the state becomes");
  return false;
}

/// The order that the dims of an output stand in: all of them, each once.
std::optional<Dims> Elaborator::evaluateOrder(const ast::TypeExpr &order,
                                              const ast::Name &name,
                                              Tensor value) {
  Dims dims;
  for (const ast::ExprPtr &dim : order.dims) {
    std::optional<Dims> some = evaluateDims(*dim, nullptr);
    if (!some)
      return std::nullopt;
    dims.insert(dims.end(), some->begin(), some->end());
  }
  auto compare = [](const Dim &a, const Dim &b) { return a.name < b.name; };
  Dims sorted = dims, own(value.getDims().begin(), value.getDims().end());
  std::ranges::sort(sorted, compare);
  std::ranges::sort(own, compare);
  if (sorted == own)
    return dims;
  error(Code::TypeDiffers, order.span,
        fmt::format("the order of output \"{}\" has not each of its dimensions "
                    "once: it is {}",
                    name.text,
                    toString(value.getElementType(), value.getDims())));
  return std::nullopt;
}

void Elaborator::execute(const ast::OutputStatement &output) {
  checkNoState(output.name);
  Value value = evaluateBound(*output.value);
  Tensor tensor = builder.bind(
      toTensor(value, output.value->span, ElementType::F32),
      std::string(output.name.text), "", getWhere(output.name.span));
  std::optional<Dims> order;
  if (output.order && tensor)
    order = evaluateOrder(*output.order, output.name, tensor);
  builder.output(std::string(output.name.text), tensor,
                 getWhere(join(output.name.span, output.value->span)),
                 order ? *order : Dims());
  reportBuildErrors({});
  // Outputs can be used by what follows, as if bound by "let".
  frame->bindings[output.name.text] = {tensor ? Value(tensor) : Value(Poison()),
                                       output.name.span};
}
