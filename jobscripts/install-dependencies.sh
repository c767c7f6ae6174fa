#!/usr/bin/env bash
# Installs what Octachoron is built, tested and tried with, on Debian and Ubuntu. Asks dpkg first: where
# everything is there it is done at once, without the network and without root. Elsewhere it says what is needed.
# Where MPICH is installed for development and Open MPI is not, it stays so: --mpich begins that.
set -euo pipefail

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
mpi=(libopenmpi-dev openmpi-bin libhdf5-openmpi-dev)
if [ "${1:-}" = --mpich ] || { is_installed libmpich-dev && ! is_installed libopenmpi-dev; }; then
  mpi=(libmpich-dev mpich libhdf5-mpich-dev)
fi

packages=(
  g++ cmake ninja-build ccache         # C++20, CMake >= 3.25; ccache is used where it is found
  "${mpi[@]}"                          # MPI >= 3.1 with MPI_THREAD_MULTIPLE, mpirun; HDF5 >= 1.10, its parallel build
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
  is_installed "$package" || missing+=("$package")
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
