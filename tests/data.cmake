foreach(test test_idx test_cifar test_shapes test_synthetic test_sampler test_source test_loader test_feeds test_augment test_prepare fuzz/fuzz_idx fuzz/fuzz_pickle)
  ls_test(${test} LABELS data)
  get_filename_component(target ${test} NAME)
  target_link_libraries(${target} PRIVATE ZLIB::ZLIB Threads::Threads)
endforeach()
target_link_libraries(test_prepare PRIVATE PkgConfig::JANSSON)
target_compile_definitions(test_prepare PRIVATE LS_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
target_link_libraries(test_cifar PRIVATE PkgConfig::CRYPTO)

# Images in files.
foreach(test test_image fuzz/fuzz_image)
  ls_test(${test} LABELS data)
  get_filename_component(target ${test} NAME)
  target_link_libraries(${target} PRIVATE PkgConfig::PNG PkgConfig::JPEG ZLIB::ZLIB)
endforeach()
add_executable(write_images write_images.c)
target_include_directories(write_images PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(write_images PRIVATE lockstep PkgConfig::PNG PkgConfig::JPEG ZLIB::ZLIB)
ls_tests_targets(write_images cli)

# The embedded dataset of shapes as a picture: `cmake --build BUILD --target shapes-sheet`.
add_executable(shapes-sheet EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/shapes-sheet.c)
target_include_directories(shapes-sheet PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(shapes-sheet PRIVATE lockstep)

# The same entry under libFuzzer, with the code it looks at compiled for it. Needs clang.
option(LS_FUZZ "build the fuzzers that need clang's libFuzzer" OFF)
if(LS_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "LS_FUZZ needs clang: configure with CC=clang")
  endif()
  file(GLOB fuzzed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c ${PROJECT_SOURCE_DIR}/src/tensor/*.c
    ${PROJECT_SOURCE_DIR}/src/data/*.c ${PROJECT_SOURCE_DIR}/src/data/formats/*.c
    ${PROJECT_SOURCE_DIR}/src/train/weights_file.c)
  file(GLOB fuzzed_reports CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/report/*.c)
  # Compiled once for all of them.
  add_library(ls_fuzzed OBJECT ${fuzzed})
  target_include_directories(ls_fuzzed PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(ls_fuzzed PUBLIC LS_FUZZ_LIBFUZZER LS_SANITIZED)
  target_compile_options(ls_fuzzed PUBLIC -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
  target_link_libraries(ls_fuzzed PRIVATE ZLIB::ZLIB PkgConfig::JANSSON PkgConfig::PNG PkgConfig::JPEG Threads::Threads)
  foreach(what idx pickle weights json options image)
    add_executable(fuzz_${what}_libfuzzer fuzz/fuzz_${what}.c)
    if(what STREQUAL json)
      target_sources(fuzz_json_libfuzzer PRIVATE ${fuzzed_reports} ${PROJECT_SOURCE_DIR}/src/train/version.c)
      target_compile_definitions(fuzz_json_libfuzzer PRIVATE LS_VERSION="0")
    endif()
    target_link_options(fuzz_${what}_libfuzzer PRIVATE -fsanitize=fuzzer,address,undefined)
    target_link_libraries(fuzz_${what}_libfuzzer PRIVATE ls_fuzzed ZLIB::ZLIB PkgConfig::JANSSON PkgConfig::PNG PkgConfig::JPEG Threads::Threads m)

    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/corpus_${what})
    add_test(NAME fuzz_${what}_seeds COMMAND fuzz_${what} --seeds ${CMAKE_CURRENT_BINARY_DIR}/corpus_${what})
    set_tests_properties(fuzz_${what}_seeds PROPERTIES FIXTURES_SETUP corpus_${what} LABELS "fuzz;data")
    set(words "")
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${what}.dict)
      set(words -dict=${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${what}.dict)
    endif()
    add_test(NAME fuzz_${what}_libfuzzer COMMAND fuzz_${what}_libfuzzer -max_total_time=5 -max_len=16384 ${words}
      -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/ ${CMAKE_CURRENT_BINARY_DIR}/corpus_${what})
    set_tests_properties(fuzz_${what}_libfuzzer PROPERTIES FIXTURES_REQUIRED corpus_${what} TIMEOUT 60
      LABELS "fuzz;data")
  endforeach()
endif()
