#pragma once
/// Writes token files in HDF5 (contract, section 4).
#include <cstdint>
#include <string>
#include <vector>

#include "core/storage/hdf5_handle.h"

namespace octachoron {

/// A file beside its final name, which goes away again unless it is kept. All throw Error(data) where the
/// file cannot be written.
class TokenFileWriter {
 public:
  /// \param id_bytes of an id in the file: 1, 2 or 4 \param tokens how many will be appended
  TokenFileWriter(const std::string& path, std::int64_t tokens, int id_bytes);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  const std::string& temporary() const { return temporary_; }
  void append(const std::uint32_t* ids, std::int64_t count);
  /// Writes the rest, closes and syncs. \param documents positions of their first tokens, ascending
  void finish(const std::vector<std::uint64_t>& documents, std::int64_t vocab);
  /// Gives the finished file its final name.
  void keep();

 private:
  template <class Action>
  void guarded(Action&& action) const;

  std::string path_, temporary_;
  std::int64_t tokens_, done_ = 0;
  bool kept_ = false;
  Hdf5Handle file_, ids_;
};

}  // namespace octachoron
