# Two commands to know: `make demo` shows the product at work, `make test` proves it. Both set up what they need.
# KUBERNETES_VERSION: which control plane the cluster tests build and start: 1.36 (default), 1.34 or 1.37.
export KUBERNETES_VERSION ?= 1.36
# Thousands of processes would compile the sources, each for itself.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help
help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.venv/installed: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one: make install PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: .venv/installed  ## .venv with everything, from hash-pinned packages

.PHONY: check
check: lint test-unit  ## ruff, mypy --strict, import rules, unit tests; a minute and a half

.PHONY: lint
lint: install  ## ruff, mypy --strict, import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: test-unit
test-unit: install  ## all tests that need no cluster
	$(BIN)/pytest -q $(UNIT_AT_ONCE)
# Some tests wait for programs that they start: three processes keep two cores busy, and two beside the cluster tests.
UNIT_PROCESSES := 3
UNIT_AT_ONCE = -n $(UNIT_PROCESSES) --dist worksteal

.PHONY: test-recipes
test-recipes: install  ## the recipes of CONTRIBUTING.md, followed in a copy
	$(BIN)/pytest -q tests/recipes

.PHONY: coverage
coverage: install  ## which branches the unit tests leave out; takes nearly twice as long as they
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(UNIT_AT_ONCE)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

.PHONY: test
test: lint  ## check, and everything on real Kubernetes control planes: the cluster tests beside the others
	$(MAKE) --jobs=2 UNIT_PROCESSES=2 test-cluster test-fuzz test-unit

.PHONY: test-image
test-image: install  ## the image, built and run as the Deployment does; as root on Debian it brings a container engine
	$(BIN)/python -m pytest -q tests/image

.PHONY: test-release
test-release: install  ## what a release makes, built and tried: the packages, the plugin as one file, the workflows
	$(BIN)/pytest -q tests/release

.PHONY: plugin
plugin: .venv-one-file/installed  ## the kubectl plugin as one file for this machine, in dist/
	.venv-one-file/bin/python -m hack.release plugin dist

.venv-one-file/installed: requirements/one-file.txt
	$(PYTHON) -m venv .venv-one-file
	.venv-one-file/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes -r requirements/one-file.txt
	@touch $@

.PHONY: kind
kind: install  ## with your docker and kind: the cluster tests in a kind cluster, then the image installed there
	hack/kind.sh

# A cluster of yours only where it is named on make's command line: one that the shell exports may be anybody's.
YOURS = $(if $(findstring command line,$(origin KUBECONFIG)),--kubeconfig=$(KUBECONFIG) )
# The outer process starts the control plane and the webhook; pytest then runs against KUBECONFIG as on any cluster.
.PHONY: test-cluster
test-cluster: install  ## tests on a control plane built from source, or on yours: make test-cluster KUBECONFIG=...
	$(BIN)/python -m tests.cluster $(YOURS)-- $(BIN)/pytest -q $(AT_ONCE) -m "not long and not kueue and not systems" tests/cluster
# Most of the time they wait. The API server keeps a gigabyte: to look for garbage when there is twice as much takes a
# sixth of its CPU time.
AT_ONCE := -n 14 --dist worksteal
test-cluster test-fuzz test-operators test-systems: export GOGC = 400
test-cluster test-fuzz test-operators test-systems: export GOMEMLIMIT = 4GiB
# A busy machine shares itself out by threads: with two of them the API server, which works most, would wait longest.
test-cluster test-fuzz test-operators test-systems: export GOMAXPROCS = 4

# A control plane of its own: what is stored here would be in the reports and waves of the other tests.
.PHONY: test-fuzz
test-fuzz: install  ## 500 mutated objects of users in a cluster, and every command over them; two minutes
	RETRY_POLICY_FUZZED=$(FUZZED) $(BIN)/python -m tests.cluster -- $(BIN)/pytest -q tests/fuzz
FUZZED = 500

# What a program does to a real kubelet; their nodes are processes of this machine, in namespaces of Linux of their own.
.PHONY: test-real
test-real: install  ## pods that really run, on nodes that are really lost; the chart, released under load; as root on Debian
	$(BIN)/python -m tests.cluster --real-nodes -- sh -c '$(BIN)/pytest -q -n 6 --dist worksteal tests/real_nodes/test_*.py && $(BIN)/pytest -q tests/real_nodes/release'

