package lint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// served are the kinds of the tests: two built in, one of a group of its own.
type served struct{}

func (served) Resources() []metav1.APIResource {
	return []metav1.APIResource{
		{Group: "", Version: "v1", Kind: "Pod", Name: "pods"},
		{Group: "apps", Version: "v1", Kind: "Deployment", Name: "deployments"},
		{Group: "example.org", Version: "v1", Kind: "Widget", Name: "widgets"},
	}
}

func (served) BuiltinGroup(group string) bool { return group == "" || group == "apps" }

func parse(t *testing.T, text string) []*render.Object {
	t.Helper()
	return rendertest.Parse(t, "p.yaml", strings.TrimPrefix(text, "\n"))
}

func kyverno(kinds string) string {
	return "\napiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - match: {any: [{resources: {kinds: [" + kinds + "]}}]}\n"
}

func constraint(match string) string {
	return "\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sRequired\nmetadata: {name: p}\nspec:\n  match:\n    kinds: [" + match + "]\n"
}

const (
	policyText = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
`
	bindingText = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p}
`
)

const unbounded = "3:18 warning no-binding: no binding in the tree or --with names this policy, so it has no effect"

// TestCheck holds what is said about each mistake, and where.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies, context string
		given             bool // policies are those of --policy
		want              string
	}{
		"unbound":               {policies: policyText, want: unbounded},
		"bound":                 {policies: policyText + "---" + bindingText},
		"bound in the context":  {policies: policyText, context: bindingText},
		"given":                 {policies: policyText, given: true},
		"bound by another kind": {policies: policyText + "---" + strings.Replace(bindingText, "Validating", "Mutating", 1), want: unbounded},
		"bound by another name": {policies: policyText + "---" + strings.Replace(bindingText, "policyName: p", "policyName: q", 1), want: unbounded},
		"mutating":              {policies: strings.Replace(policyText, "Validating", "Mutating", 1), want: unbounded},

		"version": {
			policies: strings.Replace(policyText, "io/v1", "io/v2", 1) + "---" + bindingText,
			want:     `1:13 unknown-kind: no matches for kind "ValidatingAdmissionPolicy" in version "admissionregistration.k8s.io/v2"; did you mean admissionregistration.k8s.io/v1?`,
		},
		"group": {
			policies: strings.Replace(policyText, "admissionregistration.k8s.io", "admission.k8s.io", 1),
			want:     `1:13 unknown-kind: no matches for kind "ValidatingAdmissionPolicy" in version "admission.k8s.io/v1"; did you mean admissionregistration.k8s.io/v1?`,
		},
		"kind": {
			policies: strings.Replace(policyText, "Policy", "Polciy", 1),
			want: `2:7 unknown-kind: no matches for kind "ValidatingAdmissionPolciy" in version "admissionregistration.k8s.io/v1"; ` +
				`there are ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingWebhookConfiguration, MutatingWebhookConfiguration`,
		},
		"template": {
			policies: "apiVersion: template.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: t}\n",
			want:     `1:13 unknown-kind: no matches for kind "ConstraintTemplate" in version "template.gatekeeper.sh/v1"; did you mean templates.gatekeeper.sh?`,
		},
		"template of another group": {
			policies: "apiVersion: example.org/v1\nkind: ConstraintTemplate\nmetadata: {name: t}\n",
			want:     `1:13 unknown-kind: no matches for kind "ConstraintTemplate" in version "example.org/v1"; did you mean templates.gatekeeper.sh/v1?`,
		},
		"mutator": {
			policies: "apiVersion: mutations.gatekeeper.sh/v1\nkind: Asign\nmetadata: {name: t}\n",
			want:     `2:7 unknown-kind: no matches for kind "Asign" in version "mutations.gatekeeper.sh/v1"; there is Assign, AssignImage, AssignMetadata, ModifySet`,
		},
		"what Gatekeeper makes": {policies: "apiVersion: status.gatekeeper.sh/v1\nkind: Any\nmetadata: {name: t}\n---\napiVersion: connection.gatekeeper.sh/v1\nkind: Any\nmetadata: {name: t}\n"},
		"an operator's":         {policies: "apiVersion: operator.gatekeeper.sh/v1alpha1\nkind: Gatekeeper\nmetadata: {name: t}\n"},
		"constraint": {
			policies: "apiVersion: constraint.gatekeeper.sh/v1beta1\nkind: K8sAllowed\nmetadata: {name: t}\n",
			want:     `1:13 unknown-kind: no matches for kind "K8sAllowed" in version "constraint.gatekeeper.sh/v1beta1"; did you mean constraints.gatekeeper.sh?`,
		},

		"no rules":             {policies: "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: p}\n", want: "3:18 warning no-rules: the policy has no rules, so it has no effect"},
		"Kyverno's kinds":      {policies: kyverno("Pod, v1/Pod, apps/v1/Deployment, Pod/exec, Pod.status, '*', '*/*', Gadget, example.org/v1/Gadget")},
		"Kyverno's misspelt":   {policies: kyverno("Pod, Deploymnt"), want: misnamedAt("6:45", "Deploymnt", "Deployment")},
		"Kyverno's plural":     {policies: kyverno("deployments"), want: misnamedAt("6:40", "deployments", "Deployment")},
		"Kyverno's group":      {policies: kyverno("apps/v1/Pod"), want: `6:40 warning unknown-kind: kind Pod matches nothing: it is not in API group "apps", but in ""`},
		"Gatekeeper's kinds":   {policies: constraint(`{apiGroups: ["", apps], kinds: [Pod, Deployment]}, {apiGroups: ["*"], kinds: ["*"]}, {apiGroups: [example.org], kinds: [Widgit]}`)},
		"Gatekeeper's group":   {policies: constraint(`{apiGroups: [""], kinds: [Deployment]}`), want: `6:39 warning unknown-kind: kind Deployment matches nothing: it is not in API group "", but in "apps"`},
		"Gatekeeper's plural":  {policies: constraint(`{apiGroups: [""], kinds: [pods]}`), want: misnamedAt("6:39", "pods", "Pod")},
		"no policy of anybody": {policies: "apiVersion: v1\nkind: Pod\nmetadata: {name: t}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := parse(t, c.policies)
			var given, context []*render.Object
			if c.given {
				given = policies
			}
			if c.context != "" {
				context = parse(t, c.context)
			}
			var got []string
			for _, e := range render.Errors(Check(policies, given, context, served{})) {
				line := fmt.Sprintf("%d:%d ", e.Span.Line, e.Span.Column)
				if e.Warning {
					line += "warning "
				}
				line += e.Rule + ": " + e.Err.Error()
				if e.Hint != "" && !e.Warning {
					line += "; " + e.Hint
				}
				got = append(got, line)
			}
			rendertest.Equal(t, c.want, strings.Join(got, "\n"))
		})
	}
}

