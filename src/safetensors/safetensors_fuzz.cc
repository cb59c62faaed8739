// Any bytes, as a safetensors file and as the index of a checkpoint: an error or a result whose
// parts lie inside the bytes.

#include "safetensors/safetensors.h"

#include "base/check.h"
#include "safetensors/weight_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = hf2q::SafetensorsFile::parse(bytes, "file");
  if (file.ok()) {
    const std::byte* next = bytes.data() + size;
    const auto tensors = file.value().tensors();
    for (size_t i = tensors.size(); i-- > 0;) {  // from the end of the file, without a gap
      next -= tensors[i].data.size();
      CHECK(tensors[i].data.data() == next && next >= bytes.data());
      CHECK(tensors[i].n_elements() * hf2q::bits_of(tensors[i].dtype) ==
            tensors[i].data.size() * 8);
      CHECK(file.value().find(tensors[i].name) == &tensors[i]);
    }
  }
  const auto map = hf2q::parse_weight_map({reinterpret_cast<const char*>(data), size}, "index");
  if (map.ok()) {
    for (const auto& [name, part] : map.value()) CHECK(part.find('/') == std::string::npos);
  }
  return 0;
}
