#include "core/program/view.h"

#include <algorithm>

#include "core/base/error.h"

namespace octachoron {

namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

bool flat(const Box& box) {
  return box.rows == 1;
}
bool empty(const Box& box) {
  return box.rows <= 0 || box.row_bytes <= 0;
}

}  // namespace

bool overlap(const Box& a, const Box& b) {
  if (empty(a) || empty(b) || a.end() <= b.begin || b.end() <= a.begin) return false;
  if (flat(a) && flat(b)) return true;
  if (!flat(a) && !flat(b) && a.pitch != b.pitch) return true;
  // Row i of a and row j of b share bytes iff d - k * pitch lies in (-b.row_bytes, a.row_bytes), k = i - j.
  const std::int64_t pitch = flat(a) ? b.pitch : a.pitch, d = b.begin - a.begin;
  const std::int64_t lowest = std::max(-(b.rows - 1), -floor_div(-(d - a.row_bytes + 1), pitch));
  const std::int64_t highest = std::min(a.rows - 1, floor_div(d + b.row_bytes - 1, pitch));
  return lowest <= highest;
}

bool covers(const Box& outer, const Box& inner) {
  if (empty(inner)) return true;
  if (empty(outer) || inner.begin < outer.begin || inner.end() > outer.end()) return false;
  if (flat(outer)) return true;
  const std::int64_t d = inner.begin - outer.begin, row = d / outer.pitch, column = d % outer.pitch;
  if (column + inner.row_bytes > outer.row_bytes) return false;
  return flat(inner) || (inner.pitch == outer.pitch && row + inner.rows <= outer.rows);
}

Box View::box() const {
  const std::int64_t size = size_of(dtype);
  if (contiguous()) return {offset, 1, bytes(), bytes()};
  return {offset, rows, columns * size, pitch * size};
}

View View::row_range(std::int64_t first, std::int64_t count) const {
  ensure(first >= 0 && first + count <= rows, "rows ", first, "+", count, " of a view of ", rows);
  View part = *this;
  part.offset += first * pitch * size_of(dtype);
  part.rows = count;
  return part;
}

View View::column_range(std::int64_t first, std::int64_t count) const {
  ensure(first >= 0 && first + count <= columns, "columns ", first, "+", count, " of a view of ", columns);
  View part = *this;
  part.offset += first * size_of(dtype);
  part.columns = count;
  return part;
}

View View::flat() const {
  ensure(contiguous(), "a strided view has no flat form");
  View whole = *this;
  whole.rows = 1;
  whole.columns = whole.pitch = elements();
  return whole;
}

}  // namespace octachoron
