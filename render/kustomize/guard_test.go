package kustomize_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

func tree(files ...string) fstest.MapFS {
	t := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		t[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return t
}

// TestOffline gives every way to name a server one that listens, and a PATH in
// which git would leave a mark.
func TestOffline(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	var calls sync.Map
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			calls.Store(c.RemoteAddr().String(), true)
			c.Close()
		}
	}()
	bin := t.TempDir()
	mark := filepath.Join(bin, "called")
	script := "#!/bin/sh\necho called >" + mark + "\n"
	rendertest.OK(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755))
	t.Setenv("PATH", bin)
	host := server.Addr().String()
	for _, url := range []string{
		"http://" + host + "/x.yaml", "HTTP://" + host + "/x", "hTTps://" + host + "//x?ref=main", "http:" + host, "git::http://" + host + "/o/r",
		"git@" + host + ":o/r", "ssh://git@" + host + "/o/r.git", "file://" + bin, "a-b@" + host + "/o/r", "github.com/o/r", "GitHub.com:o/r",
		" http://" + host + "/x", "\thttp://" + host, "http://" + host + "/x\n", "file:///x: \n a: b\n", "http: //" + host,
	} {
		for field, format := range map[string]string{
			"resources": "[%q]", "bases": "[%q]", "components": "[%q]", "crds": "[%q]", "configurations": "[%q]", "generators": "[%q]",
			"transformers": "[%q]", "validators": "[%q]", "patchesStrategicMerge": "[%q]", "patches": "[{path: %q}]", "openapi": "{path: %q}",
			"patchesJson6902": "[{path: %q, target: {version: v1, kind: A, name: a}}]", "replacements": "[{path: %q}]",
			"configMapGenerator": "[{name: a, files: [%q]}]", "secretGenerator": "[{name: a, envs: [%q]}]", "RESOURCES": "[%q]",
			"helmCharts": "[{name: a, valuesFile: %q}]", "helmGlobals": "{chartHome: %q}\nhelmCharts: [{name: a}]",
		} {
			kustomization := fmt.Sprintf("namePrefix: x\n%s: "+format+"\n", field, url)
			objects, err := renderApp(tree("app/kustomization.yaml", kustomization))
			if err == nil || len(objects) > 0 {
				t.Errorf("%s: no error", kustomization)
			}
		}
	}
	server.Close()
	calls.Range(func(from, _ any) bool { t.Errorf("connected from %v", from); return true })
	if _, err := os.Stat(mark); err == nil {
		t.Error("git was run")
	}
}

// TestDiamonds is a graph of small files that kustomize would read for years.
func TestDiamonds(t *testing.T) {
	t.Parallel()
	fsys := tree("c0/kustomization.yaml", "resources: [cm.yaml]", "c0/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
	for i := 1; i <= 24; i++ {
		for _, side := range []string{"a", "b"} {
			fsys[fmt.Sprintf("%s%d/kustomization.yaml", side, i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "namePrefix: %s\nresources: [../c%d]", side, i-1)}
		}
		fsys[fmt.Sprintf("c%d/kustomization.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "resources: [../a%d, ../b%d]", i, i)}
	}
	fsys["app/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [../c24]")}
	objects, err := renderApp(fsys)
	if len(objects) > 0 || len(render.Errors(err)) != 1 || render.Errors(err)[0].Rule != "too-large" {
		t.Errorf("got %d objects, %v", len(objects), err)
	}
}

const (
	schemaPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: a, image: a}\n  - {name: b, image: b}\n"
	schemaApp = "resources: [pod.yaml]\npatches:\n- patch: |\n    apiVersion: v1\n    kind: Pod\n    metadata: {name: p}\n    spec: {containers: [{name: a, tty: true}]}\n"
	// atomic makes the list of containers one value.
	atomic = `{"definitions": {"io.k8s.api.core.v1.Pod": {"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
"properties": {"spec": {"properties": {"containers": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object"}}}}}}}}`
)

// TestFieldSpecs refuses more field specs than kustomize compares in good time,
// wherever they stand, and counts nothing else.
func TestFieldSpecs(t *testing.T) {
	t.Parallel()
	specs := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{path: data/a%d}, ", i)
		}
		return "[" + b.String() + "]"
	}
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	for _, c := range []struct {
		app, conf string
		refused   bool
	}{
		{"configurations: [conf.yaml]", "commonLabels: " + specs(2001), true},
		{"configurations: [conf.yaml]", "nameReference: [{kind: Pod, fieldSpecs: " + specs(2001) + "}]", true},
		{"labels: [{pairs: {a: b}, fields: " + specs(2001) + "}]", "", true},
		{"configurations: [conf.yaml]", "commonLabels: " + specs(50), false},
	} {
		objects, err := renderApp(tree("app/kustomization.yaml", "resources: [cm.yaml]\n"+c.app+"\n", "app/cm.yaml", cm, "app/conf.yaml", c.conf))
		errs := render.Errors(err)
		if refused := len(errs) == 1 && errs[0].Rule == "too-large" && len(objects) == 0; refused != c.refused {
			t.Errorf("%.60s %.60s: %d objects, %v", c.app, c.conf, len(objects), err)
		}
	}
}

