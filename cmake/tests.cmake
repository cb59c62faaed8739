# The test program (every src/**/*_test.cc), the end-to-end tests of the command line
# (tests/e2e/*.sh, each a script that exits 0 when all is well) and the benchmarks.
enable_testing()
find_package(GTest REQUIRED)

if(HF2Q_FUZZ)
  # Beside the fuzz targets, the tests of what reads hostile input; the presets asan and tsan have all.
  list(FILTER TEST_SOURCES INCLUDE REGEX "/src/(base|gguf|safetensors|tokenizer|chat|convert)/|/row_codec_test")
endif()
add_executable(hf2q_tests ${TEST_SOURCES})
compile_by_folder(hf2q_tests)
if(HF2Q_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(hf2q_tests PRIVATE -Wno-stringop-overflow)  # false positives
endif()
target_include_directories(hf2q_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(hf2q_tests PRIVATE hf2q_core GTest::gtest GTest::gtest_main GTest::gmock
                      nlohmann_json::nlohmann_json)
# The code under test is built as always; the tests themselves only have to compile fast.
target_compile_options(hf2q_tests PRIVATE -fno-sanitize=undefined
  $<IF:$<BOOL:${HF2Q_FUZZ}>,-O0$<SEMICOLON>-fno-sanitize=fuzzer-no-link,-O1>)
target_precompile_headers(hf2q_tests PRIVATE <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
target_compile_definitions(hf2q_tests PRIVATE
  HF2Q_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" HF2Q_MODELS="${CMAKE_SOURCE_DIR}/models"
  HF2Q_REFERENCE="${CMAKE_SOURCE_DIR}/../shared/reference")
# A process for each test would spend most of its time starting: four shards, two run at a time.
foreach(shard RANGE 3)
  add_test(NAME unit.${shard} COMMAND hf2q_tests --gtest_brief=1)
  set_tests_properties(unit.${shard} PROPERTIES TIMEOUT 1800
    ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard}")
endforeach()

if(NOT HF2Q_FUZZ)
  # A program of its own: it replaces operator new.
  add_executable(hf2q_forward_allocations tests/alloc/forward_allocations.cc)
  target_include_directories(hf2q_forward_allocations PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(hf2q_forward_allocations PRIVATE hf2q_core GTest::gtest GTest::gtest_main nlohmann_json::nlohmann_json)
  target_compile_definitions(hf2q_forward_allocations PRIVATE
    HF2Q_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" HF2Q_MODELS="${CMAKE_SOURCE_DIR}/models")
  add_test(NAME unit.forward_allocations COMMAND hf2q_forward_allocations --gtest_brief=1)

  # A conversation of 8,000 tokens here, of 100,000 in `scripts/test --long`.
  add_executable(hf2q_long_conversation tests/long/long_conversation.cc)
  target_include_directories(hf2q_long_conversation PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(hf2q_long_conversation PRIVATE hf2q_core GTest::gtest nlohmann_json::nlohmann_json)
  target_compile_definitions(hf2q_long_conversation PRIVATE
    HF2Q_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" HF2Q_MODELS="${CMAKE_SOURCE_DIR}/models")
  add_test(NAME long.conversation COMMAND hf2q_long_conversation 8000 40)
  set_tests_properties(long.conversation PROPERTIES TIMEOUT 1800)

  file(GLOB E2E_SCRIPTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/e2e/*.sh)
  find_program(NPM npm)
  if(NOT NPM)
    message(STATUS "npm not found: tokenizer_gemma3.sh and serve_openai.sh of tests/e2e, which fetch packages, are left out")
    list(FILTER E2E_SCRIPTS EXCLUDE REGEX "(tokenizer_gemma3|serve_openai)\\.sh$")
  endif()
  foreach(script IN LISTS E2E_SCRIPTS)
    get_filename_component(name ${script} NAME_WE)
    add_test(NAME e2e.${name} COMMAND bash ${script} $<TARGET_FILE:hf2q>
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 600)
  endforeach()
endif()

if(BENCH_SOURCES AND NOT HF2Q_SANITIZE)
  find_package(benchmark REQUIRED)
  add_executable(hf2q_bench ${BENCH_SOURCES})
  target_link_libraries(hf2q_bench PRIVATE hf2q_core benchmark::benchmark benchmark::benchmark_main)
  target_compile_definitions(hf2q_bench PRIVATE HF2Q_MODELS="${CMAKE_SOURCE_DIR}/models")
endif()
