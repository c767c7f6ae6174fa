#pragma once
/// What a later version brings. A version that brings it deletes its line in availability.cpp.
#include <string>
#include <vector>

#include "core/config/parameters.h"

namespace octachoron {

/// The values a key may have in this version; an empty text stands for "not given".
struct Availability {
  std::string key;
  std::vector<std::string> available;
  std::string feature;  ///< what the other values would bring
};
const std::vector<Availability>& availability_table();

/// \throws Error(usage) "KEY = VALUE is not available in this version (...)"
void refuse_unavailable(const Parameters& parameters);

}  // namespace octachoron
