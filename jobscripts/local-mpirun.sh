#!/usr/bin/env bash
# local-mpirun.sh N COMMAND...: N ranks on this machine, as root or not, more ranks than cores, loopback only.
# For trying and testing, not for clusters: there the launcher's own settings are the right ones. What is set
# here is for Open MPI 4 and 5 and for MPICH.
ranks=$1
shift
version=$(mpirun --version 2>/dev/null)
if ! grep -qi "open mpi\|open-mpi" <<<"$version"; then
  # With more ranks than cores a waiting rank must give its core away: else a barrier takes 14 ms, so 0.4 ms.
  export MPIR_CVAR_ENABLE_HEAVY_YIELD=${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}
  exec mpirun -np "$ranks" "$@"
fi
major=$(sed -n 's/.*(Open MPI) \([0-9]*\).*/\1/p' <<<"$version")
[ "${major:-4}" -ge 5 ] && shared=sm || shared=vader
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,$shared}
exec mpirun --oversubscribe --bind-to none -np "$ranks" "$@"
