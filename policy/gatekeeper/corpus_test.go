package gatekeeper

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// corpora are gator's own suites, and those of the Gatekeeper library, each
// case with what `gator verify` expects of it.
var corpora = []string{"gatekeeper", "gatekeeper-library"}

// expected is a case of a corpus.
type expected struct {
	Case     string
	Resource struct {
		File string
		Doc  int
	}
	Inventory  []string
	Assertions []struct {
		Violations any
		Message    *string
	}
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, corpus := range corpora {
		for _, dir := range rendertest.GlobOrSkip(t, filepath.Join("../../../shared/corpora", corpus, "*")) {
			t.Run(filepath.Base(dir), func(t *testing.T) {
				t.Parallel()
				runCorpusCase(t, dir)
			})
		}
	}
}

func runCorpusCase(t *testing.T, dir string) {
	policies, _ := filepath.Glob(filepath.Join(dir, "policies", "*"))
	expansion, _ := filepath.Glob(filepath.Join(dir, "expansion", "*"))
	var objects []*render.Object
	for _, p := range append(policies, expansion...) {
		objects = append(objects, parseFile(t, p)...)
	}
	e, err := New(objects, Options{Written: true, EnforcementPoint: PointGator})
	rendertest.OK(t, err)
	data := rendertest.ReadFile(t, filepath.Join(dir, "expect.json"))
	var cases []expected
	rendertest.OK(t, json.Unmarshal(data, &cases))
	for _, c := range cases {
		var inventory []*render.Object
		for _, f := range c.Inventory {
			inventory = append(inventory, parseFile(t, filepath.Join(dir, f))...)
		}
		subject := parseFile(t, filepath.Join(dir, c.Resource.File))[c.Resource.Doc]
		responses, err := e.With(policy.NewCluster(inventory...)).Review(t.Context(), Review{Object: subject})
		rendertest.OK(t, err)
		for _, a := range c.Assertions {
			if n := counted(responses, a.Message); !holds(a.Violations, n) {
				t.Errorf("%s: %d violations, want %v: %v", c.Case, n, a.Violations, responses)
			}
		}
	}
}

func counted(responses []Response, message *string) int {
	n := 0
	for _, r := range responses {
		if message == nil || regexp.MustCompile(*message).MatchString(r.Message) {
			n++
		}
	}
	return n
}

func holds(want any, n int) bool {
	switch w := want.(type) {
	case bool:
		return w == (n > 0)
	case string:
		return (strings.ToLower(w) == "yes") == (n > 0)
	case float64:
		return int(w) == n
	}
	return n > 0
}

func parseFile(t testing.TB, path string) []*render.Object {
	t.Helper()
	data := rendertest.ReadFile(t, path)
	objects, err := render.Parse(filepath.Base(path), data)
	for _, e := range render.Errors(err) {
		if !e.Warning {
			t.Fatal(e)
		}
	}
	return objects
}
