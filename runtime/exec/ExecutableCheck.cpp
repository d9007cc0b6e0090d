#include "layout/Layout.h"
#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/Loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

bool ExecutableChecker::checkMesh() {
  if (!data.mesh)
    return fail("it has no mesh");
  int64_t devices = 1;
  std::vector<layout::MeshAxis> axes;
  std::set<std::string_view> names;
  for (const auto &axis : data.mesh->axes) {
    if (axis->size < 1)
      return fail(
          fmt::format("mesh axis '{}' has size {}", axis->name, axis->size));
    if (!names.insert(axis->name).second)
      return fail(fmt::format("two mesh axes are called '{}'", axis->name));
    devices = multiply(devices, axis->size);
    if (devices < 0 || devices > layout::Mesh::maxDevices)
      return fail(fmt::format("its mesh has more than {} devices",
                              layout::Mesh::maxDevices));
    axes.push_back({axis->name, axis->size});
  }
  const std::vector<int> &order = data.mesh->device_order;
  if (!order.empty()) {
    if (int64_t(order.size()) != devices)
      return fail(fmt::format("its device order names {} devices, expected {}",
                              order.size(), devices));
    std::vector<bool> seen(devices, false);
    for (int device : order) {
      if (device < 0 || device >= devices || seen[device])
        return fail("its device order is not a permutation");
      seen[device] = true;
    }
  }
  mesh = layout::Mesh(std::move(axes));
  return true;
}

bool ExecutableChecker::checkSpan(const exec::Span &span) {
  if (span.file() < -1 || span.file() >= int64_t(data.files.size()))
    return fail(fmt::format("a source span names file {} of {}", span.file(),
                            data.files.size()));
  return true;
}

bool ExecutableChecker::checkScopes() {
  for (int number = 0; number < int(data.scopes.size()); ++number) {
    const exec::ScopeT &scope = *data.scopes[size_t(number)];
    if (scope.parent < -1 || scope.parent >= number)
      return fail(
          fmt::format("scope {} lies in scope {}", number, scope.parent));
    if (scope.name.empty() || scope.iteration < -1)
      return fail(fmt::format("scope {} has no name, or iteration {}", number,
                              scope.iteration));
  }
  return true;
}

bool ExecutableChecker::checkOrigin(const exec::OriginT *origin) {
  if (!origin)
    return true;
  if (origin->scope < -1 || origin->scope >= int64_t(data.scopes.size()))
    return fail(fmt::format("an origin has scope {} of {}", origin->scope,
                            data.scopes.size()));
  if (!isEnumerator(origin->kind, exec::OriginKind::MAX))
    return fail(fmt::format("unknown kind of origin {}", int(origin->kind)));
  if (!isEnumerator(origin->part, exec::OriginPart::MAX))
    return fail(fmt::format("unknown part of origin {}", int(origin->part)));
  return true;
}

bool ExecutableChecker::checkLayout(const exec::TensorLayoutT *layout) {
  if (!layout)
    return fail("a layout is missing");
  if (!isEnumerator(layout->element, exec::ElementType::MAX))
    return fail(fmt::format("unknown element type {}", int(layout->element)));
  if (!isEnumerator(layout->partial, exec::ReduceKind::MAX))
    return fail(fmt::format("unknown reduction {}", int(layout->partial)));
  int64_t bytes = getElementBytes(layout->element);
  for (const auto &dim : layout->dims) {
    if (dim->size < 1)
      return fail(
          fmt::format("dimension '{}' has size {}", dim->name, dim->size));
    // A window may be larger than its dimension.
    int64_t held = dim->size;
    if (dim->window) {
      constexpr int64_t limit = int64_t(1) << 31;
      const exec::WindowT &window = *dim->window;
      for (int64_t number : {window.size, window.factor, window.low,
                             window.high, window.divisor, window.modulus})
        if (number <= -limit || number >= limit)
          return fail(fmt::format("a window of dimension '{}' has a number "
                                  "beyond 2^31",
                                  dim->name));
      held = std::max(held, multiply(window.size, std::abs(window.factor)) +
                                window.high - window.low);
    }
    bytes = multiply(bytes, held);
    if (bytes < 0)
      return fail("a tensor is larger than any memory");
  }
  std::string violation =
      layout::getViolation(mesh, getSharding(*layout), layout->dims.size());
  if (!violation.empty())
    return fail("impossible sharding: " + violation);
  return true;
}

bool ExecutableChecker::checkBufferHolds(int buffer,
                                         const exec::TensorLayoutT &layout) {
  if (buffer < 0 || size_t(buffer) >= data.buffers.size())
    return fail(fmt::format("buffer {} of {}", buffer, data.buffers.size()));
  uint64_t needed =
      uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
  const exec::BufferT &found = *data.buffers[buffer];
  if (found.bytes < needed)
    return fail(fmt::format("buffer '{}' has {} bytes, its tensor needs {}",
                            found.name, found.bytes, needed));
  return true;
}

