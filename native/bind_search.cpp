// Python's view of the exact search.
#include "bindings.hpp"

namespace lowtide {

void bind_search(nb::module_&) {}

}  // namespace lowtide
