#pragma once
/// A folder of files for one test; goes when it ends.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "core/base/error.h"

namespace octachoron {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "octachoron-data-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::string path_;
};

/// Bytes 0, 1, 2, ... of the given length.
inline std::string counting(int length) {
  std::string bytes;
  for (int i = 0; i < length; ++i) bytes.push_back(char(i));
  return bytes;
}

/// Runs `action`, which must fail with the status, and returns its sentence.
inline std::string refusal(ExitStatus status, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.status()), int(status)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

}  // namespace octachoron
