# Two kinds of room, one function each; tests and fuzz targets are beside the file they check.
include(${CMAKE_CURRENT_LIST_DIR}/test_table.cmake)

add_library(headgate_warnings INTERFACE)
# A designated initializer deliberately leaves other fields at their defaults. gcc's conclusions during optimization are
# sometimes wrong (bugs 105329 and 105651), so they stay warnings in CI, where warnings are errors.
target_compile_options(headgate_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=array-bounds;-Wno-error=restrict;-Wno-error=stringop-overflow;-Wno-error=maybe-uninitialized>
  # libstdc++ 12's stable_sort uses functions that libstdc++ 12 itself marks deprecated.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(HEADGATE_SANITIZE)
  target_compile_options(headgate_warnings INTERFACE -fsanitize=${HEADGATE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(headgate_warnings INTERFACE -fsanitize=${HEADGATE_SANITIZE})
endif()
if(HEADGATE_FUZZ)
  # The fuzzer needs coverage of the rooms, not only of the target's file; coverage of the tests is of no use.
  target_compile_options(headgate_warnings INTERFACE
      $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HEADGATE_TEST>>>:-fsanitize=fuzzer-no-link>)
endif()
# The driver's functions are called through our declarations, which clang's UBSan treats as different types. Its check
# of virtual calls needs a descriptor, and some tests leave none.
if(HEADGATE_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(headgate_warnings INTERFACE -fno-sanitize=function,vptr)
endif()
# A library built by clang takes the sanitizer's runtime from the program that loads it: it cannot define all symbols.
set(HEADGATE_NO_UNDEFINED -Wl,-z,defs)
if(HEADGATE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(HEADGATE_NO_UNDEFINED "")
endif()

# For programs that root runs: bind all symbols at the start, then make their table read-only.
set(HEADGATE_BOUND_AT_START -Wl,-z,relro -Wl,-z,now)

# Guest code runs inside other people's processes: one flag set, no C++ runtime. Host programs link the same archives.
set(HEADGATE_GUEST_FLAGS
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden -fvisibility-inlines-hidden
  -fno-stack-protector -U_FORTIFY_SOURCE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  list(APPEND HEADGATE_GUEST_FLAGS -mcx16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # Inline, because gcc would otherwise call functions in libgcc, which bring a constructor along.
  list(APPEND HEADGATE_GUEST_FLAGS -mno-outline-atomics)
endif()

# Most of the cost of compiling a room is reading headers and instantiating their templates. Standard headers are
# therefore precompiled once per flag set, which halves the time of a first build. Compiling files of a room together
# saves another third, but an edit then costs sixteen files instead of one; so file-local names must be unique in a
# room. Only a build with neither (preset plain) finds a missing #include.
option(HEADGATE_PRECOMPILE "Precompile the standard headers" ON)
option(HEADGATE_TOGETHER "Compile files of a target together, for a fast first build" ON)
set(HEADGATE_HEADERS_guest <algorithm> <array> <atomic> <cerrno> <cstddef> <cstdint> <cstdlib> <cstring> <span>
    <string_view>)
set(HEADGATE_HEADERS_host <algorithm> <array> <atomic> <chrono> <cstdint> <cstdio> <cstdlib> <cstring> <expected>
    <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view>
    <thread> <utility> <variant> <vector>)
# Without nlohmann/json.hpp: one of its inline functions makes gcc compile its parser in every file, used or not.
set(HEADGATE_HEADERS_test ${HEADGATE_HEADERS_host} <cmath> <random> <gtest/gtest.h>)

# headgate_precompile(TARGET guest|host|test [FLAG]): the first target of a kind precompiles, the others reuse its
# headers. A FLAG makes another kind of it: gcc 14 takes no header that was precompiled at another level of
# optimization.
function(headgate_precompile target kind)
  if(NOT HEADGATE_PRECOMPILE)
    return()
  endif()
  # Lets ccache see which precompiled header a file uses, and recognise equal ones.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Xclang -fno-pch-timestamp>)
  get_property(first GLOBAL PROPERTY HEADGATE_PRECOMPILED_${kind}${ARGN})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${HEADGATE_HEADERS_${kind}})
    set_property(GLOBAL PROPERTY HEADGATE_PRECOMPILED_${kind}${ARGN} ${target})
  endif()
endfunction()

# headgate_together(TARGET [COUNT]): compiles COUNT (16) of its files at a time if HEADGATE_TOGETHER is set.
function(headgate_together target)
  if(HEADGATE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    if(ARGN)
      set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${ARGN})
    endif()
    # gcc takes a .cpp that is compiled this way for a header, and then does not see that its names are local.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# headgate_guest_room(NAME SRC a.cpp... [DEPS room...]): static archive headgate_NAME with the guest's flags.
function(headgate_guest_room name)
  cmake_parse_arguments(ARG "" "" "SRC;DEPS" ${ARGN})
  add_library(headgate_${name} STATIC ${ARG_SRC})
  target_include_directories(headgate_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(headgate_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${HEADGATE_GUEST_FLAGS}>)
  list(TRANSFORM ARG_DEPS PREPEND headgate_)
  target_link_libraries(headgate_${name} PUBLIC ${ARG_DEPS} PRIVATE headgate_warnings)
  if(HEADGATE_SANITIZE)
    target_compile_options(headgate_${name} PRIVATE -Og)  # their tests run for long
  endif()
  headgate_precompile(headgate_${name} guest)
endfunction()

# headgate_room(NAME SRC a.cpp... [DEPS room...] [LIBS target...]): static archive headgate_NAME of host code.
function(headgate_room name)
  cmake_parse_arguments(ARG "" "" "SRC;DEPS;LIBS" ${ARGN})
  add_library(headgate_${name} STATIC ${ARG_SRC})
  target_include_directories(headgate_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND headgate_)
  target_link_libraries(headgate_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS} PRIVATE headgate_warnings)
  headgate_together(headgate_${name})
  if(HEADGATE_SANITIZE AND name STREQUAL "schedule")
    target_compile_options(headgate_${name} PRIVATE -Og)  # the tests of the arbiter compute for long
  elseif(HEADGATE_SANITIZE OR HEADGATE_FUZZ OR name MATCHES "^(base|sim|schedule|node|load)")
    headgate_precompile(headgate_${name} host)
  else()
    # Text, views and documents: compile time matters more than run time.
    target_compile_options(headgate_${name} PRIVATE -O1)
    headgate_precompile(headgate_${name} host -O1)
  endif()
endfunction()

# headgate_test(NAME SRC x_test.cpp... [DEPS room...] [LIBS target...] [TIMEOUT seconds] [NEEDS file] [COMPUTES]): a
# GoogleTest program and its ctest entry. If the file NEEDS does not exist, ctest skips it. COMPUTES: optimize the
# test's code, because it computes for long. ctest labels select programs: each has its folder under src/ as a label,
# plus those from cmake/test_table.cmake.
function(headgate_test name)
  if(NOT HEADGATE_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "COMPUTES" "TIMEOUT;NEEDS" "SRC;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SRC})
  list(TRANSFORM ARG_DEPS PREPEND headgate_)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  if(NOT ARG_COMPUTES AND NOT name IN_LIST HEADGATE_TESTS_apart)
    headgate_together(${name} 8)
    foreach(file IN LISTS ARG_SRC)
      get_filename_component(own ${file} NAME)
      if(own IN_LIST HEADGATE_TEST_FILES_apart)
        set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endif()
  # Only the test's code, not the rooms it checks: at -O2 gcc would need twice as long for it as for all it includes.
  if(NOT ARG_COMPUTES)
    target_compile_options(${name} PRIVATE -O0 -U_FORTIFY_SOURCE)
    headgate_precompile(${name} test)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS} headgate_warnings GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests HEADGATE_TEST ON)
  if(ARG_NEEDS)
    add_test(NAME ${name} COMMAND sh -c
        "[ -e ${ARG_NEEDS} ] || { echo 'skipped: there is no ${ARG_NEEDS}'; exit 77; }; exec $<TARGET_FILE:${name}>")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 240)
  endif()
  file(RELATIVE_PATH label ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  if(HEADGATE_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 3")
  endif()
  set(labels ${label})
  foreach(more bare threads)
    if(name IN_LIST HEADGATE_TESTS_${more})
      list(APPEND labels ${more})
    endif()
  endforeach()
  set(halves 2)
  if(name IN_LIST HEADGATE_TESTS_waiting)
    set(halves 1)
  endif()
  set(cost 1)
  if("${HEADGATE_TESTS_cost}" MATCHES "(^|;)${name}=([0-9]+)")
    set(cost ${CMAKE_MATCH_2})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${labels}" PROCESSORS ${halves} COST ${cost})
endfunction()

# headgate_fuzz(NAME SRC x_fuzz.cpp [DEPS room...]): a libFuzzer program in build/fuzz/ (clang only, dev/fuzz).
function(headgate_fuzz name)
  if(NOT HEADGATE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SRC;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SRC})
  list(TRANSFORM ARG_DEPS PREPEND headgate_)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
