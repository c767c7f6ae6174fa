#include "core/checkpoint/file_structure.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

namespace octachoron {
namespace {

constexpr std::int64_t kChecksumBytes =
    512;  // of a dataset's attribute and what HDF5 puts around it, at most
constexpr const char* kInMemory = "/dev/shm/octachoron-XXXXXX";  // HDF5 wants a path

[[noreturn]] void refuse(const char* what, int reason = errno) {
  fail(ExitStatus::data, "cannot ", what, " the file ", kInMemory, " in memory: ", std::strerror(reason));
}

// HDF5 does not survive what it cannot write, so that is found out before.
void require_room(int memory, const CheckpointHeader& header, const std::vector<CheckpointTensor>& tensors) {
  constexpr rlim_t kOnce = 64 << 10, kPerDataset = 2048;  // object headers, attributes, groups
  const rlim_t structure =
      kOnce + header.parameters.size() + header.versions.size() + header.tuning.size() + tensors.size() * kPerDataset;
  rlim_t whole = structure;
  for (const CheckpointTensor& tensor : tensors)
    whole += rlim_t(tensor.tensor.layout.global_size() * size_of(tensor.stored) + kAlignment);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < whole) refuse("write", EFBIG);
  struct statvfs disk {};
  if (::fstatvfs(memory, &disk) == 0 && disk.f_bavail * disk.f_frsize < structure) refuse("write", ENOSPC);
}

std::int64_t size_of_file(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) refuse("look at");
  return status.st_size;
}

// Makes the groups that paths lead through, from the root on, each once.
class GroupMaker {
 public:
  GroupMaker(hid_t file, std::uint64_t step) : file_(file), step_(step) {}

  void make_groups_of(const std::string& path) {
    for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      const std::string name = path.substr(0, slash);
      if (!made_.insert(name).second) continue;
      const Hdf5Handle group(H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                             "create the group " + name);
      write_attribute(group, "step", step_);
    }
  }

 private:
  hid_t file_;
  std::uint64_t step_;
  std::set<std::string> made_;
};

// The values get one block of the file, at once: its place does not change any more.
std::int64_t create_dataset(hid_t file, const CheckpointTensor& tensor) {
  const std::string what = "create the dataset " + tensor.path;
  const Hdf5Handle space = global_space(tensor.tensor.layout);
  const Hdf5Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  hdf5_check(H5Pset_layout(create, H5D_CONTIGUOUS), what);
  hdf5_check(H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY), what);
  hdf5_check(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), what);
  const Hdf5Handle dataset(H5Dcreate2(file, tensor.path.c_str(), file_type(tensor.stored), space, H5P_DEFAULT,
                                      create, H5P_DEFAULT),
                           H5Dclose, what);
  const haddr_t offset = H5Dget_offset(dataset);
  ensure(offset != HADDR_UNDEF, "HDF5 gave ", tensor.path, " no place in the file");
  return std::int64_t(offset);
}

void write_header(hid_t file, const CheckpointHeader& header) {
  write_attribute(file, "format_version", std::uint64_t(kCheckpointFormat));
  write_attribute(file, "step", std::uint64_t(header.step));
  write_attribute(file, "samples", std::uint64_t(header.samples));
  write_attribute(file, "tokens", std::uint64_t(header.tokens));
  write_attribute(file, "skipped", std::uint64_t(header.skipped));
  write_attribute(file, "seed", header.seed);
  write_attribute(file, "run_id", header.run_id);
  write_attribute(file, "parameters", header.parameters);
  write_attribute(file, "versions", header.versions);
  if (!header.tuning.empty()) write_attribute(file, "tuning", header.tuning);
  write_attribute(file, "complete", std::uint64_t(1));  // the structure goes to the file after all values
}

void copy(int memory, std::int64_t begin, std::int64_t end, const OutputFile& file) {
  std::vector<char> bytes(std::size_t(end - begin));
  if (::pread(memory, bytes.data(), bytes.size(), off_t(begin)) != ssize_t(bytes.size())) refuse("read");
  file.write(begin, bytes.data(), end - begin);
}

}  // namespace

FileStructure::FileStructure(const CheckpointHeader& header, const std::vector<CheckpointTensor>& tensors)
    : tensors_(tensors) {
  std::string path = kInMemory;
  memory_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (memory_ < 0) refuse("make");
  try {
    require_room(memory_, header, tensors);
    create(path, header);
  } catch (...) {
    ::unlink(path.c_str());
    ::close(memory_);
    throw;
  }
}

FileStructure::~FileStructure() {
  ::close(memory_);
}

void FileStructure::create(const std::string& path, const CheckpointHeader& header) {
  const QuietHdf5 quiet;
  const Hdf5Handle access = file_access();
  hdf5_check(H5Pset_alignment(access, hsize_t(kAlignFrom), hsize_t(kAlignment)), "align datasets");
  file_ = Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose,
                     "create '" + path + "'");
  ::unlink(path.c_str());  // open is enough: nobody else shall find it, nor find it later
  write_header(file_, header);
  GroupMaker groups(file_, std::uint64_t(header.step));
  for (const CheckpointTensor& tensor : tensors_) {
    groups.make_groups_of(tensor.path);
    offsets_.push_back(create_dataset(file_, tensor));
  }
  hdf5_check(H5Fflush(file_, H5F_SCOPE_GLOBAL), "write a file in memory");
  bytes_ = size_of_file(memory_) + std::int64_t(tensors_.size()) * kChecksumBytes;
}

void FileStructure::finish(const std::vector<std::uint64_t>& checksums) {
  const QuietHdf5 quiet;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Hdf5Handle dataset(H5Dopen2(file_, tensors_[i].path.c_str(), H5P_DEFAULT), H5Dclose,
                             "open the dataset " + tensors_[i].path);
    write_attribute(dataset, "checksum", checksums[i]);
  }
  file_.close("write a file in memory");
  bytes_ = size_of_file(memory_);
}

void FileStructure::write_to(const OutputFile& file) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> values;  // begin and end
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    values.emplace_back(offsets_[i],
                        offsets_[i] + tensors_[i].tensor.layout.global_size() * size_of(tensors_[i].stored));
  std::sort(values.begin(), values.end());
  values.emplace_back(bytes_, bytes_);
  std::int64_t at = 0;
  for (const auto& [begin, end] : values) {
    if (at < begin) copy(memory_, at, begin, file);
    at = end;
  }
  file.resize(bytes_);
}

}  // namespace octachoron
