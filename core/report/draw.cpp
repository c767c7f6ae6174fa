#include "core/report/draw.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/report/draw_layout.h"

namespace octachoron {

namespace {

constexpr int kColumn = 138, kBox = 124, kRow = 66, kHeight = 40, kLeft = 90, kTitle = 34, kLegend = 44;

std::string escaped(const std::string& raw) {
  std::string out;
  for (const char c : raw)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

struct Point {
  int x = 0, y = 0;
};

class Drawing {
 public:
  Drawing(const StepProgram& program, const Expansion& expansion, std::string prefix)
      : program_(program), expansion_(expansion), prefix_(std::move(prefix)) {}

  void add(const Panel& panel) {
    if (panel.boxes.empty()) return;
    width_ = std::max(width_, kLeft + panel.columns * kColumn + 20);
    body_ += text("<text class=\"title\" x=\"10\" y=\"", y_ + 20, "\">", escaped(panel.title), "</text>\n");
    y_ += kTitle;
    for (std::size_t row = 0; row < panel.rows.size(); ++row) {
      const int middle = y_ + int(row) * kRow + kHeight / 2;
      body_ += text("<line class=\"lane\" x1=\"", kLeft, "\" y1=\"", middle, "\" x2=\"",
                    kLeft + panel.columns * kColumn, "\" y2=\"", middle, "\"/>\n<text x=\"10\" y=\"",
                    middle + 4, "\">", escaped(panel.rows[row]), "</text>\n");
    }
    for (const DrawnBox& box : panel.boxes) draw(box);
    for (const DrawnWait& wait : panel.waits) draw(panel.boxes[wait.from], panel.boxes[wait.to]);
    y_ += int(panel.rows.size()) * kRow + 10;
  }

  std::string finish() const {
    const int width = std::max(width_, 900);
    return text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", y_,
                "\" viewBox=\"0 0 ", width, " ", y_, "\">\n", kStyle, legend(), body_, "</svg>\n");
  }

 private:
  static constexpr const char* kStyle =
      "<style>text{font:11px "
      "sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}.small{font-size:9px}"
      ".lane{stroke:#ddd}rect{stroke:#555;fill:#e8eef7;rx:3px}.comm{fill:#f6c27a}.free{fill:#b9e3b4;stroke:#"
      "2b7a24;"
      "stroke-width:2}.wait{fill:none;stroke:#b3261e;stroke-width:1.2;marker-end:url(#head)}</style>\n"
      "<rect width=\"100%\" height=\"100%\" style=\"fill:#fff;stroke:none\"/>\n"
      "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" "
      "markerHeight=\"6\" "
      "orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#b3261e\"/></marker></defs>\n";

  static std::string legend() {
    std::string out;
    int x = 10;
    struct Entry {
      const char *css, *meaning;
      int width;
    };
    for (const auto& [css, meaning, width] :
         {Entry{"", "computes", 100},
          Entry{"free", "computes, independent of a communication beside it", 330},
          Entry{"comm", "communicates: as wide as its window", 250}}) {
      out += text("<rect class=\"", css, "\" x=\"", x, "\" y=\"10\" width=\"16\" height=\"16\"/><text x=\"",
                  x + 22, "\" y=\"22\">", meaning, "</text>\n");
      x += width;
    }
    return out + text("<path class=\"wait\" d=\"M", x, " 18h24\"/><text x=\"", x + 30,
                      "\" y=\"22\">waits for</text>\n");
  }

  Point corner(const DrawnBox& box) const {
    return {kLeft + box.first_column * kColumn, y_ + box.row * kRow};
  }
  static int width_of(const DrawnBox& box) { return (box.last_column - box.first_column) * kColumn + kBox; }

  // The end of a long name says most.
  static std::string fitting(const std::string& name, int width) {
    const auto letters = std::size_t(width / 6);
    return name.size() <= letters ? name : ".." + name.substr(name.size() - letters + 2);
  }

  void draw(const DrawnBox& box) {
    const Issue& issue = expansion_.issues[box.issue];
    std::string label = issue.operation->label;
    if (label.starts_with(prefix_)) label = label.substr(prefix_.size());
    const Point at = corner(box);
    const int width = width_of(box);
    const char* css = box.communication ? "comm" : box.independent ? "free" : "";
    body_ += text("<g><title>", escaped(describe(program_, issue)), "</title><rect class=\"", css, "\" x=\"",
                  at.x, "\" y=\"", at.y, "\" width=\"", width, "\" height=\"", kHeight, "\"/><text x=\"",
                  at.x + 4, "\" y=\"", at.y + 16, "\">", escaped(fitting(label, width - 6)),
                  "</text><text class=\"small\" x=\"", at.x + 4, "\" y=\"", at.y + 31, "\">",
                  name(issue.operation->op), "</text></g>\n");
  }

  void draw(const DrawnBox& from, const DrawnBox& to) {
    const Point a = corner(from), b = corner(to);
    const bool down = to.row > from.row;
    const Point begin{a.x + width_of(from) - 8, a.y + (down ? kHeight : 0)},
        end{b.x + 8, b.y + (down ? 0 : kHeight)};
    const int middle = (begin.y + end.y) / 2;
    body_ += text("<path class=\"wait\" d=\"M", begin.x, " ", begin.y, "C", begin.x, " ", middle, " ", end.x,
                  " ", middle, " ", end.x, " ", end.y, "\"/>\n");
  }

  const StepProgram& program_;
  const Expansion& expansion_;
  std::string prefix_, body_;
  int y_ = kLegend, width_ = 0;
};

// Issues of the first call of each segment whose label begins with the prefix, call by call.
std::vector<std::pair<std::string, std::vector<int>>> calls_of(const StepProgram& program,
                                                               const Expansion& expansion,
                                                               const std::string& prefix) {
  std::vector<std::pair<std::string, std::vector<int>>> calls;
  std::vector<bool> seen(program.segments.size());
  for (std::size_t c = 0; c < program.schedule.calls.size(); ++c) {
    const Call& call = program.schedule.calls[c];
    if (seen[std::size_t(call.segment)]) continue;
    seen[std::size_t(call.segment)] = true;
    const Segment& segment = program.segments[call.segment];
    std::vector<int> issues;
    for (int i = 0; i < int(segment.operations.size()); ++i)
      if (segment.operations[i].label.starts_with(prefix)) issues.push_back(expansion.first_of_call[c] + i);
    if (!issues.empty()) calls.push_back({segment.name, std::move(issues)});
  }
  return calls;
}

}  // namespace

std::string draw_layer(const StepProgram& program) {
  const Expansion expansion = expand(program);
  std::string prefix = "layers.1.";
  if (calls_of(program, expansion, prefix).empty()) prefix = "layers.0.";
  Drawing drawing(program, expansion, prefix);
  const std::string layer = prefix.substr(0, prefix.size() - 1);
  for (const auto& [segment, issues] : calls_of(program, expansion, prefix)) {
    if (segment == "backward") continue;  // as the first one, but adds to gradients
    drawing.add(lay_out(program, expansion, issues, text(layer, ", ", segment)));
  }
  return drawing.finish();
}

std::string draw_program(const StepProgram& program) {
  const Expansion expansion = expand(program);
  Drawing drawing(program, expansion, "");
  for (const auto& [segment, issues] : calls_of(program, expansion, ""))
    drawing.add(lay_out(program, expansion, issues, segment));
  return drawing.finish();
}

}  // namespace octachoron
