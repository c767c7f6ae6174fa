# Sources to compile into a device plugin, or into a test of one.
set(device_common_sources signature.cpp check.cpp check_scaling.cpp cost.cpp)
list(TRANSFORM device_common_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