bool ExecutableChecker::checkPorts(
    const std::vector<std::unique_ptr<exec::PortT>> &ports,
    std::string_view kind) {
  std::string outer = where;
  std::set<std::string_view> names;
  for (const auto &port : ports) {
    where = outer + fmt::format(", {} '{}'", kind, port->name);
    if (!names.insert(port->name).second)
      return fail("the name is given twice");
    if (!checkLayout(port->layout.get()) ||
        !checkBufferHolds(port->buffer, *port->layout))
      return false;
    if (port->layout->element == exec::ElementType::bf16 ||
        port->layout->element == exec::ElementType::f16)
      return fail(fmt::format("element type {} is not supported",
                              getName(port->layout->element)));
    if (kind == "input" && port->layout->partial != exec::ReduceKind::none)
      return fail("its layout is partial");
    if (!checkPortQuantities(*port))
      return false;
  }
  where = std::move(outer);
  return true;
}

bool ExecutableChecker::checkNumberOfRun(const exec::PortT *port,
                                         exec::ElementType element,
                                         std::string_view what) {
  if (!port)
    return true;
  if (!checkLayout(port->layout.get()) ||
      !checkBufferHolds(port->buffer, *port->layout))
    return false;
  if (port->layout->element != element || !port->layout->dims.empty() ||
      port->layout->partial != exec::ReduceKind::none)
    return fail(fmt::format("{} is not one {}", what,
                            exec::EnumNameElementType(element)));
  return true;
}

bool ExecutableChecker::checkProgram(const exec::ProgramT &program) {
  where = fmt::format("program '{}'", program.name);
  if (program.arena_bytes > data.arena_bytes)
    return fail(fmt::format("its arena has {} bytes, the executable's {}",
                            program.arena_bytes, data.arena_bytes));
  if (!checkPorts(program.inputs, "input") ||
      !checkPorts(program.outputs, "output") ||
      !checkNumberOfRun(program.seed.get(), exec::ElementType::i64,
                        "the seed of its random numbers") ||
      !checkNumberOfRun(program.step.get(), exec::ElementType::i32,
                        "the number of its step") ||
      !checkNumberOfRun(program.part.get(), exec::ElementType::i32,
                        "the number of its part"))
    return false;
  for (const auto &port : program.settings)
    if (!checkNumberOfRun(port.get(),
                          port->layout && port->layout->element ==
                                              exec::ElementType::f64
                              ? exec::ElementType::f64
                              : exec::ElementType::f32,
                          "a setting"))
      return false;
  Totals totals;
  for (size_t i = 0; i < program.commands.size(); ++i)
    if (!checkCommand(*program.commands[i], i, totals))
      return false;
  where.clear();
  return true;
}

/// Whether a reader knows what positions of its sequences are.
static bool hasUnits(const exec::DataSourceT &source) {
  const std::string &units = source.units;
  switch (source.reader) {
  case exec::DataReader::tokens: // a file may say it
    return units.empty() || units == "u16" || units == "i32";
  case exec::DataReader::text:
    return units == "bytes" || units == "chars";
  case exec::DataReader::idx:
  case exec::DataReader::npy:
  case exec::DataReader::rows:
  case exec::DataReader::images:
  case exec::DataReader::classes:
    return units.empty();
  }
  return false;
}

bool ExecutableChecker::checkData() {
  const exec::ProgramT *step = nullptr, *accumulate = nullptr;
  for (const auto &program : data.programs)
    if (program->name == "step")
      step = program.get();
    else if (program->name == "accumulate")
      accumulate = program.get();
  std::set<std::string_view> fed;
  for (const auto &source : data.data) {
    where = fmt::format("data for '{}'", source->input);
    if (!isEnumerator(source->reader, exec::DataReader::MAX))
      return fail(fmt::format("unknown reader {}", int(source->reader)));
    if (!fed.insert(source->input).second)
      return fail("the input is fed twice");
    if (!hasUnits(*source))
      return fail(fmt::format("unknown units '{}'", source->units));
    if ((source->span && !checkSpan(*source->span)) ||
        !checkSourceQuantities(*source))
      return false;
  }
  where.clear();
  if (!data.training)
    return true;
  where = "training";
  if (!checkTrainingQuantities(*data.training))
    return false;
  for (const auto &rate : data.training->rates)
    if (rate->steps.size() != rate->values.size())
      return fail(fmt::format("rate '{}' has {} values at {} steps", rate->name,
                              rate->values.size(), rate->steps.size()));
  if (data.training->parts < 1)
    return fail("a step of no parts");
  if (step && (data.training->parts > 1) != (accumulate != nullptr))
    return fail(fmt::format("a step has {} parts, and there is {} program "
                            "'accumulate'",
                            data.training->parts, accumulate ? "a" : "no"));
  if (step && !findPort(step->outputs, data.training->minimize))
    return fail(fmt::format("it minimises '{}', which program 'step' does not "
                            "give",
                            data.training->minimize));
  where.clear();
  return true;
}

