// Any bytes as saved rows: an error, or a path that a tree takes. Checksums are made to fit, so
// that what they guard is reached.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "base/check.h"
#include "kv/prefix_file.h"

namespace {

using namespace hf2q;

constexpr size_t kHeader = 64;

void put_digest(std::vector<std::byte>& bytes, size_t at, size_t begin, size_t end) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data() + begin, end - begin);
  const Digest digest = {hash.high64, hash.low64};
  std::memcpy(bytes.data() + at, &digest, sizeof digest);
}

// The whole input as a description without rows.
std::vector<std::byte> with_header(std::span<const std::byte> description) {
  std::vector<std::byte> bytes(kHeader);
  bytes.insert(bytes.end(), description.begin(), description.end());
  std::memcpy(bytes.data(), "HF2Q-KV\n\1\0\0\0\1\0\0\0", 16);
  const uint64_t sizes[] = {bytes.size(), description.size()};
  std::memcpy(bytes.data() + 16, sizes, sizeof sizes);
  put_digest(bytes, 32, kHeader, bytes.size());
  put_digest(bytes, 48, 0, 48);
  return bytes;
}

void check(std::span<const std::byte> bytes) {
  const auto file = PrefixFile::parse(bytes, "file");
  if (!file.ok()) return;
  const PrefixPath& path = file.value().path();
  CHECK(!path.points.empty() && path.points.back() == path.keys.size());
  const KvLayerSpec layers[] = {{4, 1, 16}, {0, 1, 16}};
  const auto plan =
      plan_kv(layers, {KvFormat::kF16, KvFormat::kF16, KvFormat::kF16, KvFormat::kF16}, 4);
  auto pool = Pool::create(plan.value().groups, {1 << 20, false});
  PrefixTree tree(*pool.value());
  (void)file.value().restore({}, tree, "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes);
  check(with_header(bytes));
  return 0;
}
