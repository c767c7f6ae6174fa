#pragma once
#include <atomic>

namespace octachoron {

/// Installs handlers of SIGUSR1, SIGUSR2, SIGTERM and the first SIGINT that ask for a stop at the next step
/// boundary. A second SIGINT ends the process. A write beyond the limit on file sizes fails and does not
/// kill. To be called first thing in main: an early signal must not kill the rank.
void catch_stop_signals();

/// A limit on file sizes fails the write, which is reported, and not the process.
void report_full_disks();

/// Number of the signal that asked for a stop; 0: none yet.
const std::atomic<int>& stop_signal();

}  // namespace octachoron
