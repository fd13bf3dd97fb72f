# preadmit: `make build` and `make test` are all there is to set up.

GO ?= go
# Tools for development, pinned here so that go.mod holds only what the program needs.
GOFUMPT     := mvdan.cc/gofumpt@v0.9.2
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: build test race lint vet fmt golden screens pictures bench fuzz fidelity origins recall fixes profile beside apiserver deployers rego conformance offline action release-dry-run sarif vscode ci hooks clean

build: ## the program, static, in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/preadmit ./cmd/preadmit

test: ## every test that needs Go alone
	$(GO) test -timeout 25m ./...

# The packages whose code or tests run in parallel; CI's job for them has an hour.
RACE := ./render/... ./policy ./policy/admission ./policy/crd ./policy/gatekeeper ./policy/internal/cel ./policy/internal/explain \
	./policy/internal/rego ./policy/kyverno/... ./policy/kyvernocel ./policy/rego ./policy/schema ./tui ./cmd/preadmit/supervise ./cmd/preadmit/tasks
race: ## data races, where code runs in parallel, and in the command's own goroutines
	CGO_ENABLED=1 $(GO) test -race -timeout 40m $(RACE)
	CGO_ENABLED=1 $(GO) test -race -timeout 20m -run '^TestScript$$/^(base|cache|gitops|shard|triage)$$' ./cmd/preadmit

vet:
	$(GO) vet ./...

fmt: ## fails when a file is not gofmt'ed
	@files=$$(gofmt -l cmd render policy report tui); test -z "$$files" || { echo "not formatted:"; echo "$$files"; exit 1; }

lint: fmt vet
	@files=$$($(GO) run $(GOFUMPT) -l cmd render policy report tui) && test -z "$$files" || { echo "not formatted by gofumpt:"; echo "$$files"; exit 1; }
	$(GO) run $(STATICCHECK) -checks inherit,-SA1019,-ST1005 ./... # kustomize's old fields are still to be read; Kubernetes is a name
	$(GO) mod tidy -diff

golden: ## rewrite every golden file
	UPDATE_GOLDEN=1 $(GO) test ./...

screens: ## rewrite the screens of triage in testdata/screens and the documentation, from a terminal of tmux
	@command -v tmux >/dev/null || { echo "no tmux on PATH"; exit 1; }
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run '^TestScreens$$' ./tui
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run '^TestTriage(InTerminal|Sizes)$$' ./cmd/preadmit
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run '^TestReadmeScreen$$' ./cmd/preadmit

pictures: ## draw the pictures of README.md anew, from the screen of triage and the report of testdata/repos/shop
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run '^TestPictures$$' ./cmd/preadmit

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

FOR ?= 60s # how long each target runs
# Only our own packages count what ran: the counters of all libraries are millions, which
# the engine would compare after each execution.
FUZZED := github.com/preadmit/preadmit
fuzz: ## every fuzz target in turn; minimizing an interesting input would take most of the time
	@grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' --with-filename cmd render policy report tui | sed -E 's,(.*)/[^/]*:func (.*),\1 \2,' | sort | { while read dir target; do \
		test "$$dir" = "$$built" || $(GO) test -c -gcflags='$(FUZZED)/...=-d=libfuzzer' -o bin/fuzz.test ./$$dir || exit 1; built=$$dir; echo "$$dir $$target"; \
		(cd $$dir && $(CURDIR)/bin/fuzz.test -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(firstword $(FOR)) -test.fuzzminimizetime 10x -test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/$(FUZZED)/$$dir") || failed="$$failed $$target"; done; \
		test -z "$$failed" || { echo "failed:$$failed"; exit 1; }; }

REPOS ?= ../shared/repos # a directory of checkouts to render
fidelity: ## rendered objects beside those of the helm and kustomize binaries, where they are on PATH
	PREADMIT_FIDELITY=1 PREADMIT_REPOS=$(abspath $(firstword $(REPOS))) $(GO) test -count=1 -timeout 30m -run TestFidelity -v ./cmd/preadmit

PLACES ?= 25 # of each unit to try: a number, or all
origins: ## edits each place that is said to have made a field, and what places cost
	PREADMIT_ORIGINS=$(firstword $(PLACES)) $(GO) test -count=1 -timeout 120m -run '^TestOrigins' -v ./cmd/preadmit

recall: ## a second run over 300 units, one values file changed, beside the first, with and without --base
	PREADMIT_RECALL=1 $(GO) test -count=1 -run '^TestCacheCost$$' -v ./cmd/preadmit

FIXES ?= all # repositories whose names have this text
fixes: ## how many findings of published policies fix removes in published repositories, and why not the others
	PREADMIT_FIXES=$(firstword $(FIXES)) $(GO) test -count=1 -timeout 60m -run '^TestFixShared$$' -v ./cmd/preadmit

PROFILES ?= bin
profile: ## what three runs spend their time on, the top ten; the profiles go to bin/, or to PROFILES
	@mkdir -p $(PROFILES)
	PREADMIT_PROFILE=$(abspath $(PROFILES)) $(GO) test -count=1 -run '^TestProfile$$' -v ./cmd/preadmit

# The programs that Rego policies are held against, where they are not on PATH:
# PREADMIT_GATOR and PREADMIT_CONFTEST name them.
beside: ## verdicts beside those of gator and conftest, over tens of thousands of objects
	$(GO) test -count=1 -timeout 30m -v -run '^Test(Gator(SuitesOracle|Generated|Perturbed)|ConftestPerturbed)$$' ./cmd/preadmit

