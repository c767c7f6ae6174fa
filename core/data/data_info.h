#pragma once
/// `data info`.
#include <cstdint>
#include <string>
#include <vector>

namespace octachoron {

/// What stands in token files: kind, tokens, vocabulary, documents and masked share of each; tokens, distinct
/// and largest ids of all; with a sequence the samples. \param sequence 0: none \throws Error(data) as
/// TokenData
std::string data_info(const std::vector<std::string>& files, const std::string& format,
                      std::int64_t sequence);

}  // namespace octachoron
