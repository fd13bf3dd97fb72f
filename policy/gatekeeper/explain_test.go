package gatekeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	const constraint = `
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K
metadata: {name: c}
spec:
  match:
    kinds: [{apiGroups: [apps], kinds: [Deployment]}]
    namespaceSelector: {matchLabels: {team: a}}
`
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop}, spec: {replicas: 3}}`
	const space = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}`
	native := nativeTemplate("variables: [{name: most, expression: object.spec.replicas}]\nvalidations: [{expression: variables.most < 3}]")
	for _, c := range []struct {
		name, policies, object, cluster string
		want                            string
	}{
		{"in Rego", templateOf(labelled) + constraint, deployment, space, `
yes
webhook: yes
enforcementAction: yes
kinds: yes
namespaceSelector: yes
violation: Deployment d has no label app
  object#/metadata/labels/app is missing
`},
		{"in CEL", native + constraint, deployment, space, `
yes
webhook: yes
enforcementAction: yes
kinds: yes
namespaceSelector: yes
validations[0]: false
  object#/spec/replicas is 3
`},
		{"of another kind", native + constraint, pod, space, `
no
webhook: yes
enforcementAction: yes
kinds: no
namespaceSelector: yes
`},
		{"undecided", native + constraint, deployment, "", `
unknown
webhook: yes
enforcementAction: yes
kinds: yes
namespaceSelector: unknown (labels of namespace shop are unknown: give the Namespace with --with)
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := New(parseAll(t, c.policies), Options{Cluster: policy.NewCluster(parseAll(t, c.cluster)...)})
			rendertest.OK(t, err)
			all, err := e.Explain(t.Context(), requestOf(t, c.object), "c", "")
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			rendertest.Equal(t, strings.TrimSpace(c.want), strings.TrimSpace(explained(&all[0])))
		})
	}
}

// explained is an explanation in short.
func explained(x *policy.Explanation) string {
	var b strings.Builder
	fmt.Fprintln(&b, x.Matches)
	for _, c := range x.Match {
		fmt.Fprintf(&b, "%s: %s", c.Name, c.Answer)
		if c.Why != "" {
			fmt.Fprintf(&b, " (%s)", c.Why)
		}
		fmt.Fprintln(&b)
	}
	for _, t := range x.Trials {
		for _, v := range t.Validations {
			fmt.Fprintf(&b, "%s: %s\n", v.Name, v.Value+v.Error+v.Unknown)
			for _, k := range v.Culprits {
				state := "is " + k.Value
				if k.Missing {
					state = "is missing"
				}
				fmt.Fprintf(&b, "  %s#%s %s\n", k.Root, k.Pointer, state)
			}
		}
	}
	return b.String()
}
