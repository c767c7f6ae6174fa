#pragma once
/// `scan`: a run at several degrees of one axis, one after another, under one launcher.
#include <functional>
#include <string>
#include <vector>

#include "core/config/parameters.h"
#include "core/parallel/world.h"
#include "core/scan/verdict.h"

namespace octachoron {

/// "1,2,4" \throws Error(usage) unless there are two at least, and they ascend from 1 or more
std::vector<int> parse_degrees(const std::string& list);
/// tp, cp, pp or dp \throws Error(usage) for others, and for an axis that this version cannot split
Axis parse_scan_axis(const std::string& name);

/// \throws Error(usage) where a grid has more than `ranks` ranks, or there is an example instead of a model
void refuse_scan(const Parameters& parameters, int ranks);

struct Scan {
  std::string axis;
  std::string name, precision;  ///< of the run
  int rounds = 1;
  std::vector<Degree> degrees;
  ScanVerdict verdict;
};

/// Measures one degree on its first ranks of the launch. Collective over all of them.
using Measure = std::function<Observations(const Parameters& parameters)>;
/// measure_degree() of `steps` steps on the first ranks of `world`.
Measure measure_on(const World& world, int steps);

/// Collective. In rounds over all degrees, so that other work on the machine does not fall on one of them.
/// \param runs one a degree, ascending; they differ in the grid only \return complete on rank 0
Scan scan_degrees(const World& world, Axis axis, const std::vector<Parameters>& runs, int rounds,
                  const Measure& measure);

std::string scan_text(const Scan& scan);
std::string scan_json(const Scan& scan);

}  // namespace octachoron
