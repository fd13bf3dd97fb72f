package kustomize_test

import (
	"strings"
	"testing"
)

// TestExplain looks at what is made of kustomize's own errors: a sentence with
// its place, and nothing of what stands in the files.
func TestExplain(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, c := range []struct{ kustomization, want string }{
		{"patches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"remove\", \"path\": \"/data/x\"}]'", "4:10: JSON patch: remove does not apply, there is no /data/x"},
		{"patches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"add\", \"path\": \"/a/b/c\", \"value\": \"hunter2\"}]'", "4:10: JSON patch: add does not apply, there is no /a/b/c"},
		{"patches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"test\", \"path\": \"/data/k\", \"value\": \"hunter\"}]'", "4:10: JSON patch: test of /data/k fails"},
		{"patches:\n- patch: '[{\"op\": \"test\", \"path\": \"/data/k\", \"value\": \"hunter2\"}]'", "a JSON patch needs a target"},
		{"patches:\n- target: {kind: ConfigMap}", "a patch needs either a path or the patch itself"},
		{"patches:\n- target: {kind: '('}\n  patch: 'hunter2: x'", "patch is neither a strategic merge patch nor a JSON patch"},
		{"patches:\n- target: {kind: '('}\n  patch: '[{\"op\": \"remove\", \"path\": \"/data/k\"}]'", "a target is not a valid regular expression"},
		{"replicas:\n- {name: x, count: 2}", "3:3: replicas: no resource with the name x has replicas"},
		{"vars:\n- {name: V, objref: {kind: Pod, name: x}}", "3:3: var V refers to no field of a resource"},
		{"vars:\n- {name: V, objref: {apiVersion: v1, kind: ConfigMap, name: c}, fieldref: {fieldpath: data.nope}}", "3:3: the field of var V does not exist"},
		{"replacements:\n- {source: {kind: Pod, name: x}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.x]}]}", "replacement: nothing is selected by Pod x"},
		{"replacements:\n- {source: {kind: ConfigMap, name: c}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.x]}]}", "replacement: its target has no field data.x"},
		{"replacements:\n- {source: {kind: ConfigMap, name: c, fieldPath: data.x}, targets: [{select: {kind: ConfigMap}}]}", "replacement: data.x is missing in its source ConfigMap c"},
		{"replacements:\n- {source: {kind: ConfigMap, name: c, fieldPath: data.k, options: {delimiter: t, index: 9}}, targets: [{select: {kind: ConfigMap}}]}", "replacement: options.index 9 is out of bounds"},
		{"configMapGenerator:\n- {name: d, literals: [a=hunter2, a=c]}", "generator: ConfigMap d has a key twice"},
		{"configMapGenerator:\n- {name: c, literals: [a=hunter2]}", "ConfigMap c exists already: behavior must be merge or replace"},
		{"configMapGenerator:\n- {name: d, behavior: merge, literals: [a=hunter2]}", "there is no ConfigMap d to merge with or to replace"},
		{"configMapGenerator:\n- {literals: [a=hunter2]}", "generator: a configmap must have a name"},
		{"openapi: {version: v0}", "openapi: this version is not built in"},
		{"sortOptions: {order: hunter2}", "sortOptions are not valid"},
		{"configurations: [cm.yaml]", "2:17: a file of configurations has the field apiVersion, which kustomize does not know"},
		{"namespace: web\ngenerators: [g.yaml]", "2:12: two resources become one by the namespace: ConfigMap c"},
		{"generators: [cm.yaml]", "plugin ConfigMap is not built into kustomize: not evaluated"},
	} {
		objects, err := renderApp(tree(
			"app/kustomization.yaml", "resources: [cm.yaml]\n"+c.kustomization,
			"app/g.yaml", "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: c, namespace: other}\noptions: {disableNameSuffixHash: true}\n",
			"app/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: hunter2}\n",
		))
		if len(objects) > 0 || err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "app/kustomization.yaml") {
			t.Errorf("%s:\n%d objects, %v; want %s", c.kustomization, len(objects), err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error tells the secret: %v", c.kustomization, err)
		}
	}
}
