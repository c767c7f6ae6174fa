#include "app/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace octachoron {

namespace {

std::atomic<int> signal_number{0};  // a handler can reach nothing but static storage

void ask_for_stop(int number) {
  signal_number.store(number, std::memory_order_relaxed);
  if (number == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = ask_for_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
}

void report_full_disks() {
  std::signal(SIGXFSZ, SIG_IGN);
}

const std::atomic<int>& stop_signal() {
  return signal_number;
}

}  // namespace octachoron
