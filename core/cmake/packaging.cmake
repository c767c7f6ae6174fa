# Install rules and the CMake package that out-of-tree plugins are built against.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/octachoron)
install(TARGETS octachoron RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_BINARY_DIR}/lib/octachoron/ DESTINATION lib/octachoron FILES_MATCHING PATTERN "*.so")
install(TARGETS octachoron_plugin_abi EXPORT octachoronTargets FILE_SET HEADERS)
install(EXPORT octachoronTargets NAMESPACE octachoron:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/core/cmake/octachoronConfig.cmake.in octachoronConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(octachoronConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/octachoronConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/octachoronConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/core/cmake/octachoron_add_plugin.cmake ${PROJECT_SOURCE_DIR}/core/cmake/plugin.map
  DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/inputs ${PROJECT_SOURCE_DIR}/jobscripts
  DESTINATION ${CMAKE_INSTALL_DATADIR}/octachoron USE_SOURCE_PERMISSIONS
  PATTERN demo.sh EXCLUDE PATTERN install-dependencies.sh EXCLUDE) # those two work in the source tree
