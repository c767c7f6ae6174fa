#include "core/data/batch.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace octachoron {
namespace {

// Fills all rows; sample_at(position) says which sample stands where.
template <class SampleAt>
void fill(const TokenData& data, const BatchShape& shape, std::int64_t first, bool padded, RankBatch& out,
          SampleAt&& sample_at) {
  ensure(shape.global % (shape.micro * shape.dp) == 0, "the global batch ", shape.global,
         " is not a multiple of ", shape.micro, " x ", shape.dp);
  const std::int64_t rows = shape.micro_batches() * shape.micro, sequence = data.sequence();
  out.ids.resize(std::size_t(rows * sequence));
  out.targets.resize(out.ids.size());
  for (std::int64_t m = 0; m < shape.micro_batches(); ++m)
    for (std::int64_t row = 0; row < shape.micro; ++row) {
      const std::int64_t at = (m * shape.micro + row) * sequence;
      data.sample(sample_at(shape.position(first, m, row)), padded, out.ids.data() + at,
                  out.targets.data() + at);
    }
  out.valid_targets =
      std::int64_t(out.targets.size()) - std::count(out.targets.begin(), out.targets.end(), kIgnoredTarget);
}

}  // namespace

void training_batch(const TokenData& data, const SampleOrder& order, const BatchShape& shape,
                    std::int64_t consumed, RankBatch& out) {
  fill(data, shape, consumed, false, out, [&](std::int64_t position) { return order.at(position); });
  out.global_valid_targets = shape.global * data.sequence();
  if (!data.has_mask()) return;
  out.global_valid_targets = 0;  // from the masks of all ranks' samples, which saves a reduction
  for (std::int64_t i = 0; i < shape.global; ++i)
    out.global_valid_targets += data.valid_targets(order.at(consumed + i), 1);
}

std::int64_t validation_batches(const TokenData& data, const BatchShape& shape) {
  return ceil_div(data.padded_samples(), shape.global);
}

void validation_batch(const TokenData& data, const BatchShape& shape, std::int64_t batch, RankBatch& out) {
  const std::int64_t first = batch * shape.global;
  fill(data, shape, first, true, out, [](std::int64_t position) { return position; });
  out.global_valid_targets = data.valid_targets(first, shape.global);
}

std::string describe_passes(const TokenData& data, std::int64_t consumed, std::int64_t steps,
                            std::int64_t global_batch, bool repeat) {
  const std::int64_t needed = consumed + checked_product(steps, global_batch), sequence = data.sequence();
  const std::int64_t needed_tokens = checked_product(needed, sequence), available = data.samples() * sequence;
  if (!repeat && needed > data.samples())
    fail(ExitStatus::data, "the training data is too short (", steps, " steps of ", global_batch, " x ",
         sequence, consumed > 0 ? text(" after ", consumed, " samples") : "", " need ", needed_tokens,
         " tokens, ", available, " are there, and data.repeat is off); take at most ",
         std::max<std::int64_t>(0, data.samples() - consumed) / global_batch,
         " steps, give more data or set data.repeat = on");
  const double passes = double(needed) / double(data.samples());
  return text(steps, " steps", consumed > 0 ? text(" after ", consumed, " samples") : "", " need ",
              needed_tokens, " tokens, ", available,
              " are there: ", double(std::int64_t(passes * 100 + 0.5)) / 100, " passes");
}

}  // namespace octachoron
