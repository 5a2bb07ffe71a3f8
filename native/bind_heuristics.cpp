// Python's view of the heuristics.
#include "bindings.hpp"

namespace lowtide {

void bind_heuristics(nb::module_&) {}

}  // namespace lowtide
