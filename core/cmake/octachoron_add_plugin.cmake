# octachoron_add_plugin(<family> <name> SOURCES ... [LINK ...] [DEFINES ...])
# A module lib/octachoron/<family>-<name>.so that exports octachoron_plugin and nothing else.
function(octachoron_add_plugin family name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEFINES" ${ARGN})
  set(target octachoron_plugin_${family}_${name})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE octachoron::plugin_abi ${ARG_LINK})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${family}-${name}
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/octachoron)
  # -fno-gnu-unique: template statics of the standard library would be exported otherwise.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-gnu-unique>)
  target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL
    LINKER:--version-script=${OCTACHORON_CMAKE_DIR}/plugin.map)
  if(NOT OCTACHORON_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()
set(OCTACHORON_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})
