#!/usr/bin/env bash
# get-cudnn-frontend.sh [FOLDER]: the headers that attention by cuDNN is built with, which come as a package of Python
# and of no distribution. Into FOLDER (build/cudnn-frontend, where CMake looks); done at once where they are there.
set -euo pipefail
folder=${1:-$(dirname "${BASH_SOURCE[0]}")/../build/cudnn-frontend}
[ -e "$folder/include/cudnn_frontend.h" ] && exit 0
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "get-cudnn-frontend.sh: python3 has no pip here; install it, or unpack the package nvidia-cudnn-frontend in $folder" >&2
  exit 1
fi
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
  --retries 1 --timeout 20 --target "$folder" nvidia-cudnn-frontend==1.32.0
