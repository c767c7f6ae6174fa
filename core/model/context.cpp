#include "core/model/context.h"

namespace octachoron {

namespace {
const Peers kTensorParallel{Axis::tp, "activation"};
}

View ModelContext::gather(const std::string& label, const View& local) const {
  if (!shape.sequence_parallel) return local;
  return builder.all_gather(kTensorParallel, builder.lane("tp"), label, local);
}

View ModelContext::reduce(const std::string& label, const View& partial) const {
  if (shape.sequence_parallel)
    return builder.reduce_scatter(kTensorParallel, builder.lane("tp"), label, partial);
  builder.all_reduce(kTensorParallel, builder.lane("tp"), label, partial);
  return partial;
}

}  // namespace octachoron
