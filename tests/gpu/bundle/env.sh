# . env.sh: makes the bundle usable wherever it lies: PATH, Open MPI, and links to CUDA's libraries in cuda/.
# CUDA_LIBS=FOLDER:... says where these are; otherwise those of pip's packages, which PyTorch uses too, then the
# toolkit's. LD_LIBRARY_PATH stays as it is, so other programs of this shell keep their own libraries; but `mpirun` is
# the bundle's from here on.
OCTACHORON_BUNDLE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OCTACHORON_BUNDLE OCTACHORON=$OCTACHORON_BUNDLE/bin/octachoron PATH=$OCTACHORON_BUNDLE/bin:$PATH

octachoron_cuda_folders() {
  if [ -n "${CUDA_LIBS:-}" ]; then
    tr ':' '\n' <<<"$CUDA_LIBS"
    return
  fi
  local site folder
  for site in $(python3 -c 'import site, sysconfig; print(sysconfig.get_paths()["purelib"], *site.getsitepackages())' 2>/dev/null); do
    for folder in "$site"/nvidia/{cu13,cudnn,nccl,*}/lib; do echo "$folder"; done
  done
  printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /usr/local/cuda/extras/CUPTI/lib64
}

# The first folder that has a library gives it.
octachoron_link_cuda() {
  local folder file
  mkdir -p "$OCTACHORON_BUNDLE/cuda" && find "$OCTACHORON_BUNDLE/cuda" -type l -delete
  while read -r folder; do
    for file in "$folder"/lib*.so.*; do
      case ${file##*/} in
        libcudart.* | libcublas* | libcudnn* | libnccl.* | libcupti.* | libnvrtc* | libnvJitLink.* | libnvperf*)
          [ ! -e "$file" ] || ln -s "$file" "$OCTACHORON_BUNDLE/cuda/" 2>/dev/null || true ;;
      esac
    done
  done < <(octachoron_cuda_folders)
}
octachoron_link_cuda
unset -f octachoron_cuda_folders octachoron_link_cuda

export OPAL_PREFIX=$OCTACHORON_BUNDLE OPAL_LIBDIR=$OCTACHORON_BUNDLE/lib OPAL_PKGLIBDIR=$OCTACHORON_BUNDLE/lib/openmpi
export OPAL_DATADIR=$OCTACHORON_BUNDLE/share OPAL_PKGDATADIR=$OCTACHORON_BUNDLE/share/openmpi
export OPAL_SYSCONFDIR=$OCTACHORON_BUNDLE/etc/openmpi
export PMIX_PREFIX=$OCTACHORON_BUNDLE PMIX_LIBDIR=$OCTACHORON_BUNDLE/lib PMIX_PKGLIBDIR=$OCTACHORON_BUNDLE/lib/pmix
export PMIX_DATADIR=$OCTACHORON_BUNDLE/share PMIX_PKGDATADIR=$OCTACHORON_BUNDLE/share/pmix PMIX_SYSCONFDIR=$OCTACHORON_BUNDLE/etc
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_plm_rsh_agent=/bin/false
export PMIX_MCA_ptl_tcp_if_include=lo HWLOC_HIDE_ERRORS=2 # sandboxes show no topology of the processor
export HWLOC_PLUGINS_PATH=$OCTACHORON_BUNDLE/lib/hwloc # there are none: the system's are of another version
# gVisor (it calls itself Linux 4.4.0) refuses to read another process's memory: copy through shared memory instead.
if [ "$(uname -r)" = 4.4.0 ]; then export OMPI_MCA_btl_vader_single_copy_mechanism=none; fi
# Multicast over NVLink needs a fabric manager, which part of a host does not have.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
