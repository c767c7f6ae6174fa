#pragma once
#include <optional>

namespace octachoron {

/// What a launcher says in the environment, before or without MPI.
struct Launcher {
  const char* size_variable;
  int size, rank;
};

/// The innermost one: an mpirun inside an allocation knows better than the allocation's variables, and a program that is
/// started in an allocation without srun is none of its tasks.
std::optional<Launcher> launcher();

/// For a rank that ends in silence with an error that the first rank tells: launchers end all ranks as soon as one
/// fails, and it must not be the one that speaks. Takes a second.
void let_first_rank_speak();

}  // namespace octachoron
