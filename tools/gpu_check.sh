#!/bin/bash
# Checks this build of Sardonyx on the CUDA device of this machine and writes report.json and report.md.
#
# It picks the python3 that has PyTorch, for the comparison, and leaves the rest to gpu_check/main.py, which uses
# Python's own library alone. It stands in a checkout (tools/) or in what tools/gpu_bundle.sh packed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

candidates() {
  [ -z "${PYTHON:-}" ] || echo "$PYTHON"
  [ -z "${VIRTUAL_ENV:-}" ] || echo "$VIRTUAL_ENV/bin/python3"
  [ -z "${CONDA_PREFIX:-}" ] || echo "$CONDA_PREFIX/bin/python3"
  command -v python3 || true
  ls -d /opt/*/bin/python3 /opt/*/.venv/bin/python3 /opt/*/venv/bin/python3 /usr/local/bin/python3 2>/dev/null || true
}

has() { # PYTHON MODULE
  "$1" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$2') is None)" 2>/dev/null
}

python=""
while read -r candidate; do
  has "$candidate" json || continue
  python=${python:-$candidate}
  if has "$candidate" torch; then
    python=$candidate
    break
  fi
done < <(candidates)
if [ -z "$python" ]; then
  echo "gpu_check.sh: there is no python3 here; name one in PYTHON" >&2
  exit 2
fi
exec "$python" -B "$here/gpu_check/main.py" "$@"
