// `plan --draw`: every operation of the layer is there, stands after what it waits for, and beside what hides
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/report/draw.h"
#include "core/report/draw_layout.h"
#include "core/schedule/windows.h"
#include "tests/schedule/small_model.h"

namespace octachoron::small_model {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::vector<int> layer_issues(const StepProgram& program, const Expansion& expansion,
                              const std::string& segment) {
  std::vector<int> issues;
  for (std::size_t i = 0; i < expansion.issues.size(); ++i) {
    const Issue& issue = expansion.issues[i];
    const Call& call = program.schedule.calls[issue.call];
    if (program.segments[call.segment].name == segment && call.micro_batch == 0 &&
        issue.operation->label.starts_with("layers.1."))
      issues.push_back(int(i));
  }
  return issues;
}

TEST(Draw, BoxesStandWhereOrderAllows) {
  const RankPrograms built = programs(parameters({"grid.tp=2"}));
  const StepProgram& program = built.training.program;
  const Expansion expansion = expand(program);
  for (const char* segment : {"forward", "first backward"}) {
    SCOPED_TRACE(segment);
    const std::vector<int> issues = layer_issues(program, expansion, segment);
    const Panel panel = lay_out(program, expansion, issues, segment);
    ASSERT_EQ(panel.boxes.size(), issues.size());
    ASSERT_GT(issues.size(), 8u);
    EXPECT_GT(panel.waits.size(), 2u);
    std::vector<int> end(panel.rows.size(), -1);
    for (const DrawnBox& box : panel.boxes) {
      EXPECT_LE(box.first_column, box.last_column);
      EXPECT_LT(box.last_column, panel.columns);
      EXPECT_GT(box.first_column, end[std::size_t(box.row)])
          << describe(program, expansion.issues[box.issue]);
      end[std::size_t(box.row)] = box.last_column;
    }
    for (const DrawnWait& wait : panel.waits)
      EXPECT_LT(panel.boxes[wait.from].last_column, panel.boxes[wait.to].first_column);
  }
}

// Weight gradients stand under the collectives of the backward pass, by the pass that moves them.
TEST(Draw, IndependentWorkIsMarkedAndOnlyThat) {
  for (const char* overlap : {"on", "off"}) {
    const RankPrograms built =
        programs(parameters({"grid.tp=2", std::string("parallel.overlap=") + overlap}));
    const StepProgram& program = built.training.program;
    const Expansion expansion = expand(program);
    const std::vector<Clock> clocks = happens_before(expansion);
    const std::vector<int> issues = layer_issues(program, expansion, "first backward");
    std::set<int> expected;
    for (const int issue : issues) {
      if (!is_communication(expansion.issues[issue].operation->op)) continue;
      for (const int other : issues) {  // by clocks alone: neither knows of the other's end
        const Issue &a = expansion.issues[issue], &b = expansion.issues[other];
        if (!is_communication(b.operation->op) && clocks[issue][b.lane()] < b.sequence &&
            clocks[other][a.lane()] < a.sequence)
          expected.insert(other);
      }
    }
    std::set<int> marked;
    for (const DrawnBox& box : lay_out(program, expansion, issues, "").boxes)
      if (box.independent) marked.insert(box.issue);
    EXPECT_EQ(marked, expected);
    EXPECT_EQ(marked.empty(), false) << overlap;
    const auto is_wgrad = [&](int issue) {
      return expansion.issues[issue].operation->label.ends_with("wgrad");
    };
    EXPECT_GE(std::count_if(marked.begin(), marked.end(), is_wgrad), std::string(overlap) == "on" ? 4 : 0);
  }
}

TEST(Draw, TheFileHasAllOfTheLayerAndNothingElse) {
  const RankPrograms built = programs(parameters({"grid.tp=2"}));
  const StepProgram& program = built.training.program;
  const Expansion expansion = expand(program);
  const std::string svg = draw_layer(program);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  std::size_t operations = 0;
  for (const char* segment : {"forward", "first backward"}) {
    EXPECT_EQ(count(svg, std::string(">layers.1, ") + segment + "<"), 1u);
    operations += layer_issues(program, expansion, segment).size();
  }
  EXPECT_EQ(count(svg, "<title>"), operations);
  EXPECT_EQ(count(svg, "'layers.1."), operations);
  EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
  for (const char* outside : {"href", "url(http", "<script", "@import"})
    EXPECT_EQ(count(svg, outside), 0u) << outside;
  EXPECT_EQ(count(svg, "class=\"comm\""),
            1 + std::size_t(
                    std::count_if(expansion.issues.begin(), expansion.issues.end(), [&](const Issue& issue) {
                      return program.schedule.calls[issue.call].micro_batch == 0 &&
                             is_communication(issue.operation->op) &&
                             issue.operation->label.starts_with("layers.1.");
                    })));
}

TEST(Draw, OfOneLayerThatOneIsDrawn) {
  const RankPrograms built = programs(parameters({"model.layers=1", "grid.tp=2"}));
  EXPECT_EQ(count(draw_layer(built.training.program), ">layers.0, forward<"), 1u);
}

}  // namespace
}  // namespace octachoron::small_model
