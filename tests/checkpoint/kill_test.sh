#!/usr/bin/env bash
# kill_test.sh MPIRUN SAVER: kills one rank of a run that does nothing but save, again and again; after every kill the
# newest checkpoint must be whole, and the next run must go on from it (faults F01, F02, K08).
set -u
mpirun=$1 saver=$2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for round in 1 2 3 4 5; do
  rm -f "$directory"/pid-*
  "$mpirun" 2 "$saver" "$directory" >"$directory/log" 2>&1 &
  launcher=$!
  before=$(ls "$directory" | grep '\.h5$')
  for _ in $(seq 200); do  # until it has saved something new
    after=$(ls "$directory" | grep '\.h5$')
    [ -s "$directory/pid-1" ] && [ -s "$directory/pid-0" ] && [ -n "$after" ] && [ "$after" != "$before" ] && break
    sleep 0.05
  done
  sleep "0.$((round * 37 % 30 + 10))"
  kill -9 "$(cat "$directory/pid-$((round % 2))")"
  wait "$launcher"
  "$mpirun" 1 "$saver" "$directory" check || { echo "round $round failed"; cat "$directory/log"; exit 1; }
done
