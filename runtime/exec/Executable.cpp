#include "runtime/exec/Executable.h"

#include "runtime/exec/CommandWaits.h"
#include "runtime/exec/Loops.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

int64_t runtime::getElementBytes(exec::ElementType type) {
  switch (type) {
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
    return 1;
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
  case exec::ElementType::i16:
    return 2;
  case exec::ElementType::f32:
  case exec::ElementType::i32:
    return 4;
  case exec::ElementType::f64:
  case exec::ElementType::i64:
    return 8;
  }
  __builtin_unreachable(); // checkExecutable refuses other values
}

exec::ElementType runtime::getStored(exec::ElementType type) {
  return type == exec::ElementType::u8 ? exec::ElementType::i8 : type;
}

bool runtime::isForData(exec::ElementType type) {
  return type == exec::ElementType::u8 || type == exec::ElementType::i8 ||
         type == exec::ElementType::i16;
}

bool runtime::isOfModel(exec::BufferRole role) {
  return role == exec::BufferRole::parameter ||
         role == exec::BufferRole::model_state;
}

const char *runtime::getKind(const exec::VariableT &variable) {
  return variable.role == exec::BufferRole::parameter ? "parameter" : "state";
}

const char *runtime::getName(exec::ElementType type) {
  switch (type) {
  case exec::ElementType::u8:
    return "u8";
  case exec::ElementType::i8:
    return "i8";
  case exec::ElementType::i16:
    return "i16";
  case exec::ElementType::boolean:
    return "bool";
  case exec::ElementType::bf16:
    return "bf16";
  case exec::ElementType::f16:
    return "f16";
  case exec::ElementType::f32:
    return "f32";
  case exec::ElementType::i32:
    return "i32";
  case exec::ElementType::f64:
    return "f64";
  case exec::ElementType::i64:
    return "i64";
  }
  __builtin_unreachable(); // checkExecutable refuses other values
}

layout::AxisRef runtime::getAxisRef(const exec::AxisRef &ref) {
  return {ref.axis(), ref.pre(), ref.size()};
}

layout::Sharding runtime::getSharding(const exec::TensorLayoutT &layout) {
  layout::Sharding sharding;
  for (const auto &dim : layout.dims) {
    layout::DimSplit split;
    for (const auto &axis : dim->axes)
      split.push_back(getAxisRef(axis));
    sharding.dims.push_back(std::move(split));
    sharding.windows.emplace_back();
    if (dim->window)
      sharding.windows.back() = {dim->window->loop,   dim->window->size,
                                 dim->window->factor, dim->window->low,
                                 dim->window->high,   dim->window->divisor,
                                 dim->window->modulus};
  }
  // A list of no window is none.
  if (std::ranges::none_of(sharding.windows, [](const auto &window) {
        return window.has_value();
      }))
    sharding.windows.clear();
  switch (layout.partial) {
  case exec::ReduceKind::none:
    sharding.partialKind = layout::ReduceKind::None;
    break;
  case exec::ReduceKind::sum:
    sharding.partialKind = layout::ReduceKind::Sum;
    break;
  case exec::ReduceKind::max:
    sharding.partialKind = layout::ReduceKind::Max;
    break;
  case exec::ReduceKind::min:
    sharding.partialKind = layout::ReduceKind::Min;
    break;
  }
  for (const auto &axis : layout.partial_axes)
    sharding.partialAxes.push_back(getAxisRef(axis));
  return sharding;
}

std::vector<int64_t> runtime::getSizes(const exec::TensorLayoutT &layout) {
  std::vector<int64_t> sizes;
  for (const auto &dim : layout.dims)
    sizes.push_back(dim->size);
  return sizes;
}

std::vector<int64_t> runtime::getLocalShape(const exec::TensorLayoutT &layout) {
  return layout::getLocalShape(getSizes(layout), getSharding(layout));
}

int64_t runtime::getLocalElements(const exec::TensorLayoutT &layout) {
  int64_t count = 1;
  for (int64_t size : getLocalShape(layout))
    count *= size;
  return count;
}

