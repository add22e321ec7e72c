# Pins a profile at install: judges its name now, builds its kernels with the rest, installs objects and pinned.json.
if(TUTTI_PROFILE STREQUAL "")
  return()
endif()

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
set(pin_script ${CMAKE_CURRENT_LIST_DIR}/aot.py)
set(pin_out ${CMAKE_CURRENT_BINARY_DIR}/pin)

execute_process(
  COMMAND ${Python_EXECUTABLE} ${pin_script} check ${TUTTI_PROFILE}
  RESULT_VARIABLE pin_result
  ERROR_VARIABLE pin_error)
if(pin_result)
  # A fatal message would be wrapped in the middle of the names.
  message(NOTICE "${pin_error}")
  message(FATAL_ERROR "TUTTI_PROFILE=${TUTTI_PROFILE} cannot be pinned")
endif()

# Always run: whether an object is fresh depends on more files than CMake could be told of. It costs seconds.
file(REMOVE_RECURSE ${pin_out})
add_custom_target(tutti_pin ALL
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${pin_out}
  COMMAND ${Python_EXECUTABLE} ${pin_script} build ${TUTTI_PROFILE} ${pin_out}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${pin_out}/aot
  COMMENT "Building the kernels of profile ${TUTTI_PROFILE} ahead of time"
  VERBATIM)

install(DIRECTORY ${pin_out}/aot DESTINATION tutti_hal)
install(FILES ${pin_out}/pinned.json DESTINATION tutti_hal)
# The wheel's tag does not tell a pinned wheel from another; its metadata does.
if(DEFINED SKBUILD_METADATA_DIR)
  install(FILES ${pin_out}/pinned.json DESTINATION ${SKBUILD_METADATA_DIR} RENAME tutti_pinned.json)
endif()
