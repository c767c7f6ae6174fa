#include "core/checkpoint/inspect.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "core/checkpoint/folder.h"
#include "core/checkpoint/load.h"
#include "core/numerics/checksum.h"

namespace octachoron {
namespace {

std::string attributes(const CheckpointHeader& header) {
  return text("step ", header.step, ", samples ", header.samples, ", tokens ", header.tokens, ", skipped ",
              header.skipped, ", seed ", header.seed, ", run ", header.run_id);
}

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << value;
  return out.str();
}

struct Difference {
  std::int64_t elements = 0;
  double largest = 0;  // NaN where the values of a differing element cannot be subtracted
};

template <class T>
void compare(const std::vector<std::byte>& a, const std::vector<std::byte>& b, Difference& out) {
  const auto* x = reinterpret_cast<const T*>(a.data());
  const auto* y = reinterpret_cast<const T*>(b.data());
  for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
    if (bits_of(x[i]) == bits_of(y[i])) continue;
    ++out.elements;
    const double distance = std::abs(double(x[i]) - double(y[i]));
    if (!(distance <= out.largest)) out.largest = distance;
  }
}

Difference compare(const CheckpointFile& a, const StoredTensor& x, const CheckpointFile& b,
                   const StoredTensor& y) {
  Difference out;
  std::vector<std::byte> left, right;
  for (const Piece& block : blocks(x)) {
    left.resize(std::size_t(block.size() * size_of(x.stored)));
    right.resize(left.size());
    a.read_block(x, block, left.data());
    b.read_block(y, block, right.data());
    if (x.stored == OCT_F32) compare<float>(left, right, out);
    if (x.stored == OCT_U32) compare<std::uint32_t>(left, right, out);
    if (x.stored == OCT_U64) compare<std::uint64_t>(left, right, out);
  }
  return out;
}

// Attributes that differ, a line each.
std::string attribute_differences(const CheckpointHeader& a, const CheckpointHeader& b) {
  std::string out;
  const auto line = [&](const char* what, const auto& x, const auto& y) {
    if (x != y) out += text("attribute ", what, ": ", x, " and ", y, "\n");
  };
  line("step", a.step, b.step);
  line("samples", a.samples, b.samples);
  line("tokens", a.tokens, b.tokens);
  line("skipped", a.skipped, b.skipped);
  line("seed", a.seed, b.seed);
  line("run_id", a.run_id, b.run_id);
  if (a.parameters != b.parameters) out += "attribute parameters: differ\n";
  if (a.versions != b.versions) out += "attribute versions: differ\n";
  return out;
}

// The line on one tensor of the first file; empty if the second has the same.
std::string tensor_difference(const CheckpointFile& a, const StoredTensor& x, const CheckpointFile& b) {
  const StoredTensor* y = b.find(x.path);
  if (!y) return text(x.path, ": only in ", a.path(), "\n");
  if (x.stored != y->stored || x.layout != y->layout)
    return text(x.path, ": ", name(x.stored), " ", shape_text(x.layout), " and ", name(y->stored), " ",
                shape_text(y->layout), "\n");
  const Difference difference = compare(a, x, b, *y);
  if (difference.elements == 0) return "";
  return text(x.path, ": ", difference.elements, " of ", x.layout.global_size(), " elements differ, by ",
              difference.largest, " at most\n");
}

}  // namespace

Inspection list_checkpoints(const std::string& directory) {
  if (!std::filesystem::is_directory(directory))
    fail(ExitStatus::data, "'", directory,
         "' is not a folder of checkpoints (there is no such folder); check the path");
  Inspection out;
  for (const FolderEntry& entry : folder_entries(directory)) {
    std::error_code ignored;
    const auto bytes = std::filesystem::file_size(entry.path, ignored);
    if (entry.leftover) {
      out.text += text(entry.path, ": ", bytes, " bytes, what an interrupted save left; not used\n");
      continue;
    }
    try {
      out.text +=
          text(entry.path, ": ", bytes, " bytes, ", attributes(CheckpointFile(entry.path).header()), "\n");
    } catch (const Error& error) {
      out.text += text(entry.path, ": ", bytes, " bytes, not usable: ", error.what(), "\n");
    }
  }
  if (out.text.empty()) out.text = text("no checkpoints in '", directory, "'\n");
  return out;
}

Inspection show_checkpoint(const std::string& path) {
  const CheckpointFile file(path);
  Inspection out;
  out.text = text(path, ": ", attributes(file.header()), "\nversions: ", file.header().versions,
                  "\nparameters:\n", file.header().parameters, "\n");
  std::int64_t elements = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    out.text += text(tensor.path, " ", name(tensor.stored), " ", shape_text(tensor.layout), " checksum ",
                     hexadecimal(tensor.checksum), "\n");
    elements += tensor.layout.global_size();
  }
  out.text += text(file.tensors().size(), " datasets, ", elements, " elements\n");
  return out;
}

Inspection verify_checkpoint(const std::string& path) {
  Inspection out;
  const auto bad = [&](const std::string& line) {
    out.text += line + "\n";
    out.status = ExitStatus::data;
  };
  try {
    const CheckpointFile file(path);
    for (const StoredTensor& tensor : file.tensors()) try {
        file.verify(tensor);
      } catch (const Error& error) {
        bad(error.what());
      }
    if (out.status == ExitStatus::done)
      out.text = text(path, ": complete, ", file.tensors().size(), " datasets as written\n");
  } catch (const Error& error) {
    bad(error.what());
  }
  return out;
}

Inspection diff_checkpoints(const std::string& first, const std::string& second) {
  const CheckpointFile a(first), b(second);
  std::string lines;
  std::size_t same = 0;
  for (const StoredTensor& tensor : a.tensors()) {
    const std::string line = tensor_difference(a, tensor, b);
    same += line.empty();
    lines += line;
  }
  for (const StoredTensor& tensor : b.tensors())
    if (!a.find(tensor.path)) lines += text(tensor.path, ": only in ", b.path(), "\n");
  Inspection out;
  out.status = lines.empty() ? ExitStatus::done : ExitStatus::data;
  out.text = attribute_differences(a.header(), b.header()) + lines +
             text(same, " tensors are the same, bit by bit\n");
  return out;
}

}  // namespace octachoron