int64_t runtime::getGlobalElements(const exec::TensorLayoutT &layout) {
  int64_t count = 1;
  for (const auto &dim : layout.dims)
    count *= dim->size;
  return count;
}

std::vector<const exec::CollectiveT *>
runtime::getMembers(const exec::CollectiveT &collective) {
  std::vector<const exec::CollectiveT *> members = {&collective};
  for (const auto &merged : collective.merged)
    members.push_back(merged.get());
  return members;
}

layout::ShardingChange
runtime::getShardingChange(const exec::CollectiveT &member) {
  return {getSizes(*member.source), getSharding(*member.source),
          getSharding(*member.target)};
}

std::string runtime::toString(const exec::TensorLayoutT &layout) {
  std::string text = getName(layout.element);
  for (size_t i = 0; i < layout.dims.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "[" : ", ", layout.dims[i]->name,
                        layout.dims[i]->size);
  return layout.dims.empty() ? text : text + "]";
}

const exec::PortT *
runtime::findPort(const std::vector<std::unique_ptr<exec::PortT>> &ports,
                  std::string_view name) {
  for (const auto &port : ports)
    if (port->name == name)
      return port.get();
  return nullptr;
}

const exec::ProgramT *Executable::findProgram(std::string_view name) const {
  for (const auto &program : data.programs)
    if (program->name == name)
      return program.get();
  return nullptr;
}

std::span<const int>
Executable::getSources(const exec::ProgramT &program) const {
  const auto found = sources.find(program.name);
  return found == sources.end() ? std::span<const int>() : found->second;
}

const exec::VariableT *Executable::findVariable(std::string_view name) const {
  for (const auto &variable : data.variables)
    if (variable->name == name)
      return variable.get();
  return nullptr;
}

static Error getProgramDamage(std::string message) {
  return {ErrorCode::DamagedProgram, "damaged program: " + std::move(message),
          ""};
}

Result<Executable> Executable::create(exec::ExecutableT data) {
  std::vector<ExpandedProgram> expanded;
  std::string defect = expandLoops(data, expanded);
  if (defect.empty())
    defect = checkExpanded(data);
  if (!defect.empty())
    return getProgramDamage(std::move(defect));
  std::map<std::string, std::vector<int>, std::less<>> sources;
  for (ExpandedProgram &one : expanded) {
    addWaits(data, *one.program);
    sources[one.program->name] = std::move(one.sources);
  }
  std::vector<layout::MeshAxis> axes;
  for (const auto &axis : data.mesh->axes)
    axes.push_back({axis->name, axis->size});
  return Executable{std::move(data), layout::Mesh(std::move(axes)),
                    std::move(sources)};
}

Result<Executable> Executable::load(std::span<const uint8_t> bytes) {
  // Root offset and file identifier.
  constexpr size_t headerBytes = 8;
  if (bytes.size() < headerBytes || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return getProgramDamage(fmt::format("it has {} bytes, expected {} to {}",
                                        bytes.size(), headerBytes,
                                        uint64_t(FLATBUFFERS_MAX_BUFFER_SIZE)));
  if (!exec::ExecutableBufferHasIdentifier(bytes.data()))
    return getProgramDamage(fmt::format("it does not carry the mark \"{}\"",
                                        exec::ExecutableIdentifier()));
  // A table takes at least the four bytes of its vtable offset, so a file that
  // was written without sharing has no more tables than this.
  flatbuffers::Verifier::Options options;
  options.max_tables = flatbuffers::uoffset_t(bytes.size() / 4 + 1);
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), options);
  if (!exec::VerifyExecutableBuffer(verifier))
    return getProgramDamage("it points outside itself");
  // Asked before anything else is read: another version may mean other things.
  const exec::Executable *root = exec::GetExecutable(bytes.data());
  if (root->version() != execVersion)
    return Error{ErrorCode::DamagedProgram,
                 fmt::format("the program has version {}, expected {}",
                             root->version(), execVersion),
                 "compile the model again with this version of meshc"};
  exec::ExecutableT data;
  root->UnPackTo(&data);
  return create(std::move(data));
}
