#pragma once
/// The file system's side of a save.
#include <cstdint>
#include <string>

namespace octachoron {

/// Makes the folder and its parents. \throws Error(data) with the system's reason
void make_folder(const std::string& folder);

/// Makes an empty file, replacing one of the same name, after seeing that `bytes` fit the file system. A file
/// that does not fit is removed. \throws Error(data)
void make_file(const std::string& path, std::int64_t bytes);

/// Allocates the first `bytes` of an existing file, so that no later write into them can meet a full disk:
/// MPI libraries do not survive that within a collective write. \throws Error(data)
void hold_space(const std::string& path, std::int64_t bytes);

/// \throws Error(data) if this rank cannot open the file for writing (a folder that only some nodes see), or
/// may not write files of that size
void require_writable(const std::string& path, std::int64_t bytes);

/// fsync of a file or folder. \throws Error(data)
void sync_to_disk(const std::string& path);

/// Renames within a folder, then syncs the folder. \throws Error(data)
void publish(const std::string& temporary, const std::string& path);

/// The folder of a path; "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace octachoron
