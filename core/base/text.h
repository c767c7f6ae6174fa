#pragma once
#include <sstream>
#include <string>

namespace octachoron {

/// The parts one after another, as `<<` prints them.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

}  // namespace octachoron
