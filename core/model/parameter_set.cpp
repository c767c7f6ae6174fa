#include "core/model/parameter_set.h"

#include <algorithm>
#include <cmath>

#include "core/base/checked.h"

namespace octachoron {

namespace {

// Start of each tensor in its bucket, so that matrices are aligned for any device and type: 64 elements.
constexpr std::int64_t kTensorAlignment = 64;

class TensorList {
 public:
  TensorList(const ModelShape& shape, double init_std, int tp_place)
      : shape_(shape), init_std_(init_std), place_(tp_place) {}

  void matrix(const std::string& name, TensorLayout layout, double deviation, bool replicated = false) {
    tensors.push_back({{name, std::move(layout)}, Initial::normal, deviation, replicated});
  }
  void vector(const std::string& name, TensorLayout layout, Initial initial, bool replicated) {
    tensors.push_back({{name, as_vector(std::move(layout))}, initial, 0, replicated});
  }
  TensorLayout whole(std::int64_t rows, std::int64_t columns) const {
    return replicated(rows, columns, place_ == 0);
  }

  void norm(const std::string& name) {
    vector(name + ".weight", whole(shape_.hidden, 1), Initial::one, true);
    vector(name + ".bias", whole(shape_.hidden, 1), Initial::zero, true);
  }
  TensorLayout qkv(std::int64_t columns) const {
    return qkv_split(shape_.heads, shape_.kv_heads, shape_.head_dim, columns, shape_.tp, place_);
  }
  void layer(std::int64_t number) {
    const std::string prefix = "layers." + std::to_string(number);
    const double output = init_std_ / std::sqrt(2.0 * double(shape_.layers));  // residual output projections
    norm(prefix + ".norm1");
    matrix(prefix + ".attention.qkv.weight", qkv(shape_.hidden), init_std_);
    vector(prefix + ".attention.qkv.bias", qkv(1), Initial::zero, false);
    matrix(prefix + ".attention.out.weight",
           columns_split(shape_.hidden, shape_.attention_columns(), shape_.tp, place_), output);
    vector(prefix + ".attention.out.bias", whole(shape_.hidden, 1), Initial::zero, true);
    norm(prefix + ".norm2");
    matrix(prefix + ".mlp.fc1.weight", rows_split(shape_.ffn, shape_.hidden, shape_.tp, place_), init_std_);
    vector(prefix + ".mlp.fc1.bias", rows_split(shape_.ffn, 1, shape_.tp, place_), Initial::zero, false);
    matrix(prefix + ".mlp.fc2.weight", columns_split(shape_.hidden, shape_.ffn, shape_.tp, place_), output);
    vector(prefix + ".mlp.fc2.bias", whole(shape_.hidden, 1), Initial::zero, true);
  }
  TensorLayout vocabulary() const {
    return rows_split(shape_.vocab, shape_.hidden, shape_.tp, place_, shape_.vocab_rows() * shape_.tp);
  }

  std::vector<ParameterTensor> tensors;

 private:
  const ModelShape& shape_;
  double init_std_;
  int place_;
};

// Buckets of one class are cut where they grow beyond the size; a tensor is never cut.
class BucketCutter {
 public:
  BucketCutter(const std::vector<ParameterTensor>& tensors, double bucket_bytes, int shards)
      : tensors_(tensors), limit_(std::int64_t(bucket_bytes / 4)), shards_(shards) {}

