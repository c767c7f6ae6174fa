#include "core/model/parameter_buffers.h"

#include "core/base/error.h"

namespace octachoron {

namespace {
std::string of_bucket(int b, const char* what) {
  return text("bucket.", b, ".", what);
}
}  // namespace

std::string ParameterBuffers::master_name(int b) {
  return of_bucket(b, "master");
}
std::string ParameterBuffers::exp_avg_name(int b) {
  return of_bucket(b, "exp_avg");
}
std::string ParameterBuffers::exp_avg_sq_name(int b) {
  return of_bucket(b, "exp_avg_sq");
}
std::string ParameterBuffers::gradient_shard_name(const ParameterSet& set, int b) {
  return of_bucket(b, set.shards > 1 ? "gradient_shard" : "gradient");
}

ParameterBuffers::ParameterBuffers(ProgramBuilder& builder, const ParameterSet& set, bool training)
    : set_(set), places_(places(set)), buckets_(set.buckets.size()) {
  const DType master = builder.type(OCT_STORAGE_MASTER), weight = builder.type(OCT_STORAGE_WEIGHT);
  const DType gradient = builder.type(OCT_STORAGE_GRADIENT);
  const auto each = [&](auto function) {
    for (int b = 0; b < int(buckets_.size()); ++b)
      function(b, buckets_[b], set.shard_elements(set.buckets[b]));
  };
  const auto persistent = [&](const std::string& name, std::int64_t shard, MemoryClass memory) {
    const View view = builder.matrix(name, master, 1, shard, memory, Scope::step);
    builder.set_persistent(view);
    return view;
  };
  each([&](int b, BucketBuffers& buffers, std::int64_t shard) {
    buffers.master = persistent(master_name(b), shard, MemoryClass::master);
  });
  each([&](int b, BucketBuffers& buffers, std::int64_t shard) {
    buffers.exp_avg = persistent(exp_avg_name(b), shard, MemoryClass::moment);
    buffers.exp_avg_sq = persistent(exp_avg_sq_name(b), shard, MemoryClass::moment);
  });
  each([&](int b, BucketBuffers& buffers, std::int64_t shard) {
    const std::int64_t elements = set.buckets[b].elements;
    const auto made = [&](const char* what, DType type) {
      return builder.matrix(of_bucket(b, what), type, 1, elements, MemoryClass::weight, Scope::step);
    };
    const bool is_master = set.shards == 1 && weight == master;
    if (set.buckets[b].plain) buffers.weight = is_master ? buffers.master : made("weight", weight);
    if (set.buckets[b].cast != OCT_DTYPES) buffers.cast = made("cast", set.buckets[b].cast);
    if (!training) return;
    buffers.gradient =
        builder.matrix(of_bucket(b, "gradient"), gradient, 1, elements, MemoryClass::gradient, Scope::step);
    buffers.gradient_shard = buffers.gradient;
    if (set.shards > 1)
      buffers.gradient_shard = builder.matrix(of_bucket(b, "gradient_shard"), gradient, 1, shard,
                                              MemoryClass::gradient, Scope::step);
    builder.set_kept(buffers.gradient_shard);
  });
}

std::vector<std::string> ParameterBuffers::parts(const std::string& name) const {
  if (has(name)) return {name};
  return {name + ".query", name + ".key_value"};
}

View ParameterBuffers::tensor(const std::string& key, View BucketBuffers::*part) const {
  const int index = set_.find(key);
  ensure(index >= 0, "the model has no parameter '", key, "'");
  const BucketPlace place = places_[index];
  const ParameterTensor& tensor = set_.tensors[index];
  const TensorLayout& layout = tensor.logical.layout;
  View view = buckets_[place.bucket].*part;
  if (view.absent()) return view;
  view.offset += place.offset * size_of(view.dtype);
  // 1-D tensors are one row, whatever way the layout writes them.
  view.rows = layout.vector ? 1 : tensor.size / layout.local_columns;
  view.columns = view.pitch = layout.vector ? tensor.size : layout.local_columns;
  return view;
}

}  // namespace octachoron
