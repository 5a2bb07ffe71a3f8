# make demo   plan real models, end to end
# make test   every test but the slow ones; test-core: those that need no PyTorch, in an environment without it;
#             test-oldest, test-newest: those that need it, with other versions of ExecuTorch and PyTorch
# make docs   the documentation site, in build/site
# make release  source distribution and wheels, in dist, tried in fresh environments of each Python
# Each sets up what it needs in .venv (or .venv-oldest, .venv-newest); a second run finds it there.

PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
EXTRAS := executorch,dev,docs
BASE := torch executorch
TESTS :=
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.json' | sort)
KERNEL := CMakeLists.txt pyproject.toml $(wildcard native/*/*.cpp native/*/*.hpp)
# TensorFlow Lite Micro's interpreter and models to run on it, which have wheels for some platforms only.
INTERPRETER := "tflite-micro>=0.dev20260801" "pymicro-wakeword>=2.5"
# Constraints hold the versions that are tested; without them pip would take the newest torch.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint $(CONSTRAINTS)

.PHONY: help demo test test-core test-oldest test-newest test-slow test-native coverage lint tidy format bench docs \
  release clean FORCE

help:
	@sed -n 's/^# //p' Makefile

$(VENV)/.tools: $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(if $(BASE),$(PIP) $(BASE))
	$(PIP) "scikit-build-core>=0.11" "nanobind>=2.7" cmake ninja
	@touch $@

# Changes only when a Python file comes or goes: an editable install must then be made anew.
$(VENV)/.sources: $(VENV)/.tools FORCE
	@echo '$(SOURCES)' | cmp -s - $@ || echo '$(SOURCES)' > $@

$(VENV)/.installed: $(VENV)/.tools $(VENV)/.sources $(KERNEL)
	$(PIP) --no-build-isolation --editable ".[$(EXTRAS)]" --config-settings build-dir=build/$(VENV)/{wheel_tag}
	@$(PIP) $(INTERPRETER) || echo "tflite-micro does not install here: tests on its interpreter are skipped" >&2
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed
	$(BIN)/python -m pytest -m "not slow" -n auto $(TESTS)

test-core:
	$(MAKE) test VENV=.venv-core BASE= EXTRAS=dev

# The share of lines that the core tests run; pyproject.toml has the floor.
coverage:
	$(MAKE) .venv-core/.installed VENV=.venv-core BASE= EXTRAS=dev
	.venv-core/bin/python -m pytest -m "not slow" -n auto --cov

# What depends on PyTorch and ExecuTorch, with the oldest and the newest versions, in environments of their own.
test-oldest test-newest: test-%:
	$(MAKE) test VENV=.venv-$* CONSTRAINTS=constraints-$*.txt EXTRAS=executorch,dev \
	  TESTS="tests/executorch tests/frontends tests/operators tests/replay tests/transforms"

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow -n auto

# The kernel's own tests: under AddressSanitizer and UndefinedBehaviorSanitizer, then under ThreadSanitizer.
test-native: $(VENV)/.installed
	$(MAKE) native-address native-thread

native-address: SANITIZERS = address,undefined
native-thread: SANITIZERS = thread
native-address native-thread: $(VENV)/.installed
	$(BIN)/cmake -S . -B build/$@ -DLOWTIDE_TESTS=ON -DLOWTIDE_SANITIZE=$(SANITIZERS) -DCMAKE_BUILD_TYPE=RelWithDebInfo
	$(BIN)/cmake --build build/$@ --parallel
	$(BIN)/ctest --test-dir build/$@ --output-on-failure

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(wildcard native/*/*.cpp native/*/*.hpp)

# Slow: each file of the kernel is compiled by clang's analyser.
tidy: $(VENV)/.installed
	$(PIP) clang-tidy
	$(BIN)/cmake -S . -B build/tidy -DLOWTIDE_TESTS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
	$(BIN)/clang-tidy --quiet -p build/tidy $(filter-out native/bindings/%,$(wildcard native/*/*.cpp))

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard native/*/*.cpp native/*/*.hpp)

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/hard.py --disguises
	$(BIN)/python benchmarks/traces.py
	$(BIN)/python benchmarks/real_models.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/peers.py --page docs/yardstick.md
	$(BIN)/python benchmarks/banks.py
	$(BIN)/python -m benchmarks.executorch_models
	$(BIN)/python -m benchmarks.smaller
	$(BIN)/python -m benchmarks.orders
	$(BIN)/python -m benchmarks.pte_files
	$(BIN)/python benchmarks/page.py

release:
	$(PYTHON) tools/release.py $(RELEASE)

docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv .venv-core .venv-oldest .venv-newest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

FORCE:
