package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOriginsGenerated is TestOrigins over kustomizations made at random: layers of bases,
// components and overlays with everything that writes fields. Each must also render to what
// kustomize itself makes of it. `make origins` makes 3,000 of them.
func TestOriginsGenerated(t *testing.T) {
	quietLibraries()
	trees, o := 25, &oracle{places: 8, tables: map[string]*tally{}}
	if n, err := strconv.Atoi(os.Getenv("PREADMIT_ORIGINS_TREES")); err == nil {
		trees = n
	} else if os.Getenv("PREADMIT_ORIGINS") != "" {
		trees, o.places = 3000, 12
	}
	built, only := 0, os.Getenv("PREADMIT_ORIGINS_SEED")
	for seed := range trees {
		name := fmt.Sprint("seed ", seed)
		if only != "" && only != fmt.Sprint(seed) {
			continue
		}
		l := &layers{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), files: fstest.MapFS{}}
		l.make()
		if only != "" {
			for _, file := range slices.Sorted(maps.Keys(l.files)) {
				t.Logf("== %s\n%s", file, l.files[file].Data)
			}
		}
		if !l.asKustomize(t, name) {
			continue
		}
		built++
		o.tree(t, name, l.files)
	}
	t.Logf("%d of %d trees build", built, trees)
	if only == "" && built*2 < trees {
		t.Errorf("only %d of %d trees build", built, trees)
	}
	o.report(t)
}

// asKustomize compares the units of a tree with kustomize's. It is false if kustomize
// does not build one of them.
func (l *layers) asKustomize(t *testing.T, name string) bool {
	disk := filesys.MakeFsInMemory()
	for file, f := range l.files {
		rendertest.OK(t, disk.WriteFile("/"+file, f.Data))
	}
	graph := render.Graph{Renderers: renderers()}
	options := &krusty.Options{LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(), Reorder: krusty.ReorderOptionUnspecified}
	for _, src := range graph.Discover(l.files, ".").Sources {
		m, err := krusty.MakeKustomizer(options).Run(disk, "/"+src.Path)
		if err == nil {
			_, err = m.AsYaml()
		}
		if err != nil {
			if os.Getenv("PREADMIT_ORIGINS_SEED") != "" {
				t.Logf("%s: %v", src.Path, err)
			}
			return false
		}
		units, err := graph.Render(t.Context(), src)
		rendertest.OK(t, err)
		if err := fatal(units[0].Err); err != nil {
			t.Errorf("%s %s: %v", name, src.Path, err)
			continue
		}
		var want, got []any
		for _, r := range m.Resources() {
			text, err := r.AsYAML()
			rendertest.OK(t, err)
			docs, err := render.Documents("out.yaml", text, render.YAML11)
			rendertest.OK(t, err)
			want = append(want, docs[0].Value)
		}
		for _, o := range units[0].Objects {
			got = append(got, o.Object)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s: objects differ from kustomize's (-want +got):\n%s", name, src.Path, diff)
		}
	}
	return true
}

// layers makes kustomizations at random.
type layers struct {
	*rand.Rand
	files  fstest.MapFS
	count  int
	dir    string
	prefix string // of names so far
	suffix string
	maps   []string // ConfigMaps that the layers below generate
}

func (l *layers) write(name, format string, args ...any) string {
	l.files[path.Join(l.dir, name)] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format, args...))}
	return name
}

// value is a text that stands nowhere else.
func (l *layers) value(kind string) string {
	l.count++
	return fmt.Sprintf("%s%d", kind, l.count)
}

func (l *layers) often() bool { return l.IntN(3) > 0 }
func (l *layers) rare() bool  { return l.IntN(4) == 0 }

func (l *layers) one(of ...string) string { return of[l.IntN(len(of))] }

