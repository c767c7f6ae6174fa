#pragma once
namespace octachoron {
const char* version();   ///< "0.1.0"
const char* compiler();  ///< "GNU 12.2.0"
}  // namespace octachoron
