# Cross-compiles for 64-bit ARM with Debian's cross compiler, C library and headers, which dev/arm64 has unpacked into
# build/arm64/root.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64/root)
set(CMAKE_SYSROOT ${arm64_root})
set(CMAKE_C_COMPILER ${arm64_root}/usr/bin/aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER ${arm64_root}/usr/bin/aarch64-linux-gnu-g++-12)
# Use programs from this machine, and libraries and headers from the target's.
set(CMAKE_FIND_ROOT_PATH ${arm64_root} ${arm64_root}/usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${arm64_root}/usr/bin/qemu-aarch64-static -L ${arm64_root}/usr/aarch64-linux-gnu)
