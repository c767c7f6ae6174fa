#!/usr/bin/env bash
# precision_gap.sh [--steps N] [--seeds 1,2,3] [--jobs N] [--threads N] [--output FOLDER] [-- section.key=value...]:
# trains inputs/precision-gap.ini from each seed in BF16 and in the FP8 recipes, paired by seed, and prints the gaps of
# the last validation losses. Needs the data of jobscripts/demo.sh. OCTACHORON names another program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
steps=600 seeds=1,2,3 jobs=1 threads=$(nproc) output=runs/precision-gap
recipes="bf16 fp8-delayed fp8-current"
octachoron=${OCTACHORON:-build/bin/octachoron}
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=$2 ;;
    --seeds) seeds=$2 ;;
    --jobs) jobs=$2 ;;
    --threads) threads=$2 ;;
    --output) output=$2 ;;
    --) shift; break ;;
    *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
changes=()
for change in "$@"; do changes+=(--set "$change"); done
rm -rf "$output"
mkdir -p "$output"

train() { # seed recipe
  "$octachoron" train inputs/precision-gap.ini --set run.seed="$1" --set run.steps="$steps" --set run.name="$2-$1" \
    --set run.output="$output/$2-$1" --set backend.precision="$2" --set engine.threads="$threads" "${changes[@]}" \
    >"$output/$2-$1.log" 2>&1 || { echo "$2, seed $1 failed: see $output/$2-$1.log" >&2; exit 1; }
}
for seed in ${seeds//,/ }; do
  for recipe in $recipes; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    train "$seed" "$recipe" &
  done
done
while [ "$(jobs -rp | wc -l)" -gt 0 ]; do wait -n; done

python3 - "$output" "$seeds" $recipes <<'TABLE'
import json, sys
output, seeds, reference, *recipes = sys.argv[1], sys.argv[2].split(","), *sys.argv[3:]
def read(recipe, seed):
    lines = [json.loads(line) for line in open(f"{output}/{recipe}-{seed}/metrics.jsonl")]
    last = [line for line in lines if line.get("validation_loss") is not None][-1]
    total = lambda key: sum(line[key] or 0 for line in lines)
    return last["validation_loss"], total("saturated"), total("flushed"), len(lines)
print(f"{'recipe':14} {'seed':>4} {'steps':>6} {'validation':>11} {'gap %':>7} {'saturated':>10} {'flushed':>10}")
worst = 0
for recipe in [reference, *recipes]:
    gaps = []
    for seed in seeds:
        loss, saturated, flushed, steps = read(recipe, seed)
        gap = 100 * (loss / read(reference, seed)[0] - 1)
        gaps.append(gap)
        print(f"{recipe:14} {seed:>4} {steps:6} {loss:11.5f} {gap:7.3f} {saturated:10} {flushed:10}")
    if recipe != reference:
        print(f"{recipe:14} mean gap {sum(gaps) / len(gaps):.3f} %, largest {max(gaps):.3f} % (asked: 1 and 2)")
        worst = max(worst, sum(gaps) / len(gaps), max(gaps) / 2)
sys.exit(worst > 1)
TABLE