func (l *layers) make() {
	l.dir = "base"
	l.write("all.yaml", `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web, tier: front}
  annotations: {note: %[1]s, two: "2"}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      serviceAccountName: runner
      containers:
      - name: web
        image: nginx:1.14
        args: [--level, %[2]s]
        env:
        - {name: LEVEL, value: %[3]s}
        - name: FROM
          valueFrom: {configMapKeyRef: {name: conf, key: %[4]s}}
        ports: [{containerPort: 80, name: http}]
      - name: side
        image: r.example.org/side@sha256:0123
      volumes:
      - name: conf
        configMap: {name: made}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {port: 80, targetPort: http}
`, l.value("note"), l.value("arg"), l.value("env"), l.value("key"))
	l.write("more.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data:
  plain: %[1]s
  text: |
    first: %[2]s
    second: two
  json: '{"a": {"b": "%[3]s"}, "n": 1}'
  list: a,b,c
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: runner}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: run}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: run}
subjects: [{kind: ServiceAccount, name: runner, namespace: %[4]s}, {kind: ServiceAccount, name: default}]
---
apiVersion: example.org/v1
kind: Widget
metadata: {name: w}
spec:
  k: %[5]s
  big: 1234567890123456
  part: 1.50
  yes: "on"
  items: [{id: one, v: 1}, {id: two, v: 2}]
