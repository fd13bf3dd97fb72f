package pattern

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const upstream = "../../../../shared/corpora/upstream/kyverno-policies/"

// TestPublishedRows matches the patterns without variables of the published
// policies with the objects of their tests, and compares with what Kyverno's
// command line printed of each: passed, or at which path it failed.
func TestPublishedRows(t *testing.T) {
	t.Parallel()
	table := rendertest.ReadOrSkip(t, "../../../../shared/corpora/kyverno-rows.tsv")
	compared, statuses := 0, map[string]int{}
	tests := map[string]*published{}
	for line := range strings.Lines(string(table)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) < 7 {
			continue
		}
		test := tests[f[0]]
		if test == nil {
			test = readPublished(t, f[0])
			tests[f[0]] = test
		}
		p, object := test.pattern(f[1], f[2]), test.resource(f[3])
		want := outcome(f[6])
		if p == nil || object == nil || want == "" {
			continue
		}
		compiled, err := Compile(p)
		rendertest.OK(t, err)
		compared++
		v := compiled.Match(object)
		statuses[v.Status.String()]++
		if got := worded(f[2], v); outcome(got) != want {
			t.Errorf("%s %s %s: %s\nwant %s", f[0], f[2], f[3], got, f[6])
		}
	}
	t.Logf("%d rows compared: %v", compared, statuses)
	if compared < 100 {
		t.Error("too few rows were compared")
	}
}

// outcome is the end of a message that patterns give.
func outcome(message string) string {
	if strings.HasSuffix(message, "' passed.") {
		return "passed"
	}
	if _, path, ok := strings.Cut(message, " failed at path "); ok {
		return path
	}
	return ""
}

// A published test is a folder's policies and objects.
type published struct{ policies, resources []map[string]any }

func readPublished(t *testing.T, path string) *published {
	t.Helper()
	var test struct{ Policies, Resources []string }
	data, err := os.ReadFile(upstream + path)
	if err != nil {
		return &published{}
	}
	if err := sigs.Unmarshal(data, &test); err != nil {
		return &published{}
	}
	dir := filepath.Dir(upstream + path)
	return &published{documents(dir, test.Policies), documents(dir, test.Resources)}
}

func documents(dir string, files []string) (found []map[string]any) {
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
			var m map[string]any
			if err := d.Decode(&m); errors.Is(err, io.EOF) || err != nil {
				break
			}
			found = append(found, m)
		}
	}
	return found
}

func lookup(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// pattern is that of a rule, as written or for controllers, if nothing but it
// decides.
func (p *published) pattern(policy, rule string) any {
	base := strings.TrimPrefix(strings.TrimPrefix(rule, "autogen-"), "cronjob-")
	for _, d := range p.policies {
		rules, _ := lookup(d, "spec", "rules").([]any)
		if lookup(d, "metadata", "name") != policy {
			continue
		}
		for _, r := range rules {
			found := lookup(r, "validate", "pattern")
			text, _ := sigs.Marshal(r)
			if lookup(r, "name") != base || found == nil || bytes.Contains(text, []byte("{{")) || bytes.Contains(text, []byte("$(")) {
				continue
			}
			switch {
			case strings.HasPrefix(rule, "autogen-cronjob-"):
				return wrap(wrap(found, "template"), "jobTemplate")
			case strings.HasPrefix(rule, "autogen-"):
				return wrap(found, "template")
			}
			return found
		}
	}
	return nil
}

func wrap(p any, key string) any {
	return map[string]any{"spec": map[string]any{key: p}}
}

// resource finds version/Kind/namespace/name.
func (p *published) resource(key string) any {
	parts := strings.Split(key, "/")
	if len(parts) < 3 {
		return nil
	}
	name, kind := parts[len(parts)-1], ""
	for _, part := range parts[:len(parts)-1] {
		if part != "" && 'A' <= part[0] && part[0] <= 'Z' {
			kind = part
		}
	}
	for _, d := range p.resources {
		if d["kind"] == kind && lookup(d, "metadata", "name") == name {
			return d
		}
	}
	return nil
}