bool ExecutableChecker::checkRules() {
  std::vector<layout::LayoutRule> rules;
  for (const auto &rule : data.rules) {
    where = "a rule of the layout";
    auto parsed = layout::parseRule(rule->text);
    if (auto *error = std::get_if<layout::RuleSyntaxError>(&parsed))
      return fail(fmt::format("'{}': {}", rule->text, toString(*error)));
    rules.push_back(std::get<layout::LayoutRule>(std::move(parsed)));
    if (rule->span && !checkSpan(*rule->span))
      return false;
  }
  where.clear();
  auto table = layout::Layout::create(mesh, std::move(rules));
  if (auto *errors = std::get_if<std::vector<layout::LayoutError>>(&table))
    return fail(fmt::format("impossible rule of the layout: {}",
                            data.rules[errors->front().rule]->text));
  return true;
}

std::string ExecutableChecker::check() {
  if (data.version != execVersion)
    fail(fmt::format("version {}, expected {}", data.version, execVersion));
  else if (data.arena_bytes > uint64_t(maxExtent))
    fail(fmt::format("its arena has {} bytes", data.arena_bytes));
  if (!isEnumerator(data.target, exec::Target::MAX))
    fail(fmt::format("unknown target {}", int(data.target)));
  else if (data.target == exec::Target::cpu && !data.images.empty())
    fail(fmt::format("it has {} images of GPU kernels", data.images.size()));
  for (const auto &image : data.images)
    if (!isEnumerator(image->kind, exec::ImageKind::MAX))
      fail(fmt::format("unknown kind of image {}", int(image->kind)));
  if (!defect.empty() || !checkMesh() || !checkScopes())
    return defect;
  for (const auto &buffer : data.buffers) {
    if (!isEnumerator(buffer->role, exec::BufferRole::MAX))
      fail(fmt::format("unknown buffer role {}", int(buffer->role)));
    if (buffer->offset % 64 != 0)
      fail(fmt::format("buffer '{}' is not aligned: offset {}", buffer->name,
                       buffer->offset));
    if (buffer->bytes > data.arena_bytes ||
        buffer->offset > data.arena_bytes - buffer->bytes)
      fail(fmt::format("buffer '{}' lies outside the arena of {} bytes",
                       buffer->name, data.arena_bytes));
    if (buffer->tensor < -1 || buffer->tensor >= int64_t(data.tensors.size()))
      fail(fmt::format("buffer '{}' is of tensor {} of {}", buffer->name,
                       buffer->tensor, data.tensors.size()));
    checkOrigin(buffer->origin.get());
  }
  if (!defect.empty())
    return defect;
  std::set<std::string_view> names;
  for (const auto &variable : data.variables) {
    where = fmt::format("variable '{}'", variable->name);
    if (std::ranges::find(variableRoles, variable->role) ==
        std::end(variableRoles))
      fail("has no role of a variable");
    else if (!names.insert(variable->name).second)
      fail("the name is given twice");
    else if (checkLayout(variable->layout.get()) &&
             checkBufferHolds(variable->buffer, *variable->layout)) {
      if (variable->layout->partial != exec::ReduceKind::none)
        fail("its layout is partial");
      else if (variable->span)
        checkSpan(*variable->span);
    }
    if (!defect.empty())
      return defect;
  }
  if (!checkRules())
    return defect;
  for (const auto &dim : data.dims) {
    where = fmt::format("dimension '{}'", dim->name);
    layout::Sharding split;
    split.dims.emplace_back();
    for (const exec::AxisRef &axis : dim->axes)
      split.dims.back().push_back(getAxisRef(axis));
    std::string violation = layout::getViolation(mesh, split, 1);
    if (!violation.empty())
      fail("impossible rule: " + violation);
    if (dim->span)
      checkSpan(*dim->span);
    if (!defect.empty())
      return defect;
  }
  for (const auto &tensor : data.tensors) {
    where = fmt::format("tensor '{}'", tensor->name);
    if (!isEnumerator(tensor->role, exec::BufferRole::MAX))
      fail(fmt::format("unknown role {}", int(tensor->role)));
    else if (checkLayout(tensor->layout.get()) &&
             checkTensorQuantities(*tensor) &&
             checkOrigin(tensor->origin.get()) && tensor->span)
      checkSpan(*tensor->span);
    if (tensor->of < -1 || tensor->of >= int64_t(data.tensors.size()))
      fail(fmt::format("it is of tensor {} of {}", tensor->of,
                       data.tensors.size()));
    if (!defect.empty())
      return defect;
  }
  names.clear();
  for (const auto &program : data.programs) {
    if (!names.insert(program->name).second)
      fail(fmt::format("two programs are called '{}'", program->name));
    if (!defect.empty() || !checkProgram(*program))
      return defect;
  }
  checkData();
  return defect;
}

std::string runtime::checkExpanded(const exec::ExecutableT &data) {
  return ExecutableChecker(data).check();
}

std::string runtime::checkExecutable(const exec::ExecutableT &data) {
  if (std::ranges::all_of(data.programs, [](const auto &program) {
        return program->loops.empty();
      }))
    return checkExpanded(data);
  exec::ExecutableT copy(data);
  std::vector<ExpandedProgram> expanded;
  const std::string defect = expandLoops(copy, expanded);
  return defect.empty() ? checkExpanded(copy) : defect;
}
