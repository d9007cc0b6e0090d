#!/usr/bin/env bash
# Runs tests and measurements on a machine with an NVIDIA GPU and writes a report.
#
#   bench/gpu.sh build    on any machine: builds, compiles the executables into
#                         build/gpu
#   bench/gpu.sh run DIR  on the machine with the GPU, where the checkout and
#                         build/gpu lie: runs everything, writes into DIR
#
# Without an argument it does both, into bench/results. `run` needs Python 3, the
# driver, cuBLASLt and NCCL; what it does not find (compute-sanitizer, PyTorch,
# JAX) it says in the report.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

build() {
  .ci/install-packages build bench
  cmake --preset default -DMESHC_BENCH=ON
  cmake --build build --target meshc meshc_runtime_main
  python3 -B bench/gpu_cases.py build/bin/meshc build/gpu
}

case "${1:-all}" in
build) build ;;
run) exec python3 -B bench/gpu_run.py build/gpu "${2:?the folder for the report}" ;;
all)
  build
  exec python3 -B bench/gpu_run.py build/gpu bench/results
  ;;
*)
  echo "usage: bench/gpu.sh [build | run DIR]" >&2
  exit 2
  ;;
esac
