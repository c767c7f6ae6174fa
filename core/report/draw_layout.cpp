#include "core/report/draw_layout.h"

#include <algorithm>
#include <map>

#include "core/schedule/windows.h"

namespace octachoron {

namespace {

class Layout {
 public:
  Layout(const StepProgram& program, const Expansion& expansion, const std::vector<int>& issues)
      : program_(program), expansion_(expansion), clocks_(happens_before(expansion)) {
    for (const int issue : issues) {
      box_of_[issue] = int(panel_.boxes.size());
      panel_.boxes.push_back({.issue = issue, .row = row_of(expansion.issues[issue].lane())});
    }
  }

  Panel take() {
    for (DrawnBox& box : panel_.boxes) place(box);
    for (DrawnBox& box : panel_.boxes)
      if (box.communication) stretch(box);
    return std::move(panel_);
  }

 private:
  int row_of(int lane) {
    const auto [found, added] = rows_.try_emplace(lane, int(panel_.rows.size()));
    if (added) panel_.rows.push_back(program_.lanes[lane].name);
    return found->second;
  }

  void place(DrawnBox& box) {
    const Issue& issue = expansion_.issues[box.issue];
    const int self = box_of_.at(box.issue);
    box.communication = is_communication(issue.operation->op);
    int column = 0;
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      if (issue.waits[lane] == 0 || lane == issue.lane()) continue;
      const auto producer = box_of_.find(expansion_.issue_of(lane, issue.waits[lane]));
      if (producer == box_of_.end()) continue;
      panel_.waits.push_back({producer->second, self});
      column = std::max(column, panel_.boxes[producer->second].last_column + 1);
    }
    for (const DrawnBox& other : panel_.boxes) {
      if (&other == &box) break;
      if (other.row == box.row) column = std::max(column, other.last_column + 1);
    }
    box.first_column = box.last_column = column;
    panel_.columns = std::max(panel_.columns, column + 1);
  }

  // To the column before the first drawn operation that follows it, and marks what is beside it.
  void stretch(DrawnBox& box) {
    const Issue& issue = expansion_.issues[box.issue];
    int end = panel_.columns;
    for (const DrawnBox& other : panel_.boxes)
      if (other.issue != box.issue && clocks_[other.issue][issue.lane()] >= issue.sequence)
        end = std::min(end, other.first_column);
    box.last_column = std::max(box.first_column, end - 1);
    const OverlapWindow window = overlap_window(program_, expansion_, clocks_, box.issue);
    for (const int free : free_computation(program_, expansion_, window))
      if (const auto found = box_of_.find(free); found != box_of_.end())
        panel_.boxes[found->second].independent = true;
  }

  const StepProgram& program_;
  const Expansion& expansion_;
  std::vector<Clock> clocks_;
  Panel panel_;
  std::map<int, int> rows_, box_of_;
};

}  // namespace

Panel lay_out(const StepProgram& program, const Expansion& expansion, const std::vector<int>& issues,
              const std::string& title) {
  Panel panel = Layout(program, expansion, issues).take();
  panel.title = title;
  return panel;
}

}  // namespace octachoron
