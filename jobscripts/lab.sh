#!/usr/bin/env bash
# lab.sh [--ranks N] [--device NAME] [--comm NAME] [--output DIRECTORY]: the experiment of low precision and tensor
# parallelism, on this machine. core/docs/lab.md says what it shows.
set -uo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/lab.sh [--ranks N] [--device NAME] [--comm NAME] [--output DIRECTORY]

Builds the program, then runs on N local ranks (2, or 4 as it stands; no cluster), on device cpu or another:
  doctor                       what this machine can do
  compare                      BF16 against FP8 with delayed and current scales; tp 1 against 2 and 4 in BF16 and FP8
  scan                         tp 1, 2 and 4 in BF16 and FP8: the degree past which a further one does not pay
  overlap                      a transfer beside an independent linear, waited for at once, and before a dependent one
  train                        a training step with its timeline
Text and JSON go to DIRECTORY (as it stands runs/lab), with a list of them in index.txt. A part that fails does not end
the others; the exit status is 1 if one did.

--comm is nccl with device cuda and mpi with others, if not given. Two ranks on one GPU: --ranks 2 --device cuda --comm mpi.
On devices other than cpu the model and the matrices are larger, so that there is something to compute.

With OCTACHORON=PROGRAM in the environment that program is run and nothing is built.
TEXT
}

refuse() {
  echo "octachoron: $1" >&2
  exit 2
}

ranks=4 output=runs/lab device=cpu comm=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --ranks | --device | --comm | --output)
      [ -n "${2:-}" ] || refuse "$1 has no value (it needs one); see jobscripts/lab.sh --help"
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) refuse "unknown option $1 (there are --ranks, --device, --comm and --output); see jobscripts/lab.sh --help" ;;
  esac
done
case $ranks in
  2) degrees=(1 2) ;;
  4) degrees=(1 2 4) ;;
  *) refuse "--ranks $ranks is not possible here (the model of inputs/lab.ini splits over 2 or 4 in FP8); write --ranks 4" ;;
esac

if [ -z "$comm" ]; then
  [ "$device" = cuda ] && comm=nccl || comm=mpi
fi

output=$(realpath -m -- "$output")
case ${OCTACHORON:-} in */*) OCTACHORON=$(realpath -- "$OCTACHORON") || exit 3 ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [ -z "${OCTACHORON:-}" ]; then
  jobscripts/install-dependencies.sh || exit
  generator=()
  if [ ! -e build/CMakeCache.txt ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  cmake -S . -B build "${generator[@]}" >/dev/null || exit
  cmake --build build --parallel "$(nproc)" --target octachoron octachoron_plugins || exit
  OCTACHORON=$PWD/build/bin/octachoron
fi
mkdir -p "$output" || exit 3
rm -rf "$output"/train "$output"/overlap-{independent,wait-at-once,dependent} # of an earlier run, which would be resumed

# A text that is always there.
cat README.md core/docs/*.md >"$output/text.txt" || exit 3

summary=() failed=0
# part FILE MEANING COMMAND...: runs the command, shows and keeps what it prints
part() {
  local file=$1 meaning=$2 begin=$SECONDS status
  shift 2
  printf '\n== %s\n' "$meaning"
  "$@" 2>&1 | tee "$output/$file"
  status=${PIPESTATUS[0]}
  if [ "$status" = 0 ]; then
    summary+=("$(printf 'done        %4d s  %-26s %s' $((SECONDS - begin)) "$file" "$meaning")")
  else
    failed=1
    summary+=("$(printf 'FAILED (%3d) %3d s  %-26s %s' "$status" $((SECONDS - begin)) "$file" "$meaning")")
  fi
}
on_ranks() { jobscripts/local-mpirun.sh "$@"; }

backend=(--set "backend.device=$device" --set "backend.comm=$comm") large=() compared=() matrices=()
if [ "$device" != cpu ]; then
  size=(--set model.layers=4 --set batch.global=8 --set batch.micro=4 --set engine.threads=auto)
  large=("${size[@]}" --set model.hidden=1024 --set model.heads=16 --set model.sequence=1024)
  # All that is cast is looked at by the host, number by number.
  compared=("${size[@]}" --set model.hidden=512 --set model.heads=8 --set model.sequence=256)
  matrices=(--set model.hidden=8192 --set model.heads=64 --set model.sequence=4096)
fi
text=(--set "data.train=$output/text.txt")
model=(inputs/lab.ini "${text[@]}" "${backend[@]}" "${large[@]}")
looked_at=(inputs/lab.ini "${text[@]}" "${backend[@]}" "${compared[@]}")

part doctor.txt "what this machine can do" "$OCTACHORON" doctor

part compare-precision.txt "BF16 against FP8, on one rank" on_ranks 1 "$OCTACHORON" compare "${looked_at[@]}" --steps 5 \
  --variant "bf16;backend.precision=bf16" --variant "delayed;backend.precision=fp8-delayed" \
  --variant "current;backend.precision=fp8-current" --json "$output/compare-precision.json"
for precision in bf16 fp8-delayed fp8-current; do
  variants=()
  for tp in "${degrees[@]}"; do variants+=(--variant "tp$tp;grid.tp=$tp"); done
  part compare-tp-$precision.txt "tp 1 against more, in $precision" on_ranks "$ranks" "$OCTACHORON" compare "${looked_at[@]}" \
    --set backend.precision=$precision --steps 5 "${variants[@]}" --json "$output/compare-tp-$precision.json"
done

list=$(IFS=,; echo "${degrees[*]}")
for precision in bf16 fp8-delayed; do
  part scan-tp-$precision.txt "how far tp pays, in $precision" on_ranks "$ranks" "$OCTACHORON" scan "${model[@]}" \
    --set backend.precision=$precision --axis tp --degrees "$list" --json "$output/scan-tp-$precision.json"
done

# Between processes of one CPU a transfer is too short to see: it takes 20 ms longer.
delay=0
[ "$device" != cpu ] || delay=20000
for pattern in independent wait-at-once dependent; do
  part overlap-$pattern.txt "what hides a transfer: $pattern" \
    env OCTACHORON_COMM_DELAY_US=$delay jobscripts/local-mpirun.sh 2 "$OCTACHORON" train inputs/overlap-$pattern.ini \
    "${backend[@]}" "${matrices[@]}" --set "run.output=$output/overlap-$pattern"
done

part train.txt "a training step in FP8 on tp 2, with its timeline" on_ranks 2 "$OCTACHORON" train "${model[@]}" \
  --set backend.precision=fp8-delayed --set grid.tp=2 --set trace.steps=4 --set "run.output=$output/train"

{
  echo "The lab of Octachoron on $ranks ranks, device $device, comm $comm; core/docs/lab.md says how to read it."
  echo
  printf '%s\n' "${summary[@]}"
  echo
  echo "as JSON, and timelines for https://ui.perfetto.dev (trace/):"
  (cd "$output" && find . -name '*.json' | sort | sed 's|^\./|  |')
} >"$output/index.txt"
printf '\n== %s\n' "summary, also in $output/index.txt"
cat "$output/index.txt"
exit $failed
