// Parses arbitrary bytes as a GGUF file and reads all that was found. Seeds: tests/corpus/gguf.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "gguf/reader.h"
#include "gguf/test_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = hf2q::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (file.ok()) CHECK(hf2q::test::touch(file.value()));
  return 0;
}
