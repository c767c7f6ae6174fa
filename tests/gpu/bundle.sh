#!/usr/bin/env bash
# bundle.sh BUILD FOLDER: the program, all plugins, the tests of devices and networks, Open MPI and HDF5 with what they
# need, in a folder (and FOLDER.tgz) that runs on a machine with a driver, CUDA's libraries and a C++ runtime no older
# than this one's. Needs Open MPI 4 as Debian and Ubuntu lay it out, and patchelf.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(realpath "$here/../..") build=$(realpath "$1") limit_mb=45 # of the archive

quit() {
  echo "bundle.sh: $1" >&2
  exit 1
}
for tool in patchelf ompi_info ldd strip; do
  command -v $tool >/dev/null || quit "$tool is missing (it takes part in making the folder); install it"
done
rm -rf "$2" "$2.tgz"
mkdir -p "$2"/{bin,lib/octachoron,lib/openmpi,lib/pmix,etc/openmpi,share,tests,core}
folder=$(realpath "$2")

# 1. What was built.
cp "$build/bin/octachoron" "$folder/bin/"
for program in gpu/gpu_device conformance/test_conformance_{device,comm,precision}; do
  cp "$build/tests/$program" "$folder/bin/"
done
cp "$build"/lib/octachoron/*.so "$folder/lib/octachoron/"

# 2. Open MPI and PMIx: programs, components, texts. The fabrics of clusters stay behind, as does OpenSHMEM.
paths=$(ompi_info --parsable --path all)
path_of() { sed -n "/^path:$1:/{s///p;q}" <<<"$paths"; }
cp -L "$(command -v orterun)" "$folder/bin/mpirun"
cp -L "$(command -v orted)" "$folder/bin/orted"
fabric='lib(ucp|uct|ucs|fabric|psm_infinipath|psm2|ibverbs|rdmacm)\.so'
for component in "$(path_of pkglibdir)"/mca_*.so; do
  case ${component##*/} in mca_atomic_* | mca_memheap_* | mca_scoll_* | mca_spml_* | mca_sshmem_*) continue ;; esac
  if ! grep -qE "$fabric" <<<"$(ldd "$component")"; then cp -L "$component" "$folder/lib/openmpi/"; fi
done
cp -r "$(path_of pkgdatadir)" "$folder/share/openmpi"
cp "$(path_of sysconfdir)/openmpi-mca-params.conf" "$folder/etc/openmpi/"
touch "$folder/etc/openmpi/openmpi-default-hostfile"
pmix=$(realpath "$(path_of libdir)/../../pmix2")
cp -L "$pmix"/lib/pmix/*.so "$folder/lib/pmix/"
cp -r "$pmix/share/pmix" "$folder/share/pmix"

# 3. What those need. The C and C++ runtimes are the target's own; so is CUDA, which is large.
own='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.)'
cuda='^lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|cupti|nvrtc|nvJitLink|nvToolsExt|nvperf)'
find "$folder"/{bin,lib} -type f -exec ldd {} + | awk '$2 == "=>" {print $1, $3}' | sort -u >"$folder/needed"
while read -r name path; do
  if [[ $name =~ $own || $name =~ $cuda ]]; then continue; fi
  [ -e "$path" ] || quit "$name is needed and not found"
  cp -L "$path" "$folder/lib/$name"
done <"$folder/needed"
rm "$folder/needed"

# 4. Libraries are found from the programs: what a program loads, at any depth, is looked for in lib and cuda beside it.
# (DT_RPATH, not DT_RUNPATH, which would end at the first library.)
while IFS= read -r file; do
  strip --strip-unneeded "$file"
  case $file in
    "$folder"/bin/*) patchelf --force-rpath --set-rpath '$ORIGIN/../lib:$ORIGIN/../cuda' "$file" ;;
    *) patchelf --remove-rpath "$file" ;;
  esac
done < <(find "$folder"/{bin,lib} -type f)

# 5. What is run there, laid out as in the source tree.
cp -r "$root"/{inputs,jobscripts,README.md} "$folder/"
cp -r "$root/core/docs" "$folder/core/"
mkdir -p "$folder"/tests/{gpu,bench,faults,oracle}
cp "$root"/tests/mpirun.sh "$folder/tests/"
cp "$here"/*.py "$folder/tests/gpu/" 2>/dev/null || true
cp "$root"/tests/faults/*.py "$folder/tests/faults/"
cp "$root"/tests/oracle/*.py "$folder/tests/oracle/"
cp -r "$root/tests/bench/peers" "$folder/tests/bench/"
cp "$here"/bundle/{env,run}.sh "$folder/"
find "$folder" -name __pycache__ -prune -exec rm -r {} +

tar -C "$(dirname "$folder")" -czf "$folder.tgz" "$(basename "$folder")"
size=$(du -m "$folder.tgz" | cut -f1)
echo "$folder: $(du -sm "$folder" | cut -f1) MiB; $folder.tgz: $size MiB"
[ "$size" -le "$limit_mb" ] || quit "the archive has more than $limit_mb MiB"
