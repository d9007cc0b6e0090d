#ifndef MESHC_LAYOUT_MACHINE_H
#define MESHC_LAYOUT_MACHINE_H

#include "layout/Collective.h"
#include "layout/Mesh.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meshc::layout {

/// How a number was made.
enum class Made : uint8_t {
  Measured,     ///< on such a machine
  Interpolated, ///< between measurements of a similar one
  DataSheet,    ///< promised by the maker
  Assumed,      ///< a starting value, neither measured nor promised
};
/// "measured", "interpolated", "data_sheet", "assumed".
const char *getName(Made made);

/// A number of a machine.
struct MachineConstant {
  std::string_view name, unit;
  double value;
  Made made;
  std::string_view source;
};

/// What the elements of a matmul are.
enum class MatmulType : uint8_t { F64, F32, F16, Bf16 };
/// "f64", "f32", "f16", "bf16".
const char *getName(MatmulType type);

/// How far a group reaches.
struct GroupReach {
  int64_t ranks = 1;   ///< devices of the group
  int64_t hosts = 1;   ///< that the group with most of them is on
  int64_t perHost = 1; ///< of its devices on one of these, at most
};

/// Caps of NCCL's planning rates of one generation of GPUs, on one host, on two
/// and on more, in bytes/us: of all channels for LL, of one for the others.
struct NcclCaps {
  double ring64[3];   ///< LL, all channels
  double ring128;     ///< LL128
  double tree128[3];  ///< LL128
  double treeFull[3]; ///< Simple
  double plateau;     ///< latency of rings of Simple that all_reduce on several
                      ///< hosts, times this
};

/// A kind of machine, and what it takes it to compute and to send: the one
/// price list, of reshardings as of commands. Predictions, from constants that
/// say how they were made.
///
/// Devices are on hosts in order of their numbers, so many on each; a group
/// whose devices are on one host uses the links inside, any other one the
/// network too: an axis stays inside if the product of it and of all minor
/// axes does.
class Machine {
public:
  /// Of GPUs that send by NCCL. Rates are of one device, of links in one
  /// direction.
  struct Constants {
    MachineConstant memoryBytes; ///< of a device
    MachineConstant devicesPerHost;
    MachineConstant matmul32, matmul16; ///< flop/us, of f32 and of f16
    MachineConstant vector32;           ///< flop/us outside of matmuls
    MachineConstant memoryRate;         ///< bytes/us
    MachineConstant launchUs;
    MachineConstant multiprocessors;
    MachineConstant insideRate;  ///< bytes/us between devices of a host
    MachineConstant networkRate; ///< bytes/us between hosts
    /// flop/us; none where matmuls of the type cannot be run.
    std::optional<MachineConstant> matmul64 = std::nullopt;
    std::optional<MachineConstant> matmulBf16 = std::nullopt;
    /// bytes/us from a device to its network adapter.
    std::optional<MachineConstant> pcieRate = std::nullopt;
    /// Part of insideRate at which switches of a host reduce (NVLS); none where
    /// they cannot.
    std::optional<MachineConstant> switchPart = std::nullopt;
    const NcclCaps *caps = nullptr; ///< null: the links alone limit
  };
  /// Of devices that are the threads and processes of hosts, all of which reach
  /// one another alike. A collective takes a time, a time for each of its
  /// rounds of messages, and its bytes.
  struct HostConstants {
    MachineConstant arithmetic; ///< flop/us, of matmuls and of all else
    MachineConstant copyRate;   ///< bytes/us, read plus write
    MachineConstant transferUs; ///< one collective, whatever its size
    MachineConstant roundUs;    ///< one message round
    MachineConstant wireRate;   ///< bytes/us, one device's sending rate
    /// Bytes of an exchange take this much longer: its boxes are irregular.
    /// Also keeps regular collectives where padding makes an exchange look
    /// smaller.
    MachineConstant exchangeFactor;
  };

  /// Products or convolutions of one element type on one thread. The time of
  /// one is a call, its flops and its bytes, one after the other.
  struct ProductConstants {
    MachineConstant rate; ///< flop/us
    /// bytes/us of operands and result, in the caches and in memory.
    MachineConstant byteRate, farByteRate;
    MachineConstant callUs;
  };
  /// Of devices that are tasks of the worker threads of one process, as it was
  /// measured on the host. Transfers are copies, which the same threads do.
  struct WorkerConstants {
    MachineConstant workers;
    ProductConstants matmul32, matmulBf16, matmul16, convolution;
    MachineConstant arithmetic; ///< flop/us of kernels on one thread
    /// bytes/us of kernels and copies on one thread, where all stays in its
    /// caches and where nothing does; and the bytes of a command of which the
    /// one and the other was measured.
    MachineConstant nearRate, farRate, nearBytes, farBytes;
    MachineConstant commandUs;    ///< to start a command on a device
    MachineConstant collectiveUs; ///< a device's arrival at a collective
    /// bytes/us of one thread, of what devices bring in and get; where it stays
    /// in the caches and where it does not, and of how many bytes of a device
    /// the one and the other was measured.
    MachineConstant collectiveRate, collectiveFarRate, collectiveNearBytes,
        collectiveFarBytes;
  };

