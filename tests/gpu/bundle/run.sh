#!/usr/bin/env bash
# run.sh [conformance|comm|train|device|parity|faults|timing|peers]...: all but peers without arguments. Ends with a
# verdict.
#   conformance, device, timing   device cuda: sums in FP64, the device cpu, rates
#   comm                          each network with the GPU's memory, two ranks (on one GPU where there is one: no nccl)
#   train                         a few steps of the program on two ranks
#   parity, faults                whole models against the CPU, themselves and PyTorch; faults of the field
#   peers                         the step beside PyTorch's, with what is asked of it; 5 minutes
# The device is cuda; OCTACHORON_DEVICE=cpu tries the bundle itself, without a GPU (conformance, comm, train, parity,
# faults).
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/env.sh"
cd "$here" || exit 1
device=${OCTACHORON_DEVICE:-cuda}
export OCTACHORON_DEVICE_PLUGIN=$here/lib/octachoron/device-$device.so OCTACHORON_REFERENCE_PLUGIN=$here/lib/octachoron/device-cpu.so
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
echo "CUDA libraries: $(readlink cuda/libcublasLt.so.13 || echo none), $(readlink cuda/libcudnn.so.9 || echo no cuDNN), $(readlink cuda/libnccl.so.2 || echo no NCCL)"

comm() {
  local network status=0
  for network in "$here"/lib/octachoron/comm-*.so; do
    network=${network##*/comm-} network=${network%.so}
    if [ "$network" = nccl ] && { [ "$device" != cuda ] || [ "$gpus" -lt 2 ]; }; then continue; fi
    echo "-- $network with $device"
    OCTACHORON_TEST_COMM=$network OCTACHORON_TEST_DEVICE=$device mpirun -np 2 bin/test_conformance_comm --gtest_brief=1 || status=1
  done
  return $status
}

train() {
  local folder status precision
  folder=$(mktemp -d)
  cat README.md core/docs/*.md >"$folder/text.txt"
  for precision in fp32 bf16 fp8-delayed; do
    mpirun -np 2 bin/octachoron train inputs/lab.ini --set "data.train=$folder/text.txt" --set "run.output=$folder/$precision" \
      --set backend.device="$device" --set backend.comm=mpi --set backend.precision=$precision --set grid.tp=2 >"$folder/log" 2>&1
    status=$?
    grep -E '^step +[0-9]|^octachoron:' "$folder/log"
    [ $status -eq 0 ] || { cat "$folder/log"; break; }
  done
  rm -rf "$folder"
  return $status
}

peers() {
  local status=0
  tests/bench/peers/run.py gpt2-124m --at-least 0.90 || status=1
  tests/bench/peers/run.py llama-8b-l8 --at-least 0.90 || status=1
  tests/bench/peers/run.py llama-8b-l8 --fp8 --at-least 0.85 || status=1
  return $status
}

[ $# -gt 0 ] || set -- conformance comm train device parity faults timing
status=0 verdict=
for part in "$@"; do
  echo "== $part"
  case $part in
    conformance) bin/test_conformance_device --gtest_brief=1 ;;
    comm | train | peers) $part ;;
    device) bin/gpu_device --no-timing --gtest_brief=1 ;;
    parity) python3 -B tests/gpu/parity.py --device "$device" --gpus "$gpus" ;;
    faults) OCTACHORON_DEVICE=$device python3 -B tests/gpu/faults.py ;;
    timing) bin/gpu_device --timing ;;
    *) echo "run.sh: no part '$part'; use conformance, comm, train, device, parity, faults, timing or peers" >&2; exit 2 ;;
  esac
  code=$?
  verdict="$verdict $part=$([ $code -eq 0 ] && echo passed || echo "FAILED($code)")"
  [ $code -eq 0 ] || status=1
done
echo "verdict:$verdict"
exit $status
