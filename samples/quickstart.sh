#!/usr/bin/env bash
# From nothing to a trained network: installs what is missing, builds meshc,
# shows the plan of samples/mlp.mesh, trains it on Fashion-MNIST over a 2x2 mesh
# of CPU devices, evaluates what the training has saved and predicts ten images.
# Arguments go to the training: --steps 20 to only look.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build-meshc.sh"

plan=build/mlp.plan.html
mlp=build/mlp
saved=build/mlp.saved
data=/usr/share/datasets/fashion-mnist

echo
"$meshc" plan samples/mlp.mesh
"$meshc" plan samples/mlp.mesh -o "$plan"
"$meshc" compile samples/mlp.mesh -o "$mlp"

echo
# A training does not save over another one.
rm -rf "$saved"
"$mlp" train --data-dir "$data" --no-eval --save "$saved" "$@"
echo
"$mlp" eval --from "$saved" --data-dir "$data"
echo
# The images come from the test files, each with its label beside the best two
# classes that the network finds.
"$mlp" predict --from "$saved" --data-dir "$data" --samples 10 \
  --topk 2 --of logits --labels samples/clothes.txt --truth label
echo
echo "the plan as a page: $root/$plan"
