// Python's view of the heuristics, the bound and the verifier.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/interruptible.hpp"
#include "check/check.hpp"
#include "heuristics/order_packer.hpp"
#include "heuristics/orders.hpp"
#include "heuristics/squeaky_wheel.hpp"
#include "objects/shared_objects.hpp"
#include "problem/bounds.hpp"
#include "problem/live_peak.hpp"
#include "problem/units.hpp"

namespace lowtide {
namespace {

const char* name_of(Violation::Kind kind) {
  switch (kind) {
    case Violation::Kind::kOverlap:
      return "overlap";
    case Violation::Kind::kCapacity:
      return "capacity";
    case Violation::Kind::kReserved:
      return "reserved";
    case Violation::Kind::kAlignment:
      return "alignment";
    case Violation::Kind::kPin:
      return "pin";
    case Violation::Kind::kPlacement:
      return "placement";
  }
  return "";
}

void bind_packers(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Packing>(m, "Packing").def_ro("offsets", &Packing::offset).def_ro("arena", &Packing::arena);
  m.def(
      "first_fit",
      [](const Problem& p, const std::vector<Index>& order) { return pack_in_order(p, order, Fit::kFirst); },
      nb::arg("problem"), nb::arg("order"), Release());
  m.def(
      "best_fit",
      [](const Problem& p, const std::vector<Index>& order) { return pack_in_order(p, order, Fit::kBest); },
      nb::arg("problem"), nb::arg("order"), Release());
  m.def(
      "order_by", [](const Problem& p, std::string_view name) { return order_by(p, name); },
      nb::arg("problem"), nb::arg("name"), Release());
  m.def("order_names", &order_names);
}

struct ImproveResult {
  Packing packing;
  std::vector<std::pair<double, Bytes>> history;  // (seconds since the start, arena) at each improvement
  std::int64_t rounds;
  bool interrupted;
};

ImproveResult run_improve(const Problem& problem, double seconds, std::int64_t rounds, std::uint64_t seed,
                          int threads, std::optional<Bytes> target,
                          const std::optional<std::vector<Bytes>>& incumbent, const nb::object& progress) {
  std::atomic<bool> stop = false;
  const auto begin = Interruptible::Clock::now();
  std::mutex mutex;
  ImproveResult result{};

  ImproveOptions options;
  // With permissions the live peak is no bound; then the search just uses up its budget.
  const bool permissions = !problem.coincide.empty() || !problem.placements.empty();
  options.target = target ? *target : permissions ? 0 : live_peak(problem);
  options.max_rounds = rounds;
  options.threads = threads;
  options.seed = seed;
  options.stop = &stop;
  options.incumbent = incumbent ? &*incumbent : nullptr;
  options.on_improvement = [&](Bytes arena) {
    const std::chrono::duration<double> elapsed = Interruptible::Clock::now() - begin;
    const std::lock_guard lock(mutex);
    result.history.emplace_back(elapsed.count(), arena);
  };

  std::size_t told = 0;
  const auto work = [&] {
    Improvement improvement = improve(problem, options);
    result.packing = std::move(improvement.packing);
    result.rounds = improvement.rounds;
  };
  const auto tell = [&] {
    if (progress.is_none()) return;
    std::vector<std::pair<double, Bytes>> news;
    {
      const std::lock_guard lock(mutex);
      news.assign(result.history.begin() + static_cast<std::ptrdiff_t>(told), result.history.end());
      told = result.history.size();
    }
    for (const auto& [when, arena] : news) progress(when, arena);
  };
  result.interrupted = Interruptible::run(seconds, stop, work, tell);
  return result;
}

void bind_improve(nb::module_& m) {
  nb::class_<ImproveResult>(m, "ImproveResult")
      .def_prop_ro("offsets", [](const ImproveResult& r) { return r.packing.offset; })
      .def_prop_ro("arena", [](const ImproveResult& r) { return r.packing.arena; })
      .def_ro("history", &ImproveResult::history)
      .def_ro("rounds", &ImproveResult::rounds)
      .def_ro("interrupted", &ImproveResult::interrupted);
  m.def("improve", &run_improve, nb::arg("problem"), nb::arg("seconds") = 1e9,
        nb::arg("rounds") = std::numeric_limits<std::int64_t>::max(), nb::arg("seed") = 0,
        nb::arg("threads") = 1, nb::arg("target").none() = nb::none(),
        nb::arg("incumbent").none() = nb::none(), nb::arg("progress").none() = nb::none());
}

ObjectChoice choice_by_name(std::string_view name) {
  if (name == "closest") return ObjectChoice::kClosest;
  if (name == "smallest") return ObjectChoice::kSmallest;
  throw std::invalid_argument("no choice of objects is called '" + std::string(name) + "'");
}

void bind_objects(nb::module_& m) {
  nb::class_<ObjectAssignment>(m, "ObjectAssignment")
      .def_ro("objects", &ObjectAssignment::object)
      .def_ro("sizes", &ObjectAssignment::size)
      .def_ro("total", &ObjectAssignment::total)
      .def_ro("lower_bound", &ObjectAssignment::lower_bound)
      .def_ro("optimal", &ObjectAssignment::optimal)
      .def_ro("nodes", &ObjectAssignment::nodes)
      .def_ro("interrupted", &ObjectAssignment::interrupted);
  m.def(
      "greedy_objects",
      [](const Problem& p, const std::vector<Index>& order, std::string_view choice) {
        return assign_objects_in_order(p, order, choice_by_name(choice));
      },
      nb::arg("problem"), nb::arg("order"), nb::arg("choice") = "closest",
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "shared_objects",
      [](const Problem& p, double seconds, std::int64_t nodes, std::uint64_t seed) {
        std::atomic<bool> stop = false;
        ObjectAssignment result;
        const auto work = [&] { result = assign_objects(p, nodes, seed, stop); };
        const bool interrupted = Interruptible::run(seconds, stop, work, [] {});
        result.interrupted = interrupted;
        return result;
      },
      nb::arg("problem"), nb::arg("seconds") = 1e9, nb::arg("nodes") = 10'000'000, nb::arg("seed") = 0);
  m.def("object_lower_bound", &object_lower_bound, nb::arg("problem"),
        nb::call_guard<nb::gil_scoped_release>());
}

void bind_bound(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  m.def("live_peak", &live_peak, nb::arg("problem"), Release());
  m.def("disjoint_peak", &disjoint_peak, nb::arg("problem"), Release());
  m.def(
      "live_curve",
      [](const Problem& p) {
        LiveCurve curve;
        {
          nb::gil_scoped_release release;
          curve = live_curve(p);
        }
        return std::pair(std::move(curve.times), std::move(curve.bytes));
      },
      nb::arg("problem"));
}

// A buffer of a rigid group that contradicts itself, and how; none if all can be placed by themselves.
std::optional<std::pair<Index, std::string>> contradiction(const Problem& problem) {
  try {
    const Units units(problem);
  } catch (const Contradiction& found) {
    return std::pair(found.buffer, found.reason);
  }
  return std::nullopt;
}

void bind_check(nb::module_& m) {
  m.def("contradiction", &contradiction, nb::arg("problem"), nb::call_guard<nb::gil_scoped_release>());
  nb::class_<CheckResult>(m, "CheckResult")
      .def_prop_ro("violations",
                   [](const CheckResult& r) {
                     std::vector<std::tuple<const char*, Index, Index>> list;
                     for (const Violation& v : r.violations) list.emplace_back(name_of(v.kind), v.i, v.j);
                     return list;
                   })
      .def_ro("truncated", &CheckResult::truncated)
      .def_ro("reuse_pairs", &CheckResult::reuse_pairs);
  m.def("check", &check, nb::arg("problem"), nb::arg("offsets"), nb::arg("limit") = 100,
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_heuristics(nb::module_& m) {
  bind_packers(m);
  bind_improve(m);
  bind_objects(m);
  bind_bound(m);
  bind_check(m);
}

}  // namespace lowtide
