#include "tests/codegen/ProgramText.h"

#include "codegen/kernels/StructuredOps.h"
#include "dialect/SPMD.h"
#include "passes/Passes.h"
#include "tests/dialect/Programs.h"

#include "mlir/Pass/PassManager.h"

#include "fmt/format.h"

#include <algorithm>
#include <sstream>

using namespace meshc::test;

static std::vector<std::string> split(const std::string &words) {
  std::istringstream stream(words);
  std::vector<std::string> result;
  for (std::string word; stream >> word;)
    result.push_back(word);
  return result;
}

static size_t find(const std::vector<std::string> &words,
                   const std::string &word) {
  return size_t(std::find(words.begin(), words.end(), word) - words.begin());
}

static std::string replaceAll(std::string text, const std::string &from,
                              const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string ProgramText::getTensorType(const TensorInfo &info) const {
  std::string shape;
  for (const std::string &dim : info.dims)
    shape += fmt::format("{}x", sizes.at(dim));
  return fmt::format("tensor<{}{}>", shape, info.type);
}

std::string ProgramText::getTensorType(const std::string &name) const {
  return getTensorType(tensors.at(name));
}

std::string ProgramText::getGlobalType(const TensorInfo &info,
                                       const std::string &sharding) const {
  std::string dims;
  for (const std::string &dim : info.dims)
    dims += fmt::format("{}\"{}\"={}", dims.empty() ? "" : ", ", dim,
                        sizes.at(dim));
  return fmt::format("!nd.tensor<[{}], {}, {}>", dims, info.type, sharding);
}

std::string ProgramText::getLocation(const std::string &name) const {
  if (phase.empty())
    return "";
  return fmt::format(" loc(fused<#nd.origin<{} \"{}\">>[unknown])", phase,
                     name);
}

void ProgramText::stack(const std::string &name, const std::string &dim,
                        const std::vector<std::string> &parts) {
  const TensorInfo &part = tensors.at(parts.front());
  TensorInfo info{{dim}, part.type};
  info.dims.insert(info.dims.end(), part.dims.begin(), part.dims.end());
  std::string types;
  for (const std::string &other : parts)
    types += (types.empty() ? "" : ", ") + getTensorType(other);
  line(fmt::format("%{} = spmd.stack %{} : {} -> {} {}", name,
                   fmt::join(parts, ", %"), types, getTensorType(info),
                   getLocation(name)));
  tensors[name] = std::move(info);
}

void ProgramText::allReduce(const std::string &name, const std::string &input,
                            const std::string &axes) {
  const TensorInfo &info = tensors.at(input);
  line(fmt::format(
      "%{} = spmd.all_reduce %{} from {} to {} : {} -> {}{}", name, input,
      getGlobalType(info, fmt::format("<> partial sum over ({})", axes)),
      getGlobalType(info), getTensorType(info), getTensorType(info),
      getLocation(name)));
  tensors[name] = info;
}

void ProgramText::input(const std::string &name, const std::string &dims,
                        const std::string &type) {
  TensorInfo info{split(dims), type};
  line(fmt::format("%{} = spmd.input \"{}\" of {} : {}", name, name,
                   getGlobalType(info), getTensorType(info)));
  tensors[name] = info;
}

void ProgramText::output(const std::string &name) {
  const TensorInfo &info = tensors.at(name);
  line(fmt::format("spmd.output \"{}\" of {}, %{} : {}", name,
                   getGlobalType(info), name, getTensorType(info)));
}

void ProgramText::constant(const std::string &name, const std::string &dims,
                           const std::string &value, const std::string &type) {
  TensorInfo info{split(dims), type};
  line(fmt::format("%{} = arith.constant dense<{}> : {}", name, value,
                   getTensorType(info)));
  tensors[name] = info;
}

void ProgramText::generic(const std::string &name, const TensorInfo &info,
                          const std::vector<std::string> &inputs,
                          const std::vector<std::string> &reduced,
                          const std::string &init, const std::string &scalars,
                          const std::string &result) {
  std::vector<std::string> loops = info.dims;
  loops.insert(loops.end(), reduced.begin(), reduced.end());
  std::string names, iterators, positions;
  for (size_t loop = 0; loop < loops.size(); ++loop) {
    std::string separator = loop == 0 ? "" : ", ";
    names += fmt::format("{}d{}", separator, loop);
    iterators +=
        fmt::format("{}\"{}\"", separator,
                    loop < info.dims.size() ? "parallel" : "reduction");
    positions +=
        fmt::format("      %i{} = linalg.index {} : index\n", loop, loop);
  }
  auto getMap = [&](const std::vector<std::string> &dims) {
    std::string results;
    for (const std::string &dim : dims)
      results +=
          fmt::format("{}d{}", results.empty() ? "" : ", ", find(loops, dim));
    return fmt::format("affine_map<({}) -> ({})>", names, results);
  };
  std::string maps, values, types, arguments;
  for (size_t index = 0; index < inputs.size(); ++index) {
    const TensorInfo &input = tensors.at(inputs[index]);
    std::string separator = index == 0 ? "" : ", ";
    maps += getMap(input.dims) + ", ";
    values += fmt::format("{}%{}", separator, inputs[index]);
    types += separator + getTensorType(input);
    arguments += fmt::format("%a{}: {}, ", index, input.type);
  }
  maps += getMap(info.dims);
  std::string text = scalars;
  for (size_t loop = loops.size(); loop-- > 0;)
    text = replaceAll(text, "$" + loops[loop], fmt::format("%i{}", loop));
  std::string ins =
      inputs.empty() ? "" : fmt::format("ins({} : {}) ", values, types);
  line(fmt::format(
      "%{} = linalg.generic {{indexing_maps = [{}], iterator_types = [{}]}} "
      "{}outs({} : {}) {{\n    ^bb0({}%acc: {}):\n{}      {}\n      "
      "linalg.yield {} : {}\n    }} -> {}{}",
      name, maps, iterators, ins, init, getTensorType(info), arguments,
      info.type, text.find("%i") == std::string::npos ? "" : positions, text,
      result, info.type, getTensorType(info), getLocation(name)));
  tensors[name] = info;
}

void ProgramText::pointwise(const std::string &name, const std::string &dims,
                            const std::vector<std::string> &inputs,
                            const std::string &scalars,
                            const std::string &type) {
  TensorInfo info{split(dims), type};
  std::string init = fmt::format("%empty{}", fresh++);
  line(fmt::format("{} = tensor.empty() : {}", init, getTensorType(info)));
  generic(name, info, inputs, {}, init, scalars,
          scalars.empty() ? "%a0" : "%r");
}

void ProgramText::reduce(const std::string &name, const std::string &dims,
                         const std::vector<std::string> &inputs,
                         const std::string &combiner, const std::string &init,
                         const std::string &scalars, const std::string &type) {
  TensorInfo info{split(dims), type};
  std::vector<std::string> reduced;
  for (const std::string &input : inputs)
    for (const std::string &dim : tensors.at(input).dims)
      if (find(info.dims, dim) == info.dims.size() &&
          find(reduced, dim) == reduced.size())
        reduced.push_back(dim);
  std::string number = std::to_string(fresh++);
  std::string tensor = getTensorType(info);
  line(fmt::format("%init{} = arith.constant {} : {}", number, init, type));
  line(fmt::format("%empty{} = tensor.empty() : {}", number, tensor));
  line(fmt::format("%fill{} = linalg.fill ins(%init{} : {}) "
                   "outs(%empty{} : {}) -> {}",
                   number, number, type, number, tensor, tensor));
  generic(name, info, inputs, reduced, "%fill" + number,
          fmt::format("{}\n      %total = {} %acc, {} : {}", scalars, combiner,
                      scalars.empty() ? "%a0" : "%r", type),
          "%total");
}

void ProgramText::contraction(const std::string &name, const std::string &dims,
                              const std::string &lhs, const std::string &rhs) {
  const std::string type = tensors.at(lhs).type;
  if (type == "bf16" || type == "f16")
    return reduce(name, dims, {lhs, rhs}, "arith.addf", "0.0",
                  fmt::format("%w0 = arith.extf %a0 : {0} to f32\n"
                              "%w1 = arith.extf %a1 : {0} to f32\n"
                              "%r = arith.mulf %w0, %w1 : f32",
                              type));
  reduce(name, dims, {lhs, rhs}, "arith.addf", "0.0",
         fmt::format("%r = arith.mulf %a0, %a1 : {}", type), type);
}

std::string ProgramText::str() const {
  return header + "  spmd.program @p {\n" + body + "  }\n";
}

mlir::OwningOpRef<mlir::ModuleOp>
meshc::test::parseFused(mlir::MLIRContext &context, const std::string &text) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(context, text);
  mlir::PassManager manager(&context);
  manager.addPass(createFuseArithmetic());
  if (!module || mlir::failed(manager.run(*module)))
    return {};
  return module;
}

std::vector<mlir::Operation *>
meshc::test::getComputations(mlir::ModuleOp module) {
  std::vector<mlir::Operation *> computations;
  module.walk([&](spmd::ProgramOp program) {
    for (mlir::Operation &op : program.getBody().front())
      if (codegen::isComputation(&op))
        computations.push_back(&op);
  });
  return computations;
}
