#!/usr/bin/env bash
# bundle.sh BUILD FOLDER: gpu_device, the conformance tests and both device plugins with the libraries they need, in a
# folder that runs on a machine with nothing but a driver, CUDA's libraries and a C++ runtime no older than this one's.
set -euo pipefail
build=$(realpath "$1") folder=$2 limit_mib=60
rm -rf "$folder"
mkdir -p "$folder"/{bin,plugins,lib}
cp "$build/tests/gpu/gpu_device" "$build/tests/conformance/test_conformance_device" "$folder/bin/"
cp "$build"/lib/octachoron/device-{cpu,cuda}.so "$folder/plugins/"

# The C and C++ runtimes are the target's own; so is CUDA, which is large.
own='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.)|^libcu(da|dart|blas)'
ldd "$folder"/bin/* "$folder"/plugins/*.so | awk '$2 == "=>" {print $1, $3}' | sort -u | while read -r name path; do
  if [[ $name =~ $own ]]; then continue; fi
  if [ ! -e "$path" ]; then
    echo "bundle.sh: $name is needed and not found" >&2
    exit 1
  fi
  cp -L "$path" "$folder/lib/$name"
done
strip --strip-unneeded "$folder"/bin/* "$folder"/plugins/* "$folder"/lib/*

cat > "$folder/run.sh" <<'RUN'
#!/usr/bin/env bash
# run.sh [conformance|device|timing]...: all three without arguments. Ends with the table of rates and a verdict.
# CUDA_LIBS=FOLDER:... says where libcudart, libcublasLt and libcudnn are, if not in the usual places.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libs=${CUDA_LIBS:-}
if [ -z "$libs" ]; then
  packages=$(python3 -c 'import site, sysconfig; print(sysconfig.get_paths()["purelib"], *site.getsitepackages())' 2>/dev/null)
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib $(printf '%s/nvidia/cu13/lib ' $packages); do
    if [ -e "$folder/libcublasLt.so.13" ] && [ -e "$folder/libcudart.so.13" ]; then libs=$folder; break; fi
  done
fi
if [ -z "${CUDA_LIBS:-}" ] && ! [ -e "$libs/libcudnn.so.9" ]; then
  for folder in $(printf '%s/nvidia/cudnn/lib ' ${packages:-}); do
    if [ -e "$folder/libcudnn.so.9" ]; then libs=${libs:+$libs:}$folder; break; fi
  done
fi
export LD_LIBRARY_PATH=$here/lib${libs:+:$libs}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OCTACHORON_DEVICE_PLUGIN=$here/plugins/device-cuda.so OCTACHORON_REFERENCE_PLUGIN=$here/plugins/device-cpu.so
echo "CUDA libraries from ${libs:-where the loader looks by itself}"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
[ $# -gt 0 ] || set -- conformance device timing
status=0 verdict=
for part in "$@"; do
  case $part in
    conformance) "$here/bin/test_conformance_device" --gtest_brief=1 ;;
    device) "$here/bin/gpu_device" --no-timing --gtest_brief=1 ;;
    timing) "$here/bin/gpu_device" --timing ;;
    *) echo "run.sh: no part '$part'; use conformance, device or timing" >&2; exit 2 ;;
  esac
  code=$?
  verdict="$verdict $part=$([ $code -eq 0 ] && echo passed || echo "FAILED($code)")"
  [ $code -eq 0 ] || status=1
done
echo "verdict:$verdict"
exit $status
RUN
chmod +x "$folder/run.sh"

size=$(du -sm "$folder" | cut -f1)
echo "$folder: $size MiB"
if [ "$size" -gt "$limit_mib" ]; then
  echo "bundle.sh: more than $limit_mib MiB" >&2
  exit 1
fi
