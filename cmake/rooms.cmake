# Two kinds of room, one function each; tests and fuzz targets lie beside the file they prove.
include(${CMAKE_CURRENT_LIST_DIR}/test_table.cmake)

add_library(headgate_warnings INTERFACE)
# A designated initializer leaves the other fields as they are declared, and is meant to. What gcc concludes while it
# optimizes is sometimes wrong (its bugs 105329 and 105651), so in CI, where warnings are errors, it stays a warning.
target_compile_options(headgate_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=array-bounds;-Wno-error=restrict;-Wno-error=stringop-overflow;-Wno-error=maybe-uninitialized>
  # libstdc++ 12's own stable_sort uses what libstdc++ 12 calls deprecated.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(HEADGATE_SANITIZE)
  target_compile_options(headgate_warnings INTERFACE -fsanitize=${HEADGATE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(headgate_warnings INTERFACE -fsanitize=${HEADGATE_SANITIZE})
endif()
if(HEADGATE_FUZZ)
  # The fuzzer steers by coverage of the rooms, not only of the target's own file; that of the tests steers nothing.
  target_compile_options(headgate_warnings INTERFACE
      $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HEADGATE_TEST>>>:-fsanitize=fuzzer-no-link>)
endif()
# The driver's functions are called through our own declarations of them, which clang's UBSan takes for other types. Its
# check of virtual calls needs a descriptor, and some tests leave none.
if(HEADGATE_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(headgate_warnings INTERFACE -fno-sanitize=function,vptr)
endif()
# A library of clang's finds the sanitizer's runtime in the program that loads it, so it cannot define every symbol.
set(HEADGATE_NO_UNDEFINED -Wl,-z,defs)
if(HEADGATE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(HEADGATE_NO_UNDEFINED "")
endif()

# Of programs that root runs: every symbol is bound at the start, and the table of them is read-only from then on.
set(HEADGATE_BOUND_AT_START -Wl,-z,relro -Wl,-z,now)

# Guest code runs inside other people's processes: one flag set, no C++ runtime. Host programs link the same archives.
set(HEADGATE_GUEST_FLAGS
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden -fvisibility-inlines-hidden
  -fno-stack-protector -U_FORTIFY_SOURCE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  list(APPEND HEADGATE_GUEST_FLAGS -mcx16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # In line: libgcc's functions, which gcc calls otherwise, are no part of the library, and come with a constructor.
  list(APPEND HEADGATE_GUEST_FLAGS -mno-outline-atomics)
endif()

# Most of what compiling a room costs is reading headers and making the same code of their templates again. The standard
# headers are therefore read once for each of the flag sets, which halves the time of a first build. If files of a room
# are compiled together, a first build takes a third less again, but an edit costs sixteen files instead of one. Names
# that files keep to themselves therefore differ within a room. Only a build without either (preset plain) finds a
# missing #include.
option(HEADGATE_PRECOMPILE "Precompile the standard headers" ON)
option(HEADGATE_TOGETHER "Compile files of a target together, for a fast first build" ON)
set(HEADGATE_HEADERS_guest <algorithm> <array> <atomic> <cerrno> <cstddef> <cstdint> <cstdlib> <cstring> <span>
    <string_view>)
set(HEADGATE_HEADERS_host <algorithm> <array> <atomic> <cstdint> <cstdio> <cstdlib> <cstring> <functional> <map>
    <memory>
  <optional> <span> <string> <string_view> <utility> <vector>)
# Without nlohmann/json.hpp: an inline function of it makes gcc compile its parser in each file, also in those that do
# not use it.
set(HEADGATE_HEADERS_test ${HEADGATE_HEADERS_host} <chrono> <cmath> <filesystem> <fstream> <random> <set> <sstream>
    <thread> <gtest/gtest.h>)

# headgate_precompile(TARGET guest|host|test): the first target of a kind makes them, the others use the same.
function(headgate_precompile target kind)
  if(NOT HEADGATE_PRECOMPILE)
    return()
  endif()
  # So that ccache sees which precompiled header a file uses, and that two equal ones are equal.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Xclang -fno-pch-timestamp>)
  get_property(first GLOBAL PROPERTY HEADGATE_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${HEADGATE_HEADERS_${kind}})
    set_property(GLOBAL PROPERTY HEADGATE_PRECOMPILED_${kind} ${target})
  endif()
endfunction()

# headgate_together(TARGET [COUNT]): its files are compiled COUNT (16) at a time if HEADGATE_TOGETHER is set.
function(headgate_together target)
  if(HEADGATE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    if(ARGN)
      set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${ARGN})
    endif()
    # Compiled so, a .cpp looks like a header to gcc, which then misses what it keeps to itself.
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
  if(HEADGATE_SANITIZE AND name STREQUAL "schedule")
    target_compile_options(headgate_${name} PRIVATE -Og)  # the tests of the arbiter compute for long
  else()
    headgate_precompile(headgate_${name} host)
  endif()
  headgate_together(headgate_${name})
  # Words, views and documents: what a newcomer waits for is the compiler, not they.
  if(NOT HEADGATE_SANITIZE AND NOT HEADGATE_FUZZ AND NOT name MATCHES "^(base|sim|schedule|load)")
    target_compile_options(headgate_${name} PRIVATE -O1)
  endif()
endfunction()

# headgate_test(NAME SRC x_test.cpp... [DEPS room...] [LIBS target...] [TIMEOUT seconds] [NEEDS file] [COMPUTES]): a
# GoogleTest program and its ctest entry. If the file NEEDS does not exist, ctest skips it. COMPUTES: the test itself
# computes for long, so optimize it. ctest's labels choose programs: each has its folder under src/, and those that
# cmake/test_table.cmake gives it.
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
  # The test's own code, not the rooms it proves: at -O2 gcc spends twice as long on a test as on all it includes.
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
