package gatekeeper

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestBesideGator takes what was written for it through mutators and expansion
// templates, and compares with what `gator expand` v3.23.1 made of it, which is
// recorded in the files: objects, or an error. What we say about what is wrong
// stands in them too. GATOR=path/to/gator UPDATE_GOLDEN=1 records both anew;
// UPDATE_GOLDEN=1 alone what we say.
func TestBesideGator(t *testing.T) {
	t.Parallel()
	rendertest.Each(t, "testdata/gator", besideGator)
}

func besideGator(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil || len(a.Files) != 3 {
		t.Fatalf("%d files: input.yaml, gator and said are wanted; %v", len(a.Files), err)
	}
	input, gator, said := a.Files[0].Data, &a.Files[1], &a.Files[2]
	if bin := os.Getenv("GATOR"); bin != "" {
		fresh := askGator(t, bin, input)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			gator.Data = fresh
		}
		if diff := cmp.Diff(string(fresh), string(gator.Data)); diff != "" {
			t.Errorf("gator says something else by now: %s", diff)
		}
	}
	made, errs := expandAll(t, "input.yaml", input)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		said.Data = []byte(errs)
		rendertest.OK(t, os.WriteFile(file, txtar.Format(a), 0o600))
	}
	rendertest.Equal(t, string(said.Data), errs)
	refused := bytes.HasPrefix(gator.Data, []byte("error"))
	if refused != strings.Contains(errs, "error: ") {
		t.Errorf("gator says %s, and we %s", gator.Data, errs)
	}
	if !refused {
		rendertest.Equal(t, documents(t, gator.Data), made)
	}
}

// runID is how gator names a run of the mutators.
var runID = regexp.MustCompile(`mutation [0-9a-f-]{36} `)

// askGator gives what gator prints, without what is another each time.
func askGator(t *testing.T, bin string, input []byte) []byte {
	file := filepath.Join(t.TempDir(), "input.yaml")
	rendertest.OK(t, os.WriteFile(file, input, 0o600))
	cmd := exec.Command(bin, "expand", "--filename", file)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		return append(bytes.TrimSpace(out), '\n')
	}
	words := runID.ReplaceAllString(said.String(), "")
	return []byte(strings.Join(strings.Fields(words), " ") + "\n")
}

// expandAll makes of the objects of a file what gator does, and says what is
// wrong.
func expandAll(t testing.TB, file string, input []byte) (made []any, said string) {
	t.Helper()
	objects, err := render.Parse(file, input)
	m, broken := mutator.New(objects)
	e, wrong := newExpansions(objects, m)
	var b strings.Builder
	for _, e := range render.Errors(errors.Join(err, broken, wrong)) {
		level := "error"
		if e.Warning {
			level = "warning"
		}
		fmt.Fprintf(&b, "%s: %s [%s]\n", level, e, e.Rule)
	}
	for _, o := range objects {
		x := document.Matchable{Object: o.Object, Source: document.SourceOriginal, Written: true}
		switch ns := o.GetNamespace(); ns {
		case "":
			x.Namespace = &document.Namespace{Known: true}
		case "default":
			x.Namespace = &document.Namespace{Name: ns, Known: true}
		default:
			for _, n := range objects {
				if document.IsNamespace(n.Object) && n.GetName() == ns {
					x.Namespace = &document.Namespace{Name: ns, Labels: n.GetLabels(), Known: true}
				}
			}
		}
		found, results, err := e.expand(t.Context(), x)
		rendertest.OK(t, err)
		for _, r := range results {
			fmt.Fprintf(&b, "%s: %s/%s: %s %v\n", r.Outcome, r.Rule, r.Policy, r.Message, r.Fields)
		}
		for i := range found {
			made = append(made, plainly(t, found[i].Object))
		}
	}
	slices.SortStableFunc(made, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return made, b.String()
}

// plainly is a value as YAML reads it.
func plainly(t testing.TB, v any) any {
	t.Helper()
	data, err := yaml.Marshal(v)
	var out any
	if err == nil {
		err = yaml.Unmarshal(data, &out)
	}
	rendertest.OK(t, err)
	return out
}

// documents are those of a YAML stream, in an order of their own.
func documents(t testing.TB, data []byte) []any {
	t.Helper()
	var all []any
	for _, doc := range bytes.Split(append([]byte("\n"), data...), []byte("\n---\n")) {
		var v any
		if err := yaml.Unmarshal(doc, &v); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if v != nil {
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}
