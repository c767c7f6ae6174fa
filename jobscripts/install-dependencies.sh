#!/usr/bin/env bash
# Installs what Octachoron is built, tested and tried with, on Debian and Ubuntu. Asks dpkg first: where
# everything is there it is done at once, without the network and without root. Elsewhere it says what is needed.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache         # C++20, CMake >= 3.25; ccache is used where it is found
  libopenmpi-dev openmpi-bin           # MPI >= 3.1 with MPI_THREAD_MULTIPLE, mpirun
  libhdf5-openmpi-dev                  # HDF5 >= 1.10, the parallel build
  libboost-dev libboost-program-options-dev # Boost >= 1.74
  librandom123-dev                     # Random123: counter-based random numbers (headers)
  libdnnl-dev                          # oneDNN 2 or 3: fast products of device cpu; optional
  libgtest-dev libgmock-dev binutils   # tests (binutils: nm)
  python3-h5py hdf5-tools              # an independent reader of checkpoints for the tests; h5dump to look at them
  libbenchmark-dev                     # tests/bench; optional
  bible-kjv                            # the text of jobscripts/demo.sh
)

describe() {
  cat >&2 <<TEXT
octachoron needs a C++20 compiler (GCC >= 12), CMake >= 3.25, Ninja or make, MPI >= 3.1 with MPI_THREAD_MULTIPLE,
HDF5 >= 1.10 built with that MPI, Boost >= 1.74 (Program_options) and Random123 (headers); GoogleTest >= 1.12 for
the tests. Optional: oneDNN with OpenMP, ccache, python3 with h5py, google-benchmark. On Debian these are:
  ${packages[*]}
CMake finds them by module environments, CMAKE_PREFIX_PATH and MPI_C_COMPILER, and names what is missing.
TEXT
}

if [ "${1:-}" = --list ]; then
  describe 2>&1
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "octachoron: this is not Debian or Ubuntu (there is no apt-get), so nothing is installed" >&2
  describe
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "octachoron: missing packages: ${missing[*]} (neither root nor sudo here); ask for them, or build with others" >&2
    describe
    exit 0
  fi
  root=(sudo)
fi
wait_for_lock=(-o DPkg::Lock::Timeout=300)
echo "installing ${missing[*]}"
"${root[@]}" apt-get "${wait_for_lock[@]}" -q update
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${wait_for_lock[@]}" -q install -y --no-install-recommends "${missing[@]}"
