# Read by cpack before it makes the package (CPACK_PROJECT_CONFIG_FILE). The version is the commit's, so that apt
# upgrades to a newer build. A modified tree counts as newer than its commit, by the time of packing. Without git, or
# outside a checkout, it is only the project's version.
function(headgate_git out status)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TZ=UTC git --no-optional-locks -c safe.directory=* -C ${CPACK_HEADGATE_SOURCE}
        ${ARGN}
    OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${out} "${text}" PARENT_SCOPE)
  set(${status} "${result}" PARENT_SCOPE)
endfunction()

headgate_git(top status rev-parse --show-toplevel)
file(REAL_PATH ${CPACK_HEADGATE_SOURCE} source)
if(status EQUAL 0 AND top STREQUAL source)
  headgate_git(head status log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h)
  if(status EQUAL 0 AND head MATCHES "^[0-9]+\\.[0-9a-f]+$")
    set(version ${CPACK_PACKAGE_VERSION}+git${head})
    headgate_git(ignored changed diff --quiet HEAD --)
    if(changed EQUAL 1)
      string(TIMESTAMP now %Y%m%d%H%M%S UTC)
      string(APPEND version .modified${now})
    endif()
    set(CPACK_PACKAGE_VERSION ${version})
    set(CPACK_DEBIAN_PACKAGE_VERSION ${version})
  endif()
endif()
