#pragma once
/// Bytes that lie in the same boxes, as one.
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/program/view.h"

namespace octachoron {

/// A partition of an address space: two bytes are of one class if each box contains both or none. What is
/// accessed box by box needs one state a class. Boxes are taken row by row.
class ByteClasses {
 public:
  /// \pre not divided yet
  void add(const Box& box);
  /// After the last box. O(rows of all boxes, times the cuts others make in them).
  void divide();
  /// \pre the box was added
  const std::vector<int>& classes_of(const Box& box) const { return classes_[numbers_.at(key(box))]; }
  int size() const { return size_; }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static Key key(const Box& box) { return {box.begin, box.rows, box.row_bytes, box.pitch}; }
  void cut();
  template <class Function>
  void for_each_range(const Box& box, Function function) const;

  std::map<Key, int> numbers_;
  std::vector<Box> boxes_;
  std::vector<std::int64_t> cuts_;         // where rows begin and end, in order
  std::vector<std::vector<int>> classes_;  // by box
  int size_ = 0;
};

}  // namespace octachoron
