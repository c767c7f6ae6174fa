#pragma once
#include "tests/gpu/raw_device.h"

namespace octachoron::gpu {

/// Times operations at the sizes of real models and prints one table: medians of 20, by the device's own
/// clock, with the rate that follows from the operations and bytes that the device states.
void print_timings(const Device& device);

}  // namespace octachoron::gpu
