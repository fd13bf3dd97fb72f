package pattern

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestTraps matches the trap policies' patterns without variables, with the
// verdicts and messages that Kyverno's binary gave.
func TestTraps(t *testing.T) {
	t.Parallel()
	evaluated := 0
	for _, name := range []string{"patterns-1", "patterns-2"} {
		dir := "../../../../shared/corpora/kyverno-traps/" + name
		table := rendertest.ReadOrSkip(t, dir+"/expected.tsv")
		var p struct {
			Spec struct {
				Rules []struct {
					Name     string
					Validate struct{ Pattern any }
				}
			}
		}
		var object map[string]any
		rendertest.ReadYAML(t, dir+"/policy.yaml", &p)
		rendertest.ReadYAML(t, dir+"/resources.yaml", &object)
		for _, r := range p.Spec.Rules {
			text, _ := yaml.Marshal(r.Validate.Pattern)
			if r.Validate.Pattern == nil || strings.Contains(string(text), "{{") || strings.Contains(string(text), "$(") {
				continue
			}
			compiled, err := Compile(r.Validate.Pattern)
			rendertest.OK(t, err)
			for line := range strings.Lines(string(table)) {
				if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); f[1] == r.Name {
					evaluated++
					if got := worded(r.Name, compiled.Match(object)); got != f[3]+": "+f[4] {
						t.Errorf("%s:\n got %s\nwant %s: %s", r.Name, got, f[3], f[4])
					}
				}
			}
		}
	}
	t.Logf("%d rules judged", evaluated)
	if evaluated < 20 {
		t.Error("too few rules were judged")
	}
}

// worded says a verdict as the rule's result does; its message is m.
func worded(rule string, v Verdict) string {
	switch v.Status {
	case Pass:
		return "Pass: validation rule '" + rule + "' passed."
	case Fail:
		return "Fail: validation error: m. rule " + rule + " failed at path " + v.Path
	case Error:
		return "Error: validation error: m. rule " + rule + " execution error: " + v.Err
	}
	return "Skip: " + v.Err
}
