#pragma once
/// The timeline in the trace event format that Perfetto and chrome://tracing open: a process is a rank, a
/// thread a lane, times are microseconds.
#include <string>

#include "core/trace/reasons.h"

namespace octachoron {

/// Events of one rank, by comma, without the list around them. Skew and the waiting of lanes are events of
/// their own. \param origin_s time 0 of the trace, on the clock of the timeline
std::string chrome_events(const Timeline& timeline, const std::vector<Verdict>& verdicts, double origin_s);

/// What stands before the events of all ranks (by comma) and behind. \param summary a JSON object, for other
/// readers
std::string chrome_begin();
std::string chrome_end(const std::string& summary);

}  // namespace octachoron
