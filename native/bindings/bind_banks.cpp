// Python's view of the choice of banks.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "banks/filling.hpp"
#include "banks/knapsack.hpp"
#include "bindings/bindings.hpp"
#include "bindings/interruptible.hpp"

namespace lowtide {
namespace {

using Array = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
using Cuts = std::vector<std::pair<Index, std::vector<Index>>>;

std::vector<std::int64_t> to_vector(const Array& a) { return {a.data(), a.data() + a.shape(0)}; }

BankProblem make_problem(const Array& capacity, const Array& cost, const Array& first, const Array& start,
                         const Array& stop, const Array& weight, const Cuts& cuts) {
  BankProblem problem;
  problem.banks = static_cast<Index>(capacity.shape(0));
  problem.capacity = to_vector(capacity);
  problem.cost = to_vector(cost);
  const std::size_t rows = first.shape(0), pieces = start.shape(0);
  if (rows == 0 || problem.banks < 1 || problem.banks > kMostBanks ||
      cost.shape(0) != (rows - 1) * capacity.shape(0) || stop.shape(0) != pieces ||
      weight.shape(0) != pieces || static_cast<std::size_t>(first.data()[rows - 1]) != pieces) {
    throw nb::value_error("arrays of a choice of banks do not fit together");
  }
  for (std::size_t i = 0; i < rows; ++i) problem.first.push_back(static_cast<Index>(first.data()[i]));
  for (std::size_t k = 0; k < pieces; ++k) {
    problem.pieces.push_back({start.data()[k], stop.data()[k], weight.data()[k]});
  }
  for (const auto& [bank, items] : cuts) {
    if (!items.empty()) problem.cuts.push_back({bank, items});
  }
  return problem;
}

}  // namespace

void bind_banks(nb::module_& m) {
  nb::class_<BankChoice>(m, "BankChoice")
      .def_ro("banks", &BankChoice::bank)
      .def_ro("cost", &BankChoice::cost)
      .def_ro("bound", &BankChoice::bound)
      .def_ro("infeasible", &BankChoice::infeasible)
      .def_prop_ro("proved", &BankChoice::proved)
      .def_ro("states", &BankChoice::states)
      .def_ro("left", &BankChoice::left);
  nb::class_<BankFill>(m, "BankFill")
      .def_ro("offsets", &BankFill::offset)
      .def_ro("gain", &BankFill::gain)
      .def_ro("rounds", &BankFill::rounds);
  m.def(
      "choose_banks",
      [](const Array& capacity, const Array& cost, const Array& first, const Array& start, const Array& stop,
         const Array& weight, const Cuts& cuts, double seconds, std::int64_t states, std::uint64_t seed) {
        const BankProblem problem = make_problem(capacity, cost, first, start, stop, weight, cuts);
        std::atomic<bool> flag = false;
        BankChoice choice;
        const auto work = [&] { choice = choose_banks(problem, {states, seed, &flag}); };
        const bool interrupted = Interruptible::run(seconds, flag, work, [] {});
        return std::pair(std::move(choice), interrupted);
      },
      nb::arg("capacity"), nb::arg("cost"), nb::arg("first"), nb::arg("start"), nb::arg("stop"),
      nb::arg("weight"), nb::arg("cuts") = Cuts{}, nb::arg("seconds") = 1e9,
      nb::arg("states") = BankOptions{}.states, nb::arg("seed") = 0);
  m.def(
      "fill_bank",
      [](const Problem& problem, const std::vector<Cost>& gain, const std::vector<std::uint8_t>& chosen,
         std::vector<Bytes> offsets, double seconds, std::int64_t rounds, std::uint64_t seed) {
        const auto count = static_cast<std::size_t>(problem.count());
        if (gain.size() != count || chosen.size() != count || offsets.size() != count ||
            problem.capacity == kNone) {
          throw nb::value_error("a bank to fill has a capacity, and a gain and an offset for each buffer");
        }
        std::atomic<bool> flag = false;
        BankFill filled;
        const auto work = [&] {
          filled = fill_bank(problem, gain, chosen, std::move(offsets), {rounds, seed, &flag});
        };
        const bool interrupted = Interruptible::run(seconds, flag, work, [] {});
        return std::pair(std::move(filled), interrupted);
      },
      nb::arg("problem"), nb::arg("gain"), nb::arg("chosen"), nb::arg("offsets"), nb::arg("seconds") = 1e9,
      nb::arg("rounds") = 0, nb::arg("seed") = 0);
  m.attr("MOST_BANKS") = kMostBanks;
  m.attr("MOST_BANK_COST") = kMostCost;
}

}  // namespace lowtide
