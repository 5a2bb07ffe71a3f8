#include "exact/worker.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lowtide {
namespace {

constexpr double kNoise[] = {0.1, 0.2};  // in turn: keys vary by up to e to the power of this
constexpr double kForget = 0.97;         // by run: how fast old conflicts lose weight
constexpr double kLeastWeight = 0.02;    // of a buffer that is in no conflict, where 1 is in the worst

// Buffers in the fullest sections first, widest first among those; or just the widest first. Width is
// counted in sections, so that it does not depend on the clock.
std::vector<std::vector<double>> keys_of(const Instance& instance) {
  std::vector<double> fullness(instance.section_count());
  double peak = 1;
  for (Index s = 0; s < instance.section_count(); ++s) {
    fullness[s] = static_cast<double>(instance.section_bytes(s));
    peak = std::max(peak, fullness[s]);
  }
  std::vector<std::vector<double>> keys(2, std::vector<double>(instance.count()));
  for (Index j = 0; j < instance.count(); ++j) {
    double total = 0;
    for (const Index s : instance.sections[j]) total = std::max(total, fullness[s] / peak);
    const auto width = static_cast<double>(instance.sections[j].size());
    keys[0][j] = std::pow(total, 70) * width;
    keys[1][j] = width;
  }
  return keys;
}

// Units by area, or by height.
std::vector<std::vector<double>> keys_of(const Parts& parts, const Part& part) {
  const Problem& problem = parts.problem();
  std::vector<std::vector<double>> keys(2);
  for (const Index u : part.units) {
    double area = 0, height = 0;
    for (const Member& member : parts.units().members(parts.units()[u])) {
      double duration = 0;
      for (Index k = problem.first[member.buffer]; k < problem.first[member.buffer + 1]; ++k) {
        duration +=
            static_cast<double>(problem.intervals[k].stop) - static_cast<double>(problem.intervals[k].start);
      }
      const auto size = static_cast<double>(problem.size[member.buffer]);
      area += duration * size;
      height = std::max(height, size);
    }
    keys[0].push_back(area);
    keys[1].push_back(height);
  }
  return keys;
}

// By buffer: how much of the conflicts its worst section had.
std::vector<double> weights_of(const Instance& instance, const std::vector<double>& conflicts) {
  double worst = 1;
  for (const double count : conflicts) worst = std::max(worst, count);
  std::vector<double> weights(instance.count(), kLeastWeight);
  for (Index j = 0; j < instance.count(); ++j) {
    double most = 0;
    for (const Index s : instance.sections[j]) most = std::max(most, conflicts[s]);
    weights[j] += most / worst;
  }
  return weights;
}

}  // namespace

Worker::Worker(const Parts& parts, const RuleSet& rules, std::uint64_t seed)
    : parts_(parts), rules_(rules), random_(seed) {}

// SplitMix64; Steele, Lea and Flood (2014). Between -1 and 1.
double Worker::noise() {
  std::uint64_t x = random_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

Worker::Solver& Worker::solver(Index index, bool modest) {
  const auto [at, is_new] = solvers_.try_emplace({index, modest});
  Solver& solver = at->second;
  if (!is_new) return solver;
  const Part& part = parts_.list()[index];
  if (part.instance) {
    solver.canonical = std::make_unique<CanonicalSearch>(*part.instance, rules_);
    solver.keys = keys_of(*part.instance);
  } else {
    solver.bands = std::make_unique<BandSearch>(parts_.problem(), parts_.units(), part.units, rules_);
    solver.keys = keys_of(parts_, part);
  }
  return solver;
}

// Descending by key, with what has caused conflicts ahead; and with some noise, unless calm.
std::vector<Index> Worker::order(const Solver& solver, const Task& task, const std::vector<double>& weights) {
  std::vector<double> key = solver.keys[task.turn % solver.keys.size()];
  const double loudness = kNoise[task.turn / 2 % 2];
  for (std::size_t j = 0; j < key.size(); ++j) {
    if (!weights.empty()) key[j] *= weights[j];
    if (!task.calm) key[j] *= std::exp(loudness * noise());
  }
  std::vector<Index> order(key.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key[a] > key[b]; });
  return order;
}

Report Worker::run(const Task& task, const std::atomic<bool>& stop) {
  if (task.window_begin >= 0) return run_window(task, stop);
  Solver& mine = solver(task.part, task.modest);
  const Part& part = parts_.list()[task.part];
  Report report;
  report.bases.resize(part.units.size());
  if (mine.canonical) {
    CanonicalSearch& search = *mine.canonical;
    const auto ranking = order(mine, task, weights_of(*part.instance, search.conflicts()));
    report.outcome =
        search.run(task.arena, ranking, task.nodes, stop, dead_ends_, static_cast<std::uint64_t>(task.part));
    report.nodes = search.nodes();
    search.forget(kForget);
    for (std::size_t k = 0; k < report.bases.size(); ++k)
      report.bases[k] = search.offset(static_cast<Index>(k));
  } else {
    BandSearch& search = *mine.bands;
    report.outcome = search.run(task.arena, order(mine, task, {}), task.nodes, stop);
    report.nodes = search.nodes();
    for (std::size_t k = 0; k < report.bases.size(); ++k)
      report.bases[k] = search.base(static_cast<Index>(k));
  }
  return report;
}

// Only whether it fails is of interest.
Report Worker::run_window(const Task& task, const std::atomic<bool>& stop) {
  const Instance window =
      cut_window(*parts_.list()[task.part].instance, task.window_begin, task.window_end, rules_);
  CanonicalSearch search(window, rules_);
  Solver solver;
  solver.keys = keys_of(window);
  const std::uint64_t salt = (static_cast<std::uint64_t>(task.part) + 1) << 40 ^
                             static_cast<std::uint64_t>(task.window_begin) << 20 ^
                             static_cast<std::uint64_t>(task.window_end);
  Report report;
  report.outcome = search.run(task.arena, order(solver, task, {}), task.nodes, stop, dead_ends_, salt);
  report.nodes = search.nodes();
  return report;
}

}  // namespace lowtide
