include(GNUInstallDirs)

# The two libraries that are installed are made of one object file, in which all names but those of the public headers are local.
# GCC leaves what it compiles once per instruction set visible (base/clones.h): those are known by the internal prefix.
set(one ${PROJECT_BINARY_DIR}/lockstep.o)
add_custom_command(OUTPUT ${one}
  COMMAND ${CMAKE_C_COMPILER} -nostdlib -r -o ${one} ${objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --localize-symbol=ls__* --localize-symbol=*.resolver ${one}
  DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking lockstep.o")
add_custom_target(lockstep_one DEPENDS ${one})
foreach(kind shared static)
  string(TOUPPER ${kind} type)
  add_library(lockstep_${kind} ${type} ${one})
  add_dependencies(lockstep_${kind} lockstep_one)
  set_target_properties(lockstep_${kind} PROPERTIES OUTPUT_NAME lockstep LINKER_LANGUAGE C)
  target_include_directories(lockstep_${kind} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# Before 1.0 a new minor version may change structs and functions, so its library has another name (docs/packaging.md).
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(abi 0.${PROJECT_VERSION_MINOR})
else()
  set(abi ${PROJECT_VERSION_MAJOR})
endif()
set_target_properties(lockstep_shared PROPERTIES EXPORT_NAME lockstep VERSION ${PROJECT_VERSION} SOVERSION ${abi})
target_link_libraries(lockstep_shared PRIVATE ${needs})
target_link_options(lockstep_shared PRIVATE -Wl,-z,defs)
