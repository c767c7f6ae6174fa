#include "core/program/byte_classes.h"

#include <algorithm>

namespace octachoron {

void ByteClasses::add(const Box& box) {
  if (numbers_.try_emplace(key(box), int(boxes_.size())).second) boxes_.push_back(box);
}

void ByteClasses::cut() {
  std::size_t sorted = 1 << 20;
  const auto tidy = [&] {  // rows of neighbouring boxes share most of their ends
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    sorted = std::max(sorted, 2 * cuts_.size());
  };
  for (const Box& box : boxes_) {
    if (box.row_bytes <= 0) continue;
    for (std::int64_t row = 0; row < box.rows; ++row) {
      cuts_.push_back(box.begin + row * box.pitch);
      cuts_.push_back(cuts_.back() + box.row_bytes);
    }
    if (cuts_.size() > sorted) tidy();
  }
  tidy();
}

// Range r reaches from cut r to the next.
template <class Function>
void ByteClasses::for_each_range(const Box& box, Function function) const {
  if (box.row_bytes <= 0) return;
  for (std::int64_t row = 0; row < box.rows; ++row) {
    const std::int64_t begin = box.begin + row * box.pitch, end = begin + box.row_bytes;
    auto at = std::lower_bound(cuts_.begin(), cuts_.end(), begin);
    for (; *at < end; ++at) function(int(at - cuts_.begin()));
  }
}

void ByteClasses::divide() {
  cut();
  std::vector<int> class_of(cuts_.size(), 0), part{-1}, divider{-1};  // part of a class inside of a box
  for (int b = 0; b < int(boxes_.size()); ++b)
    for_each_range(boxes_[b], [&](int range) {
      const int whole = class_of[range];
      if (divider[whole] != b) {
        divider[whole] = b;
        part[whole] = int(part.size());
        part.push_back(-1);
        divider.push_back(-1);
      }
      class_of[range] = part[whole];
    });
  size_ = int(part.size());
  classes_.resize(boxes_.size());
  std::vector<int> listed(size_, -1);
  for (int b = 0; b < int(boxes_.size()); ++b)
    for_each_range(boxes_[b], [&](int range) {
      int& last = listed[class_of[range]];
      if (last != b) classes_[b].push_back(class_of[range]);
      last = b;
    });
}

}  // namespace octachoron
