#include "core/plugin/agree.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace octachoron {

namespace {

struct Vote {
  std::uint64_t identity = 0;  ///< hash
  std::int32_t failed = 0, status = 0;
};
using Line = std::array<char, 1024>;

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

template <class T>
std::vector<T> gather(const oct_host& host, const T& mine) {
  std::vector<T> all(host.size);
  if (host.allgather(host.user, &mine, all.data(), sizeof(T)) != OCT_OK)
    fail(ExitStatus::peer_failed,
         "the ranks cannot agree on the plugins (the exchange failed); look for the rank that failed, then "
         "resubmit");
  return all;
}

Line line(const std::string& text) {
  Line result{};
  std::memcpy(result.data(), text.data(), std::min(text.size(), result.size() - 1));
  return result;
}

}  // namespace

void agree(const oct_host& host, const std::string& failure, const std::string& identity, ExitStatus status) {
  const std::vector<Vote> votes =
      gather(host, Vote{fnv1a(identity), failure.empty() ? 0 : 1, std::int32_t(status)});
  const auto failed =
      std::find_if(votes.begin(), votes.end(), [](const Vote& vote) { return vote.failed != 0; });
  const auto other = std::find_if(votes.begin(), votes.end(),
                                  [&](const Vote& vote) { return vote.identity != votes.front().identity; });
  // All ranks hold the same votes, so all of them take part in the second exchange or none does.
  if (failed != votes.end()) {
    const std::vector<Line> lines = gather(host, line(failure));
    throw Error(ExitStatus(failed->status), lines[failed - votes.begin()].data());
  }
  if (other != votes.end()) {
    const std::vector<Line> lines = gather(host, line(identity));
    const auto rank = other - votes.begin();
    fail(ExitStatus::environment, "the ranks loaded different plugins (rank 0: ", lines[0].data(), "; rank ",
         rank, ": ", lines[rank].data(), "); install the same files on all nodes");
  }
}

std::string identity(const oct_plugin& plugin) {
  return text(name(oct_family(plugin.family)), " ", plugin.name, " ", plugin.version, ", built with ",
              plugin.build);
}

PluginLibrary load_together(const oct_host& host, oct_family family, const std::string& name_or_path,
                            const std::string& plugin_path) {
  std::optional<PluginLibrary> library;
  std::string failure;
  ExitStatus status = ExitStatus::environment;
  try {
    library.emplace(find_plugin(family, name_or_path, plugin_path), family);
  } catch (const Error& error) {
    failure = error.what();
    status = error.status();
  }
  agree(host, failure, library ? identity(library->info()) : "", status);
  return *library;
}

}  // namespace octachoron
