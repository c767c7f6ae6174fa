#!/usr/bin/env bash
# From a fresh machine to a trained model: installs what is missing, builds, makes a data set from the King James
# Bible, trains inputs/demo.ini on 4 ranks, stops on the way and resumes. Needs no cluster and no GPU. Can be run
# again: it starts anew, from the first step.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
octachoron=build/bin/octachoron data=runs/demo-data run=runs/demo

title() { printf '\n== %s\n' "$*"; }

title "dependencies and build"
jobscripts/install-dependencies.sh
generator=()
if [ ! -e build/CMakeCache.txt ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S . -B build "${generator[@]}" >build.log 2>&1 || { cat build.log >&2; exit 1; }
mv build.log build/configure.log
cmake --build build --parallel "$(nproc)" --target octachoron octachoron_plugins

title "data: the King James Bible, its last twentieth for validation"
mkdir -p $data
if ! text=$(bible -f gen1:1-rev22:21 </dev/null); then
  echo "octachoron: there is no text to train on (the program 'bible' of package bible-kjv is missing);" \
    "name any two texts in data.train and data.validation of inputs/demo.ini and run mpirun as README.md says" >&2
  exit 3
fi
lines=$(wc -l <<<"$text")
head -n $((lines * 19 / 20)) <<<"$text" >$data/begin.txt
tail -n +$((lines * 19 / 20 + 1)) <<<"$text" >$data/end.txt
$octachoron data import $data/begin.txt --output $data/train.h5
$octachoron data import $data/end.txt --output $data/validation.h5
rm $data/begin.txt $data/end.txt

if [ -d $run/checkpoints ]; then
  title "removing the checkpoints of an earlier demo ($run/checkpoints)"
  rm -r $run/checkpoints
fi
steps=$(sed -n 's/^steps *= *\([0-9]*\).*/\1/p' inputs/demo.ini)
stop=$((steps * 6 / 10))
title "training on 4 ranks (dp 2 x tp 2), the first $stop of $steps steps"
jobscripts/local-mpirun.sh 4 $octachoron train inputs/demo.ini --set run.steps=$stop
title "the same command without that limit resumes from the checkpoint and goes on to step $steps"
jobscripts/local-mpirun.sh 4 $octachoron train inputs/demo.ini | sed -un '/^training data/,$p'

title "done"
loss=$(sed -n 's/.*"validation_loss":\([^,}]*\).*/\1/p' $run/metrics.jsonl | tail -n 1)
awk -v loss="$loss" 'BEGIN { exit !(loss <= 2.2) }' || { echo "the demo ended at $loss nats a byte, more than 2.2: something is wrong" >&2; exit 1; }
cat <<TEXT
last validation loss: $loss nats a byte (8 bits, a guess among all bytes, would be 5.55)
metrics, one line a step:  $run/metrics.jsonl
checkpoints:               $(echo $run/checkpoints/*.h5)

Next:
  $octachoron checkpoint show $run/checkpoints/step-$(printf %08d "$steps").h5
  what 8 ranks would need, without starting them:
    $octachoron plan inputs/demo.ini --set grid.dp=4 --set batch.micro=2
  go on from here, on 4 ranks or on another grid:
    jobscripts/local-mpirun.sh 4 $octachoron train inputs/demo.ini --set run.steps=$((steps + 100))
    jobscripts/local-mpirun.sh 2 $octachoron train inputs/demo.ini --set run.steps=$((steps + 100)) --set grid.tp=1
  README.md explains the parameter file and what a run prints; core/docs/parameters.md has every key.
TEXT
