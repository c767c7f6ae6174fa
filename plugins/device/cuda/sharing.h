#pragma once
/// Which rank has which GPU: a line a node, and one warning where ranks share a GPU. Pure.
#include <array>
#include <map>
#include <string>
#include <vector>

namespace octachoron::cuda {

/// Of a rank, as it travels to the others.
struct RankGpu {
  char node[64] = "", bus[32] = "";      ///< host name; address of the GPU on the node's bus
  std::array<unsigned char, 16> uuid{};  ///< zero: the rank has none
};

/// By node, in the order of their first ranks: "node a: rank 0 has GPU 0000:18:00.0, rank 1 has ...".
inline std::vector<std::string> gpus_by_node(const std::vector<RankGpu>& ranks) {
  std::vector<std::string> lines, nodes;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::size_t n = 0;
    while (n < nodes.size() && nodes[n] != ranks[rank].node) ++n;
    if (n == nodes.size())
      nodes.push_back(ranks[rank].node), lines.push_back("node " + nodes[n] + ": ");
    else
      lines[n] += ", ";
    lines[n] += "rank " + std::to_string(rank) + " has GPU " + ranks[rank].bus;
  }
  return lines;
}

/// A sentence that names the ranks and their GPUs; empty if each rank has its own.
inline std::string sharing_warning(const std::vector<RankGpu>& ranks) {
  std::map<std::array<unsigned char, 16>, std::vector<std::size_t>> holders;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) holders[ranks[rank].uuid].push_back(rank);
  std::string shared;
  for (const auto& [uuid, those] : holders) {
    if (those.size() < 2) continue;
    shared += shared.empty() ? "ranks " : "; ranks ";
    for (const std::size_t rank : those) shared += (rank == those.front() ? "" : ", ") + std::to_string(rank);
    shared += " have " + std::string(ranks[those.front()].bus) + " of " + ranks[those.front()].node;
  }
  if (shared.empty()) return "";
  return "ranks share a GPU (" + shared +
         ", so they take turns on it and share its memory); start one rank for each GPU";
}

}  // namespace octachoron::cuda
