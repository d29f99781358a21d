# One Debian package out of the install rules: `cpack -G DEB` in the build folder, or dev/package, which also tries it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME headgate)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_version.cmake)
set(CPACK_HEADGATE_SOURCE ${PROJECT_SOURCE_DIR})
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
# What goes with the daemon. The unit names /usr/sbin: another prefix needs a drop-in.
if(TARGET headgated)
  set(deploy ${PROJECT_SOURCE_DIR}/deploy)
  install(FILES ${deploy}/systemd/headgated.service ${deploy}/systemd/run-headgate.mount DESTINATION lib/systemd/system)
  install(FILES ${deploy}/systemd/headgate.sysusers DESTINATION lib/sysusers.d RENAME headgate.conf)
  install(FILES ${deploy}/prometheus/headgate.rules.yml DESTINATION share/headgate/prometheus)
  install(FILES ${deploy}/grafana/headgate.json DESTINATION share/headgate/grafana)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${deploy}/debian/postinst ${deploy}/debian/prerm ${deploy}/debian/postrm)
endif()
# Pages for people, and an example of each setting; what only developers read stays in the source.
file(GLOB pages ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${pages} DESTINATION share/doc/headgate)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/headgate.toml DESTINATION share/doc/headgate/examples)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/debian/copyright DESTINATION share/doc/headgate)
# Debian wants manual pages, and a list of changes in each package, compressed.
find_program(GZIP gzip REQUIRED)
set(compressed)
foreach(page docs/headgate.1 docs/headgate-oci.8 docs/headgated.8 deploy/debian/changelog)
  get_filename_component(name ${page} NAME)
  set(out ${CMAKE_BINARY_DIR}/compressed/${name}.gz)
  add_custom_command(OUTPUT ${out} DEPENDS ${PROJECT_SOURCE_DIR}/${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/compressed
    COMMAND ${GZIP} -9 -n -c ${PROJECT_SOURCE_DIR}/${page} > ${out} VERBATIM)
  list(APPEND compressed ${out})
endforeach()
add_custom_target(headgate_compressed ALL DEPENDS ${compressed})
add_dependencies(headgate_product headgate_compressed)
install(FILES ${CMAKE_BINARY_DIR}/compressed/headgate.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/compressed/headgated.8.gz ${CMAKE_BINARY_DIR}/compressed/headgate-oci.8.gz
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES ${CMAKE_BINARY_DIR}/compressed/changelog.gz DESTINATION share/doc/headgate)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/debian/lintian-overrides DESTINATION share/lintian/overrides RENAME headgate)
include(CPack)
