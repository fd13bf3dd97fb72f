package schema

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// What Kubernetes 1.36.3 itself makes of the objects in testdata/defaults is
// recorded beside them.
func TestAdmitAsRecorded(t *testing.T) {
	t.Parallel()
	kinds, err := New(nil, Options{KubeVersion: "1.36"})
	rendertest.OK(t, err)
	files, err := filepath.Glob("testdata/defaults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			documents := readDocuments(t, file)
			answers := readAnswers(t, rendertest.ReadFile(t, strings.TrimSuffix(file, ".yaml")+".json"))
			if len(answers) != len(documents) {
				t.Fatalf("%d answers for %d objects", len(answers), len(documents))
			}
			for i, d := range documents {
				t.Run(d.object.GetKind()+"/"+d.object.GetName(), func(t *testing.T) {
					compare(t, kinds, d, answers[i])
				})
			}
		})
	}
}

// A document is an object and the comment before it.
type document struct {
	comment string
	object  *render.Object
}

func compare(t *testing.T, kinds *Kinds, d document, want oracleAnswer) {
	t.Helper()
	got, err := kinds.Admit(d.object, "")
	if want.Error == "" {
		rendertest.OK(t, err)
		if diff := cmp.Diff(expected(t, kinds, want.Object), normal(t, got)); diff != "" {
			t.Errorf("(-recorded +ours)\n%s", diff)
		}
		return
	}
	if err == nil || !strings.HasSuffix(err.Error(), ": "+want.Error) {
		t.Errorf("error %v, want one that ends in %q", err, want.Error)
	}
	var fe *policy.FieldError
	if !errors.As(err, &fe) || len(fe.Fields) != 1 || fe.Fields[0] != d.comment {
		t.Errorf("error %#v, want fields %q", err, d.comment)
	}
}

func readDocuments(t *testing.T, file string) []document {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	var documents []document
	for _, text := range strings.Split(string(data), "\n---\n") {
		comment, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		documents = append(documents, document{comment, parse(t, text)})
	}
	return documents
}

// parse reads a YAML object, its integers as int64.
func parse(t testing.TB, text string) *render.Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	rendertest.OK(t, err)
	u := &unstructured.Unstructured{}
	rendertest.OK(t, serverjson.Unmarshal(data, &u.Object))
	return &render.Object{Unstructured: u}
}
