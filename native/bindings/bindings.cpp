// The Python module lowtide._kernel: turns arrays into a Problem and answers back into lists.
#include "bindings/bindings.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "problem/problem.hpp"

namespace lowtide {
namespace {

using Array = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;

std::vector<Bytes> to_vector(const Array& a) { return {a.data(), a.data() + a.shape(0)}; }

// Checks only that the arrays fit together; Python has already refused bad values by name.
Problem make_problem(const Array& size, const Array& alignment, const Array& pin, const Array& first,
                     const Array& start, const Array& stop, Bytes reserved, Bytes capacity,
                     const std::vector<std::pair<Index, Index>>& coincide,
                     const std::vector<std::tuple<Index, Index, Bytes>>& placements) {
  const std::size_t n = size.shape(0);
  if (alignment.shape(0) != n || pin.shape(0) != n || first.shape(0) != n + 1 ||
      start.shape(0) != stop.shape(0) || static_cast<std::size_t>(first.data()[n]) != start.shape(0)) {
    throw nb::value_error("arrays of a problem do not fit together");
  }
  Problem problem;
  problem.size = to_vector(size);
  problem.alignment = to_vector(alignment);
  problem.pin = to_vector(pin);
  problem.first.reserve(n + 1);
  for (std::size_t i = 0; i <= n; ++i) problem.first.push_back(static_cast<Index>(first.data()[i]));
  problem.intervals.reserve(start.shape(0));
  for (std::size_t k = 0; k < start.shape(0); ++k) {
    problem.intervals.push_back({start.data()[k], stop.data()[k]});
  }
  problem.reserved = reserved;
  problem.capacity = capacity;
  problem.coincide = coincide;
  for (const auto& [inner, outer, distance] : placements)
    problem.placements.push_back({inner, outer, distance});
  return problem;
}

}  // namespace
}  // namespace lowtide

NB_MODULE(_kernel, m) {
  using namespace lowtide;
  m.doc() = "Lowtide's packing kernel: arrays of integers in, offsets out.";
  nb::class_<Problem>(m, "Problem")
      .def(
          "__init__",
          [](Problem* self, const Array& size, const Array& alignment, const Array& pin, const Array& first,
             const Array& start, const Array& stop, Bytes reserved, Bytes capacity,
             const std::vector<std::pair<Index, Index>>& coincide,
             const std::vector<std::tuple<Index, Index, Bytes>>& placements) {
            new (self) Problem(make_problem(size, alignment, pin, first, start, stop, reserved, capacity,
                                            coincide, placements));
          },
          nb::arg("size"), nb::arg("alignment"), nb::arg("pin"), nb::arg("first"), nb::arg("start"),
          nb::arg("stop"), nb::arg("reserved") = 0, nb::arg("capacity") = kNone,
          nb::arg("coincide") = std::vector<std::pair<Index, Index>>{},
          nb::arg("placements") = std::vector<std::tuple<Index, Index, Bytes>>{})
      .def("__len__", [](const Problem& p) { return p.count(); });
  bind_heuristics(m);
  bind_search(m);
  bind_banks(m);
}