// TestReplacements refuses replacements that copy each other's copies again and
// again before kustomize runs them, wherever they are written.
func TestReplacements(t *testing.T) {
	t.Parallel()
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a0: {z: b}, s: x-y}\n"
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.NewReplacer("FROM", fmt.Sprint("data.a", i), "TO", fmt.Sprint("data.a", i+1)).Replace(format))
		}
		return b.String()
	}
	const (
		doubled   = "- {source: {kind: ConfigMap, fieldPath: FROM}, targets: [{select: {kind: ConfigMap}, fieldPaths: [TO.x, TO.y], options: {create: true}}]}\n"
		appended  = "- {source: {kind: ConfigMap, fieldPath: data.s}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.s], options: {delimiter: '-', index: -1}}]}\n"
		elsewhere = "- {source: {kind: ConfigMap, fieldPath: data.s}, targets: [{select: {kind: ConfigMap}, fieldPaths: [FROM.x, FROM.y], options: {create: true}}]}\n"
	)
	for _, c := range []struct {
		replacements string
		refused      bool
	}{
		{list(40, doubled), true},
		{list(40, appended), true},
		{list(3, doubled), false},
		{list(30, elsewhere), false},
	} {
		files := []string{"app/cm.yaml", cm, "app/r.yaml", c.replacements, "app/t.yaml", "apiVersion: builtin\nkind: ReplacementTransformer\nmetadata: {name: t}\nreplacements:\n" + c.replacements}
		for _, app := range []string{"replacements:\n" + c.replacements, "replacements: [{path: r.yaml}]", "transformers: [t.yaml]"} {
			_, err := renderApp(tree(append(files, "app/kustomization.yaml", "resources: [cm.yaml]\n"+app)...))
			errs := render.Errors(err)
			if refused := len(errs) == 1 && errs[0].Rule == "too-large"; refused != c.refused {
				t.Errorf("%.100s: %.300v", app, err)
			}
		}
	}
}

// TestSchemaLeak builds a kustomization with a schema of its own between ones
// without: kustomize keeps it for the next, which then loses a container. Tests
// that run kustomize themselves must not run beside.
func TestSchemaLeak(t *testing.T) {
	plain := tree("app/kustomization.yaml", schemaApp, "app/pod.yaml", schemaPod)
	own := tree("app/kustomization.yaml", schemaApp+"openapi: {path: s.json}\n", "app/pod.yaml", schemaPod, "app/s.json", atomic)
	if n := containers(t, plain); n != 2 {
		t.Fatalf("%d containers with the schema of Kubernetes, want 2", n)
	}
	if n := containers(t, own); n != 1 {
		t.Fatalf("%d containers with a list that is atomic, want 1", n)
	}
	if n := containers(t, plain); n != 2 {
		t.Errorf("%d containers after a build with another schema, want 2", n)
	}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			fsys, want := plain, 2
			if i%8 == 0 {
				fsys, want = own, 1
			}
			if n := containers(t, fsys); n != want {
				t.Errorf("%d containers, want %d", n, want)
			}
		})
	}
	group.Wait()
}

func containers(t *testing.T, fsys fs.FS) int {
	t.Helper()
	objects, err := renderApp(fsys)
	if err != nil || len(objects) != 1 {
		t.Errorf("%d objects, %v", len(objects), err)
		return 0
	}
	list, _ := render.Lookup(objects[0].Object, "/spec/containers")
	if at := objects[0].At("/spec/containers/0/image"); len(at) == 0 {
		t.Error("no origin")
	}
	return len(list.([]any))
}

