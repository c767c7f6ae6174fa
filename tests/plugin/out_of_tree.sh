#!/usr/bin/env bash
# out_of_tree.sh BUILD: the recipe of core/docs/plugins.md, as it is printed there, built against the installed package and
# used by the installed program.
set -euo pipefail
build=$1
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$source/core/docs/plugins.md" | sed '1d;$d'; }
mkdir "$folder/mine"
block cmake >"$folder/mine/CMakeLists.txt"
block cpp >"$folder/mine/mine.cpp"

cmake --install "$build" --prefix "$folder/installed" >/dev/null
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt") # the default, make, may be missing
cmake -S "$folder/mine" -B "$folder/build" -G "$generator" -DCMAKE_PREFIX_PATH="$folder/installed" >/dev/null
cmake --build "$folder/build" >/dev/null

head -c 4000 "$source/core/docs/plugins.md" >"$folder/text.txt"
cat >"$folder/run.ini" <<TEXT
[run]
steps = 2
output = $folder/run
[model]
layers = 1
hidden = 16
heads = 2
sequence = 16
[batch]
global = 2
[backend]
precision = mine
plugin_path = $folder/build/lib/octachoron
[data]
train = $folder/text.txt
TEXT
octachoron=$folder/installed/bin/octachoron
"$source/tests/mpirun.sh" 1 "$octachoron" train "$folder/run.ini" >"$folder/out.txt"
grep -q "as an experiment" "$folder/out.txt"
grep -q "precision mine 0.1" "$folder/out.txt"
status=0
printf '[plugin.mine]\nmode = fast\n' >>"$folder/run.ini"
"$octachoron" plan "$folder/run.ini" 2>"$folder/refusal.txt" || status=$?
[ "$status" = 2 ] && grep -q "mode: only slow is legal" "$folder/refusal.txt"
echo "a recipe from outside was built, loaded, used and refused what it must"
