package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/cmd/preadmit/graph"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// TestStatesAddUp holds, over the published repositories, that the completeness
// line counts everything:
//   - each unit has exactly one state
//   - each rendered object that deploys something makes exactly one unit
//   - roots are the units that deploy others and that no unit deploys
//   - each Kubernetes object of the tree, counted by another walk and parser, has
//     exactly one state
//
// `make conformance` also runs it for infra-deployments, with and without clusters.
func TestStatesAddUp(t *testing.T) {
	quietLibraries()
	for _, root := range repositories(t) {
		large := filepath.Base(root) == "infra-deployments"
		t.Run(filepath.Base(root), func(t *testing.T) {
			if large && os.Getenv("PREADMIT_CONFORMANCE") == "" {
				t.Skip("takes a minute: make conformance does it")
			}
			statesAddUp(t, root)
		})
		if clusterConfigs[filepath.Base(root)] != "" && (!large || os.Getenv("PREADMIT_CONFORMANCE") != "") {
			t.Run(filepath.Base(root)+" with clusters", func(t *testing.T) { statesAddUp(t, withClusters(t, root)) })
		}
	}
}

// clusterConfigs say what is not in some published repositories: their addresses
// and their clusters.
var clusterConfigs = map[string]string{
	"infra-deployments": "repository: [https://github.com/redhat-appstudio/infra-deployments]\nclusters:\n- {name: main, with: [.preadmit/state]}\n",
	"govuk-helm-charts": `repository: [git@github.com/alphagov/govuk-helm-charts]
clusters: [{name: production, server: https://kubernetes.default.svc}]
deployments:
- {path: charts/app-config, name: app-config, namespace: apps, cluster: production, values: [charts/app-config/values-production.yaml]}
`,
}

// withClusters returns a copy of a published repository with its configuration, if
// it has one here, and with the cluster Secrets that the corpus has made up.
func withClusters(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(root)))
	name := filepath.Base(root)
	if clusterConfigs[name] == "" {
		return dir
	}
	rendertest.WriteFile(t, filepath.Join(dir, ".preadmit/config.yaml"), clusterConfigs[name])
	secrets, err := os.ReadFile("../../../shared/corpora/gitops/" + name + "/argo-appset-development/clusters.yaml")
	if err == nil {
		rendertest.WriteFile(t, filepath.Join(dir, ".preadmit/state/clusters.yaml"), string(secrets))
	}
	return dir
}

var completenessLine = regexp.MustCompile(`^(\d+) units?(?: from (\d+) roots?)?(?: on (\d+) clusters?)?(?:: ([^;]*))?(?:; (\d+) files? excluded)?$`)

// stateWords are the states as the completeness line has them.
var stateWords = map[string]string{
	"rendered": "rendered", "failed": "failed", "not rendered": "not-rendered", "of other repositories": "foreign",
	"suspended": "suspended", "that nothing found here deploys": "unreached",
}

func statesAddUp(t *testing.T, root string) {
	t.Helper()
	tr := treeOf(t, root)
	o := &load.Sources{Renderers: renderers, Resolvers: resolvers}
	in, err := load.From(context.Background(), o, tr, []string{root}, strings.NewReader(""))
	rendertest.OK(t, err)
	var data, text bytes.Buffer
	g := graph.New(in)
	rendertest.OK(t, errors.Join(graph.Formats.Write(&data, "json", g, report.Options{}), graph.Formats.Write(&text, "text", g, report.Options{})))
	var drawn struct {
		Units     []struct{ ID, Kind, Owner, Cluster, Status string }
		Documents map[string]int
	}
	rendertest.OK(t, json.Unmarshal(data.Bytes(), &drawn))
	states, ids, owners, clusters := map[string]int{}, map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, u := range drawn.Units {
		states[u.Status]++
		ids[u.Kind+" "+u.ID]++
		clusters[u.Cluster] = true
		if u.Owner != "" && u.Owner != u.ID {
			owners[u.Owner] = true
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%d units are %s", n, id)
		}
	}
	if len(clusters) > 1 {
		delete(clusters, "")
	}
	roots := 0
	for _, u := range drawn.Units {
		if u.Owner == "" && u.Status != "unreached" && owners[u.ID] {
			roots++
		}
	}
	line, _, _ := strings.Cut(text.String(), "\n")
	t.Log(line)
	m := completenessLine.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%q is no completeness line", line)
	}
	told, sum := map[string]int{}, 0
	for _, x := range strings.Split(m[4], ", ") {
		n, word, _ := strings.Cut(x, " ")
		count, err := strconv.Atoi(n)
		if err != nil || stateWords[word] == "" {
			t.Fatalf("%q in %q", x, line)
		}
		told[stateWords[word]] += count
		sum += count
	}
	if diff := cmp.Diff(states, told); diff != "" {
		t.Errorf("states of units -, line +:\n%s", diff)
	}
	if m[1] != fmt.Sprint(len(drawn.Units)) || m[1] != fmt.Sprint(sum) {
		t.Errorf("%q: %d units, and states of %d", line, len(drawn.Units), sum)
	}
	if want := fmt.Sprint(roots); m[2] != want && (m[2] != "" || roots > 0) {
		t.Errorf("%q: %d units make some and are made by none", line, roots)
	}
	if want := fmt.Sprint(len(clusters)); m[3] != want && (m[3] != "" || len(clusters) > 1) {
		t.Errorf("%q: %d clusters", line, len(clusters))
	}
	deployersMakeUnits(t, in)
	total := 0
	for _, n := range drawn.Documents {
		total += n
	}
	counted := 0
	for n := range maps.Values(countObjects(t, tr.Repository())) {
		counted += n
	}
	if total != counted {
		t.Errorf("%d objects are in the files, %d are accounted for", counted, total)
	}
}

// deployingKinds are the kinds by which Argo CD and Flux deploy something.
var deployingKinds = map[string]string{
	"argoproj.io/Application": "argocd", "argoproj.io/ApplicationSet": "applicationset",
	"kustomize.toolkit.fluxcd.io/Kustomization": "flux", "helm.toolkit.fluxcd.io/HelmRelease": "helmrelease",
	"fluxcd.controlplane.io/ResourceSet": "resourceset", "fluxcd.controlplane.io/FluxInstance": "fluxinstance",
}

// deployersMakeUnits holds that the objects that deploy something, in units that
// are deployed, and the units that such objects make are the same.
func deployersMakeUnits(t *testing.T, in *load.Input) {
	t.Helper()
	want, got := map[string]bool{}, map[string]bool{}
	for _, u := range in.Head {
		if u.Kind == "argocd" || u.Kind == "flux" {
			_, id, named := strings.Cut(u.ID, ":")
			if !named {
				id = u.ID
			}
			got[id] = true
		}
		if u.State == "unreached" {
			continue
		}
		for _, o := range u.Objects {
			gvk := o.GroupVersionKind()
			if word := deployingKinds[gvk.Group+"/"+gvk.Kind]; word != "" {
				want[word+"/"+o.HomeNamespace()+"/"+o.GetName()] = true
			}
		}
	}
	lacking := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(id string) bool { return got[id] })
	more := slices.DeleteFunc(slices.Sorted(maps.Keys(got)), func(id string) bool { return want[id] })
	if len(lacking)+len(more) > 0 {
		t.Errorf("objects that make no unit: %v\nunits that no object makes: %v", lacking, more)
	}
	if len(got) == 0 && len(want) > 0 {
		t.Error("nothing was followed")
	}
}
