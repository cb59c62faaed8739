# `cmake --install build/release --prefix X`: the program, the library with its public header, and a
# CMake package that other projects find.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(HF2Q_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hf2q)
set_target_properties(hf2q_core PROPERTIES EXPORT_NAME hf2q)
target_compile_features(hf2q_core INTERFACE cxx_std_20)

install(TARGETS hf2q RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hf2q_core EXPORT hf2q ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/hf2q DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT hf2q NAMESPACE hf2q:: FILE hf2qTargets.cmake DESTINATION ${HF2Q_PACKAGE_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hf2qConfig.cmake.in ${CMAKE_BINARY_DIR}/hf2qConfig.cmake
                              INSTALL_DESTINATION ${HF2Q_PACKAGE_DIR})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hf2qConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hf2qConfig.cmake ${CMAKE_BINARY_DIR}/hf2qConfigVersion.cmake
        DESTINATION ${HF2Q_PACKAGE_DIR})
