#include "exact/rules.hpp"

#include <stdexcept>
#include <string>

namespace lowtide {

const std::vector<RuleInfo>& all_rules() {
  static const std::vector<RuleInfo> rules = {
      {Rule::kCanonical, "canonical",
       "A buffer lies at the least offset left to it or directly on top of another: postponed, it rises to "
       "the "
       "lowest top that a neighbour can have. Left-justified packings; Martello et al. (2000), MiniMalloc "
       "(Moffitt, ASPLOS 2023)."},
      {Rule::kDominance, "dominance",
       "With nothing unplaced alive beside it, a buffer takes its least offset and no alternative is tried. "
       "MiniMalloc (Moffitt, ASPLOS 2023)."},
      {Rule::kSectionFloor, "section-floor",
       "In every section of time, the floor and the bytes still to be placed above it must fit under the "
       "ceiling. MiniMalloc (Moffitt, ASPLOS 2023); TelaMalloc (Maas et al., ASPLOS 2023)."},
      {Rule::kRaisedFloor, "raised-floor",
       "A section's floor is the least offset that anything unplaced there can take, not the top of what is "
       "placed. MiniMalloc (Moffitt, ASPLOS 2023)."},
      {Rule::kNotFirst, "not-first",
       "A buffer that leaves too little room above itself for all others of a section is not the lowest "
       "there, so it lies above one that can be: the not-first rule of one-machine scheduling, a section "
       "being the machine and bytes its time. Carlier and Pinson (1989), Baptiste and Le Pape (1996)."},
      {Rule::kTwins, "twins",
       "Of buffers with equal size, alignment and lifetime, the earlier index lies lower. Symmetry breaking; "
       "TelaMalloc (Maas et al., ASPLOS 2023)."},
      {Rule::kDecomposition, "decomposition",
       "Where nothing unplaced crosses an instant, both sides are searched on their own. MiniMalloc "
       "(Moffitt, "
       "ASPLOS 2023)."},
      {Rule::kMemo, "memo",
       "What is unplaced and the least offsets left to it decide whether the rest fits; dead ends are "
       "remembered by a 128-bit hash, across restarts. After transposition tables; Greenblatt et al. "
       "(1967)."},
      {Rule::kForcedBand, "forced-band",
       "Two rigid groups that can lie to one another in a single way only are put so at once. Immediate "
       "selection in disjunctive scheduling; Carlier and Pinson (1989)."},
      {Rule::kContraction, "contraction",
       "An instant at which nothing is alive that is not also alive at a neighbouring one is left out."},
      {Rule::kScaling, "scaling",
       "Offsets are counted in the greatest common divisor of alignments, and of sizes where alignment does "
       "not matter: nothing in between is needed."},
      {Rule::kWindows, "windows",
       "What does not fit within a window of time does not fit at all: lower bounds from searches around the "
       "peaks."},
  };
  return rules;
}

void RuleSet::remove(std::string_view name) {
  std::string known;
  for (const RuleInfo& info : all_rules()) {
    if (info.name == name) return remove(info.rule);
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  throw std::invalid_argument("there is no rule '" + std::string(name) + "': choose among " + known);
}

}  // namespace lowtide
