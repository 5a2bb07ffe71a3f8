// Python's view of the exact search.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "exact/search.hpp"

namespace lowtide {
namespace {

using MaybeBytes = std::optional<Bytes>;
using Step = std::tuple<double, MaybeBytes, Bytes>;  // seconds, arena, bound

MaybeBytes maybe(Bytes arena) { return arena == kNone ? MaybeBytes{} : MaybeBytes{arena}; }

const char* name_of(Stopped stopped) {
  switch (stopped) {
    case Stopped::kOptimal:
      return "optimal";
    case Stopped::kFit:
      return "fit";
    case Stopped::kInfeasible:
      return "infeasible";
    case Stopped::kDeadline:
      return "deadline";
    case Stopped::kNodes:
      return "nodes";
    case Stopped::kInterrupted:
      return "interrupted";
    case Stopped::kExhausted:
      return "exhausted";
  }
  return "";
}

// Ctrl-C ends the search, not the program: the pending exception is dropped and the best so far returned.
bool interrupted() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0) return false;
  PyErr_Clear();
  return true;
}

SearchResult run(const Problem& problem, bool fit, double deadline, std::int64_t node_limit, int threads,
                 std::uint64_t seed, const std::optional<std::vector<Bytes>>& incumbent,
                 const std::vector<std::string>& disable, const std::optional<nb::callable>& progress) {
  SearchOptions options;
  options.fit = fit;
  options.deadline = deadline;
  options.node_limit = node_limit;
  options.threads = threads;
  options.seed = seed;
  if (incumbent) options.incumbent = *incumbent;
  for (const std::string& name : disable) options.rules.remove(name);
  bool cut = false;  // Ctrl-C while progress was being shown
  if (progress) {
    options.progress = [&](const SearchProgress& p) {
      const nb::gil_scoped_acquire acquire;
      try {
        (*progress)(p.seconds, maybe(p.arena), p.lower_bound, p.nodes);
      } catch (const nb::python_error& error) {
        if (!error.matches(PyExc_KeyboardInterrupt)) throw;
        cut = true;
      }
    };
  }
  options.interrupted = [&] { return cut || interrupted(); };
  const nb::gil_scoped_release release;
  return search(problem, options);
}

std::vector<Step> history_of(const SearchResult& result) {
  std::vector<Step> steps;
  for (const SearchProgress& p : result.history) steps.emplace_back(p.seconds, maybe(p.arena), p.lower_bound);
  return steps;
}

std::vector<std::tuple<std::string, std::string>> rules() {
  std::vector<std::tuple<std::string, std::string>> list;
  for (const RuleInfo& info : all_rules()) list.emplace_back(info.name, info.doc);
  return list;
}

}  // namespace

void bind_search(nb::module_& m) {
  nb::class_<SearchResult>(m, "SearchResult")
      .def_prop_ro("offsets",
                   [](const SearchResult& r) {
                     return r.arena == kNone ? std::optional<std::vector<Bytes>>{} : std::optional{r.offset};
                   })
      .def_prop_ro("arena", [](const SearchResult& r) { return maybe(r.arena); })
      .def_ro("lower_bound", &SearchResult::lower_bound)
      .def_prop_ro("stopped", [](const SearchResult& r) { return name_of(r.stopped); })
      .def_ro("nodes", &SearchResult::nodes)
      .def_ro("rounds", &SearchResult::rounds)
      .def_prop_ro("history", &history_of);
  m.def("search", &run, nb::arg("problem"), nb::kw_only(), nb::arg("fit") = false, nb::arg("deadline") = 0.0,
        nb::arg("node_limit") = 0, nb::arg("threads") = 1, nb::arg("seed") = 0,
        nb::arg("incumbent") = nb::none(), nb::arg("disable") = std::vector<std::string>{},
        nb::arg("progress") = nb::none());
  m.def("rules", &rules);
}

}  // namespace lowtide
