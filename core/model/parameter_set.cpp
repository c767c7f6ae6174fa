#include "core/model/parameter_set.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/model/tensors.h"

namespace octachoron {

namespace {

// Start of each tensor in its bucket, so that matrices are aligned for any device and type: 64 elements.
constexpr std::int64_t kTensorAlignment = 64;

// Buckets of one class are cut where they grow beyond the size; a tensor is never cut.
class BucketCutter {
 public:
  BucketCutter(const std::vector<ParameterTensor>& tensors, double bucket_bytes, int shards)
      : tensors_(tensors), limit_(std::int64_t(bucket_bytes / 4)), shards_(shards) {}

  void add(int tensor, bool alone) {
    const ParameterTensor& next = tensors_[tensor];
    Open* open = alone ? nullptr : find_open(next);
    if (open && open->bucket.elements + next.size > limit_) open->closed = true, open = nullptr;
    if (!open)
      open = &buckets_.emplace_back(
          Open{{.decay = next.decay(), .replicated = next.replicated, .sharers = next.sharers, .plain = next.plain,
                .cast = next.cast},
               alone});
    open->bucket.tensors.push_back(tensor);
    open->bucket.offsets.push_back(open->bucket.elements);
    open->bucket.elements = round_up(open->bucket.elements + next.size, kTensorAlignment);
  }
  // In the order of their first tensors, which is the order in which the forward pass needs them.
  std::vector<Bucket> finish() {
    std::vector<Bucket> buckets;
    for (Open& open : buckets_) buckets.push_back(std::move(open.bucket));
    std::stable_sort(buckets.begin(), buckets.end(),
                     [](const Bucket& a, const Bucket& b) { return a.tensors.front() < b.tensors.front(); });
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      buckets[b].name = "bucket." + std::to_string(b);
      buckets[b].elements = round_up(buckets[b].elements, kTensorAlignment * shards_);
    }
    return buckets;
  }

 private:
  struct Open {
    Bucket bucket;
    bool closed = false;
  };
  Open* find_open(const ParameterTensor& tensor) {
    for (Open& open : buckets_)
      if (!open.closed && open.bucket.decay == tensor.decay() && open.bucket.replicated == tensor.replicated &&
          open.bucket.sharers == tensor.sharers && open.bucket.plain == tensor.plain && open.bucket.cast == tensor.cast)
        return &open;
    return nullptr;
  }

  const std::vector<ParameterTensor>& tensors_;
  std::int64_t limit_;
  int shards_;
  std::vector<Open> buckets_;
};

}  // namespace

int ParameterSet::find(const std::string& key) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].key == key) return int(i);
  return -1;
}

std::int64_t ParameterSet::local_elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : tensors) {
    std::int64_t rows = 0;  // of the whole tensor, without those that pad a vocabulary
    for (const RowBlock& block : tensor.logical.layout.blocks) rows += block.rows;
    if (tensor.flat_begin == 0) sum += rows * tensor.logical.layout.local_columns;
  }
  return sum;
}

std::int64_t ParameterSet::global_elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : tensors)
    if (tensor.flat_begin == 0) sum += tensor.logical.layout.global_size();
  return sum;
}

std::int64_t matrix_weights(const ParameterSet& set, bool tied) {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : set.tensors) {
    const bool head = tied && tensor.key == "embedding.token.weight";
    const bool looked_up = tensor.key.starts_with("embedding.");
    if (tensor.flat_begin == 0 && tensor.decay() && (head || !looked_up)) sum += tensor.logical.layout.global_size();
  }
  return sum;
}

std::vector<BucketPlace> places(const ParameterSet& set) {
  std::vector<BucketPlace> result(set.tensors.size());
  for (std::size_t b = 0; b < set.buckets.size(); ++b)
    for (std::size_t k = 0; k < set.buckets[b].tensors.size(); ++k)
      result[set.buckets[b].tensors[k]] = {int(b), set.buckets[b].offsets[k]};
  return result;
}

ParameterSet make_parameter_set(std::vector<ParameterTensor> tensors, const ModelShape& shape, double bucket_bytes,
                                int shards) {
  ParameterSet set;
  set.tensors = std::move(tensors);
  set.shards = shards;
  BucketCutter cutter(set.tensors, bucket_bytes, shards);
  for (std::size_t i = 0; i < set.tensors.size(); ++i)
    cutter.add(int(i), shape.tied && set.tensors[i].key == "embedding.token.weight");
  set.buckets = cutter.finish();
  return set;
}

namespace {

void note_casts(std::vector<ParameterTensor>& tensors, const QuantizationPlan& plan) {
  for (ParameterTensor& tensor : tensors) {
    const ModuleQuantization* module = plan.module_of_weight(tensor.logical.name);
    if (module == nullptr || !module->weight_quantized()) continue;
    const bool looked_up = tensor.logical.name.starts_with("embedding.");
    tensor.plain = module->weight_plain() || looked_up;
    tensor.row = module->row[OCT_WEIGHT];
    tensor.cast = plan.tensors[tensor.row].format();
    tensor.counter_row = tensor.sharers > 1 ? plan.shared_counter(tensor.row) : tensor.row;
  }
}

}  // namespace

ParameterSet parameter_set(const Parameters& parameters, const ProcessGrid& grid, const Coordinate& at,
                           const QuantizationPlan& plan) {
  const ModelShape shape = model_shape(parameters, grid);
  std::vector<ParameterTensor> tensors = model_tensors(shape, parameters.model.init_std, at);
  note_casts(tensors, plan);
  return make_parameter_set(std::move(tensors), shape,
                            parameters.parallel.bucket_mib * 1024 * 1024, grid.group_size(Axis::dp | Axis::cp));
}

std::vector<ShardRange> shard_ranges(const ParameterSet& set, int shard) {
  std::vector<ShardRange> ranges;
  for (std::size_t b = 0; b < set.buckets.size(); ++b) {
    const Bucket& bucket = set.buckets[b];
    const std::int64_t begin = set.shard_elements(bucket) * shard, end = begin + set.shard_elements(bucket);
    for (std::size_t k = 0; k < bucket.tensors.size(); ++k) {
      const ParameterTensor& tensor = set.tensors[bucket.tensors[k]];
      const std::int64_t first = bucket.offsets[k], last = first + tensor.size;
      const std::int64_t from = std::max(first, begin), to = std::min(last, end);
      if (from >= to) continue;
      const std::int64_t flat = tensor.flat_begin - first;
      ranges.push_back({int(b), bucket.tensors[k], from + flat, to + flat, from - begin});
    }
  }
  return ranges;
}

}  // namespace octachoron
