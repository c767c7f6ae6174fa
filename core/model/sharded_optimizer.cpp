#include "core/model/sharded_optimizer.h"

namespace octachoron {

namespace {

const AxisSet kShardAxes = Axis::dp | Axis::cp;

std::string tensor_name(const ParameterSet& set, int b, const char* what) {
  return set.buckets[b].name + "." + what;
}

}  // namespace

void ShardedOptimizer::gather_weights() const {
  for (int b = 0; b < int(parameters_.set().buckets.size()); ++b) {
    const BucketBuffers& buffers = parameters_.buckets()[b];
    if (!buffers.cast.absent()) gather_cast(b);
    if (!buffers.weight.absent() && buffers.weight.buffer != buffers.master.buffer) gather_plain(b);
  }
}

void ShardedOptimizer::gather_plain(int b) const {
  const ParameterSet& set = parameters_.set();
  const BucketBuffers& buffers = parameters_.buckets()[b];
  View shard = buffers.master;
  if (set.shards == 1) return emit_copy(builder_, tensor_name(set, b, "cast"), shard, buffers.weight, "dp");
  if (buffers.weight.dtype != shard.dtype) {
    const View cast = builder_.temporary(tensor_name(set, b, "weight_shard"), buffers.weight.dtype, 1,
                                         shard.columns, MemoryClass::weight);
    emit_copy(builder_, tensor_name(set, b, "cast"), shard, cast, "dp");
    shard = cast;
  }
  builder_.collective(OCT_ALL_GATHER, {kShardAxes, "weight"}, builder_.lane("dp"),
                      tensor_name(set, b, "weight"), shard, buffers.weight);
}

// From the masters themselves, once a step; what travels is one byte an element.
void ShardedOptimizer::gather_cast(int b) const {
  const ParameterSet& set = parameters_.set();
  const BucketBuffers& buffers = parameters_.buckets()[b];
  View shard = buffers.cast;
  if (set.shards > 1)
    shard = builder_.temporary(tensor_name(set, b, "cast_shard"), shard.dtype, 1, buffers.master.columns, MemoryClass::weight);
  emit_fill(builder_, tensor_name(set, b, "cast"), shard, 0);  // padding
  for_each_tensor(b, [&](const ParameterTensor& tensor, const Window& window) {
    quantizer_.cast_weight(tensor.row, tensor.counter_row, buffers.master, shard, window);
  });
  if (set.shards > 1)
    builder_.collective(OCT_ALL_GATHER, {kShardAxes, "weight"}, builder_.lane("dp"), tensor_name(set, b, "cast"), shard,
                        buffers.cast);
}

void ShardedOptimizer::for_each_tensor(int b,
                                       const std::function<void(const ParameterTensor&, const Window&)>& function) const {
  const ParameterSet& set = parameters_.set();
  const Bucket& bucket = set.buckets[b];
  const std::int64_t shard = set.shard_elements(bucket);
  Window window;  // shards lie by place in the group of cp and dp, cp first
  window.first.stride[int(Axis::cp)] = shard;
  window.first.stride[int(Axis::dp)] = shard * builder_.grid()[Axis::cp];
  for (std::size_t k = 0; k < bucket.tensors.size(); ++k) {
    const ParameterTensor& tensor = set.tensors[bucket.tensors[k]];
    window.begin = bucket.offsets[k], window.end = bucket.offsets[k] + tensor.size;
    function(tensor, window);
  }
}

void ShardedOptimizer::clear_padding() const {
  const ParameterSet& set = parameters_.set();
  for (int b = 0; b < int(set.buckets.size()); ++b) {
    const Bucket& bucket = set.buckets[b];
    for (std::size_t k = 0; k < bucket.tensors.size(); ++k) {
      const std::int64_t end = bucket.offsets[k] + set.tensors[bucket.tensors[k]].size;
      const std::int64_t next = k + 1 < bucket.tensors.size() ? bucket.offsets[k + 1] : bucket.elements;
      if (next == end) continue;
      emit_fill(builder_, tensor_name(set, b, "gradient.padding"),
                parameters_.buckets()[b].gradient.column_range(end, next - end), 0);
    }
  }
}

void ShardedOptimizer::reduce_gradients(bool tp_partial) const {
  const ParameterSet& set = parameters_.set();
  for (int b = int(set.buckets.size()) - 1; b >= 0;
       --b) {  // the backward pass completes the last bucket first
    const BucketBuffers& buffers = parameters_.buckets()[b];
    const std::string label = tensor_name(set, b, "gradient");
    if (set.shards > 1)
      builder_.collective(OCT_REDUCE_SCATTER, {kShardAxes, "gradient"}, builder_.lane("dp"), label,
                          buffers.gradient, buffers.gradient_shard);
    if (tp_partial && set.buckets[b].replicated)
      builder_.all_reduce({Axis::tp, "gradient"}, builder_.lane("dp"), label + ".tp", buffers.gradient_shard);
    if (const int sharers = set.buckets[b].sharers; sharers > 1)
      builder_.all_reduce({.axes = Axis::tp, .purpose = "shared gradient", .block = sharers}, builder_.lane("dp"),
                          label + ".shared", buffers.gradient_shard);
  }
}

void ShardedOptimizer::agree_control(bool with_norm) const {
  const int lane = builder_.lane("control");
  const View& control = buffers_.control;
  builder_.all_reduce({kShardAxes, "control"}, lane, "control",
                      with_norm ? control.column_range(0, 3) : control.column_range(2, 1));
  if (with_norm)
    builder_.all_reduce({Axis::tp, "control"}, lane, "control.split", control.column_range(0, 1));
}

void ShardedOptimizer::agree(double clip) const {
  const ParameterSet& set = parameters_.set();
  for (int b = 0; b < int(set.buckets.size()); ++b)
    emit_sum_of_squares(builder_, tensor_name(set, b, "gradient.squares"),
                        parameters_.buckets()[b].gradient_shard,
                        buffers_.control.column_range(set.buckets[b].replicated ? 1 : 0, 1),
                        1.0 / set.buckets[b].sharers);
  agree_control(true);
  emit_clip(builder_, buffers_.control, buffers_.scalars, buffers_.result, clip);
}

void ShardedOptimizer::update(const OptimizerParameters& optimizer) const {
  const ParameterSet& set = parameters_.set();
  for (int b = 0; b < int(set.buckets.size()); ++b) {
    const BucketBuffers& buffers = parameters_.buckets()[b];
    emit_adamw(builder_, tensor_name(set, b, "adamw"),
               {buffers.gradient_shard, buffers_.scalars, buffers_.result, buffers.master, buffers.exp_avg,
                buffers.exp_avg_sq, optimizer.beta1, optimizer.beta2, optimizer.epsilon,
                set.buckets[b].decay ? optimizer.weight_decay : 0.0});
    if (buffers.cast.absent()) continue;
    for_each_tensor(b, [&](const ParameterTensor& tensor, const Window& window) {
      quantizer_.record_weight(tensor.row, buffers.master, window);
    });
  }
}

}  // namespace octachoron
