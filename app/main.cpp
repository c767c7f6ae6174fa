#include <cstdio>

#include "core/base/version.h"

int main() { std::printf("octachoron %s\n", octachoron::version()); }
