package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestMutating takes the objects of each archive through a chain and compares
// the results and what would be stored. An archive holds policy.yaml (policies
// of both kinds, and bindings), object.yaml, old.yaml (what is there before)
// and cluster.yaml (context); settings are those of TestGolden.
func TestMutating(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata/mutating", rendertest.Twice(mutateArchive))
}

func mutateArchive(t *testing.T, a *txtar.Archive) string {
	setting := settings(string(a.Comment))
	objects := map[string][]*render.Object{}
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			objects[f.Name] = rendertest.Parse(t, f.Name, f.Data)
		}
	}
	var out strings.Builder
	chain := newChain(t, objects, setting, &out)
	reqs := policy.Requests(objects["old.yaml"], objects["object.yaml"])
	for i := range reqs {
		reqs[i].UserInfo.Username = setting["user"]
	}
	results, err := chain.Review(context.Background(), reqs)
	rendertest.OK(t, err)
	for _, r := range results {
		out.WriteString(r.Engine[:1] + " ")
		writeResult(&out, &r)
		for _, o := range r.Origins {
			fmt.Fprintf(&out, "    %s %s\n", o.Span, o.Role)
		}
	}
	stored, _, err := chain.Stored(context.Background(), reqs)
	rendertest.OK(t, err)
	for _, o := range stored {
		if o != nil {
			writeObject(t, &out, o)
		}
	}
	return out.String()
}

func writeObject(t *testing.T, out *strings.Builder, o *render.Object) {
	data, err := yaml.Marshal(o.Object)
	rendertest.OK(t, err)
	fmt.Fprintf(out, "---\n%s", data)
}

// newChain is one of the policies in policy.yaml, over the kinds of a server.
func newChain(t testing.TB, objects map[string][]*render.Object, setting map[string]string, out *strings.Builder) policy.Chain {
	t.Helper()
	all := append(objects["cluster.yaml"], objects["object.yaml"]...)
	kinds, err := schema.New(all, schema.Options{KubeVersion: setting["version"]})
	rendertest.OK(t, err)
	options := Options{Kinds: kinds, Cluster: policy.NewCluster(all...), KubeVersion: setting["version"]}
	if setting["unbound"] == "assume" {
		options.AssumeBound = always
	}
	if setting["authorizer"] == "allow" {
		options.Authorizer, options.AuthorizerAssumed = allowing{}, "authorizer: assumed allowed"
	}
	m, err := NewMutating(objects["policy.yaml"], options)
	v, err2 := New(objects["policy.yaml"], options)
	for _, x := range append(render.Errors(err), render.Errors(err2)...) {
		fmt.Fprintf(out, "! %v: %s: %s\n", x.Span, x.Rule, strings.ReplaceAll(x.Err.Error(), "\n", "⏎"))
	}
	return policy.Chain{Kinds: kinds, Mutators: []policy.Mutator{m}, Validators: []policy.Validator{v}}
}

// TestMutationTable holds what mutations do against the API server's own
// table.
func TestMutationTable(t *testing.T) {
	t.Parallel()
	cases, right := rendertest.Rows[mutationCase](t, corpora+"vap-tables/k8s-map.jsonl"), 0
	for _, c := range cases {
		if c.check(t) {
			right++
		}
	}
	t.Logf("table MAP: %d / %d", right, len(cases))
	if len(cases) < 10 {
		t.Errorf("only %d cases", len(cases))
	}
}

type mutationCase struct {
	ID, Error                 string
	Object, Params, Namespace map[string]any
	Policy, Result            map[string]any
	GVR                       struct{ Group, Version, Resource string }
}

// check applies the mutations of a case in their order.
func (m *mutationCase) check(t *testing.T) bool {
	t.Helper()
	m.Policy["apiVersion"], m.Policy["kind"] = "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"
	spec := m.Policy["spec"].(map[string]any)
	spec["reinvocationPolicy"] = "Never"
	spec["matchConstraints"] = map[string]any{"resourceRules": []any{map[string]any{
		"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "operations": []any{"*"}, "resources": []any{"*"},
	}}}
	binding := map[string]any{"policyName": "d1"}
	cluster := []*render.Object{}
	if m.Params != nil {
		m.Params["apiVersion"], m.Params["kind"] = "v1", "ConfigMap"
		m.Params["metadata"] = map[string]any{"name": "params", "namespace": "default"}
		binding["paramRef"] = map[string]any{"name": "params", "parameterNotFoundAction": "Deny"}
		cluster = append(cluster, object(t, m.Params))
	}
	if m.Namespace == nil {
		m.Namespace = map[string]any{"metadata": map[string]any{"name": "default"}}
	}
	m.Namespace["apiVersion"], m.Namespace["kind"] = "v1", "Namespace"
	cluster = append(cluster, object(t, m.Namespace))
	name := cluster[len(cluster)-1].GetName()
	m.Object["apiVersion"], m.Object["kind"] = "apps/v1", "Deployment"
	m.Object["metadata"].(map[string]any)["namespace"] = name
	var faults strings.Builder
	chain := newChain(t, map[string][]*render.Object{
		"policy.yaml": {object(t, m.Policy), object(t, map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
			"metadata": map[string]any{"name": "b"}, "spec": binding,
		})},
		"cluster.yaml": cluster,
	}, map[string]string{"authorizer": "allow"}, &faults)
	return m.compare(t, chain, faults.String())
}

func (m *mutationCase) compare(t *testing.T, chain policy.Chain, faults string) bool {
	t.Helper()
	reqs := []policy.Request{{Operation: policy.Create, Object: object(t, m.Object), UserInfo: policy.UserInfo{Username: "u"}}}
	stored, results, err := chain.Stored(context.Background(), reqs)
	rendertest.OK(t, err)
	if m.Error != "" {
		for _, r := range results {
			if strings.Contains(r.Message, m.Error) && r.Outcome == policy.Error {
				return true
			}
		}
		t.Errorf("%s: want an error %q, got %+v %s", m.ID, m.Error, results, faults)
		return false
	}
	spec := m.Result["spec"].(map[string]any)
	got := stored[0].Object["spec"].(map[string]any)
	if spec["replicas"] == nil {
		spec["replicas"] = 1 // the table does without defaults
	}
	want, _ := json.Marshal([]any{spec["replicas"], m.Result["metadata"].(map[string]any)["labels"]})
	have, _ := json.Marshal([]any{got["replicas"], stored[0].Object["metadata"].(map[string]any)["labels"]})
	if string(want) != string(have) {
		t.Errorf("%s: want %s, got %s: %+v %s", m.ID, want, have, results, faults)
		return false
	}
	return true
}

func object(t testing.TB, tree map[string]any) *render.Object {
	t.Helper()
	data, err := json.Marshal(tree)
	rendertest.OK(t, err)
	return rendertest.Parse(t, "table.json", data)[0]
}

type allowing struct{}

func (allowing) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}
