#include "core/scan/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/text.h"

namespace octachoron {

namespace {

constexpr double kDivided = 1.1;  // work counts as divided up to a tenth above its fair share

std::string ms(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, value < 10 ? "%.2f ms" : "%.1f ms", value);
  return digits;
}

std::string short_number(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3g", value);
  return digits;
}

struct Pair {  // the last degree that pays, and the next
  const Degree &before, &after;
  double growth() const { return double(after.grid.size()) / double(before.grid.size()); }
  double lost(StepTerm term) const {
    return term_ms(after.split, term) - term_ms(before.split, term) / growth();
  }
  bool has_fewer_cores() const {
    return after.cores.of_node > 0 && after.cores.per_rank() < before.cores.per_rank();
  }
  bool has_other_shapes() const {
    for (const GemmRow& row : after.gemms)
      for (const GemmRow& old : before.gemms)
        if (old.label == row.label && (old.m != row.m || old.n != row.n || old.k != row.k)) return true;
    return false;
  }
  bool divides_products() const { return after.gemm_flops() <= kDivided * before.gemm_flops() / growth(); }
};

ScanReason reason_of_term(const Pair& pair, StepTerm term) {
  switch (term) {
    case StepTerm::exposed:
      return ScanReason::communication_exposed;
    case StepTerm::skew:
      return ScanReason::late_ranks;
    case StepTerm::host:
      return ScanReason::host_work;
    case StepTerm::other:
      return pair.has_fewer_cores() ? ScanReason::shared_cores : ScanReason::repeated_work;
    case StepTerm::gemm:
      break;
  }
  if (pair.has_fewer_cores()) return ScanReason::shared_cores;
  if (!pair.divides_products()) return ScanReason::repeated_work;
  return pair.has_other_shapes() ? ScanReason::small_shapes : ScanReason::same_shapes_slower;
}

// Where a rank has fewer cores, products and other computation lose by the same cause, so they count as one.
ScanReason reason_of(const Pair& pair) {
  const double computing = pair.lost(StepTerm::gemm) + pair.lost(StepTerm::other);
  StepTerm worst = StepTerm::gemm;
  for (int t = 0; t < kStepTerms; ++t)
    if (pair.lost(StepTerm(t)) > pair.lost(worst)) worst = StepTerm(t);
  if (pair.has_fewer_cores() && computing >= pair.lost(worst)) return ScanReason::shared_cores;
  return reason_of_term(pair, worst);
}

double exposed_of(const Degree& degree, const CollectiveSum& like) {
  for (const CollectiveSum& row : degree.collectives)
    if (row.kind == like.kind && row.axes == like.axes) return row.exposed_ms();
  return 0;
}

std::string of_collectives(const Pair& pair) {
  std::string out = text("exposed communication is ", ms(pair.after.split.total.exposed),
                         " of a step, before ", ms(pair.before.split.total.exposed));
  const auto& rows = pair.after.collectives;
  const auto grown = [&](const CollectiveSum& row) {
    return row.exposed_ms() - exposed_of(pair.before, row);
  };
  const auto worst = std::max_element(rows.begin(), rows.end(),
                                      [&](const auto& a, const auto& b) { return grown(a) < grown(b); });
  if (worst == rows.end()) return out;
  return text(out, "; most of it by ", worst->kind, " over ", worst->axes, ": ", short_number(worst->count),
              " of them with ", std::int64_t(worst->bytes + 0.5), " bytes take ", ms(worst->time_ms), ", ",
              ms(worst->hidden_ms), " beside computation");
}

std::string shape(const GemmRow& row) {
  return text(row.m, " x ", row.n, " x ", row.k);
}

std::string rates(const Pair& pair) {
  return text(short_number(pair.after.gemm_flops_per_ms() / 1e6), " GFLOP/s a rank, before ",
              short_number(pair.before.gemm_flops_per_ms() / 1e6));
}

// The product that lost most against its fair share stands for all.
std::string of_shapes(const Pair& pair) {
  const GemmRow *worst = nullptr, *worst_before = nullptr;
  double most = 0;
  for (const GemmRow& row : pair.after.gemms)
    for (const GemmRow& before : pair.before.gemms) {
      const double lost = row.time_ms - before.time_ms / pair.growth();
      if (before.label == row.label && lost > most) worst = &row, worst_before = &before, most = lost;
    }
  std::string out = text("products run at ", rates(pair));
  if (!worst) return out;
  return text(out, "; most lost by ", worst->label, ", ", shape(*worst), " after ", shape(*worst_before),
              ": ", ms(worst->time_ms), " after ", ms(worst_before->time_ms));
}

std::string of_repeated_work(const Pair& pair) {
  if (!pair.divides_products() && pair.lost(StepTerm::gemm) >= pair.lost(StepTerm::other))
    return text("products of a rank are ", short_number(pair.after.gemm_flops() / 1e9),
                " GFLOP a step, before ", short_number(pair.before.gemm_flops() / 1e9),
                ": they are not divided by ", short_number(pair.growth()));
  return text("computation beside the products takes ", ms(pair.after.split.other_ms()), ", before ",
              ms(pair.before.split.other_ms()), ": it is not divided by ", short_number(pair.growth()));
}

std::string why(const Pair& pair, ScanReason reason) {
  const Cores& cores = pair.after.cores;
  const StepSplit &after = pair.after.split, &before = pair.before.split;
  switch (reason) {
    case ScanReason::none:
      return "";
    case ScanReason::communication_exposed:
      return of_collectives(pair);
    case ScanReason::small_shapes:
    case ScanReason::same_shapes_slower:
      return of_shapes(pair);
    case ScanReason::repeated_work:
      return of_repeated_work(pair);
    case ScanReason::late_ranks:
      return text("transfers wait ", ms(after.skew_ms), " for the last rank of their group, before ",
                  ms(before.skew_ms));
    case ScanReason::host_work:
      return text("the host and its copies take ", ms(after.host_ms()), " of a step, before ",
                  ms(before.host_ms()));
    case ScanReason::shared_cores:
      break;
  }
  return text(cores.ranks_of_node, " ranks with ", cores.threads, cores.threads == 1 ? " thread" : " threads",
              " each compute on ", cores.of_node, " cores: ", short_number(cores.per_rank()),
              " a rank, before ", short_number(pair.before.cores.per_rank()), "; computation takes ",
              ms(after.total.compute), ", before ", ms(before.total.compute));
}

// Of the difference of two medians.
double noise_of(const Degree& a, const Degree& b) {
  return std::hypot(a.noise_ms(), b.noise_ms());
}

bool is_beaten(const Degree& degree, const Degree& later) {
  return degree.step_ms() - later.step_ms() > noise_of(degree, later);
}

}  // namespace

