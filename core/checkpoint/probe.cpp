#include <unistd.h>

#include <filesystem>
#include <memory>

#include "core/checkpoint/agreement.h"
#include "core/storage/durable_file.h"
#include "core/checkpoint/save.h"

namespace octachoron {
namespace {

// Makes a folder and its parents, and takes away those that were not there before.
class PassingFolder {
 public:
  explicit PassingFolder(const std::string& folder) {
    std::error_code ignored;
    for (std::filesystem::path at = folder; !at.empty() && !std::filesystem::exists(at, ignored);
         at = at.parent_path())
      made_.push_back(at.string());
    try {
      make_folder(folder);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~PassingFolder() { remove(); }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;

 private:
  void remove() const {
    for (const std::string& folder : made_) ::rmdir(folder.c_str());  // one that somebody uses stays
  }

  std::vector<std::string> made_;  // the innermost first
};

}  // namespace

void probe_directory(MPI_Comm comm, const std::string& directory) {
  const int rank = rank_of(comm);
  std::string folder = directory;
  broadcast(comm, folder);
  std::unique_ptr<PassingFolder> passing;  // stays until all ranks are done
  try {
    together(comm, [&] {
      if (rank == 0) passing = std::make_unique<PassingFolder>(folder);
    });
    together(comm, [&] {
      const std::string file = text(folder, "/.probe-", rank, ".tmp");
      make_file(file, 4096);
      ::unlink(file.c_str());
    });
  } catch (const Error& error) {
    fail(ExitStatus::data, "the folder '", folder, "' cannot be written to (", error.what(),
         "); make it writable on all nodes or choose another");
  }
}

}  // namespace octachoron
