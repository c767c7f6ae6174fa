#include "core/base/version.h"

#include "core/base/version_config.h"

namespace octachoron {
const char* version() {
  return OCTACHORON_VERSION;
}
const char* compiler() {
  return OCTACHORON_COMPILER;
}
}  // namespace octachoron
