/// Writes core/docs/parameters.md from the parameter table: octachoron_write_parameter_docs FILE
#include <cstdio>
#include <fstream>

#include "core/config/parameter_file.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  std::ofstream file(argv[1]);
  file << octachoron::parameter_documentation() << std::flush;
  return file ? 0 : 1;
}
