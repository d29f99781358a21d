# Two kinds of room, one function each; tests and fuzz targets lie beside the file they prove.

add_library(headgate_warnings INTERFACE)
target_compile_options(headgate_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
if(HEADGATE_SANITIZE)
  target_compile_options(headgate_warnings INTERFACE -fsanitize=${HEADGATE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(headgate_warnings INTERFACE -fsanitize=${HEADGATE_SANITIZE})
endif()
if(HEADGATE_FUZZ)
  # The fuzzer steers by coverage of the rooms, not only of the target's own file.
  target_compile_options(headgate_warnings INTERFACE -fsanitize=fuzzer-no-link,address,undefined)
  target_link_options(headgate_warnings INTERFACE -fsanitize=address,undefined)
endif()

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

# Most of what compiling a room costs is reading headers and making the same code of their templates again. Where no ccache
# remembers what was compiled, the standard headers are read once for each of the flag sets, which halves the time of a newcomer's
# first build, and files of a host room are compiled sixteen at a time, which takes another third off it. So names that files keep to
# themselves differ within a room. Beside ccache, which would have to be told to trust such headers, every file is compiled as it
# stands: that finds an #include that is missing.
set(from_nothing OFF)
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(from_nothing ON)
endif()
option(HEADGATE_FROM_NOTHING "Build for a fast first build: precompiled headers, files of a room together" ${from_nothing})
set(HEADGATE_HEADERS_guest <algorithm> <array> <atomic> <cerrno> <cstddef> <cstdint> <cstdlib> <cstring> <span> <string_view>)
set(HEADGATE_HEADERS_host <algorithm> <array> <atomic> <cstdint> <cstdio> <cstdlib> <cstring> <functional> <map> <memory>
  <optional> <span> <string> <string_view> <utility> <vector>)
set(HEADGATE_HEADERS_test ${HEADGATE_HEADERS_host} <chrono> <fstream> <gtest/gtest.h>)

# headgate_precompile(TARGET guest|host|test): the first target of a kind makes them, the others use the same.
function(headgate_precompile target kind)
  if(NOT HEADGATE_FROM_NOTHING)
    return()
  endif()
  get_property(first GLOBAL PROPERTY HEADGATE_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${HEADGATE_HEADERS_${kind}})
    set_property(GLOBAL PROPERTY HEADGATE_PRECOMPILED_${kind} ${target})
  endif()
endfunction()

# headgate_together(TARGET): its files are compiled sixteen at a time in a build from nothing.
function(headgate_together target)
  if(HEADGATE_FROM_NOTHING)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
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
  headgate_precompile(headgate_${name} guest)
endfunction()

# headgate_room(NAME SRC a.cpp... [DEPS room...] [LIBS target...]): static archive headgate_NAME of host code.
function(headgate_room name)
  cmake_parse_arguments(ARG "" "" "SRC;DEPS;LIBS" ${ARGN})
  add_library(headgate_${name} STATIC ${ARG_SRC})
  target_include_directories(headgate_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND headgate_)
  target_link_libraries(headgate_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS} PRIVATE headgate_warnings)
  headgate_precompile(headgate_${name} host)
  headgate_together(headgate_${name})
  # Words, views and documents: what a newcomer waits for is the compiler, not they.
  if(NOT HEADGATE_SANITIZE AND NOT HEADGATE_FUZZ AND NOT name MATCHES "^(base|sim|schedule|load)")
    target_compile_options(headgate_${name} PRIVATE -O1)
  endif()
endfunction()

# headgate_test(NAME SRC x_test.cpp... [DEPS room...] [LIBS target...] [TIMEOUT seconds] [NEEDS file] [COMPUTES]): a GoogleTest
# program, one ctest entry, labelled with its folder under src/ (dev/sanitize picks by label). Where NEEDS is not there, it is
# skipped. COMPUTES: the test itself is what takes long, and is optimized.
function(headgate_test name)
  if(NOT HEADGATE_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "COMPUTES" "TIMEOUT;NEEDS" "SRC;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SRC})
  list(TRANSFORM ARG_DEPS PREPEND headgate_)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # The test's own code, not the rooms it proves: at -O2 gcc spends twice as long on a test as on all it includes.
  if(NOT ARG_COMPUTES)
    target_compile_options(${name} PRIVATE -O0)
    headgate_precompile(${name} test)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS} headgate_warnings GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ARG_NEEDS)
    add_test(NAME ${name} COMMAND sh -c "[ -e ${ARG_NEEDS} ] || { echo 'skipped: there is no ${ARG_NEEDS}'; exit 77; }; exec $<TARGET_FILE:${name}>")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 240)
  endif()
  file(RELATIVE_PATH label ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${label}")
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
