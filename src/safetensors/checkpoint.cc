#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <unordered_set>

#include "base/check.h"
#include "base/quote.h"
#include "safetensors/safetensors.h"
#include "safetensors/weight_map.h"

namespace hf2q {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr size_t kMaxIndexBytes = 100'000'000;

// Something lies there, if only a link that leads nowhere.
bool has_entry(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(folder / name, ignored));
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// A download cache keeps the bytes in MODEL/blobs and links to them from MODEL/snapshots/REVISION.
bool is_blob_of(const fs::path& path, const fs::path& folder) {
  const fs::path snapshots = folder.parent_path();
  return snapshots.filename() == "snapshots" && is_below(path, snapshots.parent_path() / "blobs");
}

// The path of a file of the checkpoint, whose links stay inside it. `folder` is a directory.
Result<std::string> path_inside(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  std::error_code failure;
  const fs::path real_folder = fs::canonical(folder, failure);
  const fs::path real = failure ? fs::path() : fs::canonical(path, failure);
  if (failure) {
    const bool absent = failure == std::errc::no_such_file_or_directory;
    return error(absent ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot open: {}",
                 path.string(), failure.message());
  }
  if (!is_below(real, real_folder) && !is_blob_of(real, real_folder)) {
    return error(ErrorCode::kUnsupported, "{}: links to {}, outside the checkpoint", path.string(),
                 real.string());
  }
  return path.string();
}

Result<WeightMap> read_weight_map(const fs::path& folder) {
  TRY(path, path_inside(folder, kIndexName));
  TRY(file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxIndexBytes) {
    return error(ErrorCode::kCorrupt, "{}: at most {} bytes expected, found {}", path,
                 kMaxIndexBytes, bytes.size());
  }
  return parse_weight_map({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

Result<SafetensorsFile> open_part(const fs::path& folder, const std::string& name) {
  TRY(path, path_inside(folder, name));
  return SafetensorsFile::open(path);
}

// The first tensor of `file`, the part `part`, that `map` does not give to it.
Error unlisted_tensor(const WeightMap& map, const std::string& part, const SafetensorsFile& file) {
  std::unordered_set<std::string_view> listed;
  for (const auto& [name, its_part] : map) {
    if (its_part == part) listed.insert(name);
  }
  const auto tensors = file.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const SourceTensor& tensor) {
    return !listed.contains(tensor.name);
  });
  CHECK(found != tensors.end());
  return error(ErrorCode::kCorrupt, "{}: tensor {}: {} does not put it in this part",
               file.file()->path(), quote(found->name), kIndexName);
}

// Every name of `map` is in the part that it says and every tensor of every part is in `map`, so no
// name is in two parts. `parts` are the names of `files`.
Status check_parts(const WeightMap& map, const std::set<std::string>& parts,
                   std::span<const SafetensorsFile> files) {
  std::unordered_map<std::string_view, const SafetensorsFile*> by_name;
  size_t next = 0;
  for (const std::string& part : parts) by_name.emplace(part, &files[next++]);
  std::unordered_map<const SafetensorsFile*, size_t> n_listed;
  for (const auto& [name, part] : map) {
    const SafetensorsFile* file = by_name.at(part);
    if (file->find(name) == nullptr) {
      return error(ErrorCode::kCorrupt, "{}: no tensor {}, which {} puts in this part",
                   file->file()->path(), quote(name), kIndexName);
    }
    ++n_listed[file];
  }
  for (const auto& [part, file] : by_name) {
    if (n_listed[file] != file->tensors().size()) {
      return unlisted_tensor(map, std::string(part), *file);
    }
  }
  return Ok{};
}

Status check_folder(const std::string& folder) {
  std::error_code failure;
  const fs::file_status status = fs::status(folder, failure);
  if (!fs::exists(status)) {
    return error(ErrorCode::kNotFound, "{}: no such folder", folder);
  }
  if (!fs::is_directory(status)) {
    return error(ErrorCode::kUnsupported, "{}: a folder expected, which holds {} or {}", folder,
                 kIndexName, kSingleName);
  }
  return Ok{};
}

const MappedFile& file_with(std::span<const std::byte> data,
                            std::span<const SafetensorsFile> files) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const SafetensorsFile& file) {
    const auto bytes = file.file()->bytes();
    return data.data() >= bytes.data() && data.data() + data.size() <= bytes.data() + bytes.size();
  });
  CHECK(found != files.end());
  return *found->file();
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  TRY_OK(check_folder(folder));
  Checkpoint checkpoint;
  if (has_entry(folder, kIndexName)) {
    TRY(map, read_weight_map(folder));
    std::set<std::string> parts;
    for (const auto& [name, part] : map) parts.insert(part);
    for (const std::string& part : parts) {
      TRY(file, open_part(folder, part));
      checkpoint.files_.push_back(std::move(file));
    }
    TRY_OK(check_parts(map, parts, checkpoint.files_));
    return checkpoint;
  }
  if (!has_entry(folder, kSingleName)) {
    return error(ErrorCode::kNotFound, "{}: holds neither {} nor {}", folder, kIndexName,
                 kSingleName);
  }
  TRY(file, open_part(folder, kSingleName));
  checkpoint.files_.push_back(std::move(file));
  return checkpoint;
}

const SourceTensor* Checkpoint::find(std::string_view name) const {
  for (const SafetensorsFile& file : files_) {
    if (const SourceTensor* tensor = file.find(name)) return tensor;
  }
  return nullptr;
}

std::vector<const SourceTensor*> Checkpoint::tensors() const {
  std::vector<const SourceTensor*> all;
  for (const SafetensorsFile& file : files_) {
    for (const SourceTensor& tensor : file.tensors()) all.push_back(&tensor);
  }
  return all;
}

uint64_t Checkpoint::data_bytes() const {
  uint64_t sum = 0;
  for (const SourceTensor* tensor : tensors()) sum += tensor->data.size();
  return sum;
}

const std::string& Checkpoint::path_of(const SourceTensor& tensor) const {
  return file_with(tensor.data, files_).path();
}

void Checkpoint::will_need(const SourceTensor& tensor) const {
  file_with(tensor.data, files_).will_need(tensor.data);
}

void Checkpoint::release(std::span<const std::byte> data) const {
  file_with(data, files_).release(data);
}

}  // namespace hf2q
