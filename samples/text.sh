#!/usr/bin/env bash
# From nothing to a network that writes: installs what is missing, builds meshc,
# makes text files of the King James Bible, trains samples/text.mesh on their
# characters over two CPU devices, evaluates what the training has saved and has
# it continue a prompt. Arguments go to the training: --steps 20 to only look.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build-meshc.sh"
source samples/text-data.sh

saved=build/text.saved
echo
"$meshc" compile samples/text.mesh -o build/writer
# A training does not save over another one.
rm -rf "$saved"
build/writer train --data-dir "$data" --no-eval --save "$saved" "$@"
echo
build/writer eval --from "$saved" --data-dir "$data"
echo
# One text at a time needs no batch: another size, the same parameters.
"$meshc" compile samples/text.mesh -D batch=1 --mesh '' --layout '' -o build/writer-of-one
build/writer-of-one predict --from "$saved" --data-dir "$data" \
  --prompt 'And God said' --count 200
