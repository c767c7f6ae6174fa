#include "app/launcher.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

namespace octachoron {

std::optional<Launcher> launcher() {
  for (const auto& [size, rank] :
       {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, std::pair{"PMI_SIZE", "PMI_RANK"},
        std::pair{"SLURM_NTASKS", "SLURM_PROCID"}}) {
    const char *size_text = std::getenv(size), *rank_text = std::getenv(rank);
    if (size_text && (rank_text || std::string(size) != "SLURM_NTASKS"))
      return Launcher{size, std::atoi(size_text), rank_text ? std::atoi(rank_text) : 0};
  }
  return std::nullopt;
}

void let_first_rank_speak() {
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace octachoron
