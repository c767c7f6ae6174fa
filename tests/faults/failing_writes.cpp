// Preloaded into a process: writes to checkpoints that are being made fail with EIO, as on a disk that breaks
// or a mount that is lost. FAIL_AFTER: all but the first so many; FAIL_BEGIN: those to the begin of the file;
// FAIL_SYNC: fsync.
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_checkpoint(int descriptor) {
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  return ::readlink(link, path, sizeof path - 1) > 0 && std::strstr(path, ".h5.tmp") != nullptr;
}

bool fails(int descriptor, long long offset = -1) {
  static std::atomic<long> writes{0};
  const char *after = std::getenv("FAIL_AFTER"), *begin = std::getenv("FAIL_BEGIN");
  if ((after == nullptr && begin == nullptr) || !is_checkpoint(descriptor)) return false;
  const long before = writes++;
  if (!(begin != nullptr && offset == 0) && !(after != nullptr && before >= std::atol(after))) return false;
  errno = EIO;
  return true;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  return fails(descriptor) ? -1 : next(descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return fails(descriptor, offset) ? -1 : next(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return fails(descriptor, offset) ? -1 : next(descriptor, data, bytes, offset);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  static const auto next = real<ssize_t (*)(int, const iovec*, int)>("writev");
  return fails(descriptor) ? -1 : next(descriptor, parts, count);
}

ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  static const auto next = real<ssize_t (*)(int, const iovec*, int, off_t)>("pwritev");
  return fails(descriptor, offset) ? -1 : next(descriptor, parts, count, offset);
}

int fsync(int descriptor) {
  static const auto next = real<int (*)(int)>("fsync");
  if (std::getenv("FAIL_SYNC") == nullptr || !is_checkpoint(descriptor)) return next(descriptor);
  errno = EIO;
  return -1;
}

}  // extern "C"
