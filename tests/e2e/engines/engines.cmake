# Tenants of the built daemon in real containers.
headgate_test(engines_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/engines_test.cpp ${CMAKE_CURRENT_LIST_DIR}/engine.cpp
    ${CMAKE_CURRENT_LIST_DIR}/engine_daemons.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cdi_test.cpp ${CMAKE_CURRENT_LIST_DIR}/podman.cpp
  ${CMAKE_CURRENT_LIST_DIR}/images_test.cpp ${CMAKE_CURRENT_LIST_DIR}/oci_program_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/plain_docker_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/runtime_test.cpp ${CMAKE_CURRENT_LIST_DIR}/share_node.cpp
  DEPS test_support http snapshot LIBS nlohmann_json::nlohmann_json NEEDS /proc/self)
if(TARGET engines_e2e_test)
  target_compile_definitions(engines_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    HEADGATE_OCI="$<TARGET_FILE:headgate-oci>"
    HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" ENGINE_PARTS="${PROJECT_SOURCE_DIR}/build/real-parts/engines"
        IMAGE_ROOTS="${PROJECT_SOURCE_DIR}/build/real-parts/images" PATH_LIBRARY="$<TARGET_FILE:headgate_path>"
        BYPASS_PROGRAM="$<TARGET_FILE:bypass_program>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim")
  add_dependencies(engines_e2e_test headgate headgated headgate-oci headgate_preload headgate_path headgate_sim_mps
      headgate_sim_cuda headgate_sim_nvml bypass_program)
endif()
