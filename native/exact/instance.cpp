#include "exact/instance.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "problem/checked.hpp"

namespace lowtide {
namespace {

using LiveSets = std::vector<std::vector<Index>>;  // by section; each ascending

Bytes divide_up(Bytes value, Bytes by) { return value / by + (value % by != 0); }

bool contains(const std::vector<Index>& a, const std::vector<Index>& b) {
  return a.size() >= b.size() && std::includes(a.begin(), a.end(), b.begin(), b.end());
}

// Two buffers that are ever alive together are so at a start of one of them, so the sections at which
// something starts are enough; of these, one within a neighbour adds nothing.
LiveSets contract(LiveSets sections, bool enabled) {
  if (!enabled) return sections;
  LiveSets kept;
  for (auto& section : sections) {
    while (!kept.empty() && contains(section, kept.back())) kept.pop_back();
    if (kept.empty() || !contains(kept.back(), section)) kept.push_back(std::move(section));
  }
  return kept;
}

Rows transpose(const Rows& rows, Index columns) {
  Rows out;
  out.first.assign(columns + 1, 0);
  for (const Index column : rows.entries) ++out.first[column + 1];
  std::partial_sum(out.first.begin(), out.first.end(), out.first.begin());
  out.entries.resize(rows.entries.size());
  std::vector<Index> next(out.first.begin(), out.first.end() - 1);
  for (Index row = 0; row + 1 < static_cast<Index>(rows.first.size()); ++row) {
    for (const Index column : rows[row]) out.entries[next[column]++] = row;
  }
  return out;
}

void link_neighbours(Instance& instance) {
  std::vector<Index> seen(instance.count(), -1);
  for (Index j = 0; j < instance.count(); ++j) {
    seen[j] = j;
    for (const Index s : instance.sections[j]) {
      for (const Index k : instance.live[s]) {
        if (std::exchange(seen[k], j) != j) instance.neighbours.entries.push_back(k);
      }
    }
    instance.neighbours.close_row();
  }
}

void link_twins(Instance& instance) {
  const auto less = [&](Index a, Index b) {
    const auto key = [&](Index j) {
      return std::tuple(instance.bytes[j], instance.alignment[j], instance.lowest[j]);
    };
    if (key(a) != key(b)) return key(a) < key(b);
    const auto sa = instance.sections[a], sb = instance.sections[b];
    return std::lexicographical_compare(sa.begin(), sa.end(), sb.begin(), sb.end());
  };
  std::vector<Index> order(instance.count());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  instance.next_twin.assign(instance.count(), -1);
  for (std::size_t k = 1; k < order.size(); ++k) {
    if (!less(order[k - 1], order[k])) instance.next_twin[order[k - 1]] = order[k];
  }
}

void fill_rows(Instance& instance, const LiveSets& sections) {
  for (const auto& section : sections) {
    instance.live.entries.insert(instance.live.entries.end(), section.begin(), section.end());
    instance.live.close_row();
  }
  instance.sections = transpose(instance.live, instance.count());
  link_neighbours(instance);
  link_twins(instance);
}

// Offsets are multiples of every alignment's common divisor g, so sizes can be rounded up to it. If every
// alignment is g itself, left-justified offsets are moreover sums of sizes above the lowest place.
void scale(Instance& instance, const Problem& problem, const std::vector<Bytes>& alignment, bool enabled) {
  const auto& buffers = instance.buffer;
  Bytes common = 0;
  for (const Bytes a : alignment) common = std::gcd(common, a);
  const bool uniform =
      enabled && std::all_of(alignment.begin(), alignment.end(), [&](Bytes a) { return a == common; });
  instance.quantum = enabled ? common : 1;
  if (uniform) {
    instance.origin = round_up(problem.reserved, common);
    Bytes sizes = 0;
    for (const Index i : buffers) sizes = std::gcd(sizes, divide_up(problem.size[i], common));
    instance.quantum = common * sizes;
  }
  for (std::size_t j = 0; j < buffers.size(); ++j) {
    const Bytes bytes = problem.size[buffers[j]];
    instance.bytes.push_back(bytes);
    instance.size.push_back(divide_up(bytes, instance.quantum));
    instance.alignment.push_back(uniform ? 1 : alignment[j] / instance.quantum);
    instance.lowest.push_back((round_up(problem.reserved, alignment[j]) - instance.origin) /
                              instance.quantum);
  }
}

}  // namespace

Bytes Instance::latest(Index j, Bytes arena) const {
  const Bytes room = arena - bytes[j] - origin;
  return room < 0 ? -1 : room / quantum;
}

Bytes Instance::attainable(Bytes arena) const {
  Bytes best = kMaxBytes;
  for (Index j = 0; j < count(); ++j) {
    const Bytes room = arena - bytes[j] - origin;
    Bytes offset = std::max(lowest[j], room <= 0 ? 0 : divide_up(room, quantum));
    offset = divide_up(offset, alignment[j]) * alignment[j];
    best = std::min(best, origin + offset * quantum + bytes[j]);
  }
  return best;
}

// Whatever is on top loses its padding; everything below is stacked in whole quanta.
Bytes Instance::section_bytes(Index section) const {
  Bytes sum = 0, padding = 0, floor = kMaxBytes;
  for (const Index j : live[section]) {
    sum += size[j];
    padding = std::max(padding, size[j] * quantum - bytes[j]);
    floor = std::min(floor, lowest[j]);
  }
  return origin + (floor + sum) * quantum - padding;
}

Bytes Instance::peak() const {
  Bytes peak = 0;
  for (Index s = 0; s < section_count(); ++s) peak = std::max(peak, section_bytes(s));
  return attainable(peak);
}

std::optional<Instance> make_instance(const Problem& problem, const std::vector<Index>& buffers,
                                      const std::vector<Bytes>& alignment, const RuleSet& rules,
                                      std::int64_t limit) {
  Instance instance;
  instance.buffer = buffers;

  std::vector<Time> starts;
  for (const Index i : instance.buffer) {
    for (Index k = problem.first[i]; k < problem.first[i + 1]; ++k) {
      starts.push_back(problem.intervals[k].start);
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());

  const auto rank = [&](Time t) {
    return std::lower_bound(starts.begin(), starts.end(), t) - starts.begin();
  };
  LiveSets sections(starts.size());
  std::int64_t work = 0;
  for (Index j = 0; j < instance.count(); ++j) {
    const Index i = instance.buffer[j];
    for (Index k = problem.first[i]; k < problem.first[i + 1]; ++k) {
      const auto end = rank(problem.intervals[k].stop);
      for (auto s = rank(problem.intervals[k].start); s < end; ++s) {
        sections[s].push_back(j);
        work += static_cast<std::int64_t>(sections[s].size());
      }
      if (work > limit) return std::nullopt;
    }
  }
  scale(instance, problem, alignment, rules.has(Rule::kScaling));
  fill_rows(instance, contract(std::move(sections), rules.has(Rule::kContraction)));
  return instance;
}

Instance cut_window(const Instance& whole, Index begin, Index end, const RuleSet& rules) {
  Instance window;
  window.quantum = whole.quantum;
  window.origin = whole.origin;
  std::vector<Index> renamed(whole.count(), -1);
  LiveSets sections;
  for (Index s = begin; s < end; ++s) {
    auto& section = sections.emplace_back();
    for (const Index j : whole.live[s]) {
      if (renamed[j] < 0) {
        renamed[j] = window.count();
        window.buffer.push_back(whole.buffer[j]);
        window.bytes.push_back(whole.bytes[j]);
        window.size.push_back(whole.size[j]);
        window.alignment.push_back(whole.alignment[j]);
        window.lowest.push_back(whole.lowest[j]);
      }
      section.push_back(renamed[j]);
    }
    std::sort(section.begin(), section.end());
  }
  fill_rows(window, contract(std::move(sections), rules.has(Rule::kContraction)));
  return window;
}

}  // namespace lowtide
