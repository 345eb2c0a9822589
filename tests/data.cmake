foreach(test test_idx test_sampler test_loader fuzz/fuzz_idx)
  ls_test(${test} LABELS data)
  get_filename_component(target ${test} NAME)
  target_link_libraries(${target} PRIVATE ZLIB::ZLIB Threads::Threads)
endforeach()

# The same entry under libFuzzer, with the code it looks at compiled for it. Needs clang.
option(LS_FUZZ "build the fuzzers that need clang's libFuzzer" OFF)
if(LS_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "LS_FUZZ needs clang: configure with CC=clang")
  endif()
  file(GLOB fuzzed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c ${PROJECT_SOURCE_DIR}/src/tensor/*.c
    ${PROJECT_SOURCE_DIR}/src/data/*.c ${PROJECT_SOURCE_DIR}/src/data/formats/*.c)
  add_executable(fuzz_idx_libfuzzer fuzz/fuzz_idx.c ${fuzzed})
  target_include_directories(fuzz_idx_libfuzzer PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(fuzz_idx_libfuzzer PRIVATE LS_FUZZ_LIBFUZZER LS_SANITIZED)
  target_compile_options(fuzz_idx_libfuzzer PRIVATE -O1 -g -fsanitize=fuzzer,address,undefined
    -fno-sanitize-recover=undefined)
  target_link_options(fuzz_idx_libfuzzer PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(fuzz_idx_libfuzzer PRIVATE ZLIB::ZLIB Threads::Threads m)

  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/corpus_idx)
  add_test(NAME fuzz_idx_seeds COMMAND fuzz_idx --seeds ${CMAKE_CURRENT_BINARY_DIR}/corpus_idx)
  set_tests_properties(fuzz_idx_seeds PROPERTIES FIXTURES_SETUP corpus_idx LABELS "fuzz;data")
  add_test(NAME fuzz_idx_libfuzzer COMMAND fuzz_idx_libfuzzer -max_total_time=5 -max_len=4096
    -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/ ${CMAKE_CURRENT_BINARY_DIR}/corpus_idx)
  set_tests_properties(fuzz_idx_libfuzzer PROPERTIES FIXTURES_REQUIRED corpus_idx TIMEOUT 60 LABELS "fuzz;data")
endif()
