#pragma once
/// What every layer needs while it emits.
#include <string>

#include "core/model/parameter_buffers.h"
#include "core/model/quantizer.h"
#include "core/model/shape.h"

namespace octachoron {

struct ModelContext {
  ProgramBuilder& builder;
  const ModelShape& shape;
  const ParameterBuffers& parameters;
  const Quantizer& quantizer;

  View activation(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    return builder.temporary(name, builder.type(OCT_STORAGE_ACTIVATION), rows, columns);
  }
  View statistic(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    return builder.temporary(name, builder.type(OCT_STORAGE_STATISTIC), rows, columns);
  }

  /// Rows of all TP ranks: [local_tokens, C] -> [tokens, C]. Without sequence parallelism they are here
  /// already.
  View gather(const std::string& label, const View& local) const;
  /// Sum over TP: [tokens, C] -> [local_tokens, C].
  View reduce(const std::string& label, const View& partial) const;
};

}  // namespace octachoron
