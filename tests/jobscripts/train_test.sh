#!/usr/bin/env bash
# train_test.sh TRAIN.SBATCH: what the job script makes of each end of a run; srun and scontrol are pretended.
set -u
unset SLURM_MPI_TYPE
script=$(readlink -f "$1")
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir bin

# srun: prints what the program would, then does as $SCENARIO says.
cat >bin/srun <<'END'
#!/usr/bin/env bash
trap 'exit 75' USR1
printf '%s\n' "effective parameters:" "[run]" "steps = 7" "[checkpoint]" "directory = checkpoints"
echo "$*" >srun-arguments
mkdir -p checkpoints
touch checkpoints/step-00000003.h5
case "$SCENARIO" in
  finish) touch checkpoints/step-00000007.h5 ;;
  vanish) ;;
  wait) touch ready; for _ in {1..100}; do sleep 0.1; done; exit 9 ;;
  *) exit "$SCENARIO" ;;
esac
END
printf '#!/bin/sh\necho "$*" >>requeued\nexit 1\n' >bin/scontrol # fails, so that the script shows its status
chmod +x bin/srun bin/scontrol

failures=0
# expect SCENARIO STATUS QUEUED [SIGNAL [RESTARTS]]: QUEUED is yes or no
expect() {
  rm -rf checkpoints requeued ready
  env PATH="$folder/bin:$PATH" SCENARIO="$1" OCTACHORON=program SLURM_JOB_ID=5 \
    SLURM_JOB_NAME=job SLURM_JOB_NODELIST=n SLURM_TASKS_PER_NODE='2(x2)' SLURM_CPUS_ON_NODE=8 \
    SLURM_RESTART_COUNT="${5:-0}" \
    bash "$script" run.ini --set run.steps=7 >out 2>&1 &
  local job=$! status queued=no
  if [ -n "${4:-}" ]; then
    for _ in {1..100}; do [ -e ready ] && break; sleep 0.1; done
    kill -"$4" "$job"
  fi
  wait "$job"
  status=$?
  [ -e requeued ] && queued=yes
  if [ "$status $queued" = "$2 $3" ]; then
    echo "ok   $*"
  else
    echo "FAIL $*: status $status, requeued $queued"
    cat out
    failures=$((failures + 1))
  fi
}

expect finish 0 no
expect vanish 6 yes         # status 0 without the last checkpoint
expect vanish 6 no "" 10    # and not for ever
expect 75 75 yes
expect 75 75 yes "" 10
expect 137 137 yes
expect 137 137 no "" 10
expect 5 5 no               # diverged
expect 2 2 no
expect wait 75 yes USR1     # before the time limit
expect wait 75 no TERM      # cancelled
launched_with() {
  grep -qx -- "--mpi=$1 --cpus-per-task=4 program train run.ini --set run.steps=7" srun-arguments && return
  echo "FAIL srun $(cat srun-arguments)"
  failures=$((failures + 1))
}
launched_with pmix
SLURM_MPI_TYPE=pmi2 expect finish 0 no
launched_with pmi2
echo "$failures failed"
[ "$failures" = 0 ]
