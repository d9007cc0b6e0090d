#!/usr/bin/env bash
# How long 'meshc compile' takes: five runs of each spec, milliseconds, best and
# median. Needs a build (samples/quickstart.sh makes one).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

for spec in samples/mlp.mesh bench/mlp4096.mesh samples/transformer_block.mesh; do
  for _ in 1 2 3 4 5; do
    start=$(date +%s%N)
    build/bin/meshc compile "$spec" -o "$output/program"
    echo $((($(date +%s%N) - start) / 1000000))
  done | sort -n | awk -v spec="$spec" '
    { ms[NR] = $1 }
    END { printf "%-32s best %5d ms, median %5d ms\n", spec, ms[1], ms[3] }'
done
