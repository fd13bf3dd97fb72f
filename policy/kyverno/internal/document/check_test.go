package document

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestInvalid reads the policies of invalid.txtar, which say themselves what
// is wrong with which of their lines.
func TestInvalid(t *testing.T) {
	t.Parallel()
	archive := rendertest.ParseArchive(t, "testdata/invalid.txtar")
	for _, f := range archive.Files {
		t.Run(strings.TrimSuffix(f.Name, ".yaml"), func(t *testing.T) {
			t.Parallel()
			text := whole(string(f.Data))
			policies, exceptions, err := Read(rendertest.Parse(t, f.Name, text), Options{})
			if diff := cmp.Diff(wanted(text), found(err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if valid := len(policies)+len(exceptions) > 0; valid != (err == nil) {
				t.Errorf("valid is %v, and the error is %v", valid, err)
			}
		})
	}
}

// whole makes a policy of a spec.
func whole(text string) string {
	if strings.HasPrefix(text, "apiVersion:") {
		return text
	}
	return "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
}

func wanted(text string) []string {
	var all []string
	for i, line := range strings.Split(text, "\n") {
		for _, message := range strings.Split(line, "#!")[1:] {
			all = append(all, fmt.Sprintf("%d: %s", i+1, strings.TrimSpace(message)))
		}
	}
	slices.Sort(all)
	return all
}

// found are the errors with their lines, in the form of wanted; of long ones
// from elsewhere, the part that is ours.
func found(err error) []string {
	var all []string
	for _, e := range render.Errors(err) {
		s := fmt.Sprintf("%d: %s", e.Span.Line, strings.TrimSpace(e.Err.Error()))
		if e.Hint != "" {
			s += " (" + e.Hint + ")"
		}
		for _, cut := range []string{" is none of HostProcess", "SyntaxError", "not a list of patches"} {
			if before, _, ok := strings.Cut(s, cut); ok {
				s = before + strings.TrimSuffix(cut, "HostProcess")
			}
		}
		all = append(all, strings.TrimSpace(s))
	}
	slices.Sort(all)
	return all
}

// TestInvalidPolicyAffectsNoOther holds that an invalid policy does not keep others
// from being read.
func TestInvalidPolicyAffectsNoOther(t *testing.T) {
	t.Parallel()
	policies, exceptions, err := Read(rendertest.Parse(t, "p.yaml", `
apiVersion: v1
kind: List
items:
- apiVersion: kyverno.io/v1
  kind: ClusterPolicy
  metadata: {name: bad}
  spec: {rule: []}
- apiVersion: kyverno.io/v1
  kind: ClusterPolicyList
  items:
  - metadata: {name: good}
    spec: {rules: [{name: a, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {deny: {}}}]}
- {apiVersion: kyverno.io/v2, kind: CleanupPolicy, metadata: {name: later}, spec: {schedule: "* * * * *"}}
- {apiVersion: kyverno.io/v2alpha1, kind: GlobalContextEntry, metadata: {name: data}, spec: {}}
- {apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: other}, spec: {}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
`), Options{})
	if len(policies) != 1 || policies[0].Name != "good" || len(exceptions) != 0 {
		t.Errorf("got %d policies and %d exceptions", len(policies), len(exceptions))
	}
	errs := render.Errors(err)
	if len(errs) != 1 || errs[0].Rule != ruleUnknownField || errs[0].Span.Line != 8 || errs[0].Span.File != "p.yaml" {
		t.Errorf("got %v", err)
	}
}

// TestDefaults holds the defaults that the definitions give.
func TestDefaults(t *testing.T) {
	t.Parallel()
	p := one(t, `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: p}
spec:
  rules:
  - name: a
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {deny: {}}
`)
	if p.Namespace != "default" || p.Action != "Audit" || !p.Admission || !p.Background || p.FailurePolicy != "Fail" || p.ApplyOne {
		t.Errorf("got %+v", p)
	}
	if v := p.Rules[0].Validate; !v.AllowExisting || v.Deny == nil || v.Deny.Conditions != nil {
		t.Errorf("got %+v", v)
	}
	p = one(t, whole(`
applyRules: One
validationFailureAction: enforce
failurePolicy: Ignore
background: false
rules:
- name: a
  match: {any: [{resources: {kinds: [Pod]}}]}
  verifyImages: [{imageReferences: [a], image: b, key: k}]
`))
	v := p.Rules[0].VerifyImages[0]
	if p.Namespace != "" || p.Action != "Enforce" || p.FailurePolicy != "Ignore" || p.Background || !p.ApplyOne ||
		!v.Required || !v.MutateDigest || !v.VerifyDigest || v.Attestors != 1 || len(v.ImageReferences) != 2 {
		t.Errorf("got %+v, %+v", p, v)
	}
}

// one reads a single policy.
func one(t testing.TB, text string) *Policy {
	t.Helper()
	policies, _, err := Read(rendertest.Parse(t, "p.yaml", text), Options{})
	if err != nil || len(policies) != 1 {
		t.Fatalf("got %d policies: %v", len(policies), err)
	}
	return policies[0]
}
