#include "core/scan/degree.h"

#include <algorithm>
#include <numeric>

namespace octachoron {

double Cores::per_rank() const {
  return std::min(double(threads), double(of_node) / double(ranks_of_node));
}

double Degree::gemm_flops() const {
  double sum = 0;
  for (const GemmRow& row : gemms) sum += row.flops();
  return sum;
}

double Degree::gemm_flops_per_ms() const {
  double time_ms = 0;
  for (const GemmRow& row : gemms) time_ms += row.time_ms;
  return time_ms > 0 ? gemm_flops() / time_ms : 0;
}

double Degree::noise_ms() const {
  constexpr double kLeast = 0.02;
  std::vector<double> sorted = steps_ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t dropped = sorted.size() / 4;
  const double spread = sorted.empty() ? 0 : sorted[sorted.size() - 1 - dropped] - sorted[dropped];
  return std::max(spread / 2, kLeast * step_ms());
}

std::size_t median_place(const std::vector<double>& values) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return places[places.size() / 2];
}

}  // namespace octachoron
