# `cmake --install build/release --prefix P` gives headers, the two libraries, the program, and a
# package for find_package(plimsoll), which defines plimsoll::plimsoll. examples/consumer uses it.
if(NOT PLIMSOLL_TORCH)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)

set_target_properties(plimsoll_base PROPERTIES EXPORT_NAME base)
set_target_properties(plimsoll_torch PROPERTIES EXPORT_NAME torch)
target_include_directories(plimsoll_base PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(plimsoll PUBLIC cxx_std_20)

install(TARGETS plimsoll plimsoll_base plimsoll_torch EXPORT plimsollTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET plimsoll_cli)
  install(TARGETS plimsoll_launcher RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS plimsoll_cli RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plimsoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(EXPORT plimsollTargets NAMESPACE plimsoll:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/plimsollConfig.cmake.in
  ${PROJECT_BINARY_DIR}/plimsollConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plimsollConfig.cmake
              ${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake DESTINATION ${package_dir})
