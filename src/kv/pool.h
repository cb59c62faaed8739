#pragma once
// All cache memory of a device, under one byte budget, as fixed pages with reference counts.
//
// A page is free, live (a sequence refers to it) or cached: only the prefix tree keeps it, in case
// that its tokens come again. Cached pages count as free: allocate() has the tree give them up when
// nothing else is left.
//
// Each group reserves addresses for the whole budget and commits them slab by slab. A slab is one
// page, or several small ones: together at most 2 MiB and 1/64 of the budget, so that a group loses
// no more than this to rounding. An empty slab goes back to the system, but for one per group that
// waits for the next page until another group needs its bytes. Always
//   cached_bytes() <= used_bytes() <= committed_bytes() <= budget_bytes()
//
// A fresh page holds leftovers; whoever reads must have written first. Serial use only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/address_range.h"
#include "kv/error.h"
#include "kv/plan.h"

namespace hf2q {

using PageId = uint32_t;  // counts the pages of one group
inline constexpr PageId kNoPage = UINT32_MAX;

struct PoolOptions {
  uint64_t budget_bytes = 0;
  bool poison = false;  // fill fresh pages with ones (NaN in every plain format): a test's proof
                        // that nothing unwritten is read
};

class Pool {
 public:
  // Fails with kInvalidArgument when the budget is below one page of each group or above 2^46, with
  // kOutOfMemory when the system gives no addresses.
  static Result<std::unique_ptr<Pool>> create(std::span<const KvGroup> groups,
                                              const PoolOptions& options);

  size_t n_groups() const { return groups_.size(); }
  const KvGroup& group(size_t g) const { return groups_[g].shape; }

  // counts[g] pages of each group g, appended to pages[g], each with one reference; all of them or
  // none. Cached pages are given up one by one, and only if that is enough. Fails with
  // BudgetExceeded or SystemMemoryExceeded.
  KvStatus allocate(std::span<const uint64_t> counts, std::span<std::vector<PageId>> pages);

  // allocate() would succeed, were the system to give the memory.
  bool could_allocate(std::span<const uint64_t> counts) const;
  // An empty pool could give this many pages.
  bool could_hold(std::span<const uint64_t> counts) const;

  void retain(size_t g, PageId page);   // one reference more
  void release(size_t g, PageId page);  // one less; the last one frees the page
  uint32_t references(size_t g, PageId page) const { return groups_[g].references[page]; }

  // The tree's own reference. CHECKs that the page is used, and has none or one of these.
  void cache(size_t g, PageId page);
  void uncache(size_t g, PageId page);
  // Nobody but the tree refers to it.
  bool is_cached(size_t g, PageId page) const {
    return groups_[g].kept[page] && references(g, page) == 1;
  }
  // Asked to uncache at least one cached page; false when there is none.
  void set_reclaimer(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }

  // [layout.page_bytes()], aligned to 128 bytes; stays where it is as long as it is referenced.
  std::byte* data(size_t g, PageId page) const;
  // All bytes of `from` to `to`.
  void copy(size_t g, PageId from, PageId to) const;

  uint64_t used_pages(size_t g) const { return groups_[g].n_used; }  // live and cached
  uint64_t cached_pages(size_t g) const { return groups_[g].n_cached; }
  // What allocate() could give to this group if no other took any.
  uint64_t free_pages(size_t g) const;
  uint64_t used_bytes() const;
  uint64_t cached_bytes() const;
  uint64_t committed_bytes() const { return committed_bytes_; }
  uint64_t budget_bytes() const { return options_.budget_bytes; }

 private:
  struct Group {
    KvGroup shape;
    uint64_t page_bytes = 0;
    uint64_t slab_pages = 0;
    uint64_t slab_stride = 0;  // in addresses: slab_bytes() up to whole pages of the system
    AddressRange range;
    uint64_t n_used = 0;
    uint64_t n_cached = 0;
    uint64_t n_idle_slabs = 0;           // committed, no page live
    std::vector<uint32_t> references{};  // [pages of slabs ever committed]
    std::vector<bool> kept{};            // [the same pages], by the tree
    std::vector<uint32_t> slab_used{};   // [slabs ever committed], pages in use
    std::vector<uint32_t> slab_live{};   // [the same slabs], pages that are live
    std::set<PageId> free{};             // pages of committed slabs; lowest first, so slabs fill up
    std::set<uint32_t> empty_slabs{};    // committed, no page in use
    std::set<uint32_t> vacant_slabs{};   // committed once, given back

    uint64_t slab_bytes() const { return slab_pages * page_bytes; }
    bool is_live(PageId page) const { return references[page] > (kept[page] ? 1 : 0); }
    uint32_t slab_of(PageId page) const { return static_cast<uint32_t>(page / slab_pages); }
  };
  // What a group can give without new memory: now, or once every cached page is given up.
  struct Supply {
    uint64_t pages;
    uint64_t slabs;  // that could go back to the system
    uint64_t slab_pages;

    uint64_t slabs_for(uint64_t wanted) const;    // to commit before `wanted` pages are free
    uint64_t spare_slabs(uint64_t wanted) const;  // empty ones that they do not need
  };
  enum class When { kNow, kAfterReclaim };
  struct Demand {
    uint64_t new_bytes;   // of slabs to commit
    uint64_t free_bytes;  // not committed, or in slabs that can be given back
  };

  explicit Pool(const PoolOptions& options) : options_(options) {}
  static Result<Group> make_group(const KvGroup& shape, uint64_t budget_bytes);

  static Supply supply(const Group& group, When when);
  uint64_t free_bytes(size_t g) const;
  Demand demand_of(std::span<const uint64_t> counts, When when) const;
  BudgetExceeded refusal(std::span<const uint64_t> counts, const Demand& demand) const;
  void return_empty_slabs(std::span<const uint64_t> counts);
  bool commit_slab(Group& group);
  void return_slab(Group& group, uint32_t slab);
  PageId take_page(Group& group);
  void refer(Group& group, PageId page, int change, bool kept);
  void free_page(Group& group, PageId page);

  PoolOptions options_;
  std::function<bool()> reclaim_;
  uint64_t committed_bytes_ = 0;
  std::vector<Group> groups_;
};

}  // namespace hf2q
