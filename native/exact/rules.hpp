// The pruning rules of the exact search, by name. Each can be switched off; none changes an answer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lowtide {

enum class Rule : std::uint32_t {
  kCanonical,
  kDominance,
  kSectionFloor,
  kRaisedFloor,
  kNotFirst,
  kTwins,
  kDecomposition,
  kMemo,
  kForcedBand,
  kContraction,
  kScaling,
  kWindows,
};

struct RuleInfo {
  Rule rule;
  std::string_view name;
  std::string_view doc;
};

const std::vector<RuleInfo>& all_rules();

// A set of rules; all of them unless told otherwise.
class RuleSet {
 public:
  bool has(Rule rule) const { return (bits_ >> static_cast<std::uint32_t>(rule) & 1u) != 0; }
  void remove(Rule rule) { bits_ &= ~(std::uint32_t{1} << static_cast<std::uint32_t>(rule)); }
  // Throws std::invalid_argument for a name that is not known; the message lists those that are.
  void remove(std::string_view name);

 private:
  std::uint32_t bits_ = ~std::uint32_t{0};
};

}  // namespace lowtide