.PHONY: test-upstream
test-upstream: install  ## Kubernetes', JobSet's and Kueue's own tests on such nodes, opted in and not; SUITE=JobSet: these alone
	$(BIN)/python -m tests.upstream $(SUITE)

.PHONY: test-operators
test-operators: install  ## what needs the controller of Kueue too, which takes six minutes to build
	$(BIN)/python -m tests.cluster --with-kueue -- $(BIN)/pytest -q $(AT_ONCE) -m kueue tests/cluster

.PHONY: test-systems
test-systems: install  ## what needs the controllers of Argo Workflows, Kubeflow, MPI, Ray and Spark, which take ten minutes to build
	$(BIN)/python -m tests.cluster --with-systems -- $(BIN)/pytest -q $(AT_ONCE) -m systems tests/cluster

.PHONY: test-versions
test-versions: install  ## test-cluster on the other Kubernetes versions that are supported
	for version in 1.34 1.37; do KUBERNETES_VERSION=$$version $(MAKE) test-cluster || exit 1; done

.PHONY: test-long
test-long: install  ## ten times as many generated objects, other ones each time, and what waits for ten minutes
	for round in 1 2 3 4 5 6 7 8 9 10; do $(BIN)/pytest -q -n 2 --hypothesis-profile=other $(GENERATED) || exit 1; done
	RETRY_POLICY_EXAMPLES=10000 $(BIN)/python -m tests.cluster -- $(BIN)/pytest -q -n 3 -m "(long or generated) and not kueue and not systems" tests/cluster
	$(MAKE) test-fuzz FUZZED=20000
GENERATED := tests/unit/accounts/test_forecast.py tests/unit/controller/test_big_job.py tests/unit/systems/job/test_done.py tests/unit/test_properties.py tests/unit/rules/test_registry.py tests/unit/test_job_set_restarts.py tests/unit/test_numbers.py tests/unit/cli/test_admission.py

.PHONY: test-faults
test-faults: install  ## what breaks while the API server asks: a table of what was lost
	$(BIN)/pytest -q tests/faults

.PHONY: test-hardest-faults
test-hardest-faults: install  ## the seven of these that hit live admission hardest
	$(BIN)/pytest -q -m hardest tests/faults

.PHONY: test-chart
test-chart: install  ## the Helm chart: what it renders; what the last version and this one make of the same objects
	$(BIN)/python -m pytest -q tests/chart

.PHONY: test-page
test-page: install  ## the report's page and the dashboard in a real browser; as root on Debian it brings Chromium
	$(BIN)/python -m pytest -q tests/page

.PHONY: test-monitoring
test-monitoring: install  ## the dashboard and the alerts in a real Prometheus, after a scenario; three minutes
	$(BIN)/pytest -q tests/monitoring

.PHONY: cluster
cluster: install  ## a cluster with the webhook to play with, until Ctrl-C, on real nodes where it can; on yours: KUBECONFIG=...
	$(BIN)/python -m tests.cluster --real-nodes-where-possible $(YOURS)

.PHONY: demo
demo: install  ## the product at work in a few seconds (after the installation), without a cluster
	@$(BIN)/python -m demo

.PHONY: bench
bench: install  ## what a request costs, as ratios to others measured beside it; a quarter of an hour
	$(BIN)/python -m tests.bench.speed

.PHONY: generated
generated: install  ## write anew what docs/ and manifests/ take from the code
	$(BIN)/python -m tools.generate

# The site's packages are in an environment of their own: nothing else needs them.
.venv/site/installed: requirements/docs.txt
	$(PYTHON) -m venv .venv/site
	.venv/site/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

.PHONY: docs
docs: .venv/site/installed  ## the documentation site, into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs build --strict

.PHONY: docs-screenshot
docs-screenshot: docs  ## pictures of the site in light and dark; as root on Debian it brings Chromium
	.venv/site/bin/python hack/site/screenshot.py docs

.PHONY: lock
lock: install  ## write requirements/*.txt anew from pyproject.toml
	$(BIN)/uv pip compile --quiet $(LOCK) pyproject.toml --extra server -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet $(LOCK) pyproject.toml --extra server --group dev -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet $(LOCK) pyproject.toml --group one-file -o requirements/one-file.txt
	$(BIN)/uv pip compile --quiet $(LOCK) --group build -o requirements/build.txt
	$(BIN)/uv pip compile --quiet $(LOCK) --group docs -o requirements/docs.txt
	$(BIN)/uv pip compile --quiet $(LOCK) --group audit -o requirements/audit.txt
LOCK := --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links
