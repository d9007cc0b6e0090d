#!/usr/bin/env bash
# Builds our own code with sanitizers and runs its tests: AddressSanitizer and
# UndefinedBehaviorSanitizer on everything, ThreadSanitizer on what has threads.
# Debian's MLIR and LLVM are not instrumented.
#
#   tests/sanitize.sh                everything; hours on two cores
#   tests/sanitize.sh --quick        what needs no MLIR: sharding algebra and the
#                                    runtime on CPUs, without what takes more than
#                                    half a minute; minutes (tests/run.sh runs it)
#   tests/sanitize.sh [--quick] asan|tsan [CTEST ARGUMENT...]    one of the two
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
quick=false
if [ "${1:-}" = --quick ]; then
  quick=true
  shift
fi
presets=(asan tsan)
if [ $# -gt 0 ]; then
  presets=("$1")
  shift
fi
"$root/.ci/install-packages" build run test

cd "$root"
for preset in "${presets[@]}"; do
  fresh=()
  [ -f "build/$preset/CMakeCache.txt" ] || fresh=(-DMESHC_QUICK_BUILD=ON)
  cmake --preset "$preset" -DMESHC_TESTS=ON "${fresh[@]}"
  if $quick; then
    cmake --build --preset "$preset" \
      --target meshc_layout_tests meshc_runtime_tests meshc_compute_tests \
        meshc_samples_tests meshc_ranks_tests
    ctest --preset "$preset" --parallel $(($(nproc) + 1)) -L '^(layout|runtime|samples)$' \
      -E 'ReshardPairs|Convolution\.Pieces' "$@"
  else
    cmake --build --preset "$preset"
    ctest --preset "$preset" --parallel $(($(nproc) + 1)) "$@"
  fi
done
