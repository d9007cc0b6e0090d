#ifndef MESHC_RUNTIME_CUDA_CUDADEVICES_H
#define MESHC_RUNTIME_CUDA_CUDADEVICES_H

#include "runtime/cuda/GpuProgram.h"
#include "runtime/cuda/Peers.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/plans/GpuMemory.h"

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace meshc::runtime::cuda {

struct CudaOptions {
  /// What the kernels were generated for; none: that is not known, as in tests
  /// of kernels alone.
  std::span<const meshcKernelEntry> kernels;
  /// Logical devices that share a GPU; one process drives them all.
  int64_t devicesPerGpu = 1;
  /// Whether programs are recorded as graphs, or issued command by command.
  bool usesGraphs = true;
  /// Whether every command is waited for, so that an error that the GPU tells
  /// of later names it; without graphs.
  bool checksCommands = false;
  /// Whether products take the fastest of the library's algorithms instead of
  /// the first; see MatmulTuning.h.
  bool tunesMatmuls = false;
  /// This process among those of its machine: it takes the GPU of this number.
  int64_t localRank = 0;
  int64_t numLocalRanks = 1;
  /// The other processes, each with one device; null: none.
  Peers *peers = nullptr;
  /// How long the devices may take for a program, or a process for a
  /// collective, before they count as stuck.
  std::chrono::seconds deadline{600};
};

/// Devices on NVIDIA GPUs. A process drives one GPU: with one logical device
/// of its own, as one of as many processes as the mesh has devices, or with all
/// devices of the mesh, which then share the GPU.
///
/// With peers, devices that have failed must not be destroyed: the end of their
/// memory, streams and communicators waits for kernels that wait for the other
/// processes, for ever where those have failed too. The process reports its
/// error and ends, and the driver cleans up behind it.
class CudaDevices : public DeviceSet {
public:
  /// Finds the GPU and the libraries, checks memory, loads the kernels and
  /// prepares every program. Arenas are zeroed. `executable` must outlive the
  /// result. With peers, what an error leaves behind stays until the process
  /// ends.
  /// Errors: MissingGpuLibrary, OldGpuLibrary, TooFewGpus, OtherGpu,
  /// DoesNotFit, UnsupportedOnGpu, DamagedProgram, GpuCallFailed,
  /// CommunicationFailed.
  static Result<std::unique_ptr<CudaDevices>>
  create(const Executable &executable, const CudaOptions &options);
  ~CudaDevices() override;

  bool isLocal(int64_t device) const override;
  Status run(const exec::ProgramT &program) override;
  Status write(int64_t device, int buffer, uint64_t bytes,
               const std::function<void(std::byte *)> &fill) override;
  int64_t getMaxOpenWrites() const override { return int64_t(writes.size()); }
  Status readLocal(int64_t device, int buffer, uint64_t offset, uint64_t bytes,
                   const std::function<void(const std::byte *)> &take) override;
  Result<const std::byte *> read(int64_t device, int buffer,
                                 uint64_t bytes) override;
  Result<uint8_t> decide(uint8_t mine) override;

  /// Of devices that share a GPU, what each of them takes of the allocation.
  uint64_t getBytesPerDevice() const override {
    const uint64_t devices = memoryPlan.arenas.size();
    return (memoryPlan.bytes + devices - 1) / devices;
  }
  int getNumThreads() const override { return 0; }
  Profile getProfile() override;
  void resetProfile(bool timesCommands) override;
  void traceRuns(RunTrace *newTrace) override { trace = newTrace; }
  void observeEnds(EndObserver observer) override {
    session.endObserver = std::move(observer);
  }

  /// What was chosen, and what it gains; empty without
  /// CudaOptions::tunesMatmuls and without a product.
  const std::string &getTuningReport() const { return tuningReport; }
  /// What the library computes more slowly than the program asks for it, and
  /// the way around; empty where there is nothing such.
  const std::string &getBatchReport() const { return batchReport; }
  /// See Gpu::getImageComplaint.
  const std::string &getImageComplaint() const {
    return gpu->getImageComplaint();
  }

private:
  CudaDevices(const Executable &executable, const CudaOptions &options)
      : DeviceSet(executable), options(options) {}

  /// Memory of the host on its way to a device.
  struct Staging {
    PinnedMemory memory;
    uint64_t bytes = 0;
    OwnedEvent end; ///< of the copy
    bool isBusy = false;
  };

  using Clock = std::chrono::steady_clock;

  Status openGpu();
  Status prepare();
  Status tune();
  /// Gets memory for all devices at once, before the first run, and has arenas
  /// zeroed.
  Status allocateMemory();
  Status reserve(Staging &staging, uint64_t bytes);
  DevicePointer getAddress(const MemoryRange &range) const {
    return memory.get() + range.offset;
  }
  void addTimes(size_t program, std::span<const GpuProgram::Span> spans);
  void collectTrace(const GpuProgram &program,
                    const std::vector<GpuProgram::Span> &spans,
                    Clock::time_point start);
  /// Number of a device of the mesh among those of this process.
  size_t getIndex(int64_t device) const;

  CudaOptions options;
  std::string tuningReport, batchReport;
  std::unique_ptr<Gpu> gpu;
  GpuSession session;
  std::vector<std::unique_ptr<GpuProgram>> programs;
  GpuMemoryPlan memoryPlan;
  DeviceMemory memory;           ///< of `memoryPlan`
  std::array<Staging, 4> writes; ///< in turn
  size_t nextWrite = 0;
  Staging reads;

  bool timesCommands = false;
  RunTrace *trace = nullptr;
  double runSeconds = 0;
  int64_t runs = 0;
  TimePerKind kindSeconds{};
  std::vector<std::vector<double>> commandSeconds; ///< per program
};

} // namespace meshc::runtime::cuda

#endif
