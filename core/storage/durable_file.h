#pragma once
/// The file system's side of a save.
#include <cstdint>
#include <string>

namespace octachoron {

/// Makes the folder and its parents. \throws Error(data) with the system's reason
void make_folder(const std::string& folder);

/// Makes a file of `bytes`, replacing one of the same name, with room for them on the disk: later writes into
/// it meet no full disk. A file that does not fit is removed. \throws Error(data)
void make_file(const std::string& path, std::int64_t bytes);

/// An existing file, open for writing.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  ///< \throws Error(data)
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// All `bytes`, from `offset` on. \throws Error(data) with the system's reason
  void write(std::int64_t offset, const void* data, std::int64_t bytes) const;
  void resize(std::int64_t bytes) const;  ///< \throws Error(data)
  /// What was written is on disk. \throws Error(data)
  void sync() const;

 private:
  std::string path_;
  int descriptor_;
};

/// fsync of a file or folder. \throws Error(data)
void sync_to_disk(const std::string& path);

/// Renames within a folder, then syncs the folder. \throws Error(data)
void publish(const std::string& temporary, const std::string& path);

/// The folder of a path; "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace octachoron
