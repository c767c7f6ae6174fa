# The third-party packages of core and app. Plugins find their own.
add_compile_definitions(OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
find_package(MPI 3.1 REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 is built without MPI (${HDF5_C_LIBRARIES}); install the parallel build, on Debian libhdf5-openmpi-dev or, with MPICH, libhdf5-mpich-dev")
endif()
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW) # CMake 3.30 has no FindBoost; Boost brings its own file
endif()
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(Threads REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
