#include "plugins/device/cpu/machine.h"

#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>

namespace octachoron::cpu {

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "processor";
}

std::int64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? std::int64_t(pages) * size : 0;
}

Instructions choose_instructions() {
  Instructions found[3] = {{"generic", generic::find_kernel}};
  int n = 1;
#ifdef OCTACHORON_CPU_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    found[n++] = {"avx2", avx2::find_kernel};
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      found[n++] = {"avx512", avx512::find_kernel};
    }
  }
#endif
  const char* asked = std::getenv("OCTACHORON_CPU_ISA");
  if (asked == nullptr || *asked == 0) return found[n - 1];
  std::string names;
  for (int i = 0; i < n; ++i) {
    if (std::strcmp(asked, found[i].name) == 0) return found[i];
    names += std::string(i > 0 ? ", " : "") + found[i].name;
  }
  throw std::invalid_argument(std::string("OCTACHORON_CPU_ISA is ") + asked + ", but this processor has " +
                              names);
}

void* allocate(std::size_t bytes) {
  constexpr std::size_t page = 4096, huge = std::size_t(2) << 20;
  const std::int64_t limit = physical_memory();
  if (limit > 0 && bytes > std::size_t(limit)) throw std::bad_alloc();
  const std::size_t alignment = bytes >= 2 * huge ? huge : page;
  const std::size_t whole = (bytes / alignment + (bytes % alignment != 0 || bytes == 0 ? 1 : 0)) * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == huge) madvise(memory, whole, MADV_HUGEPAGE);  // advice: a refusal costs only time
#endif
  return memory;
}

void release(void* memory) {
  std::free(memory);
}

}  // namespace octachoron::cpu
