package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// twentyTwo are as many policies as the pod security set of Kyverno's library
// has, of its sizes.
func twentyTwo(b *testing.B) []*render.Object {
	var text strings.Builder
	for i := range 22 {
		fmt.Fprintf(&text, `---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: policy-%d, annotations: {policies.kyverno.io/title: A title}}
spec:
  validationFailureAction: Enforce
  rules:
  - name: pattern
    match: {any: [{resources: {kinds: [Pod]}}]}
    exclude: {any: [{resources: {namespaces: [kube-system]}}]}
    validate:
      message: "Rule {{ request.object.metadata.name }} is not followed."
      pattern: {spec: {=(initContainers): [{=(securityContext): {=(privileged): "false"}}], containers: [{=(securityContext): {=(privileged): "false"}}]}}
  - name: foreach
    match: {any: [{resources: {kinds: [Pod]}}]}
    preconditions: {all: [{key: "{{ request.operation || 'BACKGROUND' }}", operator: NotEquals, value: DELETE}]}
    validate:
      foreach:
      - list: request.object.spec.[ephemeralContainers, initContainers, containers][]
        deny: {conditions: {all: [{key: "{{ element.securityContext.capabilities.drop[].to_upper(@) || '' }}", operator: AnyNotIn, value: [ALL]}]}}
`, i)
	}
	return rendertest.Parse(b, "policies.yaml", text.String())
}

func BenchmarkRead(b *testing.B) {
	objects := twentyTwo(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Read(objects, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatches(b *testing.B) {
	policies, _, err := Read(twentyTwo(b), Options{})
	if err != nil {
		b.Fatal(err)
	}
	x := NewIndex(policies)
	for _, kind := range []string{"Pod", "apps/v1/Deployment", "ConfigMap"} {
		b.Run(kind[strings.LastIndex(kind, "/")+1:], func(b *testing.B) {
			t := thing{kind: kind, metadata: inNamespace("web")}.target()
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range x.For(t.Kind.Kind) {
					for _, r := range p.RulesFor(t.Kind) {
						r.Matches(t)
					}
				}
			}
		})
	}
}
