package engines

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// everyEngine holds a policy for each engine, and for each kind that has an engine's policies
// evaluated in its own way.
const everyEngine = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: vap}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: vap}
spec: {policyName: vap, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: map}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}]'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: map}
spec: {policyName: map}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: vpol}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: "false"}]
---
apiVersion: policies.kyverno.io/v1
kind: ImageValidatingPolicy
metadata: {name: ivpol}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchImageReferences: [{glob: '*'}]
  validations: [{expression: "false"}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: mpol}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'}}]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: kyverno}
spec:
  validationFailureAction: Enforce
  rules:
  - name: validate
    match: {any: [{resources: {kinds: [Deployment]}}]}
    validate: {message: m, deny: {}}
  - name: mutate
    match: {any: [{resources: {kinds: [Deployment]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {c: d}}}}
  - name: images
    match: {any: [{resources: {kinds: [Deployment]}}]}
    verifyImages: [{imageReferences: ['*'], required: true, attestors: [{entries: [{keys: {publicKeys: k8s://a/b}}]}]}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: refused}
spec:
  crd: {spec: {names: {kind: Refused}}}
  targets: [{target: admission.k8s.gatekeeper.sh, rego: "package refused\nviolation[{\"msg\": \"m\"}] { true }"}]
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Refused
metadata: {name: same}
spec: {match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: other}
spec:
  crd: {spec: {names: {kind: Other}}}
  targets: [{target: admission.k8s.gatekeeper.sh, rego: "package other\nviolation[{\"msg\": \"m\"}] { true }"}]
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Other
metadata: {name: same}
spec: {match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: mutator}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  location: spec.paused
  parameters: {assign: {value: true}}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: mutator}
spec:
  location: metadata.labels.e
  parameters: {assign: {value: f}}
---
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: expansion}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: '', version: v1, kind: Pod}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.e.com}
spec:
  group: e.com
  scope: Namespaced
  names: {plural: xs, singular: x, kind: X, listKind: XList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// TestEachPolicySetApart holds that each engine has each of its policies watched, and that
// a policy which is set apart is named at its place while the other ones are evaluated.
func TestEachPolicySetApart(t *testing.T) {
	t.Parallel()
	unit := func(name, text string) *render.Unit {
		u := &render.Unit{Source: render.Source{Path: name}}
		objects := rendertest.Parse(t, name+".yaml", text)
		for _, o := range objects {
			o.Unit = u
		}
		u.Objects = objects
		return u
	}
	const pods = "{metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}"
	head := unit("head", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {matchLabels: {a: b}}, template: "+pods+"}\n"+
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: a}]}\n"+
		"---\napiVersion: e.com/v1\nkind: X\nmetadata: {name: x}\n"+
		everyEngine[strings.LastIndex(everyEngine, "---\n"):])
	in := &load.Input{Head: []*render.Unit{head}, Given: []*render.Unit{unit("policies", everyEngine)}, Modules: []rego.Module{
		{File: "r.rego", Text: "package r\n\ndeny contains \"m\" if true\n"}, {File: "s.rego", Text: "package s\n\ndeny contains \"m\" if input.kind == \"Pod\"\n"},
	}}
	set, err := New(in, in, Options{Settings: &Settings{Packs: []string{restrictedPack}, PoliciesGiven: true}})
	rendertest.OK(t, err)
	for _, r := range set.Results {
		t.Errorf("not compiled: %s %s: %s", r.Policy, r.PolicyOrigin, r.Message)
	}
	type part struct{ engine, policy string }
	var mu sync.Mutex
	seen := make(map[part]bool)
	var refused part
	set.Chain.Watch = func(_ *policy.Request, engine any) (policy.Watched, error) {
		return policy.Watched{Policy: func(name string) (func(), error) {
			p := part{fmt.Sprintf("%T", engine), name}
			mu.Lock()
			seen[p] = true
			mu.Unlock()
			if p == refused {
				return nil, errors.New("is refused")
			}
			return func() {}, nil
		}}, nil
	}
	type result struct{ engine, policy, rule, object string }
	review := func() (found map[result]bool, left []policy.Result) {
		results, err := set.Chain.Review(t.Context(), policy.Requests(nil, head.Objects))
		rendertest.OK(t, err)
		found = make(map[result]bool)
		for _, r := range results {
			if found[result{r.Engine, r.Policy, r.Rule, r.Object.Name}] = true; r.Rule == "set-apart" {
				left = append(left, r)
			}
		}
		return found, left
	}
	undisturbed, _ := review()
	parts := slices.SortedFunc(maps.Keys(seen), func(a, b part) int { return strings.Compare(a.engine+" "+a.policy, b.engine+" "+b.policy) })
	var names []string
	for _, p := range parts {
		names = append(names, p.policy)
		refused = p
		now, left := review()
		if len(left) == 0 {
			t.Errorf("%s: no result says that it is skipped", p)
		}
		builtIn := strings.HasPrefix(p.engine, "*schema.") || strings.HasPrefix(p.engine, "*podsecurity.")
		for _, r := range left {
			if !strings.Contains(r.Message, p.policy+" on this object is refused") || r.PolicyOrigin.File == "" && !builtIn {
				t.Errorf("%s: %s at %q", p, r.Message, r.PolicyOrigin.File)
			}
		}
		for r := range undisturbed {
			if same := r.policy == p.policy || r.policy+"/"+r.rule == p.policy; !same && !now[r] && !(p.engine == "*gatekeeper.Engine" && r.engine == policy.EngineGatekeeper) {
				t.Errorf("without %s there is no result of %s", p, r)
			}
		}
	}
	want := []string{
		"vap", "map", "xs.e.com", "ExpansionTemplate expansion", "mutator/Assign", "mutator/AssignMetadata", "same/Other", "same/Refused", // mutators of the expanded Pod
		"mutator/Assign", "mutator/AssignMetadata", "kyverno/mutate", "kyverno/images", "kyverno/validate", "restricted", "r", "s", "Deployment.apps", "Pod", "mpol", "ivpol", "vpol",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("watched policies of each engine:\n%s", diff)
	}
}