OBJECTS ?= 20000 # random changes of objects to compare
apiserver: ## verdicts and stored objects beside a kube-apiserver, which takes some minutes to build
	cd testdata/apiserver && CGO_ENABLED=0 $(GO) build -o $(CURDIR)/bin/apiserver .
	PREADMIT_APISERVER=$(CURDIR)/bin/apiserver PREADMIT_LIVE=$(firstword $(OBJECTS)) $(GO) test -count=1 -timeout 60m -v -run '^TestLive' ./policy/schema

deployers: ## what a change does to each object, beside the engines of Argo CD and Helm
	cd testdata/deployers && CGO_ENABLED=0 $(GO) build -o $(CURDIR)/bin/deployers .
	cd testdata/helm && CGO_ENABLED=0 $(GO) build -o $(CURDIR)/bin/helm .
	PREADMIT_DEPLOYERS=$(CURDIR)/bin/deployers $(GO) test -count=1 -v -run '^TestUpstream$$' ./render/argocd
	PREADMIT_HELM=$(CURDIR)/bin/helm $(GO) test -count=1 -v -run '^TestUpgradeUpstream$$' ./cmd/preadmit

rego: ## what gator, conftest and this program take for the same policies
	PREADMIT_REGO=1 $(GO) test -count=1 -timeout 120m -run '^TestRegoCost$$' -v ./cmd/preadmit

TABLES := ^Test(MatchingTable|PublishedOutcomes|PublishedExpressions|Budgets|PublishedMutations|MutationTable|Corpus|KubectlValidate|CELSpec|KubernetesLibraries|Costs)$$
# Kyverno's: what its command line says, and what its own functions gave.
KYVERNO := ^Test(Kyverno(Rows|CLI|Table|Policies)|Traps|Published.*|Recorded.*)$$
# Gatekeeper's and conftest's: their published suites and cases.
REGO := ^Test(GatorSuites|ConftestCases)$$
conformance: build ## the published cases in ../shared/corpora; where they are absent it says so, and fails in CI
	@test -x ../shared/corpora/score || { echo "NOTHING COMPARED: ../shared/corpora is absent"; test -z "$$CI"; exit; }; \
	{ $(GO) test -count=1 -v -run '$(TABLES)' ./policy/admission ./policy/crd ./policy/internal/cel 2>&1; \
	$(GO) test -count=1 -v -run '$(KYVERNO)' ./cmd/preadmit ./policy/kyverno/... ./policy/kyvernocel/... ./policy/internal/... 2>&1; \
	$(GO) test -count=1 -v -run '$(REGO)' ./cmd/preadmit 2>&1; \
	../shared/corpora/score --bin bin/preadmit --engine vap -v; \
	../shared/corpora/score --bin bin/preadmit --engine gatekeeper-rego -v; \
	../shared/corpora/score --bin bin/preadmit --engine gatekeeper-cel -v; \
	../shared/corpora/score --bin bin/preadmit --engine kyverno-clusterpolicy -v; \
	../shared/corpora/score --bin bin/preadmit --engine kyverno-vpol -v; \
	../shared/corpora/score --bin bin/preadmit --source kubectl-validate -v; \
	../shared/corpora/gitops/score --bin bin/preadmit -v; \
	PREADMIT_CONFORMANCE=1 $(GO) test -count=1 -v -run '^Test(StatesAddUp|Cases)$$' ./cmd/preadmit 2>&1; } | awk -f testdata/conformance.awk testdata/conformance.tsv -

offline: ## the same bytes without any network
	$(GO) test -count=1 -run TestScript/offline -v ./cmd/preadmit

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
action: build ## the GitHub Action, step by step on checkouts of each event, and under act where it is installed; the workflows; the scripts
	$(GO) vet ./testdata/action/runner
	PREADMIT_ACTION=1 $(GO) test -count=1 -timeout 30m -run '^TestAction' ./cmd/preadmit
	$(GO) run $(ACTIONLINT)
	sed -n '/^name: preadmit$$/,/^```$$/p' README.md | sed '/^```$$/d; s/@<[^>]*>/@0000000000000000000000000000000000000000/' | $(GO) run $(ACTIONLINT) -
	testdata/action/act/run.sh bin/preadmit
	@for f in .github/*/*.sh testdata/action/act/run.sh; do bash -n $$f || exit 1; done
	@command -v shellcheck >/dev/null || { echo "no shellcheck: the scripts are only parsed"; exit 0; }; shellcheck -x -P SCRIPTDIR .github/*/*.sh testdata/action/act/run.sh .githooks/*

GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.13.3
release-dry-run: ## a release without publishing: every target built twice, unpacked and tried
	GORELEASER="$(GORELEASER)" .github/release/dryrun.sh

sarif: build ## SARIF reports by Microsoft's validator and codeql-action's own check, which npm installs
	.github/sarif/validate.sh bin/preadmit

VSCODE := cmd/preadmit/lsp/vscode
VERSION ?= 0.0.0 # of the extension
vscode: build ## the extension of VS Code, packaged in bin/ and tried with the program, by what npm installs
	@command -v npm >/dev/null || { echo "no npm on PATH"; exit 1; }
	cd $(VSCODE) && npm ci && npm run package -- $(firstword $(VERSION)) --out $(CURDIR)/bin/preadmit-$(firstword $(VERSION)).vsix
	rm -rf bin/vscode && unzip -q bin/preadmit-$(firstword $(VERSION)).vsix -d bin/vscode
	cd $(VSCODE) && PREADMIT=$(CURDIR)/bin/preadmit EXTENSION=$(CURDIR)/bin/vscode/extension npm test

ci: fmt vet build test

hooks: ## check what is staged before each commit
	git config core.hooksPath .githooks

clean:
	rm -rf bin dist
