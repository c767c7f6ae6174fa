#pragma once
/// What the device of span_device.cpp saw, for the test that loaded it.
#include <string>
#include <vector>

namespace octachoron::engine_test {

struct SpanLog {
  std::vector<std::string> timed, named;  ///< in the order of their beginnings: with times, and without
  std::vector<std::string> captured;      ///< with times, of the last capture
  int open = 0;                           ///< spans that have not ended
  int stamps = 0, graphs = 0;             ///< calls of stamp(), graphs launched with times
  bool refuses_graphs = false;            ///< to be set: graphs cannot have times
};

constexpr const char* kSpanLog = "span_log";  ///< the symbol: SpanLog* ()
/// Times that no clock gives: of the n-th span with times since the last synchronize(), n from 0, those of a
/// graph counted where it was launched.
constexpr double span_begin_s(std::size_t n) {
  return 1000.0 + double(n);
}
constexpr double span_end_s(std::size_t n) {
  return span_begin_s(n) + 0.5;
}

}  // namespace octachoron::engine_test