// TestLinks follows symbolic links within the tree as kustomize does on disk,
// and none that leads out.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"base/real/kustomization.yaml":   "resources: [cm.yaml, ../beside]\n",
		"base/real/cm.yaml":              "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
		"base/beside/kustomization.yaml": "configMapGenerator: [{name: g, files: [data]}]\n",
		"base/beside/real-data":          "text",
		"app/kustomization.yaml":         "resources: [link]\n",
		"out/kustomization.yaml":         "resources: [passwd.yaml, up, loop]\n",
		"broken/kustomization.yaml":      "resources: [dangling]\n",
	}
	for name, data := range files {
		rendertest.WriteFile(t, filepath.Join(dir, name), data)
	}
	for name, target := range map[string]string{
		"app/link": "../base/real", "base/beside/data": "real-data", "out/passwd.yaml": "/etc/passwd", "out/up": "../../..",
		"out/loop": "loop", "broken/dangling": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	root, err := os.OpenRoot(dir)
	rendertest.OK(t, err)
	defer root.Close()
	objects, err := renderApp(root.FS())
	rendertest.OK(t, err)
	want, err := kustomizeBuild(filepath.Join(dir, "app"))
	rendertest.OK(t, err)
	rendertest.Equal(t, want, values(objects))
	for _, unit := range []string{"out", "broken"} {
		objects, err := kustomize.New(kustomize.Options{}).Render(context.Background(), render.Source{FS: root.FS(), Path: unit})
		if err == nil || len(objects) > 0 {
			t.Errorf("%s: %d objects, %v", unit, len(objects), err)
		}
		if s := fmt.Sprint(err); strings.Contains(s, dir) {
			t.Errorf("error names a path outside: %s", s)
		}
	}
}

// TestDetect says what is made of directories.
func TestDetect(t *testing.T) {
	t.Parallel()
	fsys := tree(
		"overlay/kustomization.yaml", "resources: [../base, a.yaml, 'https://x/y', ../../out]\ncomponents: [../part]\nbases: [../base]\n"+
			"patches: [{path: p.yaml}, {patch: 'a: b'}]\nconfigMapGenerator: [{name: a, files: [k=f.txt, g.txt], envs: [e.env]}]\n"+
			"crds: [crd.json]\nconfigurations: [conf.yaml]\nopenapi: {path: s.json}\ntransformers: [t.yaml, \"a: b\\nc: d\"]\nvalidators: [v.yaml]\n"+
			"replacements: [{path: r.yaml}]\nhelmGlobals: {chartHome: ../charts}\nhelmCharts: [{name: web, valuesFile: values.yaml}]\n"+
			"generators: [gen.yaml]\npatchesStrategicMerge: [smp.yaml]\npatchesJson6902: [{path: j.yaml}]\n",
		"overlay/gen.yaml", "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: x}\nname: db\nchartHome: ../vendored\n",
		"part/kustomization.yaml", "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\n",
		"flux/kustomization.yaml", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n",
		"broken/kustomization.yaml", "resources:\n- web.yaml\n  - ../base # both\n- sub\n- absent.yaml\npatches: [{path: 'p.yaml'}\nnamespace: web\n",
		"broken/web.yaml", "", "broken/p.yaml", "", "broken/sub/x.yaml", "", "broken/web/x.yaml", "", "base/x.yaml", "",
		"two/kustomization.yaml", "", "two/kustomization.yml", "",
		"none/other.yaml", "",
	)
	want := map[string]string{
		"overlay": "unit overlay/kustomization.yaml uses base overlay/a.yaml part overlay/crd.json overlay/conf.yaml overlay/s.json overlay/f.txt overlay/g.txt " +
			"overlay/e.env overlay/gen.yaml vendored/db vendored overlay/smp.yaml overlay/p.yaml overlay/j.yaml overlay/r.yaml overlay/t.yaml overlay/v.yaml " +
			"charts/web charts overlay/values.yaml",
		"part":   "component part/kustomization.yaml",
		"broken": "unit broken/kustomization.yaml uses broken/web.yaml base broken/sub broken/p.yaml",
		"two":    "unit two/kustomization.yaml two/kustomization.yml",
	}
	got := map[string]string{}
	for _, dir := range []string{"overlay", "part", "flux", "broken", "two", "none", "missing"} {
		c, ok := kustomize.New(kustomize.Options{}).Detect(fsys, dir)
		if !ok {
			continue
		}
		words := append([]string{"unit"}, c.Files...)
		if !c.Unit {
			words[0] = c.Note
		}
		if len(c.Uses) > 0 {
			words = append(append(words, "uses"), c.Uses...)
		}
		got[dir] = strings.Join(words, " ")
	}
	rendertest.Equal(t, want, got)
}

// TestCancelled does nothing for a caller that is gone.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := kustomize.New(kustomize.Options{}).Render(ctx, render.Source{FS: tree("app/kustomization.yaml", "namePrefix: x"), Path: "app"})
	if err != context.Canceled {
		t.Errorf("got %v", err)
	}
}
