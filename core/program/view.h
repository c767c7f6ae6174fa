#pragma once
/// Strided, typed windows of buffers, and the byte boxes they cover.
#include <cstdint>

#include "core/plugin/dtype.h"

namespace octachoron {

/// Bytes begin + r * pitch + [0, row_bytes) for r < rows. A flat range has one row.
struct Box {
  std::int64_t begin = 0, rows = 1, row_bytes = 0, pitch = 0;
  std::int64_t end() const { return begin + (rows - 1) * pitch + row_bytes; }
};

/// Whether the boxes share a byte. Exact if the pitches are equal or one of them is flat; else it may say yes
/// too often.
bool overlap(const Box& a, const Box& b);
/// Whether each byte of `inner` is in `outer`. Exact if the pitches are equal or `outer` is flat; else it may
/// say no too often.
bool covers(const Box& outer, const Box& inner);

/// A row-major matrix inside a buffer.
struct View {
  int buffer = -1;          ///< index into StepProgram::buffers; -1: absent
  std::int64_t offset = 0;  ///< bytes from the buffer's begin
  DType dtype = OCT_F32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t pitch = 0;  ///< elements from row to row

  bool absent() const { return buffer < 0; }
  std::int64_t elements() const { return rows * columns; }
  std::int64_t bytes() const { return elements() * size_of(dtype); }
  bool contiguous() const { return rows <= 1 || pitch == columns; }
  Box box() const;  ///< in the buffer's own bytes
  View row_range(std::int64_t first, std::int64_t count) const;
  View column_range(std::int64_t first, std::int64_t count) const;
  /// The same elements as one row. \pre contiguous
  View flat() const;
};

}  // namespace octachoron
