#!/usr/bin/env bash
# Trains a network of a folder beside it, gru, gpt or bert, on the characters of the King
# James Bible, and evaluates what the training has saved: samples/train-text.sh gru. Further
# arguments go to the training: --steps 20 to only look.
set -euo pipefail
name=${1:?gru, gpt or bert}
shift
source "$(dirname "${BASH_SOURCE[0]}")/build-meshc.sh"
source samples/text-data.sh

saved=build/$name.saved
echo
"$meshc" compile "samples/$name/$name.mesh" -o "build/$name-text"
# A training does not save over another one.
rm -rf "$saved"
"build/$name-text" train --data-dir "$data" --no-eval --save "$saved" "$@"
echo
"build/$name-text" eval --from "$saved" --data-dir "$data"
