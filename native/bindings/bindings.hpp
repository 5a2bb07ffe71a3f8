// Each part of the kernel binds itself; bindings.cpp calls them.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace lowtide {

void bind_heuristics(nb::module_& m);
void bind_search(nb::module_& m);
void bind_banks(nb::module_& m);

}  // namespace lowtide
