#pragma once
/// The buffers of the parameters in a program: sharded masters and moments that persist, and, made anew in
/// each step, compute weights and gradients of whole buckets.
#include <string>
#include <vector>

#include "core/model/parameter_set.h"
#include "core/program/builder.h"

namespace octachoron {

struct BucketBuffers {
  View master, exp_avg, exp_avg_sq;  ///< [1, shard]
  View weight;          ///< [1, elements]; the master itself where nothing is gathered or converted; absent where no
                        ///< product or look-up reads it
  View cast;            ///< [1, elements] in FP8; absent where no product reads that
  View gradient;        ///< [1, elements]
  View gradient_shard;  ///< [1, shard]; the gradient itself where nothing is reduced
};

class ParameterBuffers {
 public:
  /// Declares the persistent buffers first, so that all programs of a run agree on their places.
  /// \param training with gradients
  ParameterBuffers(ProgramBuilder& builder, const ParameterSet& set, bool training);

  const ParameterSet& set() const { return set_; }
  const std::vector<BucketBuffers>& buckets() const { return buckets_; }
  bool has(const std::string& key) const { return set_.find(key) >= 0; }
  View weight(const std::string& key) const { return tensor(key, &BucketBuffers::weight); }
  View quantized_weight(const std::string& key) const { return tensor(key, &BucketBuffers::cast); }
  View gradient(const std::string& key) const { return tensor(key, &BucketBuffers::gradient); }
  std::int64_t rows(const std::string& key) const { return tensor(key, &BucketBuffers::master).rows; }
  /// Keys of the parts of a tensor, in the order of their rows: itself, or query and key_value.
  std::vector<std::string> parts(const std::string& name) const;
  /// Names of the persistent buffers of bucket `b`.
  static std::string master_name(int b);
  static std::string exp_avg_name(int b);
  static std::string exp_avg_sq_name(int b);
  static std::string gradient_shard_name(const ParameterSet& set, int b);

 private:
  View tensor(const std::string& key, View BucketBuffers::*part) const;

  const ParameterSet& set_;
  std::vector<BucketPlace> places_;
  std::vector<BucketBuffers> buckets_;
};

}  // namespace octachoron
