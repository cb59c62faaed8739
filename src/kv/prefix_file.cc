#include "kv/prefix_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/output_file.h"
#include "kv/error.h"

namespace hf2q {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "HF2Q-KV\n";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kFormatRevision = 1;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kDigestOffset = kHeaderBytes - sizeof(Digest);  // of the header's own digest
constexpr size_t kGroupBytes = 32;
constexpr size_t kFormatName = 8;
constexpr size_t kSoftBytes = 32;
constexpr size_t kPageBytes = 16;
constexpr int kMostWrongBits = 8;  // of a magic that is still taken for a damaged one

Digest digest_of_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

class PrefixWriter {
 public:
  template <class T>
  void put(const T& value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// The caller has checked that there are enough bytes.
class PrefixReader {
 public:
  explicit PrefixReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, get_bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> get_bytes(size_t n) {
    CHECK(n <= bytes_.size());
    const auto result = bytes_.first(n);
    bytes_ = bytes_.subspan(n);
    return result;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Counts {
  uint32_t page_positions, n_groups, n_tokens, n_soft, n_points, n_pages;
  uint64_t n_extra;
};
static_assert(sizeof(Counts) == 32);

struct SoftRun {
  uint32_t position, n_rows, is_block, zero;
  Digest digest;
};
static_assert(sizeof(SoftRun) == kSoftBytes);

void put_group(PrefixWriter& writer, const KvGroup& group) {
  const PageLayout& layout = group.layout;
  writer.put(group.window);
  writer.put(layout.n_layers);
  writer.put(layout.n_kv_heads);
  writer.put(layout.head_dim);
  for (const KvFormat format : {layout.k_format, layout.v_format}) {
    std::array<char, kFormatName> name = {};
    kv_format_info(format).name.copy(name.data(), name.size());
    writer.put(name);
  }
}

std::vector<std::byte> groups_of_pool(const Pool& pool) {
  PrefixWriter writer;
  for (size_t g = 0; g < pool.n_groups(); ++g) put_group(writer, pool.group(g));
  return {writer.bytes().begin(), writer.bytes().end()};
}

// Runs of soft rows: their keys count from 0.
std::vector<SoftRun> soft_runs(std::span<const TokenKey> keys) {
  std::vector<SoftRun> runs;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    if (keys[i].kind == TokenKey::Kind::kToken) continue;
    const bool is_block = keys[i].kind == TokenKey::Kind::kBlock;
    if (keys[i].value == 0) runs.push_back({i, 0, is_block ? 1U : 0U, 0, keys[i].digest});
    CHECK(!runs.empty() && keys[i].value == runs.back().n_rows);
    ++runs.back().n_rows;
  }
  return runs;
}

// A format's name, or what stands there instead.
std::string_view format_name(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return {text, strnlen(text, kFormatName)};
}

template <class T>
size_t size_of(uint64_t n) {
  return n * sizeof(T);
}

}  // namespace

Result<PrefixFile> PrefixFile::open(const std::string& path) {
  TRY(file, MappedFile::open(path));
  TRY(parsed, parse(file.bytes(), path));
  parsed.file_ = std::move(file);
  return parsed;
}

bool PrefixFile::is_likely(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return false;
  const auto bytes = file.value().bytes();
  int n_wrong = 0;
  for (size_t i = 0; i < std::min(bytes.size(), kMagic.size()); ++i) {
    n_wrong += std::popcount(static_cast<uint8_t>(static_cast<uint8_t>(bytes[i]) ^ kMagic[i]));
  }
  return n_wrong <= kMostWrongBits;
}

Result<PrefixFile> PrefixFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kHeaderBytes) {
    return error(ErrorCode::kCorrupt, "{}: a header of {} bytes expected, the file has {}", name,
                 kHeaderBytes, bytes.size());
  }
  PrefixReader reader(bytes);
  if (std::memcmp(reader.get_bytes(kMagic.size()).data(), kMagic.data(), kMagic.size()) != 0) {
    return error(ErrorCode::kCorrupt, "{}: saved rows of hf2q expected, found another file", name);
  }
  const auto version = reader.get<uint32_t>();
  const auto revision = reader.get<uint32_t>();
  const auto file_bytes = reader.get<uint64_t>();
  const auto description_bytes = reader.get<uint64_t>();
  const auto description_digest = reader.get<Digest>();
  if (reader.get<Digest>() != digest_of_bytes(bytes.first(kDigestOffset))) {
    return error(ErrorCode::kCorrupt, "{}: the header is damaged (checksum)", name);
  }
  if (version != kVersion || revision != kFormatRevision) {
    return error(ErrorCode::kUnsupported, "{}: version {}.{} expected, found {}.{}", name, kVersion,
                 kFormatRevision, version, revision);
  }
  if (file_bytes != bytes.size() || description_bytes > bytes.size() - kHeaderBytes) {
    return error(ErrorCode::kCorrupt, "{}: {} bytes expected, the file has {}", name, file_bytes,
                 bytes.size());
  }
  const auto description = bytes.subspan(kHeaderBytes, description_bytes);
  if (digest_of_bytes(description) != description_digest) {
    return error(ErrorCode::kCorrupt, "{}: the description is damaged (checksum)", name);
  }
  PrefixFile file;
  file.name_ = name;
  file.rows_ = bytes.subspan(kHeaderBytes + description_bytes);
  TRY_OK(file.parse_description(description));
  return file;
}

namespace {

// Keys of `ids` with the runs of soft rows in place.
std::optional<std::vector<TokenKey>> keys_with(std::span<const std::byte> ids,
                                               std::span<const std::byte> runs) {
  std::vector<TokenKey> keys;
  for (PrefixReader reader(ids); keys.size() < ids.size() / sizeof(uint32_t);) {
    keys.push_back({reader.get<uint32_t>(), TokenKey::Kind::kToken, {}});
  }
  size_t at = 0;
  PrefixReader reader(runs);
  for (size_t n = runs.size() / sizeof(SoftRun); n > 0; --n) {
    const auto run = reader.get<SoftRun>();
    const uint64_t end = uint64_t{run.position} + run.n_rows;
    if (run.position < at || run.n_rows == 0 || end > keys.size() || run.is_block > 1)
      return std::nullopt;
    const auto kind = run.is_block == 1 ? TokenKey::Kind::kBlock : TokenKey::Kind::kSoft;
    for (uint32_t i = 0; i < run.n_rows; ++i) keys[run.position + i] = {i, kind, run.digest};
    at = end;
  }
  return keys;
}

bool points_are_good(const PrefixPath& path) {
  if (path.points.empty() || path.points.back() != path.keys.size()) return false;
  uint32_t before = 0;
  return std::ranges::all_of(path.points,
                             [&](uint32_t point) { return std::exchange(before, point) < point; });
}

// In order, none twice, inside of the path; groups without a window without a gap.
bool pages_are_good(const PrefixPath& path, std::span<const std::byte> groups, uint32_t T) {
  const size_t n_pages = (path.keys.size() + T - 1) / T;
  const size_t n_groups = groups.size() / kGroupBytes;
  std::vector<size_t> counts(n_groups, 0);
  const PrefixPath::Page* before = nullptr;
  for (const PrefixPath::Page& page : path.pages) {
    if (page.group >= n_groups || page.index >= n_pages) return false;
    if (before != nullptr &&
        std::pair(page.group, page.index) <= std::pair(before->group, before->index))
      return false;
    ++counts[page.group];
    before = &page;
  }
  for (size_t g = 0; g < n_groups; ++g) {
    const auto window = PrefixReader(groups.subspan(g * kGroupBytes)).get<uint32_t>();
    if (window == 0 && counts[g] != n_pages) return false;
  }
  return true;
}

}  // namespace

Status PrefixFile::parse_description(std::span<const std::byte> bytes) {
  const auto bad = [&](std::string_view what) {
    return error(ErrorCode::kCorrupt, "{}: the description is not valid ({})", name_, what);
  };
  if (bytes.size() < sizeof(Digest) + sizeof(Counts)) return bad("size");
  PrefixReader reader(bytes);
  model_ = reader.get<Digest>();
  const auto n = reader.get<Counts>();
  // No overflow: counts have 32 bits, and n_extra is no more than there is.
  const uint64_t fixed = sizeof(Digest) + sizeof(Counts) + n.n_groups * uint64_t{kGroupBytes} +
                         size_of<uint32_t>(n.n_tokens) + size_of<SoftRun>(n.n_soft) +
                         size_of<uint32_t>(n.n_points) + n.n_pages * uint64_t{kPageBytes};
  if (n.n_extra > bytes.size() || fixed != bytes.size() - n.n_extra) return bad("size");
  if (!std::has_single_bit(n.page_positions)) return bad("page positions");
  page_positions_ = n.page_positions;
  groups_ = reader.get_bytes(n.n_groups * kGroupBytes);
  const auto ids = reader.get_bytes(size_of<uint32_t>(n.n_tokens));
  auto keys = keys_with(ids, reader.get_bytes(size_of<SoftRun>(n.n_soft)));
  if (!keys) return bad("soft rows");
  path_.keys = std::move(*keys);
  for (uint32_t i = 0; i < n.n_points; ++i) path_.points.push_back(reader.get<uint32_t>());
  if (!points_are_good(path_)) return bad("resume points");
  for (uint32_t i = 0; i < n.n_pages; ++i) {
    const auto group = reader.get<uint32_t>();
    const auto index = reader.get<uint32_t>();
    path_.pages.push_back({group, index, kNoPage});
    checksums_.push_back(reader.get<uint64_t>());
  }
  if (!pages_are_good(path_, groups_, page_positions_)) return bad("pages");
  const auto extra = reader.get_bytes(n.n_extra);
  extra_ = {reinterpret_cast<const char*>(extra.data()), extra.size()};
  return Ok{};
}

Status PrefixFile::check_owner(const Digest& model, const Pool& pool) const {
  if (model != model_) {
    return error(ErrorCode::kUnsupported, "{}: rows of this model expected, found another model's",
                 name_);
  }
  const std::vector<std::byte> expected = groups_of_pool(pool);
  const bool same_pages = pool.group(0).layout.page_positions == page_positions_;
  if (same_pages && std::ranges::equal(expected, groups_)) return Ok{};
  for (size_t g = 0; g < std::min(expected.size(), groups_.size()) / kGroupBytes; ++g) {
    const auto names = groups_.subspan((g + 1) * kGroupBytes - 2 * kFormatName, 2 * kFormatName);
    const PageLayout& layout = pool.group(g).layout;
    const auto k = format_name(names.first(kFormatName));
    const auto v = format_name(names.last(kFormatName));
    const auto wanted_k = kv_format_info(layout.k_format).name;
    const auto wanted_v = kv_format_info(layout.v_format).name;
    if (k == wanted_k && v == wanted_v) continue;
    return error(ErrorCode::kUnsupported,
                 "{}: K {} and V {} expected (cache group {}), found {} and {}", name_, wanted_k,
                 wanted_v, g, k, v);
  }
  return error(ErrorCode::kUnsupported, "{}: other cache groups than this program makes", name_);
}

// What each page's rows are, once they are known to be as they were written.
Status PrefixFile::check_pages(const Pool& pool,
                               std::vector<std::span<const std::byte>>& pages) const {
  std::span<const std::byte> rest = rows_;
  for (size_t i = 0; i < path_.pages.size(); ++i) {
    const auto [g, index, id] = path_.pages[i];
    const size_t bytes = packed_bytes(pool.group(g).layout, path_.n_rows(index, page_positions_));
    if (bytes > rest.size() || checksum_of(rest.first(bytes)) != checksums_[i]) {
      return error(ErrorCode::kCorrupt, "{}: page {} of cache group {} is damaged (checksum)",
                   name_, index, g);
    }
    pages.push_back(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  if (rest.empty()) return Ok{};
  return error(ErrorCode::kCorrupt, "{}: nothing expected behind the pages, found {} bytes", name_,
               rest.size());
}

Status PrefixFile::restore(const Digest& model, PrefixTree& tree,
                           std::string_view name_space) const {
  const Pool& pool = tree.pool();
  if (Status owner = check_owner(model, pool); !owner.ok()) {
    if (model == model_) tree.note_other_format(name_space, path_.keys);
    return owner;
  }
  std::vector<std::span<const std::byte>> pages;
  TRY_OK(check_pages(pool, pages));
  const auto load = [&](size_t i, std::byte* to) {
    const auto [g, index, id] = path_.pages[i];
    unpack_page(pool.group(g).layout, path_.n_rows(index, page_positions_), pages[i].data(), to);
  };
  if (const KvStatus refused = tree.restore(name_space, path_, load)) return to_error(*refused);
  return Ok{};
}

namespace {

// f(the packed rows) for each page of a path.
template <class F>
Status for_each_packed(const PrefixTree& tree, const PrefixPath& path, F f) {
  std::vector<std::byte> packed;
  for (const PrefixPath::Page& page : path.pages) {
    const PageLayout& layout = tree.pool().group(page.group).layout;
    const uint32_t n = path.n_rows(page.index, layout.page_positions);
    packed.resize(packed_bytes(layout, n));
    pack_page(layout, n, tree.pool().data(page.group, page.id), packed.data());
    TRY_OK(f(page, std::span<const std::byte>(packed)));
  }
  return Ok{};
}

}  // namespace

Status write_prefix_file(const std::string& path, const PrefixTree& tree, const PrefixPath& prefix,
                         const Digest& model, std::string_view extra) {
  CHECK(!prefix.points.empty() && prefix.points.back() == prefix.keys.size());
  const Pool& pool = tree.pool();
  const std::vector<SoftRun> runs = soft_runs(prefix.keys);
  PrefixWriter description;
  description.put(model);
  const auto n32 = [](size_t n) { return static_cast<uint32_t>(n); };
  description.put(Counts{pool.group(0).layout.page_positions, n32(pool.n_groups()),
                         n32(prefix.keys.size()), n32(runs.size()), n32(prefix.points.size()),
                         n32(prefix.pages.size()), extra.size()});
  description.put_bytes(groups_of_pool(pool));
  for (const TokenKey& key : prefix.keys) {
    description.put(key.kind == TokenKey::Kind::kToken ? key.value : 0U);
  }
  description.put_bytes(std::as_bytes(std::span(runs)));
  description.put_bytes(std::as_bytes(std::span(prefix.points)));
  uint64_t row_bytes = 0;
  const auto describe_page = [&](const PrefixPath::Page& page, std::span<const std::byte> rows) {
    description.put(page.group);
    description.put(page.index);
    description.put(checksum_of(rows));
    row_bytes += rows.size();
    return Status(Ok{});
  };
  TRY_OK(for_each_packed(tree, prefix, describe_page));
  description.put_bytes(std::as_bytes(std::span(extra)));

  PrefixWriter header;
  header.put_bytes(std::as_bytes(std::span(kMagic)));
  header.put(kVersion);
  header.put(kFormatRevision);
  header.put(uint64_t{kHeaderBytes + description.bytes().size() + row_bytes});
  header.put(uint64_t{description.bytes().size()});
  header.put(digest_of_bytes(description.bytes()));
  header.put(digest_of_bytes(header.bytes()));
  CHECK(header.bytes().size() == kHeaderBytes);
  TRY(file, OutputFile::create(path));
  TRY_OK(file.write(header.bytes()));
  TRY_OK(file.write(description.bytes()));
  TRY_OK(for_each_packed(tree, prefix,
                         [&](const PrefixPath::Page& /*page*/, std::span<const std::byte> rows) {
                           return file.write(rows);
                         }));
  return file.commit();
}

}  // namespace hf2q
