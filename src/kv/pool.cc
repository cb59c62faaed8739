#include "kv/pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace hf2q {
namespace {

constexpr uint64_t kMaxBudget = uint64_t{1} << 46;  // a quarter of a process's addresses
constexpr uint64_t kSlabBytes = uint64_t{2} << 20;  // a huge page
constexpr uint64_t kSlabsPerBudget = 64;  // a group's partly used slabs cost at most this share

uint64_t saturating_mul(uint64_t a, uint64_t b) {
  return checked_mul(a, b).value_or(UINT64_MAX);
}

uint64_t saturating_add(uint64_t a, uint64_t b) {
  return checked_add(a, b).value_or(UINT64_MAX);
}

}  // namespace

uint64_t Pool::Supply::slabs_for(uint64_t wanted) const {
  if (wanted <= pages) return 0;
  return (wanted - pages + slab_pages - 1) / slab_pages;
}

uint64_t Pool::Supply::spare_slabs(uint64_t wanted) const {
  return wanted >= pages ? 0 : std::min(slabs, (pages - wanted) / slab_pages);
}

Pool::Supply Pool::supply(const Group& group, When when) {
  if (when == When::kNow) return {group.free.size(), group.empty_slabs.size(), group.slab_pages};
  return {group.free.size() + group.n_cached, group.n_idle_slabs, group.slab_pages};
}

Result<Pool::Group> Pool::make_group(const KvGroup& shape, uint64_t budget_bytes) {
  const uint64_t page_bytes = shape.layout.page_bytes();
  const uint64_t slab_pages =
      std::max<uint64_t>(1, std::min(kSlabBytes, budget_bytes / kSlabsPerBudget) / page_bytes);
  const uint64_t stride = *checked_round_up(slab_pages * page_bytes, AddressRange::granularity());
  const uint64_t max_slabs = budget_bytes / (slab_pages * page_bytes);
  CHECK(max_slabs * slab_pages < kNoPage);
  TRY(range, AddressRange::reserve(max_slabs * stride));
  return Group{shape, page_bytes, slab_pages, stride, std::move(range)};
}

Result<std::unique_ptr<Pool>> Pool::create(std::span<const KvGroup> groups,
                                           const PoolOptions& options) {
  uint64_t least = 0;
  for (const KvGroup& group : groups) least += group.layout.page_bytes();
  if (options.budget_bytes < least || options.budget_bytes > kMaxBudget) {
    return error(ErrorCode::kInvalidArgument,
                 "cache budget: {} (a page of each group) to {} bytes expected, found {}", least,
                 kMaxBudget, options.budget_bytes);
  }
  std::unique_ptr<Pool> pool(new Pool(options));
  for (const KvGroup& shape : groups) {
    TRY(group, make_group(shape, options.budget_bytes));
    pool->groups_.push_back(std::move(group));
  }
  return pool;
}

std::byte* Pool::data(size_t g, PageId page) const {
  const Group& group = groups_[g];
  return group.range.data() + page / group.slab_pages * group.slab_stride +
         page % group.slab_pages * group.page_bytes;
}

void Pool::copy(size_t g, PageId from, PageId to) const {
  std::memcpy(data(g, to), data(g, from), groups_[g].page_bytes);
}

// Bytes that new slabs of group g may take: what no slab has, and the idle slabs of the others.
uint64_t Pool::free_bytes(size_t g) const {
  uint64_t bytes = budget_bytes() - committed_bytes_;
  for (size_t other = 0; other < groups_.size(); ++other) {
    const Group& group = groups_[other];
    if (other != g) bytes += group.n_idle_slabs * group.slab_bytes();
  }
  return bytes;
}

uint64_t Pool::free_pages(size_t g) const {
  const Group& group = groups_[g];
  return supply(group, When::kAfterReclaim).pages +
         free_bytes(g) / group.slab_bytes() * group.slab_pages;
}

uint64_t Pool::cached_bytes() const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.n_cached * group.page_bytes;
  return bytes;
}

uint64_t Pool::used_bytes() const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.n_used * group.page_bytes;
  return bytes;
}

bool Pool::commit_slab(Group& group) {
  const bool recycled = !group.vacant_slabs.empty();
  const uint32_t slab =
      recycled ? *group.vacant_slabs.begin() : static_cast<uint32_t>(group.slab_used.size());
  if (!group.range.commit(slab * group.slab_stride, group.slab_stride)) return false;
  if (recycled) {
    group.vacant_slabs.erase(group.vacant_slabs.begin());
  } else {
    group.slab_used.push_back(0);
    group.slab_live.push_back(0);
    group.references.resize(group.references.size() + group.slab_pages, 0);
    group.kept.resize(group.references.size(), false);
  }
  group.empty_slabs.insert(slab);
  ++group.n_idle_slabs;
  const PageId first = static_cast<PageId>(slab * group.slab_pages);
  for (PageId i = 0; i < group.slab_pages; ++i) group.free.insert(first + i);
  committed_bytes_ += group.slab_bytes();
  return true;
}

void Pool::return_slab(Group& group, uint32_t slab) {
  const PageId first = static_cast<PageId>(slab * group.slab_pages);
  for (PageId i = 0; i < group.slab_pages; ++i) group.free.erase(first + i);
  group.empty_slabs.erase(slab);
  --group.n_idle_slabs;
  group.vacant_slabs.insert(slab);
  group.range.release(slab * group.slab_stride, group.slab_stride);
  committed_bytes_ -= group.slab_bytes();
}

