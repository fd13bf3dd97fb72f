package flux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const gitSource = `
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {url: https://git.example/fleet}
`

func hostileKustomization(spec string) string {
	return "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec:\n" + spec + gitSource
}

// TestHostile holds that what is broken or made to harm is refused by name.
func TestHostile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	object := func(data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\ndata: {k: \"" + data + "\"}\n"
	}
	source := "  sourceRef: {kind: GitRepository, name: flux-system}\n"
	for _, c := range []struct{ name, objects, file, rule string }{
		{"substitution that grows", hostileKustomization(source + "  path: app\n  postBuild: {substitute: {A: " + long + "}}\n"), object(strings.Repeat("${A}", 100)), "substitution"},
		{"value that breaks the YAML", hostileKustomization(source + "  path: app\n  postBuild: {substitute: {A: \"[\"}}\n"), object("${A}"), "substitution"},
		{"path above the root", hostileKustomization(source + "  path: ../../app\n"), object("x"), ""},
		{"component outside", hostileKustomization(source + "  path: app\n  components: [/etc]\n"), object("x"), "outside-tree"},
		{"remote component", hostileKustomization(source + "  path: app\n  components: [\"https://example.org/c\"]\n"), object("x"), "outside-tree"},
		{"kustomization that leaves the root", hostileKustomization(source + "  path: app\n  components: [../../../etc]\n"), object("x"), "outside-tree"},
		{"artifact made of itself", hostileKustomization("  sourceRef: {kind: ExternalArtifact, name: loop}\n") +
			"---\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: loop, namespace: flux-system}\n" +
			"spec: {sources: [{alias: a, kind: ExternalArtifact, name: loop}], artifacts: [{name: loop, copy: [{from: \"@a/**\", to: \"@artifact/\"}]}]}\n", object("x"), "source-cycle"},
		{"artifact that leads out", hostileKustomization("  sourceRef: {kind: ExternalArtifact, name: out}\n") +
			"---\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: out, namespace: flux-system}\n" +
			"spec: {sources: [{alias: a, kind: GitRepository, name: flux-system}], artifacts: [{name: out, copy: [{from: \"@a/**\", to: \"@artifact/../../x/\"}]}]}\n", object("x"), "invalid-artifact"},
		{"template without an end", "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: app, namespace: flux-system}\nspec:\n" +
			"  resourcesTemplate: '<< range until 90000 >><< range until 90000 >><< end >><< end >>'\n", object("x"), "invalid-template"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{"flux.yaml": {Data: []byte(c.objects)}, "app/a.yaml": {Data: []byte(c.file)}}
			w := &world{tree: tree, objects: parse(t, tree, "flux.yaml"), sources: map[string]string{"https://git.example/fleet": "."}}
			u := w.resolve(t)[0]
			var rules []string
			for _, e := range render.Errors(u.Err) {
				rules = append(rules, e.Rule)
			}
			if got := strings.Join(rules, " "); got != c.rule || c.rule != "" && len(u.Objects) > 0 {
				t.Errorf("got %q, want %q: %.300v", got, c.rule, fmt.Sprint(u.Err))
			}
		})
	}
}

// TestSymbolicLinks holds that an artifact has none: one that is found is not
// there, and one that is named is missing.
func TestSymbolicLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"flux.yaml":                hostileKustomization("  path: found\n  sourceRef: {kind: GitRepository, name: flux-system}\n") + strings.ReplaceAll("---\n"+hostileKustomization("  path: named\n  sourceRef: {kind: GitRepository, name: flux-system}\n"), "name: app", "name: named"),
		"found/a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\n",
		"real/b.txt":               "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: a}\n",
		"named/kustomization.yaml": "resources: [link.yaml]\n",
	} {
		rendertest.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	for _, in := range []string{"found", "named"} {
		if err := os.Symlink("../real/b.txt", filepath.Join(dir, in, "link.yaml")); err != nil {
			t.Skip(err)
		}
	}
	tree := os.DirFS(dir)
	w := &world{tree: tree, objects: parse(t, tree, "flux.yaml"), sources: map[string]string{"https://git.example/fleet": "."}}
	units := w.resolve(t)
	if len(units) != 2 || len(units[0].Objects) != 1 || units[0].Objects[0].GetName() != "a" {
		t.Errorf("a link that is found: %v", units[0].Err)
	}
	if errs := render.Errors(units[1].Err); len(errs) != 1 || errs[0].Rule != "missing-resource" {
		t.Errorf("a link that is named: %v", units[1].Err)
	}
}