const char* name(ScanReason reason) {
  switch (reason) {
    case ScanReason::none:
      return "none";
    case ScanReason::communication_exposed:
      return "communication is exposed";
    case ScanReason::small_shapes:
      return "local shapes are small";
    case ScanReason::same_shapes_slower:
      return "products are slower at the same shapes";
    case ScanReason::repeated_work:
      return "work is repeated";
    case ScanReason::shared_cores:
      return "ranks share cores";
    case ScanReason::late_ranks:
      return "ranks wait for each other";
    case ScanReason::host_work:
      return "the host holds the step up";
  }
  return "";
}

const char* name(StepTerm term) {
  constexpr const char* kNames[kStepTerms] = {"gemm", "other", "exposed", "skew", "host"};
  return kNames[int(term)];
}

double term_ms(const StepSplit& split, StepTerm term) {
  switch (term) {
    case StepTerm::gemm:
      return split.gemm_ms;
    case StepTerm::other:
      return split.other_ms();
    case StepTerm::exposed:
      return split.total.exposed;
    case StepTerm::skew:
      return split.skew_ms;
    case StepTerm::host:
      return split.host_ms();
  }
  return 0;
}

ScanVerdict judge_scan(const std::string& axis, const std::vector<Degree>& degrees) {
  ScanVerdict verdict;
  const auto beaten_later = [&](std::size_t place) {
    return std::any_of(degrees.begin() + std::ptrdiff_t(place) + 1, degrees.end(),
                       [&](const Degree& later) { return is_beaten(degrees[place], later); });
  };
  while (beaten_later(verdict.best)) ++verdict.best;
  const Degree& best = degrees[verdict.best];
  verdict.next = std::min(verdict.best + 1, degrees.size() - 1);
  if (verdict.next == verdict.best) {
    verdict.answer = text("every degree pays up to ", axis, " = ", best.degree,
                          ", the last one tried: ", ms(best.step_ms()), " a step");
    return verdict;
  }
  const Pair pair{best, degrees[verdict.next]};
  const double noise_ms = noise_of(best, pair.after);
  const bool is_close = std::abs(best.step_ms() - pair.after.step_ms()) <= noise_ms;
  verdict.answer =
      text("past ", axis, " = ", best.degree, " a further degree does not pay: a step takes ",
           ms(pair.after.step_ms()), " with ", axis, " = ", pair.after.degree, ", ", ms(best.step_ms()),
           " with ", axis, " = ", best.degree,
           is_close ? ", the same within the noise of " : ", beyond the noise of ", ms(noise_ms));
  for (int t = 0; t < kStepTerms; ++t) verdict.lost_ms[std::size_t(t)] = pair.lost(StepTerm(t));
  verdict.reason = reason_of(pair);
  verdict.why = why(pair, verdict.reason);
  return verdict;
}

}  // namespace octachoron
