#!/bin/bash
# Formats the C++ files by .clang-format; with --check only says which would change.
# The version is pinned: clang-format's output differs from one to the next.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
case ${1:-} in
  "") ;;
  --check) mode=(--dry-run -Werror) ;;
  *) echo "Usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac

formatter=clang-format-14
if ! command -v $formatter >/dev/null; then
  echo "format.sh: $formatter is not installed (tools/install_packages.sh installs it)" >&2
  exit 1
fi

git ls-files -z '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 -r "$formatter" --style=file "${mode[@]}"
