#pragma once
/// The table of a comm plugin that is written as a class. Its errors are exceptions, see guard().
#include <cstdio>
#include <string>

#include "core/plugin/export.h"

namespace octachoron::comm {

inline void write_line(const std::string& line, char* text, size_t bytes) {
  if (text != nullptr && bytes > 0) std::snprintf(text, bytes, "%s", line.c_str());
}

/// T(const oct_comm_host&); static void destroy(T*); int create_group(ranks, n, purpose); void check(message)
/// const; void enqueue(message, send, receive, lane); void exchange_begin(lane); void exchange_end(lane);
/// void counters(group, reset, out); std::string error(): empty while all is well; void abort();
/// std::string describe_pending(); constants kDevice, kCapturable, kConcurrent. No message needs workspace.
template <class T>
struct Table {
  static T& self(oct_comm* comm) { return *reinterpret_cast<T*>(comm); }

  static oct_status create(const oct_comm_host* host, oct_comm** out) {
    return plugin::guard([&] { *out = reinterpret_cast<oct_comm*>(new T(*host)); });
  }
  static void destroy(oct_comm* comm) { T::destroy(reinterpret_cast<T*>(comm)); }
  static oct_status group_create(oct_comm* comm, const int32_t* ranks, int32_t n, const char* purpose,
                                 int32_t* group) {
    return plugin::guard([&] { *group = self(comm).create_group(ranks, n, purpose); });
  }
  static oct_status query(oct_comm* comm, const oct_message* message, int64_t* workspace) {
    return plugin::guard([&] {
      self(comm).check(*message);
      *workspace = 0;
    });
  }
  static oct_status enqueue(oct_comm* comm, const oct_message* message, const void* send, void* receive,
                            void*, oct_lane* lane) {
    return plugin::guard([&] { self(comm).enqueue(*message, send, receive, lane); });
  }
  static oct_status exchange_begin(oct_comm* comm, oct_lane* lane) {
    return plugin::guard([&] { self(comm).exchange_begin(lane); });
  }
  static oct_status exchange_end(oct_comm* comm, oct_lane* lane) {
    return plugin::guard([&] { self(comm).exchange_end(lane); });
  }
  static int32_t is_capturable(oct_comm*) { return T::kCapturable ? 1 : 0; }
  static int32_t is_concurrent(oct_comm*) { return T::kConcurrent ? 1 : 0; }
  static oct_status counters(oct_comm* comm, int32_t group, int32_t reset, oct_comm_counters* out) {
    return plugin::guard([&] { self(comm).counters(group, reset != 0, *out); });
  }
  static oct_status poll_error(oct_comm* comm, char* text, size_t bytes) {
    return plugin::guard([&] {
      const std::string error = self(comm).error();
      if (error.empty()) return;
      write_line(error, text, bytes);
      throw plugin::Failure(OCT_COMM_ERROR, error);
    });
  }
  static void abort(oct_comm* comm) { self(comm).abort(); }
  static void describe_pending(oct_comm* comm, char* text, size_t bytes) {
    write_line(self(comm).describe_pending(), text, bytes);
  }
};

template <class T>
inline constexpr oct_comm_table table = {.struct_size = sizeof(oct_comm_table),
                                         .device = T::kDevice,
                                         .create = Table<T>::create,
                                         .destroy = Table<T>::destroy,
                                         .group_create = Table<T>::group_create,
                                         .query = Table<T>::query,
                                         .enqueue = Table<T>::enqueue,
                                         .exchange_begin = Table<T>::exchange_begin,
                                         .exchange_end = Table<T>::exchange_end,
                                         .register_buffer = nullptr,
                                         .is_capturable = Table<T>::is_capturable,
                                         .is_concurrent = Table<T>::is_concurrent,
                                         .counters = Table<T>::counters,
                                         .poll_error = Table<T>::poll_error,
                                         .abort = Table<T>::abort,
                                         .describe_pending = Table<T>::describe_pending};

}  // namespace octachoron::comm
