#include "runtime/cpu/CommandList.h"

#include "runtime/exec/KernelUse.h"
#include "runtime/plans/CpuPieces.h"
#include "runtime/plans/Reduction.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

Result<Matmul *> LibraryPrimitives::get(const MatmulShape &shape) {
  auto [entry, isAbsent] = products.try_emplace(shape);
  if (isAbsent) {
    Result<std::unique_ptr<Matmul>> created =
        Matmul::create(shape, pieces, workers);
    if (!created)
      return created.getError();
    entry->second = std::move(*created);
    scratchBytes = std::max(scratchBytes, entry->second->getScratchBytes());
  }
  return entry->second.get();
}

Result<Convolution *> LibraryPrimitives::get(const exec::ConvolutionT &shape,
                                             ConvolutionElements elements) {
  std::vector<int64_t> key = {int64_t(elements.factor),
                              int64_t(elements.result),
                              int64_t(shape.result),
                              shape.batch,
                              shape.groups,
                              shape.inputs,
                              shape.outputs,
                              int64_t(shape.source.size())};
  for (const auto *numbers :
       {&shape.source, &shape.weights, &shape.destination, &shape.stride,
        &shape.dilation, &shape.pad, &shape.source_strides,
        &shape.weights_strides, &shape.destination_strides})
    key.insert(key.end(), numbers->begin(), numbers->end());
  auto [entry, isAbsent] = convolutions.try_emplace(std::move(key));
  if (isAbsent) {
    Result<std::unique_ptr<Convolution>> created =
        Convolution::create(shape, elements, pieces, workers);
    if (!created)
      return created.getError();
    entry->second = std::move(*created);
    scratchBytes = std::max(scratchBytes, entry->second->getScratchBytes());
  }
  return entry->second.get();
}

static void prepareKernel(const exec::CommandT &command, int workers,
                          PreparedCommand &prepared) {
  prepared.timeClass = TimeClass::Kernel;
  prepared.extent = command.action.AsKernel()->extent;
  const PieceCut cut = cutKernel(command, workers);
  prepared.pieces = cut.pieces;
  prepared.extentPerPiece = cut.perPiece;
}

static void prepareCopy(const exec::CommandT &command, int workers,
                        PreparedCommand &prepared) {
  prepared.timeClass = TimeClass::Copy;
  prepared.rows = getCopyRows(command);
  const PieceCut cut = cutCopy(command, workers);
  prepared.pieces = cut.pieces;
  prepared.rowsPerPiece = cut.perPiece;
}

void runtime::runCopy(const exec::CommandT &command, const std::byte *from,
                      std::byte *to, int64_t begin, int64_t end) {
  const exec::OperandT &source = *command.operands[0];
  const exec::OperandT &target = *command.operands[1];
  const int64_t bytes = getElementBytes(source.element);
  const size_t rank = source.shape.size();
  const int64_t length = rank == 0 ? 1 : source.shape.back();
  for (int64_t row = begin; row < end; ++row) {
    int64_t fromOffset = 0;
    int64_t toOffset = 0;
    int64_t rest = row;
    for (size_t i = rank > 0 ? rank - 1 : 0; i-- > 0;) {
      fromOffset += rest % source.shape[i] * source.strides[i];
      toOffset += rest % source.shape[i] * target.strides[i];
      rest /= source.shape[i];
    }
    copyRow(bytes, from + fromOffset * bytes,
            rank == 0 ? 1 : source.strides.back(), to + toOffset * bytes,
            rank == 0 ? 1 : target.strides.back(), length);
  }
}

Result<CommandList> runtime::prepareProgram(
    const Executable &executable, const exec::ProgramT &program,
    std::span<const meshcKernelEntry> kernels,
    std::span<std::byte *const> arenas, const Division &division, int workers,
    size_t firstNumber, LibraryPrimitives &library) {
  CommandList list;
  const KernelUse use(kernels);
  auto getArenaOffset = [&](const exec::OperandT &operand) {
    return executable.data.buffers[operand.buffer]->offset + operand.offset;
  };

  for (const auto &command : program.commands) {
    PreparedCommand prepared;
    prepared.source = command.get();
    prepared.number = firstNumber + list.commands.size();
    prepared.numOperands = command->operands.size();
    for (std::byte *arena : arenas)
      for (const auto &operand : command->operands)
        prepared.operands.push_back(arena ? arena + getArenaOffset(*operand)
                                          : nullptr);
    switch (command->action.type) {
    case exec::Action::Kernel: {
      Result<const meshcKernelEntry *> entry =
          use.find(executable.data, program, *command);
      if (!entry)
        return entry.getError();
      prepared.kernel = (*entry)->function;
      prepareKernel(*command, workers, prepared);
      break;
    }
    case exec::Action::Matmul: {
      prepared.timeClass = TimeClass::Matmul;
      Result<Matmul *> product = library.get(getMatmulShape(
          *command->action.AsMatmul(), command->operands.front()->element,
          command->operands.back()->element));
      if (!product)
        return product.getError();
      prepared.matmul = *product;
      prepared.pieces = prepared.matmul->getNumPieces();
      break;
    }
    case exec::Action::Convolution: {
      prepared.timeClass = TimeClass::Convolution;
      Result<Convolution *> convolution =
          library.get(*command->action.AsConvolution(),
                      {command->operands.front()->element,
                       command->operands.back()->element});
      if (!convolution)
        return convolution.getError();
      prepared.convolution = *convolution;
      prepared.pieces = prepared.convolution->getNumPieces();
      break;
    }
    case exec::Action::Collective:
      prepared.timeClass = TimeClass::Collective;
      prepared.collective = Collective::create(
          executable.mesh, Collective::getMembers(executable.data, *command),
          division, list.stagingBytes);
      prepared.firstGroup = list.groups.size();
      for (int64_t i = 0; i < prepared.collective->getNumGroups(); ++i)
        list.groups.push_back({list.commands.size(), i});
      break;
    case exec::Action::Copy:
      prepareCopy(*command, workers, prepared);
      break;
    case exec::Action::NONE:
      __builtin_unreachable(); // checkExecutable refuses it
    }
    list.commands.push_back(std::move(prepared));
  }
  return list;
}
