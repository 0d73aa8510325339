#!/bin/bash
# Installs what tools/packages.txt lists and the machine lacks. Where nothing is missing it neither
# calls apt-get nor needs root, so the other scripts may start with it on every run.
set -euo pipefail

usage() {
  cat <<'END'
Usage: tools/install_packages.sh [--list]
  (no option)  install the missing packages of tools/packages.txt (as root, or through sudo)
  --list       print the missing packages, one a line, and install nothing
END
}

die() {
  echo "install_packages.sh: $*" >&2
  exit 1
}

list_only=no
case ${1:-} in
  "") ;;
  --list) list_only=yes ;;
  --help | -h) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

list=$(dirname "$0")/packages.txt
mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$list")

command -v dpkg-query >/dev/null || die "this script needs Debian 12 or a relative of it (dpkg-query" \
  "was not found). Install the equivalents of: ${wanted[*]}"

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status} ' "$package" 2>/dev/null || true)
  [[ " $state" == *" installed "* ]] || missing+=("$package")
done

if [ $list_only = yes ]; then
  [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}"
  exit 0
fi
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing ${#missing[@]} packages: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "neither root nor sudo is at hand. Ask for: " \
    "apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"
}
apt update -qq || echo "install_packages.sh: apt-get update failed; trying with the lists at hand" >&2
apt install -y -qq --no-install-recommends "${missing[@]}" ||
  die "apt-get could not install: ${missing[*]}"
