/// The machines that have names, with their constants.

#include "layout/Machine.h"

#include <array>

using namespace meshc::layout;

//===-- CPUs --------------------------------------------------------------===//

const Machine &meshc::layout::getCpuMachine() {
  constexpr std::string_view start = "a starting value";
  constexpr std::string_view core = "oneDNN and memcpy on a core with AVX-512";
  static const Machine machine(
      "cpu", "mesh of CPU devices",
      Machine::HostConstants{
          {"arithmetic", "flop/us", 9e4, Made::Interpolated,
           "oneDNN's f32 matmul on one core, half of what two reach"},
          {"copy rate", "bytes/us", 12.5e3, Made::Interpolated, core},
          {"transfer", "us", 5, Made::Assumed, start},
          {"message round", "us", 1, Made::Assumed, start},
          {"sending rate", "bytes/us", 12.5e3, Made::Assumed, "that of copies"},
          {"exchange", "", 1.25, Made::Assumed, start}});
  return machine;
}

//===-- GPUs --------------------------------------------------------------===//

// Source: NCCL 2.30, src/graph/tuning.cc: llMaxBws, perChMaxRingLL128Bws,
// perChMaxTreeLL128Bws, perChMaxTreeBws, the plateau of rings.
static constexpr NcclCaps volta = {{39e3, 39e3, 20.4e3},
                                   20e3,
                                   {20e3, 20e3, 20e3},
                                   {26.5e3, 18.5e3, 10e3},
                                   1.9};
static constexpr NcclCaps ampere = {{87.7e3, 22.5e3, 19e3},
                                    20e3,
                                    {20e3, 20e3, 20e3},
                                    {24e3, 23.6e3, 17.8e3},
                                    1.4};
static constexpr NcclCaps hopper = {{141e3, 45e3, 35e3},
                                    36.7e3,
                                    {36.7e3, 36.7e3, 29e3},
                                    {38.7e3, 41.4e3, 36e3},
                                    1.4};

namespace {
/// What differs from machine to machine; in flop/us and bytes/us.
struct Gpu {
  std::string_view name, label;
  double memory; ///< bytes that a driver says there are
  Made memoryMade;
  double multiprocessors;
  double matmul64, matmul32, matmul16;
  bool hasBf16; ///< at the rate of f16
  double memoryRate, inside, network, pcie;
  bool hasSwitchReductions;
  const NcclCaps &caps;
};
} // namespace

static Machine makeGpu(const Gpu &gpu) {
  constexpr std::string_view sheet = "NVIDIA's data sheet";
  constexpr std::string_view planning = "NCCL 2.30's planning rate";
  Machine::Constants constants = {
      {"memory", "bytes", gpu.memory, gpu.memoryMade,
       gpu.memoryMade == Made::Measured ? "nvidia-smi on such a card" : sheet},
      {"devices of a host", "", 8, Made::DataSheet,
       "a DGX or HGX server of eight"},
      {"matmul f32", "flop/us", gpu.matmul32, Made::DataSheet, sheet},
      {"matmul f16", "flop/us", gpu.matmul16, Made::DataSheet, sheet},
      {"other arithmetic", "flop/us", gpu.matmul32, Made::DataSheet, sheet},
      {"memory rate", "bytes/us", gpu.memoryRate, Made::DataSheet, sheet},
      {"launch", "us", 3, Made::Interpolated,
       "a kernel of a CUDA graph or stream, 2 to 5 us"},
      {"multiprocessors", "", gpu.multiprocessors, Made::DataSheet, sheet},
      {"NVLink", "bytes/us", gpu.inside, Made::Interpolated,
       "NCCL 2.30's planning rate, links by what each reaches"},
      {"network", "bytes/us", gpu.network, Made::DataSheet,
       "the server's network adapters by its devices"}};
  constants.matmul64 = {"matmul f64", "flop/us", gpu.matmul64, Made::DataSheet,
                        sheet};
  if (gpu.hasBf16)
    constants.matmulBf16 = {"matmul bf16", "flop/us", gpu.matmul16,
                            Made::DataSheet, sheet};
  constants.pcieRate = {"PCIe", "bytes/us", gpu.pcie, Made::Interpolated,
                        planning};
  if (gpu.hasSwitchReductions)
    constants.switchPart = {"NVLS", "of NVLink", 0.85, Made::Interpolated,
                            planning};
  constants.caps = &gpu.caps;
  return {gpu.name, gpu.label, constants};
}

static const std::array<Machine, 4> &getGpuMachines() {
  static const std::array<Machine, 4> machines = {
      // A DGX-1 has an adapter of 100 Gb/s for two devices, behind PCIe of its
      // own, of which NCCL plans 12e3 bytes/us.
      makeGpu({"v100", "V100 SXM2 32 GB", 32e9, Made::DataSheet, 80, 7.8e6,
               15.7e6, 125e6, false, 0.9e6, 120e3, 6e3, 12e3, false, volta}),
      makeGpu({"a100", "A100 SXM4 80 GB", 80e9, Made::DataSheet, 108, 19.5e6,
               19.5e6, 312e6, true, 2.04e6, 240e3, 25e3, 24e3, false, ampere}),
      makeGpu({"h100", "H100 SXM5 80 GB", 81559.0 * 0x1p20, Made::Measured, 132,
               67e6, 67e6, 989e6, true, 3.35e6, 370.8e3, 50e3, 48e3, true,
               hopper}),
      makeGpu({"h200", "H200 SXM5 141 GB", 143771.0 * 0x1p20, Made::Measured,
               132, 67e6, 67e6, 989e6, true, 4.8e6, 370.8e3, 50e3, 48e3, true,
               hopper})};
  return machines;
}

const Machine &meshc::layout::getAssumedGpu() { return *findMachine("h100"); }

const Machine *meshc::layout::findMachine(std::string_view name) {
  if (name == getCpuMachine().getName())
    return &getCpuMachine();
  for (const Machine &machine : getGpuMachines())
    if (machine.getName() == name)
      return &machine;
  return nullptr;
}

std::string meshc::layout::getGpuMachineNames() {
  std::string names;
  for (const Machine &machine : getGpuMachines())
    names += (names.empty() ? "" : ", ") + std::string(machine.getName());
  return names;
}

std::string meshc::layout::getMachineNames() {
  return std::string(getCpuMachine().getName()) + ", " + getGpuMachineNames();
}
