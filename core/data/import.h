#pragma once
/// `data info` and `data import`.
#include <cstdint>
#include <string>
#include <vector>

namespace octachoron {

/// What stands in token files: tokens of each and of all, distinct and largest ids, and with a sequence the
/// samples. \param sequence 0: none \throws Error(data) as TokenData
std::string data_info(const std::vector<std::string>& files, const std::string& format,
                      std::int64_t sequence);

/// Joins text files into one, written beside its final name, read back, synced and renamed. Returns what was
/// done. \throws Error(data) if an input is unusable or the output cannot be written, Error(usage) if it is
/// one of the inputs
std::string import_data(const std::vector<std::string>& inputs, const std::string& format,
                        const std::string& output);

}  // namespace octachoron
