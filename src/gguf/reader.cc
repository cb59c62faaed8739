#include "gguf/reader.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "gguf/header.h"
#include "gguf/shards.h"

namespace hf2q {
namespace {

template <class T>
Result<T> required(const GgufFile& file, std::string_view key,
                   std::optional<T> (Value::*as)() const, std::string_view type) {
  const Value* value = file.find(key);
  if (value == nullptr) {
    return error(ErrorCode::kNotFound, "{}: key '{}': {} expected, found none", file.path(), key,
                 type);
  }
  std::optional<T> found = (value->*as)();
  if (!found) {
    return error(ErrorCode::kCorrupt, "{}: key '{}': {} expected, found {}", file.path(), key, type,
                 describe(*value));
  }
  return *std::move(found);
}

// `sibling` must be shard `number` of the model whose first shard says `architecture`.
Status check_sibling(const GgufHeader& sibling, const std::string& path, const Split& expected,
                     const Value* architecture) {
  TRY(split, read_split(sibling, path));
  if (split.number != expected.number || split.count != expected.count ||
      split.n_tensors != expected.n_tensors) {
    return error(ErrorCode::kCorrupt,
                 "{}: shard {} of {} with {} tensors in all expected, found shard {} of {} with {}",
                 path, expected.number + 1, expected.count, expected.n_tensors, split.number + 1,
                 split.count, split.n_tensors);
  }
  const Value* own = sibling.find("general.architecture");
  if (own != nullptr && (architecture == nullptr || own->type != architecture->type ||
                         !std::ranges::equal(own->bytes, architecture->bytes))) {
    return error(ErrorCode::kCorrupt,
                 "{}: key 'general.architecture': the value of the first shard expected", path);
  }
  return Ok{};
}

}  // namespace

GgufFile::GgufFile(GgufHeader header, const std::string& path, uint64_t file_bytes)
    : path_(path),
      version_(header.version),
      file_bytes_(file_bytes),
      metadata_(std::move(header.metadata)),
      keys_(std::move(header.keys)),
      tensors_(std::move(header.tensors)) {}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  TRY(header, parse_header(bytes, name));
  TRY(split, read_split(header, name));
  if (split.count > 1) {
    return error(ErrorCode::kUnsupported, "{}: a whole model expected, this is shard {} of {}",
                 name, split.number + 1, split.count);
  }
  GgufFile file(std::move(header), name, bytes.size());
  TRY_OK(file.index_tensors());
  return file;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  TRY(shard, MappedFile::open(path));
  TRY(header, parse_header(shard.bytes(), path));
  TRY(split, read_split(header, path));
  GgufFile file(std::move(header), path, shard.bytes().size());
  file.shards_.push_back(std::move(shard));
  if (split.count > 1) TRY_OK(file.add_siblings(split));
  TRY_OK(file.index_tensors());
  return file;
}

Status GgufFile::add_siblings(const Split& first) {
  TRY(prefix, shard_prefix(path_, first));
  for (Split sibling = first; ++sibling.number < first.count;) {
    const std::string path = shard_path(prefix, sibling.number, sibling.count);
    TRY_OK(add_sibling(path, sibling));
  }
  if (tensors_.size() != first.n_tensors) {
    return error(ErrorCode::kCorrupt, "{}: {} tensors in {} shards expected, found {}", path_,
                 first.n_tensors, first.count, tensors_.size());
  }
  return Ok{};
}

Status GgufFile::add_sibling(const std::string& path, const Split& expected) {
  Result<MappedFile> shard = MappedFile::open(path);
  if (!shard.ok()) {
    return error(shard.error().code, "{}: shard {} of {}: {}", path_, expected.number + 1,
                 expected.count, shard.error().message);
  }
  TRY(header, parse_header(shard.value().bytes(), path));
  TRY_OK(check_sibling(header, path, expected, find("general.architecture")));
  tensors_.insert(tensors_.end(), header.tensors.begin(), header.tensors.end());
  file_bytes_ += shard.value().bytes().size();
  shards_.push_back(std::move(shard.value()));
  return Ok{};
}

Status GgufFile::index_tensors() {
  tensor_names_.reserve(tensors_.size());
  for (const GgufTensor& tensor : tensors_) tensor_names_.add(tensor.name);
  if (const auto twins = tensor_names_.sort()) {
    return error(ErrorCode::kCorrupt,
                 "{}: tensor '{}': unique names expected, tensors {} and {} are equal", path_,
                 tensors_[twins->first].name, twins->first, twins->second);
  }
  return Ok{};
}

std::vector<std::string> GgufFile::shard_paths() const {
  std::vector<std::string> paths;
  for (const MappedFile& shard : shards_) paths.push_back(shard.path());
  return paths;
}

size_t GgufFile::n_shards() const {
  return std::max<size_t>(shards_.size(), 1);
}

std::array<uint64_t, 2> GgufFile::digest() const {
  constexpr size_t kStep = size_t{64} << 20;  // so that no more than this becomes resident
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const MappedFile& shard : shards_) {
    for (auto rest = shard.bytes(); !rest.empty();) {
      const auto step = rest.first(std::min(kStep, rest.size()));
      rest = rest.subspan(step.size());
      XXH3_128bits_update(&state, step.data(), step.size());
      shard.release(step);
    }
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.high64, hash.low64};
}

const Value* GgufFile::find(std::string_view key) const {
  const std::optional<size_t> position = keys_.find(key);
  return position ? &metadata_[*position].second : nullptr;
}

Result<uint32_t> GgufFile::get_u32(std::string_view key) const {
  return required(*this, key, &Value::as_u32, "u32");
}

Result<float> GgufFile::get_f32(std::string_view key) const {
  return required(*this, key, &Value::as_f32, "f32");
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  return required(*this, key, &Value::as_bool, "bool");
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  return required(*this, key, &Value::as_string, "string");
}

Result<std::vector<int32_t>> GgufFile::get_integers(std::string_view key) const {
  return required(*this, key, &Value::as_integers, "array of i32, or of u32 below 2^31,");
}

Result<std::vector<float>> GgufFile::get_f32s(std::string_view key) const {
  return required(*this, key, &Value::as_f32s, "array of f32");
}

Result<std::vector<bool>> GgufFile::get_bools(std::string_view key) const {
  return required(*this, key, &Value::as_bools, "array of bool");
}

Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  return required(*this, key, &Value::as_strings, "array of string");
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const std::optional<size_t> position = tensor_names_.find(name);
  return position ? &tensors_[*position] : nullptr;
}

const MappedFile* GgufFile::shard_of(std::span<const std::byte> data) const {
  const auto holds = [address = data.data()](const MappedFile& shard) {
    const std::byte* begin = shard.bytes().data();
    return !std::less<>()(address, begin) && std::less<>()(address, begin + shard.bytes().size());
  };
  const auto found = std::ranges::find_if(shards_, holds);
  return found != shards_.end() ? &*found : nullptr;
}

void GgufFile::will_need(std::span<const std::byte> data) const {
  if (const MappedFile* shard = shard_of(data)) shard->will_need(data);
}

void GgufFile::release(std::span<const std::byte> data) const {
  if (const MappedFile* shard = shard_of(data)) shard->release(data);
}

}  // namespace hf2q
