package conditions

import (
	"regexp"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestTraps evaluates the trap policies' deny rules whose variables are plain
// fields, with the verdicts that Kyverno's binary gave.
func TestTraps(t *testing.T) {
	t.Parallel()
	evaluated := 0
	for _, name := range []string{"conditions", "patterns-1"} {
		dir := "../../../../../shared/corpora/kyverno-traps/" + name
		table := rendertest.ReadOrSkip(t, dir+"/expected.tsv")
		want := map[string]string{}
		for line := range strings.Lines(string(table)) {
			f := strings.Split(line, "\t")
			want[f[1]] = f[3]
		}
		var p struct {
			Spec struct {
				Rules []struct {
					Name          string
					Preconditions any
					Validate      struct{ Deny *struct{ Conditions any } }
				}
			}
		}
		var object map[string]any
		rendertest.ReadYAML(t, dir+"/policy.yaml", &p)
		rendertest.ReadYAML(t, dir+"/resources.yaml", &object)
		for _, r := range p.Spec.Rules {
			if r.Validate.Deny == nil || r.Preconditions != nil || want[r.Name] == "" {
				continue
			}
			b, problems := Parse(r.Validate.Deny.Conditions, "/x", Legacy)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			s := substitution{object: object}
			denied, _, err := Evaluate(b, s.eval)
			rendertest.OK(t, err)
			if s.hard {
				continue
			}
			evaluated++
			if denied != (want[r.Name] == "Fail") {
				t.Errorf("%s: denied is %v, want %s", r.Name, denied, want[r.Name])
			}
		}
	}
	t.Logf("%d rules judged", evaluated)
	if evaluated < 30 {
		t.Error("too few rules were judged")
	}
}

// substitution knows fields alone; others are too hard for it.
type substitution struct {
	object any
	hard   bool
}

var field = regexp.MustCompile(`^\{\{ request\.object\.([a-z.]+) \}\}$`)

func (s *substitution) eval(c *Condition) (any, any, error) {
	return s.value(c.Key), s.value(c.Value), nil
}

func (s *substitution) value(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = s.value(v[i])
		}
		return list
	case string:
		if !strings.Contains(v, "{{") {
			return v
		}
		m := field.FindStringSubmatch(v)
		if m == nil {
			s.hard = true
			return nil
		}
		at := s.object
		for key := range strings.SplitSeq(m[1], ".") {
			o, _ := at.(map[string]any)
			at = o[key]
		}
		return at
	}
	return v
}
