#pragma once
/// Where the boxes of a dependence graph stand. Pure.
#include <string>
#include <vector>

#include "core/program/program.h"

namespace octachoron {

struct DrawnBox {
  int issue = 0, row = 0;
  int first_column = 0, last_column = 0;  ///< inclusive; a communication spans its window
  bool communication = false,
       independent = false;  ///< independent: computes inside the window of a communication
};
struct DrawnWait {
  int from = 0, to = 0;  ///< boxes
};
struct Panel {
  std::string title;
  std::vector<std::string> rows;  ///< names of the lanes that have boxes
  std::vector<DrawnBox> boxes;    ///< in program order
  std::vector<DrawnWait> waits;   ///< between lanes
  int columns = 0;
};

/// Each operation stands in the first column in which all it waits for is past, as if all took equally long;
/// a communication ends with the column before its consumer's. \param issues in program order
Panel lay_out(const StepProgram& program, const Expansion& expansion, const std::vector<int>& issues,
              const std::string& title);

}  // namespace octachoron
