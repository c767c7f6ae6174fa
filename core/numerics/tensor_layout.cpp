#include "core/numerics/tensor_layout.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace octachoron {
namespace {

void require_part(int parts, int part) {
  ensure(parts >= 1 && part >= 0 && part < parts, "part ", part, " of ", parts, " does not exist");
}

std::int64_t even_share(std::int64_t whole, int parts, const char* what) {
  ensure(whole % parts == 0, what, " ", whole, " does not split into ", parts, " equal parts");
  return whole / parts;
}

// Appends the box of local rows [row, row + rows) and local columns [column, column + columns) of a block.
void append(std::vector<Piece>& out, const TensorLayout& layout, const RowBlock& block, std::int64_t row,
            std::int64_t rows, std::int64_t column, std::int64_t columns) {
  if (rows <= 0 || columns <= 0) return;
  out.push_back({.row = block.global + row - block.local,
                 .column = layout.first_column + column,
                 .rows = rows,
                 .columns = columns,
                 .offset = row * layout.local_columns + column,
                 .owned = block.owned});
}

}  // namespace

std::vector<Piece> pieces(const TensorLayout& layout, std::int64_t flat_begin, std::int64_t flat_end,
                          Copies copies) {
  ensure(flat_begin >= 0 && flat_begin <= flat_end && flat_end <= layout.local_size(), "the range ",
         flat_begin, " to ", flat_end, " is outside a local tensor of ", layout.local_size());
  std::vector<Piece> out;
  const std::int64_t pitch = layout.local_columns;
  for (const RowBlock& block : layout.blocks) {
    if (copies == Copies::owned && !block.owned) continue;
    const std::int64_t begin = std::max(flat_begin, block.local * pitch);
    const std::int64_t end = std::min(flat_end, (block.local + block.rows) * pitch);
    if (begin >= end) continue;
    const std::int64_t first_row = begin / pitch, last_row = (end - 1) / pitch;
    if (first_row == last_row) {
      append(out, layout, block, first_row, 1, begin - first_row * pitch, end - begin);
      continue;
    }
    const std::int64_t whole_begin = ceil_div(begin, pitch), whole_end = end / pitch;
    append(out, layout, block, first_row, whole_begin - first_row, begin - first_row * pitch,
           whole_begin * pitch - begin);
    append(out, layout, block, whole_begin, whole_end - whole_begin, 0, pitch);
    append(out, layout, block, whole_end, end > whole_end * pitch ? 1 : 0, 0, end - whole_end * pitch);
  }
  return out;
}

TensorLayout replicated(std::int64_t rows, std::int64_t columns, bool owned) {
  checked_product(rows, columns);
  return {.global_rows = rows,
          .global_columns = columns,
          .local_rows = rows,
          .local_columns = columns,
          .first_column = 0,
          .vector = false,
          .blocks = {{.local = 0, .global = 0, .rows = rows, .owned = owned}}};
}

TensorLayout rows_split(std::int64_t rows, std::int64_t columns, int parts, int part,
                        std::int64_t padded_rows) {
  require_part(parts, part);
  if (padded_rows == 0) padded_rows = rows;
  ensure(padded_rows >= rows, "padding ", rows, " rows to ", padded_rows);
  TensorLayout layout = replicated(rows, columns);
  layout.local_rows = even_share(padded_rows, parts, "a number of rows of");
  layout.blocks.clear();
  const std::int64_t begin = part * layout.local_rows, end = std::min(rows, begin + layout.local_rows);
  if (begin < end) layout.blocks.push_back({.local = 0, .global = begin, .rows = end - begin, .owned = true});
  return layout;
}

TensorLayout columns_split(std::int64_t rows, std::int64_t columns, int parts, int part) {
  require_part(parts, part);
  TensorLayout layout = replicated(rows, columns);
  layout.local_columns = even_share(columns, parts, "a number of columns of");
  layout.first_column = part * layout.local_columns;
  return layout;
}

TensorLayout stacked_rows_split(const std::vector<std::int64_t>& stacked, std::int64_t columns, int parts,
                                int part) {
  require_part(parts, part);
  TensorLayout layout = replicated(0, columns);
  layout.blocks.clear();
  for (const std::int64_t rows : stacked) {
    const std::int64_t share = even_share(rows, parts, "a number of rows of");
    layout.blocks.push_back({layout.local_rows, layout.global_rows + part * share, share, true});
    layout.local_rows += share;
    layout.global_rows += rows;
  }
  checked_product(layout.global_rows, columns);
  return layout;
}

TensorLayout qkv_split(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t columns,
                       int parts, int part) {
  require_part(parts, part);
  const std::int64_t query = heads * head_dim, key = kv_heads * head_dim;
  if (kv_heads >= parts) {
    even_share(heads, parts, "a number of heads of");
    even_share(kv_heads, parts, "a number of key and value heads of");
    return stacked_rows_split({query, key, key}, columns, parts, part);
  }
  const std::int64_t query_rows = even_share(heads, parts, "a number of heads of") * head_dim;
  ensure(parts % kv_heads == 0, kv_heads, " key and value heads do not spread evenly over ", parts, " parts");
  const int copies = parts / int(kv_heads);
  const std::int64_t head_row = part / copies * head_dim;
  const bool owned = part % copies == 0;
  TensorLayout layout = replicated(query + 2 * key, columns);
  layout.local_rows = query_rows + 2 * head_dim;
  layout.blocks = {{0, part * query_rows, query_rows, true},
                   {query_rows, query + head_row, head_dim, owned},
                   {query_rows + head_dim, query + key + head_row, head_dim, owned}};
  return layout;
}

TensorLayout as_vector(TensorLayout layout) {
  ensure(layout.global_columns == 1 || layout.global_rows == 1, "a tensor of shape ", shape_text(layout),
         " is not a vector");
  layout.vector = true;
  return layout;
}

std::string shape_text(const TensorLayout& layout) {
  if (layout.vector) return text("[", layout.global_size(), "]");
  return text("[", layout.global_rows, ", ", layout.global_columns, "]");
}

}  // namespace octachoron
