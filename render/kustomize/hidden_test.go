package kustomize_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// definitions returns two CustomResourceDefinitions, in which last is the schema of
// the last field of their first version.
func definitions(last string) string {
	schema := "    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            properties:\n"
	for i := range 30 {
		schema += fmt.Sprintf("              f%d: {type: integer, default: %d.0}\n", i, i)
	}
	schema += "              last:\n                "
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: cats.pets.example\nspec:\n  group: &a pets.example\n  versions:\n" +
		"  - name: v1\n" + schema + last + "\n    served: true\n  - name: v2\n" + schema + "{type: string}\n"
	return text + "---\n" + strings.ReplaceAll(text, "cats", "dogs")
}

// TestSchemas renders a CustomResourceDefinition, whose schemas kustomize does not
// read where nothing looks into them: the objects are those of kustomize, and
// every field has its line.
func TestSchemas(t *testing.T) {
	t.Parallel()
	const patched = "patches:\n- target: {kind: CustomResource.*}\n  patch: |\n    - {op: add, path: /spec/versions/0/x, value: z}\n"
	for _, c := range []struct{ kustomization, last string }{
		{"namespace: web\nlabels: [{pairs: {a: b}}]", "{type: string}"},
		{"images: [{name: a, newTag: b}]\nnamePrefix: x-", "{properties: {containers: {items: {image: a}}}}"},
		{"commonLabels: {a: b}\nconfigurations: [conf.yaml]", "{description: 'text\n\n                  more', default: 010}"},
		{"", "\n                description: >\n                  text\n                    indented\n                  more"},
		{"", "\n                description: |-\n                  # not a comment\n                    indented: >\n                type: string # a comment"},
		{"", "\n                default: &b {b: 2020-01-01}\n                example: *b"},
		{patched, "{type: string}"},
		{"", "{default: &a cats}\n    deprecationWarning: *a"},
		{"replacements: [{source: {kind: CustomResourceDefinition, name: cats.pets.example, fieldPath: spec.versions.0.schema}, targets: [{select: {kind: CustomResourceDefinition}, fieldPaths: [spec.copy], options: {create: true}}]}]", "{type: string}"},
		{"configurations: [conf.yaml]\nnamespace: web", "{type: string}"},
	} {
		text := definitions(c.last)
		fsys := tree("app/kustomization.yaml", "resources: [crd.yaml]\n"+c.kustomization+"\n", "app/crd.yaml", text,
			"app/conf.yaml", "namespace: [{path: spec/versions/schema/openAPIV3Schema/type, kind: CustomResourceDefinition}]\n")
		objects, err := renderApp(fsys)
		if err != nil {
			t.Errorf("%s: %v", c.kustomization, err)
			continue
		}
		dir := t.TempDir()
		for name, file := range fsys {
			rendertest.WriteFile(t, filepath.Join(dir, name), string(file.Data))
		}
		want, err := kustomizeBuild(filepath.Join(dir, "app"))
		rendertest.OK(t, err)
		if diff := cmp.Diff(want, values(objects)); diff != "" {
			t.Errorf("%s, %s: objects differ from kustomize's (-want +got)\n%s", c.kustomization, c.last, diff)
		}
		lines := strings.Split(text, "\n")
		for _, o := range objects {
			for _, version := range []string{"/0", "/1"} {
				for _, field := range []string{"f0", "f29"} {
					at := o.At("/spec/versions" + version + "/schema/openAPIV3Schema/properties/spec/properties/" + field + "/default")
					if want := field + ": {type: integer"; !strings.Contains(lines[at[0].Line-1], want) {
						t.Errorf("%s, %s: %s of %s is at %q", c.kustomization, c.last, field, o.GetName(), lines[at[0].Line-1])
					}
				}
			}
			if at := o.At("/spec/versions/1/name"); !strings.Contains(lines[at[0].Line-1], "name: v2") {
				t.Errorf("name of the second version is at %q", lines[at[0].Line-1])
			}
		}
	}
}

// TestSchemasAreHidden compares what a unit costs with and without its schemas.
func TestSchemasAreHidden(t *testing.T) {
	cost := func(kustomization string) float64 {
		fsys := tree("app/kustomization.yaml", "resources: [crd.yaml]\n"+kustomization, "app/crd.yaml", definitions("{type: string}"), "app/conf.yaml", "namePrefix: []\n")
		return testing.AllocsPerRun(1, func() {
			if _, err := renderApp(fsys); err != nil {
				t.Fatal(err)
			}
		})
	}
	if hidden, read := cost(""), cost("configurations: [conf.yaml]\n"); 2*hidden > read {
		t.Errorf("%v allocations with hidden schemas, %v with schemas that are read", hidden, read)
	}
}

// TestSchemaText renders a definition whose schema is the placeholder of hidden
// schemas.
func TestSchemaText(t *testing.T) {
	t.Parallel()
	objects, err := renderApp(tree("app/kustomization.yaml", "resources: [crd.yaml]\n", "app/crd.yaml",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {versions: [{name: v1, schema: preadmit-hidden-schema}]}\n"))
	if err != nil || len(objects) != 1 {
		t.Fatal(len(objects), err)
	}
	if v, _ := render.Lookup(objects[0].Object, "/spec/versions/0/schema"); v != "preadmit-hidden-schema" {
		t.Errorf("schema is %v", v)
	}
}
