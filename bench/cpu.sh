#!/usr/bin/env bash
# Measures meshc beside JAX on a mesh of CPU devices and writes a report into
# bench/results/. Makes its own Python environment with JAX in build/. Arguments
# go to compare.py: bench/cpu.sh --program mlp --rounds 1; behind --cliffs to
# cliffs.py --jax, which writes a report where --output says.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/.ci/install-packages" build bench

cd "$root"
cmake --preset default -DMESHC_BENCH=ON
cmake --build build --target meshc meshc_runtime_main meshc-rates

environment=build/bench-environment
if ! cmp -s bench/requirements.txt "$environment/installed.txt"; then
  python3 -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet -r bench/requirements.txt
  cp bench/requirements.txt "$environment/installed.txt"
fi
measurement=(bench/compare.py)
if [ "${1:-}" = --cliffs ]; then
  measurement=(bench/cliffs.py --jax)
  shift
fi
exec "$environment/bin/python" -B "${measurement[@]}" "$@"
