#!/usr/bin/env bash
# run.sh [--long]: installs what is missing, configures and builds in build/, and runs the tests with label ci;
# --long adds those with label long. The last lines are ctest's own; the exit status is that of the step that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
labels=ci
case "${1:-}" in
  "") ;;
  --long) labels='ci|long' ;;
  *) echo "usage: tests/run.sh [--long]" >&2; exit 2 ;;
esac
jobs=$(nproc)
jobscripts/install-dependencies.sh
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  jobscripts/get-cudnn-frontend.sh build/cudnn-frontend || echo "tests/run.sh: device cuda is built without cuDNN" >&2
fi
generator=()
if [ ! -e build/CMakeCache.txt ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S . -B build "${generator[@]}"
cmake --build build --parallel "$jobs"
ctest --test-dir build --label-regex "^($labels)\$" --no-tests=error --output-on-failure --parallel "$jobs"