// Gives back every empty slab that is not needed for counts[g] pages of each group.
void Pool::return_empty_slabs(std::span<const uint64_t> counts) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    for (uint64_t n = supply(group, When::kNow).spare_slabs(counts[g]); n > 0; --n) {
      return_slab(group, *group.empty_slabs.rbegin());
    }
  }
}

PageId Pool::take_page(Group& group) {
  const PageId page = *group.free.begin();
  group.free.erase(group.free.begin());
  const uint32_t slab = group.slab_of(page);
  if (group.slab_used[slab]++ == 0) group.empty_slabs.erase(slab);
  ++group.n_used;
  refer(group, page, 1, false);
  return page;
}

Pool::Demand Pool::demand_of(std::span<const uint64_t> counts, When when) const {
  Demand demand{.new_bytes = 0, .free_bytes = budget_bytes() - committed_bytes_};
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const Supply has = supply(group, when);
    demand.free_bytes += has.spare_slabs(counts[g]) * group.slab_bytes();
    const uint64_t bytes = saturating_mul(has.slabs_for(counts[g]), group.slab_bytes());
    demand.new_bytes = saturating_add(demand.new_bytes, bytes);
  }
  return demand;
}

BudgetExceeded Pool::refusal(std::span<const uint64_t> counts, const Demand& demand) const {
  const auto lacking = [&](size_t g) { return counts[g] > free_pages(g); };
  const auto growing = [&](size_t g) {
    return supply(groups_[g], When::kAfterReclaim).slabs_for(counts[g]) > 0;
  };
  size_t g = 0;
  while (g < groups_.size() && !lacking(g)) ++g;
  if (g == groups_.size()) {  // each could be served, but not all together
    for (g = 0; !growing(g);) ++g;
  }
  return {g, counts[g], free_pages(g), demand.new_bytes, demand.free_bytes, budget_bytes()};
}

bool Pool::could_allocate(std::span<const uint64_t> counts) const {
  CHECK(counts.size() == groups_.size());
  const Demand least = demand_of(counts, When::kAfterReclaim);
  return least.new_bytes <= least.free_bytes;
}

bool Pool::could_hold(std::span<const uint64_t> counts) const {
  CHECK(counts.size() == groups_.size());
  uint64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Supply nothing = {.pages = 0, .slabs = 0, .slab_pages = groups_[g].slab_pages};
    bytes = saturating_add(bytes,
                           saturating_mul(nothing.slabs_for(counts[g]), groups_[g].slab_bytes()));
  }
  return bytes <= budget_bytes();
}

KvStatus Pool::allocate(std::span<const uint64_t> counts, std::span<std::vector<PageId>> pages) {
  CHECK(counts.size() == groups_.size() && pages.size() == groups_.size());
  const Demand least = demand_of(counts, When::kAfterReclaim);
  if (least.new_bytes > least.free_bytes) return refusal(counts, least);
  Demand demand = demand_of(counts, When::kNow);
  while (demand.new_bytes > demand.free_bytes) {
    CHECK(reclaim_ && reclaim_());
    demand = demand_of(counts, When::kNow);
  }
  if (demand.new_bytes > budget_bytes() - committed_bytes_) return_empty_slabs(counts);
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (uint64_t n = supply(groups_[g], When::kNow).slabs_for(counts[g]); n > 0; --n) {
      if (!commit_slab(groups_[g])) return SystemMemoryExceeded{demand.new_bytes};
    }
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (uint64_t n = counts[g]; n > 0; --n) {
      const PageId page = take_page(groups_[g]);
      if (options_.poison) std::memset(data(g, page), 0xFF, groups_[g].page_bytes);
      pages[g].push_back(page);
    }
  }
  return std::nullopt;
}

// Counts a page's state anew after `change` references came, of which the tree's may be one.
void Pool::refer(Group& group, PageId page, int change, bool kept) {
  const bool was_live = group.is_live(page);
  const bool was_cached = group.kept[page] && !was_live;
  group.references[page] += static_cast<uint32_t>(change);
  group.kept[page] = kept;
  const bool live = group.is_live(page);
  if (was_cached) --group.n_cached;
  if (kept && !live) ++group.n_cached;
  uint32_t& slab_live = group.slab_live[group.slab_of(page)];
  if (live && !was_live && slab_live++ == 0) --group.n_idle_slabs;
  if (was_live && !live && --slab_live == 0) ++group.n_idle_slabs;
}

void Pool::retain(size_t g, PageId page) {
  Group& group = groups_[g];
  CHECK(references(g, page) > 0);
  // A fork retains thousands of live pages.
  if (group.is_live(page)) {
    ++group.references[page];
  } else {
    refer(group, page, 1, true);
  }
}

void Pool::release(size_t g, PageId page) {
  Group& group = groups_[g];
  CHECK(group.is_live(page));
  refer(group, page, -1, group.kept[page]);
  if (group.references[page] == 0) free_page(group, page);
}

void Pool::cache(size_t g, PageId page) {
  CHECK(references(g, page) > 0 && !groups_[g].kept[page]);
  refer(groups_[g], page, 1, true);
}

void Pool::uncache(size_t g, PageId page) {
  Group& group = groups_[g];
  CHECK(group.kept[page]);
  refer(group, page, -1, false);
  if (group.references[page] == 0) free_page(group, page);
}

void Pool::free_page(Group& group, PageId page) {
  --group.n_used;
  group.free.insert(page);
  const uint32_t slab = group.slab_of(page);
  if (--group.slab_used[slab] > 0) return;
  group.empty_slabs.insert(slab);
  if (group.empty_slabs.size() > 1) return_slab(group, *group.empty_slabs.rbegin());
}

}  // namespace hf2q
