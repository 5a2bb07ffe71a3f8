// Python's view of the heuristics, the bound and the verifier.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "check.hpp"
#include "live_peak.hpp"
#include "order_packer.hpp"
#include "orders.hpp"

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
  m.def("order_by", &order_by, nb::arg("problem"), nb::arg("name"), Release());
  m.def("order_names", &order_names);
}

void bind_bound(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  m.def("live_peak", &live_peak, nb::arg("problem"), Release());
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

void bind_check(nb::module_& m) {
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
  bind_bound(m);
  bind_check(m);
}

}  // namespace lowtide
