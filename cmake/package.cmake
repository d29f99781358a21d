# One Debian package out of the install rules: `cpack -G DEB` in the build folder, or dev/package, which also tries it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME headgate)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "headgate developers <headgate@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "share one NVIDIA GPU: so much memory, so much GPU time")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "headgate holds every process of a share to so much GPU memory, to the byte, and so much GPU time. It comes with a
simulated GPU, so it can be tried on a machine that has none.")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The simulator's libcuda.so.1 lies in a private folder: the package must not claim to provide it.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/headgate RENAME copyright)
include(CPack)