  void add(int tensor, bool alone) {
    const ParameterTensor& next = tensors_[tensor];
    const std::int64_t size = next.logical.layout.local_size();
    Bucket* bucket = nullptr;
    if (!alone)
      for (Bucket& open : buckets)
        if (open.decay == next.decay() && open.replicated == next.replicated && open.name.empty())
          bucket = &open;
    if (bucket && bucket->elements + size > limit_) close(*bucket), bucket = nullptr;
    if (!bucket) bucket = &buckets.emplace_back(Bucket{"", next.decay(), next.replicated, {}, {}, 0});
    bucket->tensors.push_back(tensor);
    bucket->offsets.push_back(bucket->elements);
    bucket->elements = round_up(bucket->elements + size, kTensorAlignment);
    if (alone) close(*bucket);
  }
  // In the order of their first tensors, which is the order in which the forward pass needs them.
  std::vector<Bucket> finish() {
    std::stable_sort(buckets.begin(), buckets.end(),
                     [](const Bucket& a, const Bucket& b) { return a.tensors.front() < b.tensors.front(); });
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      buckets[b].name = "bucket." + std::to_string(b);
      buckets[b].elements = round_up(buckets[b].elements, kTensorAlignment * shards_);
    }
    return std::move(buckets);
  }

 private:
  static void close(Bucket& bucket) { bucket.name = "closed"; }

  const std::vector<ParameterTensor>& tensors_;
  std::int64_t limit_;
  int shards_;
  std::vector<Bucket> buckets;
};

}  // namespace

int ParameterSet::find(const std::string& name) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].logical.name == name) return int(i);
  return -1;
}

std::int64_t ParameterSet::local_elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : tensors) sum += tensor.logical.layout.local_size();
  return sum;
}

std::int64_t ParameterSet::global_elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : tensors) sum += tensor.logical.layout.global_size();
  return sum;
}

std::int64_t matrix_weights(const ParameterSet& set, bool tied) {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : set.tensors) {
    const bool head = tied && tensor.logical.name == "embedding.token.weight";
    const bool looked_up = tensor.logical.name.starts_with("embedding.");
    if (tensor.decay() && (head || !looked_up)) sum += tensor.logical.layout.global_size();
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

std::vector<ParameterTensor> gpt2_tensors(const ModelShape& shape, double init_std, const Coordinate& at) {
  TensorList list(shape, init_std, at[int(Axis::tp)]);
  list.matrix("embedding.token.weight", list.vocabulary(), init_std);
  list.matrix("embedding.position.weight", list.whole(shape.sequence, shape.hidden), init_std, true);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) list.layer(layer);
  list.norm("norm");
  if (!shape.tied) list.matrix("head.weight", list.vocabulary(), init_std);
  return std::move(list.tensors);
}

ParameterSet make_parameter_set(std::vector<ParameterTensor> tensors, const ModelShape& shape,
                                double bucket_bytes, int shards) {
  ParameterSet set;
  set.tensors = std::move(tensors);
  set.shards = shards;
  BucketCutter cutter(set.tensors, bucket_bytes, shards);
  for (std::size_t i = 0; i < set.tensors.size(); ++i)
    cutter.add(int(i), shape.tied && set.tensors[i].logical.name == "embedding.token.weight");
  set.buckets = cutter.finish();
  return set;
}

ParameterSet parameter_set(const Parameters& parameters, const ProcessGrid& grid, const Coordinate& at) {
  const ModelShape shape = model_shape(parameters, grid);
  return make_parameter_set(gpt2_tensors(shape, parameters.model.init_std, at), shape,
                            parameters.parallel.bucket_mib * 1024 * 1024,
                            grid.group_size(Axis::dp | Axis::cp));
}

std::vector<ShardRange> shard_ranges(const ParameterSet& set, int shard) {
  std::vector<ShardRange> ranges;
  for (std::size_t b = 0; b < set.buckets.size(); ++b) {
    const Bucket& bucket = set.buckets[b];
    const std::int64_t begin = set.shard_elements(bucket) * shard, end = begin + set.shard_elements(bucket);
    for (std::size_t k = 0; k < bucket.tensors.size(); ++k) {
      const std::int64_t first = bucket.offsets[k];
      const std::int64_t last = first + set.tensors[bucket.tensors[k]].logical.layout.local_size();
      const std::int64_t from = std::max(first, begin), to = std::min(last, end);
      if (from < to) ranges.push_back({int(b), bucket.tensors[k], from - first, to - first, from - begin});
    }
  }
  return ranges;
}

}  // namespace octachoron
