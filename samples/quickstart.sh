#!/usr/bin/env bash
# From nothing to a trained network: installs what is missing, builds meshc,
# shows the plan of samples/mlp.mesh and trains it on Fashion-MNIST over a 2x2
# mesh of CPU devices. Arguments go to the training: --steps 20 to only look.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/.ci/install-packages" build run

cd "$root"
# A build folder that exists keeps its choice about tests.
[ -f build/CMakeCache.txt ] || fresh=-DMESHC_TESTS=OFF
cmake --preset default ${fresh:-}
# With the runtime that it links into programs for CPUs.
cmake --build build --target meshc

meshc=build/bin/meshc
plan=build/mlp.plan.html

echo
"$meshc" plan samples/mlp.mesh
"$meshc" plan samples/mlp.mesh -o "$plan"
echo
"$meshc" run samples/mlp.mesh -- \
  train --data-dir /usr/share/datasets/fashion-mnist --seed 20 "$@"
echo "the plan as a page: $root/$plan"