`, l.value("plain"), l.value("first"), l.value("json"), l.value("ns"), l.value("k"))
	l.layer("base", "resources: [all.yaml, more.yaml]\n")
	l.maps = []string{"made"}
	below := []string{"../base"}
	for i := range 1 + l.IntN(3) {
		components := ""
		if l.rare() {
			at := *l
			l.layer(fmt.Sprint("part", i), "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {part: here}\n")
			at.count, at.maps = l.count, l.maps
			at.prefix, at.suffix = l.prefix, l.suffix
			*l = at
			components = fmt.Sprintf("components: [../part%d]\n", i)
		}
		l.layer(fmt.Sprint("over", i), "resources: ["+strings.Join(below, ", ")+"]\n"+components)
		below = []string{fmt.Sprint("../over", i)}
	}
}

// layer makes a kustomization.
func (l *layers) layer(dir, text string) {
	l.dir = dir
	list := map[string][]string{}
	add := func(field, format string, args ...any) {
		list[field] = append(list[field], fmt.Sprintf(format, args...))
	}
	if dir == "base" {
		add("configMapGenerator", "name: made\n  literals: [a=%s]", l.value("lit"))
	}
	for range l.IntN(4) {
		l.patch(add)
	}
	if l.rare() {
		l.replacement(add)
	}
	if l.rare() {
		text += "namespace: " + l.one(l.value("space"), "shared") + "\n"
	}
	prefix, suffix := "", ""
	if l.rare() {
		prefix = l.value("pre") + "-"
		text += "namePrefix: " + prefix + "\n"
	}
	if l.rare() {
		suffix = "-" + l.value("suf")
		text += "nameSuffix: " + suffix + "\n"
	}
	if l.rare() {
		add("labels", "pairs: {%s: %s, lab: %s}\n  %s", l.one("tier", "lab2"), l.one("front", l.value("lab")), l.value("lab"),
			l.one("includeSelectors: true", "includeTemplates: true", "includeSelectors: false", "fields: [{path: spec/own/labels, create: true, kind: Widget}]"))
	}
	if l.rare() {
		text += fmt.Sprintf("commonLabels: {com: %s}\n", l.one("front", l.value("com")))
	}
	if l.rare() && !strings.Contains(text, "commonAnnotations") {
		text += fmt.Sprintf("commonAnnotations: {note: %s, ann: %s}\n", l.value("ann"), l.one("a b", l.value("ann")))
	}
	if l.rare() {
		add("images", "name: nginx\n  %s", l.one("newTag: '"+l.value("9.")+"'", "newName: r.example.org/"+l.value("nginx"), "newTag: '1.14'", "digest: sha256:"+l.value("ab")))
	}
	if l.rare() {
		add("images", "name: r.example.org/side\n  newName: nginx\n  newTag: %s", l.value("t"))
	}
	if l.rare() {
		add("replicas", "name: web\n  count: %d", 1+l.IntN(9))
	}
	if l.rare() {
		add("configMapGenerator", "name: %s\n  literals: [\"x=%s\"]\n  files: [%s]\n  options: {immutable: true, labels: {gen: %s}}", l.value("gen"), l.value("lit"), l.write("f.txt", "%s\nmore\n", l.value("file")), l.value("gen"))
	}
	if l.rare() {
		add("secretGenerator", "name: %s\n  envs: [%s]", l.value("sec"), l.write("e.env", "A=%s\n# B=no\nC=%s\n", l.value("env"), l.value("env")))
	}
	if len(l.maps) > 0 && l.rare() {
		add("configMapGenerator", "name: made\n  behavior: %s\n  literals: [%s=%s]", l.one("merge", "replace"), l.one("a", "c"), l.value("lit"))
	}
	if l.rare() {
		text += fmt.Sprintf("generatorOptions: {annotations: {opt: %s}, %s}\n", l.value("opt"), l.one("disableNameSuffixHash: false", "disableNameSuffixHash: true"))
	}
	for range l.IntN(2) * l.IntN(3) {
		l.plugin(add)
	}
	for _, field := range slices.Sorted(maps.Keys(list)) {
		text += field + ":\n"
		for _, item := range list[field] {
			text += "- " + item + "\n"
		}
	}
	l.write("kustomization.yaml", "%s", text)
	l.prefix, l.suffix = prefix+l.prefix, l.suffix+suffix
}

// name is a name of an object that a target may have.
func (l *layers) name(of string) string {
	return l.one(of, of, l.prefix+of+l.suffix)
}

// patch adds a patch, of one form or another.
func (l *layers) patch(add func(string, string, ...any)) {
	if l.IntN(2) == 0 {
		target, text := l.merge()
		l.form(add, target, text, "patchesStrategicMerge")
		return
	}
	target, ops := l.operations()
	if l.rare() {
		data, _ := json.Marshal(ops)
		l.form(add, target, string(data), "patchesJson6902")
		return
	}
	text := ""
	for _, op := range ops {
		value, _ := json.Marshal(op["value"])
		text += fmt.Sprintf("- op: %s\n  path: %s\n", op["op"], op["path"])
		if op["from"] != nil {
			text += fmt.Sprintf("  from: %s\n", op["from"])
		} else if op["value"] != nil {
			text += fmt.Sprintf("  value: %s\n", value)
		}
	}
	l.form(add, target, text, "patchesJson6902")
}

// form writes a patch in the kustomization, in quotes, or in a file.
func (l *layers) form(add func(string, string, ...any), target, text, older string) {
	what := ""
	switch n := l.IntN(5); {
	case n == 0 && strings.HasPrefix(text, "["):
		what = "patch: '" + text + "'"
	case n <= 2:
		what = "patch: |-\n" + indent(text, "    ")
	default:
		what = "path: " + l.write(l.value("patch")+l.one(".yaml", ".json"), "%s%s", l.one("", "# why\n"), text)
	}
	switch {
	case older == "patchesStrategicMerge" && strings.HasPrefix(what, "path: ") && l.rare():
		add(older, "%s", strings.TrimPrefix(what, "path: "))
	case older == "patchesStrategicMerge" && (l.often() || strings.Contains(text, "\n---\n")):
		add("patches", "%s", what)
	case l.rare() && older == "patchesJson6902" && strings.Contains(target, "name: web}") && strings.Contains(target, "Deployment"):
		add(older, "target: {group: apps, version: v1, kind: Deployment, name: web}\n  %s", what)
	default:
		add("patches", "target: %s\n  %s", target, what)
	}
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by)
}

// merge is a strategic merge patch.
func (l *layers) merge() (target, text string) {
	web := l.name("web")
	switch l.IntN(6) {
	case 0:
		return "{kind: Deployment}", fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\n  annotations: {note: %s}\nspec:\n  template:\n    spec:\n      containers:\n      - name: side\n        image: %s\n      - name: web\n        env: [{name: LEVEL, value: %s}, {name: NEW, value: %s}]\n",
			web, l.value("note"), l.one("nginx", "r.example.org/side:"+l.value("v")), l.value("lev"), l.value("new"))
	case 1:
		return "{kind: Deployment, name: " + web + "}", fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec: {replicas: %d, template: {spec: {containers: [{name: %s, image: \"nginx:%s\", ports: [{containerPort: 80, protocol: TCP}]}]}}}\n", web, 1+l.IntN(5), l.value("extra"), l.value("v"))
	case 2:
		return "{kind: Widget}", fmt.Sprintf("apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: %s}\nspec:\n  k: %s\n  items: [{id: three, v: %d}]\n", l.name("w"), l.value("k"), l.IntN(50))
	case 3:
		return "{kind: ConfigMap, name: conf}", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  plain: %s\n  block: |\n    one\n    %s\n", l.name("conf"), l.value("plain"), l.value("line"))
	case 4:
		return "{kind: Service}", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec:\n  type: %s\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: %s\n  labels: {own: %s}\n", web, l.value("Type"), l.name("runner"), l.value("own"))
	}
	return "{kind: Deployment}", fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  template:\n    metadata: {labels: {app: web, more: %s}}\n    spec:\n      containers:\n      - name: web\n        args: [%s]\n      - {name: side, $patch: delete}\n", web, l.value("more"), l.value("arg"))
}

// operations are those of a JSON patch.
func (l *layers) operations() (target string, ops []map[string]any) {
	op := func(kind, path string, value any) {
		ops = append(ops, map[string]any{"op": kind, "path": path, "value": value})
	}
	switch l.IntN(3) {
	case 0:
		for range 1 + l.IntN(3) {
			switch l.IntN(7) {
			case 0:
				op("replace", "/spec/replicas", 2+l.IntN(7))
			case 1:
				op("replace", "/spec/template/spec/containers/0/image", l.one("nginx:"+l.value("v"), l.value("image")))
			case 2:
				op("add", "/spec/template/spec/containers/0/env/-", map[string]any{"name": l.value("E"), "value": l.value("env")})
			case 3:
				op("add", "/spec/template/spec/containers/0", map[string]any{"name": l.value("first"), "image": "nginx", "ports": []any{map[string]any{"containerPort": 1 + l.IntN(99)}}})
			case 4:
				op("add", "/metadata/annotations", map[string]any{"note": l.value("note"), "num": fmt.Sprint(l.IntN(99))})
			case 5:
				ops = append(ops, map[string]any{"op": l.one("copy", "move"), "from": "/spec/replicas", "path": "/spec/minReadySeconds"})
				op("add", "/spec/replicas", l.IntN(9))
			case 6:
				op("test", "/kind", "Deployment")
				op("remove", "/spec/template/spec/containers/0/args", nil)
				op("add", "/spec/template/spec/containers/0/args", []any{l.value("arg"), "two\nlines"})
			}
		}
		return l.one("{kind: Deployment}", "{kind: Deployment, name: web}", "{name: "+l.name("web")+", group: apps}", "{kind: Dep.*, labelSelector: tier=front}"), ops
	case 1:
		op(l.one("add", "replace"), "/spec/k", l.value("k"))
		if l.rare() {
			op("add", "/spec/items/1/deep", map[string]any{"list": []any{l.value("deep"), 1.5, true, nil}})
		}
		return "{kind: Widget, name: " + l.name("w") + "}", ops
	}
	op("replace", "/data/plain", l.value("plain"))
	op("add", "/data/new", l.value("new"))
	return "{kind: ConfigMap, name: " + l.name("conf") + "}", ops
}

// replacement adds a replacement, in the kustomization or in a file.
func (l *layers) replacement(add func(string, string, ...any)) {
	text := l.replaces()
	if l.rare() {
		add("replacements", "path: %s", l.write(l.value("rep")+".yaml", "%s", l.one("- "+strings.ReplaceAll(text, "\n", "\n  "), text)+"\n"))
		return
	}
	add("replacements", "%s", strings.ReplaceAll(text, "\n", "\n  "))
}

func (l *layers) replaces() string {
	source := l.one("source: {kind: Widget, fieldPath: spec.k}", "source: {kind: ConfigMap, name: conf, fieldPath: data.plain}",
		"source: {kind: Deployment, fieldPath: 'spec.template.spec.containers.0.image'}",
		"source: {kind: ConfigMap, name: conf, fieldPath: data.list, options: {delimiter: ',', index: 1}}", "sourceValue: "+l.value("src"))
	target := l.one(
		"select: {kind: Service}\n  fieldPaths: [metadata.annotations.from]\n  options: {create: true}",
		"select: {kind: Deployment}\n  fieldPaths: ['spec.template.spec.containers.[name=web].env.[name=LEVEL].value']",
		"select: {kind: Deployment}\n  fieldPaths: ['spec.template.spec.containers.[name=web].env.[name="+l.value("MADE")+"].value']\n  options: {create: true}",
		"select: {kind: ConfigMap, name: conf}\n  fieldPaths: [data.text.first]",
		"select: {kind: ConfigMap, name: conf}\n  fieldPaths: [data.json.a.b]",
		"select: {kind: ConfigMap, name: conf}\n  fieldPaths: [data.list]\n  options: {delimiter: ',', index: 2}",
		"select: {kind: Widget}\n  fieldPaths: [spec.rep, 'spec.items.*.v']\n  options: {create: true}")
	return source + "\ntargets:\n- " + target
}

// plugin adds a transformer or generator that is configured as a plugin.
func (l *layers) plugin(add func(string, string, ...any)) {
	name := l.value("plug")
	text := "apiVersion: builtin\nkind: %s\nmetadata: {name: " + name + "%s}\n%s\n"
	field := "transformers"
	switch l.IntN(10) {
	case 0:
		text = fmt.Sprintf(text, "LabelTransformer", "", fmt.Sprintf("labels: {plug: %s}\nfieldSpecs: [{path: metadata/labels, create: true}]", l.value("lab")))
	case 1:
		text = fmt.Sprintf(text, "AnnotationsTransformer", "", fmt.Sprintf("annotations: {plug: %s}\nfieldSpecs: [{path: metadata/annotations, create: true}]", l.value("ann")))
	case 2:
		text = fmt.Sprintf(text, "NamespaceTransformer", ", namespace: "+l.value("space"), "fieldSpecs: [{path: metadata/namespace, create: true}]")
	case 3:
		text = fmt.Sprintf(text, "ImageTagTransformer", "", fmt.Sprintf("imageTag: {name: nginx, newTag: %s}\nfieldSpecs: [{path: 'spec/template/spec/containers[]/image'}]", l.value("t")))
	case 4:
		text = fmt.Sprintf(text, "ReplicaCountTransformer", "", fmt.Sprintf("replica: {name: web, count: %d}\nfieldSpecs: [{path: spec/replicas, kind: Deployment}]", 10+l.IntN(80)))
	case 5:
		target, patch := l.merge()
		if strings.Contains(patch, "\n---\n") || l.rare() {
			text = fmt.Sprintf(text, "PatchStrategicMergeTransformer", "", "patches: |-\n"+indent(patch, "  "))
		} else {
			text = fmt.Sprintf(text, "PatchTransformer", "", "target: "+target+"\npatch: |-\n"+indent(patch, "  "))
		}
	case 6:
		target, ops := l.operations()
		data, _ := json.MarshalIndent(ops, "", "  ")
		text = fmt.Sprintf(text, "PatchTransformer", "", "target: "+target+"\n"+l.one("patch: |-\n"+indent(string(data), "  "), "path: "+l.write(l.value("patch")+".json", "%s", data)))
	case 7:
		text = fmt.Sprintf(text, "ReplacementTransformer", "", "replacements:\n- "+strings.ReplaceAll(l.replaces(), "\n", "\n  "))
	case 8:
		text = fmt.Sprintf(text, "PrefixTransformer", "", fmt.Sprintf("prefix: %s-\nfieldSpecs: [{path: metadata/annotations/note}]", l.value("pp")))
	case 9:
		field = "generators"
		text = fmt.Sprintf(text, "ConfigMapGenerator", "", fmt.Sprintf("literals: [p=%s]\noptions: {labels: {gen: %s}}", l.value("lit"), l.value("lab")))
	}
	if l.rare() {
		add(field, "|-\n%s", indent(text, "  "))
		return
	}
	add(field, "%s", l.write(name+".yaml", "%s", text))
}
