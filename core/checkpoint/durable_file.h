#pragma once
/// The file system's side of a save.
#include <cstdint>
#include <string>

namespace octachoron {

/// Makes the folder and its parents. \throws Error(data) with the system's reason
void make_folder(const std::string& folder);

/// Makes an empty file, replacing one of the same name, after asking the file system for `bytes` of space: a
/// full disk is better met before the first collective write than within one. \throws Error(data)
void reserve_file(const std::string& path, std::int64_t bytes);

/// \throws Error(data) if this rank cannot open the file for writing (a folder that only some nodes see)
void require_writable(const std::string& path);

/// fsync of a file or folder. \throws Error(data)
void sync_to_disk(const std::string& path);

/// Renames within a folder, then syncs the folder. \throws Error(data)
void publish(const std::string& temporary, const std::string& path);

/// The folder of a path; "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace octachoron
