#pragma once
/// Batches of a rank, the next one read while the step before it computes.
#include <future>

#include "core/data/batch.h"

namespace octachoron {

class BatchReader {
 public:
  /// \param data, order must outlive it
  BatchReader(const TokenData& data, const SampleOrder& order, const BatchShape& shape)
      : data_(data), order_(order), shape_(shape) {}
  ~BatchReader() { rest(); }
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// Reads the batch after `samples` samples, or takes the one read ahead. \throws Error of the data
  void read(std::int64_t samples, RankBatch& batch);
  /// Begins to read the batch after `samples` samples in a thread; what goes wrong there, the read() of it throws.
  void read_ahead(std::int64_t samples);
  /// Waits for that thread: files are read by one thread at a time.
  void rest() {
    if (thread_.valid()) thread_.wait();
  }

 private:
  const TokenData& data_;
  const SampleOrder& order_;
  BatchShape shape_;
  std::int64_t ahead_ = -1;  // samples before `next_`; -1: nothing is read ahead
  RankBatch next_;
  std::future<void> thread_;
};

}  // namespace octachoron
