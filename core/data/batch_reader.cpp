#include "core/data/batch_reader.h"

#include <utility>

namespace octachoron {

void BatchReader::read(std::int64_t samples, RankBatch& batch) {
  if (std::exchange(ahead_, -1) == samples) {
    thread_.get();
    std::swap(batch, next_);
    return;
  }
  rest();
  thread_ = {};
  training_batch(data_, order_, shape_, samples, batch);
}

void BatchReader::read_ahead(std::int64_t samples) {
  rest();
  ahead_ = samples;
  thread_ = std::async(std::launch::async, [this, samples] { training_batch(data_, order_, shape_, samples, next_); });
}

}  // namespace octachoron