func misnamedAt(place, kind, meant string) string {
	return fmt.Sprintf("%s warning unknown-kind: kind %q matches nothing: it is not built in, and no CustomResourceDefinition in the tree or --with defines it; did you mean %s?", place, kind, meant)
}

// TestKinds holds which objects are policies, belong to one, and are compiled.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        "policy part compiled",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": "part compiled",
		"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy":          "part compiled",
		"admissionregistration/v1 ValidatingAdmissionPolicy":               "part compiled",
		"kyverno.io/v1 ClusterPolicy":                                      "policy part compiled",
		"kyverno.io/v2 PolicyException":                                    "part compiled",
		"policies.kyverno.io/v1 NamespacedValidatingPolicy":                "policy part compiled",
		"policies.kyverno.io/v1 MutatingPolicy":                            "part compiled",
		"constraints.gatekeeper.sh/v1beta1 K8sAnything":                    "policy part compiled",
		"templates.gatekeeper.sh/v1 ConstraintTemplate":                    "part compiled",
		"apiextensions.k8s.io/v1 CustomResourceDefinition":                 "compiled",
		"apiregistration.k8s.io/v1 APIService":                             "compiled",
		"example.org/v1 PolicyException":                                   "compiled",
		"apps/v1 Deployment":                                               "",
		"v1 ConfigMap":                                                     "",
	} {
		version, name, _ := strings.Cut(kind, " ")
		o := parse(t, "apiVersion: "+version+"\nkind: "+name+"\nmetadata: {name: o}\n")[0]
		var got []string
		if IsPolicy(o) {
			got = append(got, "policy")
		}
		if IsPart(o) {
			got = append(got, "part")
		}
		if IsCompiled(o) {
			got = append(got, "compiled")
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kind, diff)
		}
	}
}
