package argocd

import (
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// Argo CD reads the Secrets of its own namespace: where several namespaces have
// some, the one with argocd-cm, else argocd.
func TestClusterSecrets(t *testing.T) {
	t.Parallel()
	const secrets = `
apiVersion: v1
kind: Secret
metadata: {name: a, namespace: openshift-gitops, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: a, server: "https://a.example"}
---
apiVersion: v1
kind: Secret
metadata: {name: b, namespace: NAMESPACE, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: b, server: "https://b.example"}
---
apiVersion: v1
kind: Secret
metadata: {name: other, namespace: argocd}
stringData: {name: c, server: "https://c.example"}
`
	const settings = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: openshift-gitops}\n"
	for _, c := range []struct {
		namespace, more string
		want            []string
	}{
		{"argocd", "", []string{"b"}},
		{"argocd", settings, []string{"a"}},
		{"elsewhere", "", []string{"a", "b"}},
		{"elsewhere", settings, []string{"a"}},
		{"openshift-gitops", "", []string{"a", "b"}},
	} {
		objects := rendertest.Parse(t, "all.yaml", strings.ReplaceAll(secrets, "NAMESPACE", c.namespace)+c.more)
		f := &fakeWorld{objects: objects}
		var names []string
		for _, known := range knownClusters(f.world()) {
			names = append(names, known.name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s %q: clusters are %v, want %v", c.namespace, c.more, names, c.want)
		}
	}
}
