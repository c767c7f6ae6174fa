#pragma once
/// The parameters of a model on one rank: names, layouts, and the buckets in which they are gathered, reduced and updated.
#include <string>
#include <vector>

#include "core/model/quantization_plan.h"
#include "core/model/shape.h"
#include "core/numerics/tensor_layout.h"

namespace octachoron {

enum class Initial { zero, one, normal };

/// A logical tensor's part on this rank, or, where its rows are treated differently, whole rows of it: the keys and values
/// that neighbouring TP ranks share are a part of their own.
struct ParameterTensor {
  LogicalTensor logical;
  std::string key;                      ///< the logical name; of several parts with ".query" or ".key_value" behind it
  std::int64_t flat_begin = 0, size = 0;  ///< this part in the local flat tensor of `logical`
  Initial initial = Initial::normal;
  double deviation = 0;     ///< of Initial::normal
  bool replicated = false;  ///< over tp: every TP rank holds all of it
  int sharers = 1;          ///< neighbouring TP ranks that hold the same rows and each have a part of their gradient
  bool plain = true;        ///< read in the storage type of weights
  DType cast = OCT_DTYPES;  ///< read in this FP8 format too; OCT_DTYPES: not
  int row = -1;             ///< of the cast, in the quantisation plan
  int counter_row = -1;

  bool quantized() const { return row >= 0; }
  bool decay() const { return !logical.layout.vector; }  ///< weight decay on 2-D tensors only (contract 1.13)
};

/// Whole tensors one after another, padded at the end so that it splits into equal shards over DP x CP. All tensors of a
/// bucket agree on decay, on who holds copies and on the types they are read in, so gathering, reducing and updating it are
/// one operation each.
struct Bucket {
  std::string name;
  bool decay = false, replicated = false;
  int sharers = 1;
  bool plain = true;
  DType cast = OCT_DTYPES;
  std::vector<int> tensors;
  std::vector<std::int64_t> offsets;  ///< elements, of each tensor
  std::int64_t elements = 0;          ///< with padding
};

struct ParameterSet {
  std::vector<ParameterTensor> tensors;  ///< in the order the forward pass uses them
  std::vector<Bucket> buckets;
  int shards = 1;  ///< DP x CP: each rank owns one shard of each bucket

  std::int64_t shard_elements(const Bucket& bucket) const { return bucket.elements / shards; }
  int find(const std::string& key) const;   ///< index of the part; -1 if there is none
  std::int64_t local_elements() const;      ///< without padding
  std::int64_t global_elements() const;     ///< each logical parameter once
};

/// Elements of the matrices that tokens are multiplied with: the head once, no embedding look-ups.
std::int64_t matrix_weights(const ParameterSet& set, bool tied);

/// Where a part lies.
struct BucketPlace {
  int bucket = 0;
  std::int64_t offset = 0;  ///< elements
};
std::vector<BucketPlace> places(const ParameterSet& set);

/// Cuts the tensors into buckets of about `bucket_bytes` (of FP32). A tied token table is a bucket of its own.
ParameterSet make_parameter_set(std::vector<ParameterTensor> tensors, const ModelShape& shape, double bucket_bytes,
                                int shards);

/// For the whole configuration; the layout of the shards needs no more than dp and cp.
ParameterSet parameter_set(const Parameters& parameters, const ProcessGrid& grid, const Coordinate& at,
                           const QuantizationPlan& plan);

/// What shard `shard` of each bucket holds: ranges of the local flat elements of logical tensors.
struct ShardRange {
  int bucket = 0, tensor = 0;
  std::int64_t flat_begin = 0, flat_end = 0;
  std::int64_t shard_offset = 0;  ///< elements, of flat_begin
};
std::vector<ShardRange> shard_ranges(const ParameterSet& set, int shard);

}  // namespace octachoron
