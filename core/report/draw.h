#pragma once
/// `plan --draw`: the dependence graph of one layer as a self-contained SVG.
#include <string>
#include <vector>

#include "core/program/program.h"

namespace octachoron {

/// Forward and first backward of layer 1 (of layer 0 where there is one) in the first micro-batch. Rows are
/// lanes, boxes operations, arrows waits; in a row, order is from left to right. A communication is as wide
/// as its window: what stands beside it is independent of it, and marked.
std::string draw_layer(const StepProgram& program);

/// The same of all operations of a short program.
std::string draw_program(const StepProgram& program);

}  // namespace octachoron
