#include "core/scan/degree.h"

#include <algorithm>
#include <cmath>
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

// Of a normal distribution the standard error of the median is 1.25 sigma / sqrt(n), and sigma 0.74 of the
// distance of the quartiles, which single slow steps do not move.
double Degree::noise_ms() const {
  constexpr double kErrors = 2, kErrorOfQuartiles = 0.93, kLeast = 0.02;
  if (steps_ms.empty()) return 0;
  std::vector<double> sorted = steps_ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size(), outside = n / 4;
  const double quartiles = sorted[n - 1 - outside] - sorted[outside];
  return std::max(kErrors * kErrorOfQuartiles * quartiles / std::sqrt(double(n)), kLeast * step_ms());
}

Degree degree_of(const Observations& seen, Axis axis) {
  Degree degree{.degree = seen.grid[axis], .grid = seen.grid, .cores = seen.cores, .tokens = seen.tokens};
  for (const ObservedStep& step : seen.steps) degree.steps_ms.push_back(step.split.total.step);
  const ObservedStep& median = seen.steps[median_place(degree.steps_ms)];
  degree.split = median.split, degree.gemms = median.gemms, degree.collectives = median.collectives;
  return degree;
}

std::size_t median_place(const std::vector<double>& values) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return places[places.size() / 2];
}

}  // namespace octachoron
