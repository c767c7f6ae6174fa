#pragma once
/// The communication of a step on one rank as a table: what it moved, how long it took, how much of it was
/// hidden, and why not more. Layers that do the same share a row.
#include <string>
#include <vector>

#include "core/trace/reasons.h"

namespace octachoron {

struct CollectiveRow {
  std::string kind, axes, label;  ///< "all_gather", "tp", "layers.*.mlp.fc1.input"
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< of the message of one rank, summed over the row
  double transfer_s = 0, hidden_s = 0, exposed_skew_s = 0;
  Reason reason = Reason::hidden;  ///< the one that cost most time
  std::string why;                 ///< of the one communication that cost most
};

/// In the order in which they first begin in the program.
std::vector<CollectiveRow> collective_table(const Timeline& timeline, const std::vector<Verdict>& verdicts);

/// "step 12.300 ms = compute 10.100 + comm 4.200 - overlap 3.000 + idle 1.000; exposed 1.200 (tp 1.200);
/// stall 0.900"
std::string accounting_text(const Accounting& accounting);
std::string accounting_json(const Accounting& accounting);
/// Exposed milliseconds: {"tp":1.2,"cp":0,"pp":0,"dp":0,"mixed":0}
std::string exposed_by_axis_json(const Accounting& accounting);

/// Accounting, rows, and under each row that is not hidden its reason.
std::string timeline_text(const Timeline& timeline, const std::vector<CollectiveRow>& rows);
std::string table_json(const std::vector<CollectiveRow>& rows);

}  // namespace octachoron
