package kustomize_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

// sharedBase is a base of a base, in which names, labels and hashes change.
var sharedBase = tree(
	"base/kustomization.yaml", "resources: [web.yaml, ../lower]\nnamePrefix: base-\nlabels: [{pairs: {from: base}, includeSelectors: true}]\n"+
		"configMapGenerator: [{name: conf, literals: [a=1]}, {name: kept, literals: [b=2], options: {disableNameSuffixHash: true}}]\n",
	"base/web.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {first: "1"}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: runner
      containers:
      - name: web
        image: nginx:1.14
        envFrom: [{configMapRef: {name: conf}}]
        env: [{name: LEVEL, value: "1"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: run}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: run}
subjects: [{kind: ServiceAccount, name: runner}, {kind: ServiceAccount, name: default}]
`,
	"lower/kustomization.yaml", "resources: [all.yaml]\nnamespace: lower\npatches: [{target: {kind: Role}, patch: '[{\"op\": \"add\", \"path\": \"/rules/0/verbs/-\", \"value\": \"list\"}]'}]\n",
	"lower/all.yaml", `apiVersion: v1
kind: ServiceAccount
metadata: {name: runner}
---
# an alias, which kustomize resolves
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: run, labels: &l {a: b}, annotations: *l}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: local, annotations: {config.kubernetes.io/local-config: "true"}}
`,
	"part/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [job.yaml]\ncommonAnnotations: {part: here}\n",
	"part/job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}\n",
	"configured/conf.yaml", "namePrefix: [{path: metadata/annotations/first}]\n",
	"two-of-many/other.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n",
)

// overlaysOfOne are kustomizations that change the base, each in its own way.
var overlaysOfOne = map[string]string{
	"plain":       "resources: [../base]\n",
	"patched":     "resources: [../base]\npatches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/template/spec/containers/0/image\", \"value\": \"other\"}]'\n",
	"merged":      "resources: [../base]\npatches:\n- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web}\n    spec: {replicas: 3}\n",
	"removed":     "resources: [../base]\npatches:\n- patch: |\n    $patch: delete\n    apiVersion: v1\n    kind: ServiceAccount\n    metadata: {name: runner, namespace: lower}\n",
	"deprecated":  "resources: [../base]\npatchesStrategicMerge:\n- |-\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: web}\n  spec: {replicas: 4}\n",
	"older":       "resources: [../base]\npatchesJson6902:\n- target: {group: apps, version: v1, kind: Deployment, name: web}\n  patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": 5}]'\n",
	"renamed":     "resources: [../base]\nnamePrefix: p-\nnameSuffix: -s\nnamespace: other\n",
	"another":     "resources: [../base]\npatches:\n- target: {kind: Deployment}\n  options: {allowNameChange: true}\n  patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: changed}\n",
	"generated":   "resources: [../base]\ngeneratorOptions: {labels: {gen: x}}\nconfigMapGenerator: [{name: conf, behavior: merge, literals: [a=2, c=3]}, {name: kept, behavior: replace, literals: [d=4]}]\n",
	"counted":     "resources: [../base]\nreplicas: [{name: web, count: 7}]\nimages: [{name: nginx, newTag: '2'}]\n",
	"labelled":    "resources: [../base]\nlabels: [{pairs: {a: x}, includeTemplates: true}, {pairs: {b: other}, fields: [{path: spec/own, create: true}]}]\ncommonLabels: {c: z}\ncommonAnnotations: {note: o}\n",
	"quoted":      "resources: [../base]\npatches:\n- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web}\n    spec: {template: {spec: {containers: [{name: web, env: [{name: LEVEL, value: 2}]}]}}}\n",
	"annotated":   "resources: [../base]\ncommonLabels: {c: z}\nbuildMetadata: [transformerAnnotations]\n",
	"relabelled":  "resources: [../base]\nlabels: [{pairs: {from: overlay}}]\n",
	"repeated":    "resources: []\nnamePrefix: a-\nresources: [../base]\nnamePrefix: b-\n",
	"unlabelled":  "resources: [../base]\npatches: [{target: {kind: Deployment}, patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": 5}]'}]\nlabels: [{pairs: {from: overlay}}]\n",
	"replaced":    "resources: [../base]\nreplacements: [{source: {kind: Role, fieldPath: metadata.name}, targets: [{select: {kind: Deployment}, fieldPaths: [spec.template.metadata.annotations.role], options: {create: true}}]}]\n",
	"with-part":   "resources: [../base]\ncomponents: [../part]\nimages: [{name: nginx, digest: sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3}]\n",
	"in-order":    "resources: [../base]\nsortOptions: {order: fifo}\n",
	"own-order":   "resources: [../base]\nsortOptions: {order: legacy, legacySortOptions: {orderFirst: [Role, Deployment], orderLast: [ConfigMap]}}\n",
	"configured":  "resources: [../base]\nconfigurations: [conf.yaml]\nnamePrefix: p-\n",
	"twice":       "resources: [../plain, ../renamed]\n",
	"two-of-many": "resources: [../counted, other.yaml]\nnamePrefix: q-\n",
}

// TestOverlaysOfOneBase renders overlays that share a base beside each other with one
// Renderer, twice, and once more after the base changed. Each must be what kustomize
// makes of it alone.
func TestOverlaysOfOneBase(t *testing.T) {
	t.Parallel()
	r := kustomize.New(kustomize.Options{})
	for _, image := range []string{"nginx:1.14", "nginx:1.15"} {
		files := maps.Clone(sharedBase)
		for name, text := range overlaysOfOne {
			files[name+"/kustomization.yaml"] = &fstest.MapFile{Data: []byte(text)}
		}
		files["base/web.yaml"] = &fstest.MapFile{Data: bytes.Replace(files["base/web.yaml"].Data, []byte("nginx:1.14"), []byte(image), 1)}
		dir := t.TempDir()
		rendertest.OK(t, os.CopyFS(dir, files))
		t.Run(image, func(t *testing.T) {
			for name := range overlaysOfOne {
				for range 2 {
					t.Run(name, func(t *testing.T) { t.Parallel(); sharedAsKustomize(t, r, dir, name) })
				}
			}
		})
	}
}

func sharedAsKustomize(t *testing.T, r *kustomize.Renderer, dir, name string) {
	got, err := r.Render(context.Background(), render.Source{FS: os.DirFS(dir), Path: name, Kind: "kustomize"})
	want, kerr := kustomizeBuild(filepath.Join(dir, name))
	if failed(err) || kerr != nil {
		t.Fatalf("our error: %v; kustomize's: %v", err, kerr)
	}
	if diff := cmp.Diff(want, values(got)); diff != "" {
		t.Errorf("objects differ from kustomize's (-want +got):\n%s", diff)
	}
	for _, o := range got { // which builds again where there are JSON patches
		if len(o.At("/metadata/name")) == 0 {
			t.Errorf("%s %s: its name has no place", o.GetKind(), o.GetName())
		}
	}
}
