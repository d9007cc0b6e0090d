#ifndef MESHC_LAYOUT_MACHINE_H
#define MESHC_LAYOUT_MACHINE_H

#include "layout/CostModel.h"
#include "layout/Mesh.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::layout {

/// How a number was made.
enum class Made : uint8_t {
  Measured,     ///< on such a machine
  Interpolated, ///< between measurements of a similar one
  DataSheet,    ///< promised by the maker
};
/// "measured", "interpolated", "data_sheet".
const char *getName(Made made);

/// A number of a machine.
struct MachineConstant {
  std::string_view name, unit;
  double value;
  Made made;
  std::string_view source;
};

/// How far a group reaches.
struct GroupReach {
  int64_t ranks = 1;   ///< devices of the group
  int64_t hosts = 1;   ///< that the group with most of them is on
  int64_t perHost = 1; ///< of its devices on one of these, at most
};

/// A kind of machine, and what it takes it to compute and to send: predictions,
/// from constants that say how they were made.
///
/// Devices are on hosts in order of their numbers, so many on each; a group
/// whose devices are on one host uses the links inside, any other one the
/// network too.
class Machine {
public:
  /// Rates are of one device, of links in one direction.
  struct Constants {
    MachineConstant memoryBytes; ///< of a device
    MachineConstant devicesPerHost;
    MachineConstant matmul32, matmul16; ///< flop/us, of f32 and of 16 bits
    MachineConstant vector32;           ///< flop/us outside of matmuls
    MachineConstant memoryRate;         ///< bytes/us
    MachineConstant launchUs;
    MachineConstant insideRate;  ///< bytes/us between devices of a host
    MachineConstant networkRate; ///< bytes/us between hosts
  };

  Machine(std::string_view name, std::string_view label,
          const Constants &constants)
      : name(name), label(label), constants(constants) {}

  std::string_view getName() const { return name; }
  /// "H100 SXM 80 GB".
  std::string_view getLabel() const { return label; }
  std::vector<MachineConstant> getConstants() const;
  int64_t getMemoryBytes() const {
    return int64_t(constants.memoryBytes.value);
  }

  GroupReach getReach(const Mesh &mesh, std::span<const AxisRef> axes) const;

  /// What bounds a command.
  enum class Bound : uint8_t { Flops, Memory, Launch };
  struct Price {
    double us = 0;
    Bound bound = Bound::Launch;
  };
  /// A kernel or a matmul of this work: the longer of arithmetic and memory,
  /// and a launch. Large ones come closer to the machine's rates than small
  /// ones.
  Price getComputePrice(bool isMatmul, int64_t elementBytes, double flops,
                        double bytes) const;
  /// Microseconds of a collective. `payloadBytes` is what a device brings in,
  /// `wireBytes` what it sends, as in CostModel.h.
  ///
  /// all_reduce, reduce_scatter and all_gather are the fastest of NCCL's rings
  /// and all_reduce's trees, over its three protocols; the others send to each
  /// device of the group what is for it.
  double getCollectiveUs(CollectiveKind kind, const GroupReach &reach,
                         int64_t payloadBytes, int64_t wireBytes) const;

private:
  std::string_view name, label;
  Constants constants;
};

/// "flops", "memory", "launch".
const char *getName(Machine::Bound bound);

/// The machine called `name`; null if there is none.
const Machine *findMachine(std::string_view name);
/// "v100, a100, h100, h200".
std::string getMachineNames();

} // namespace meshc::layout

#endif
