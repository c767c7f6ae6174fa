#pragma once
/// Token files in HDF5 (contract, section 4): `/tokens` u8, u16 or u32; optional `/document_offsets` u64 and
/// `/loss_mask` u8; attribute `vocab_size`.
#include "core/data/token_file.h"
#include "core/storage/hdf5_handle.h"

namespace octachoron {

/// To be used by the thread that makes all HDF5 calls of the process.
class Hdf5TokenFile : public TokenFile {
 public:
  /// \throws Error(data) with what is damaged, missing, or of another type or length
  explicit Hdf5TokenFile(const std::string& path);
  ~Hdf5TokenFile() override;

  std::string kind() const override;
  void read(std::int64_t first, std::int64_t count, std::uint32_t* ids) const override;
  void read_mask(std::int64_t first, std::int64_t count, std::uint8_t* counts) const override;
  std::int64_t documents() const override;

 private:
  void read_vocab();
  template <class Action>
  void guarded(Action&& action) const;

  Hdf5Handle file_, ids_, mask_, offsets_;
  std::int64_t offsets_count_ = 0;
};

}  // namespace octachoron