  Machine(std::string_view name, std::string_view label,
          const Constants &constants)
      : name(name), label(label), constants(constants) {}
  Machine(std::string_view name, std::string_view label,
          const HostConstants &constants)
      : name(name), label(label), constants(constants) {}

  Machine(std::string_view name, std::string_view label,
          const WorkerConstants &constants)
      : name(name), label(label), constants(constants) {}

  std::string_view getName() const { return name; }
  /// "H100 SXM 80 GB".
  std::string_view getLabel() const { return label; }
  std::vector<MachineConstant> getConstants() const;
  /// Null if its devices are no GPUs.
  const Constants *getGpuConstants() const {
    return std::get_if<Constants>(&constants);
  }
  /// Null if its devices are no tasks of worker threads.
  const WorkerConstants *getWorkerConstants() const {
    return std::get_if<WorkerConstants>(&constants);
  }
  /// Of a device; none where devices share the memory of a host.
  std::optional<int64_t> getMemoryBytes() const;

  /// Whether it can make a collective only of blocks that are contiguous and
  /// of one size, and sends any other one as an exchange: NCCL does.
  bool needsContiguousBlocks() const { return getGpuConstants() != nullptr; }
  /// Whether some devices of the mesh are on another host than others.
  bool hasSeveralHosts(const Mesh &mesh) const;
  /// `axes` are independent parts of axes, as in ReshardStep. 1 device on one
  /// host for no axes.
  GroupReach getReach(const Mesh &mesh, std::span<const AxisRef> axes) const;

  /// What bounds a command.
  enum class Bound : uint8_t { Flops, Memory, Launch };
  struct Price {
    double us = 0;
    Bound bound = Bound::Launch;
  };
  /// A kernel of this work: the longer of arithmetic and memory, and a launch.
  /// On GPUs large ones come closer to the machine's rates than small ones.
  Price getKernelPrice(double flops, double bytes) const;
  /// The same of a matmul; none if the machine cannot run those of the type.
  std::optional<Price> findMatmulPrice(MatmulType type, double flops,
                                       double bytes) const;
  /// The same of a convolution.
  std::optional<Price> findConvolutionPrice(MatmulType type, double flops,
                                            double bytes) const;
  /// flop outside of matmuls in the time in which a byte is read or written,
  /// where both are large.
  double getFlopsPerByte() const;
  /// What all devices together take for a command that takes one of them
  /// `price` on one thread and is cut into `pieces`. Requires: worker
  /// constants.
  Price shareAmongWorkers(Price price, int64_t pieces, int64_t devices) const;
  /// Microseconds of a collective of all devices, which bring in and get
  /// `bytes` each. Requires: worker constants.
  double getSharedCollectiveUs(int64_t bytes, int64_t devices) const;
  /// Microseconds of a collective. `payloadBytes` is what a device brings in,
  /// `wireBytes` what it sends, as in Collective.h, `localBytes` what it copies
  /// beside it.
  ///
  /// On GPUs all_reduce, reduce_scatter and all_gather are the fastest of
  /// NCCL's rings and all_reduce's trees, over its three protocols, and of
  /// reductions in switches, which copy nothing; the others send to each device
  /// of the group what is for it, all_to_all and exchange between two kernels
  /// that pack and unpack it. On hosts, rounds are log2 p for reduce_scatter,
  /// all_gather (recursive halving and doubling send the bytes of the ring) and
  /// all_to_all (Bruck, for the short messages of which rounds are the cost),
  /// twice that for all_reduce, and one more for an exchange, whose devices
  /// first have to ask; 1 for permute. Source: Thakur, Rabenseifner, Gropp
  /// 2005.
  double getCollectiveUs(CollectiveKind kind, const GroupReach &reach,
                         int64_t payloadBytes, int64_t wireBytes,
                         int64_t localBytes = 0) const;
  /// What an all_gather adds to the collective that it is a part of, whose
  /// wire bytes count its own.
  double getAddedGatherUs(const GroupReach &reach) const;
  /// No collective over two devices or more takes less.
  double getLeastCollectiveUs() const;

private:
  Price getPrice(double arithmeticUs, double bytes) const;

  std::string_view name, label;
  std::variant<Constants, HostConstants, WorkerConstants> constants;
};

/// "flops", "memory", "launch".
const char *getName(Machine::Bound bound);

/// The mesh of CPU devices. Reshardings are chosen by its prices.
const Machine &getCpuMachine();
/// GPUs of no machine that was named: "h100".
const Machine &getAssumedGpu();
/// The machine called `name`, of GPUs or "cpu"; null if there is none.
const Machine *findMachine(std::string_view name);
/// Of those with GPUs: "v100, a100, h100, h200".
std::string getGpuMachineNames();
/// Of all: "cpu, v100, a100, h100, h200".
std::string getMachineNames();

} // namespace meshc::layout

#endif
