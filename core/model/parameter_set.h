#pragma once
/// The parameters of a model on one rank: names, layouts, and the buckets in which they are gathered, reduced
/// and updated.
#include <string>
#include <vector>

#include "core/model/shape.h"
#include "core/numerics/tensor_layout.h"

namespace octachoron {

enum class Initial { zero, one, normal };

struct ParameterTensor {
  LogicalTensor logical;
  Initial initial = Initial::normal;
  double deviation = 0;                                  ///< of Initial::normal
  bool replicated = false;                               ///< over tp: every TP rank holds all of it
  bool decay() const { return !logical.layout.vector; }  ///< weight decay on 2-D tensors only (contract 1.13)
};

/// Whole tensors one after another, padded at the end so that it splits into equal shards over DP x CP. All
/// tensors of a bucket agree on decay and on being replicated, so gathering, reducing and updating it are one
/// operation each.
struct Bucket {
  std::string name;
  bool decay = false, replicated = false;
  std::vector<int> tensors;
  std::vector<std::int64_t> offsets;  ///< elements, of each tensor
  std::int64_t elements = 0;          ///< with padding
};

struct ParameterSet {
  std::vector<ParameterTensor> tensors;  ///< in the order the forward pass uses them
  std::vector<Bucket> buckets;
  int shards = 1;  ///< DP x CP: each rank owns one shard of each bucket

  std::int64_t shard_elements(const Bucket& bucket) const { return bucket.elements / shards; }
  int find(const std::string& name) const;  ///< index of the tensor; -1 if there is none
  std::int64_t local_elements() const;      ///< without padding
  std::int64_t global_elements() const;     ///< each logical parameter once
};

/// Elements of the matrices that tokens are multiplied with: the head once, no embedding look-ups.
std::int64_t matrix_weights(const ParameterSet& set, bool tied);

/// Where a tensor lies.
struct BucketPlace {
  int bucket = 0;
  std::int64_t offset = 0;  ///< elements
};
std::vector<BucketPlace> places(const ParameterSet& set);

/// Tensors of the model as contract section 4 names them, for the rank at `at`.
std::vector<ParameterTensor> gpt2_tensors(const ModelShape& shape, double init_std, const Coordinate& at);

/// Cuts the tensors into buckets of about `bucket_bytes` (of FP32). A tied token table is a bucket of its
/// own.
ParameterSet make_parameter_set(std::vector<ParameterTensor> tensors, const ModelShape& shape,
                                double bucket_bytes, int shards);

/// For the whole configuration; the layout of the shards needs no more than dp and cp.
ParameterSet parameter_set(const Parameters& parameters, const ProcessGrid& grid, const Coordinate& at);

/// The parts of tensors in shard `shard` of each bucket: (tensor, range of its local flat elements, offset in
/// the shard).
struct ShardRange {
  int bucket = 0, tensor = 0;
  std::int64_t flat_begin = 0, flat_end = 0;
  std::int64_t shard_offset = 0;  ///< elements, of flat_begin
};
std::vector<ShardRange> shard_ranges(const ParameterSet& set, int shard);

}  // namespace octachoron
