#!/usr/bin/env bash
# How long a new user waits: makes a bare Debian 12 in a temporary folder and runs
# samples/quickstart.sh of what is committed there, timed, with the packages that it
# installs. As root, with debootstrap and the network; on a machine that does nothing
# else. Arguments go to the training.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "bare.sh: run it as root, with debootstrap installed (apt-get install debootstrap)" >&2
  exit 1
fi
folder=$(mktemp -d)
bare=$folder/debian
finish() {
  for mounted in "$bare/proc" "$bare/dev"; do
    ! mountpoint --quiet "$mounted" || umount "$mounted"
  done
  rm -rf --one-file-system "$folder"
}
trap finish EXIT

debootstrap --variant=minbase bookworm "$bare" http://deb.debian.org/debian >"$folder/log" ||
  { tail -n 5 "$folder/log" >&2; exit 1; }
cat >"$bare/etc/apt/sources.list" <<'END'
deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
END
# How this machine reaches the network, through a proxy or not.
cp /etc/resolv.conf "$bare/etc/"
apt-config dump | grep '^Acquire::https\?::Proxy' >"$bare/etc/apt/apt.conf.d/99proxy" || true
mount --bind /proc "$bare/proc"
mount --bind /dev "$bare/dev"
git clone --quiet "$root" "$bare/meshc"
echo "bare.sh: commit $(git -C "$bare/meshc" rev-parse --short HEAD)"

time chroot "$bare" /meshc/samples/quickstart.sh "$@"
