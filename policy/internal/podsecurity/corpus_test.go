package podsecurity

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const corpora = "../../../../shared/corpora/"

type rule struct {
	Name     string
	Validate struct {
		PodSecurity *struct {
			Level, Version string
			Exclude        []Exclude
		}
	}
}

type policy struct{ Spec struct{ Rules []rule } }

func (r *rule) evaluate(t *testing.T, object map[string]any) (string, bool) {
	t.Helper()
	at := map[any]string{"Pod": "", "CronJob": cronJobPod}
	place, ok := at[object["kind"]]
	if !ok {
		place = "/spec/template"
	}
	pod, err := Read(object, place)
	rendertest.OK(t, err)
	p := r.Validate.PodSecurity
	found, err := checked(p.Level, p.Version, pod)
	rendertest.OK(t, err)
	left := exempted(found, p.Exclude, p.Level, p.Version, pod)
	return Message(r.Name, p.Level, p.Version, pod, left), len(left) == 0
}

// TestRecordedMessages holds the messages that Kyverno's binary printed.
func TestRecordedMessages(t *testing.T) {
	t.Parallel()
	dir := corpora + "kyverno-traps/patterns-2/"
	table := rendertest.ReadOrSkip(t, dir+"expected.tsv")
	var p policy
	var object map[string]any
	rendertest.ReadYAML(t, dir+"policy.yaml", &p)
	rendertest.ReadYAML(t, dir+"resources.yaml", &object)
	compared := 0
	for i := range p.Spec.Rules {
		r := &p.Spec.Rules[i]
		if r.Validate.PodSecurity == nil {
			continue
		}
		got, _ := r.evaluate(t, object)
		for line := range strings.Lines(string(table)) {
			if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); f[1] == r.Name {
				compared++
				if got != f[4] {
					t.Errorf("%s:\n got %s\nwant %s", r.Name, got, f[4])
				}
			}
		}
	}
	if compared != 2 {
		t.Errorf("%d rules compared", compared)
	}
}

// TestPublishedOutcomes evaluates the pods of published tests by their policies.
func TestPublishedOutcomes(t *testing.T) {
	t.Parallel()
	dirs := rendertest.GlobOrSkip(t, corpora+"kyverno-chainsaw/*psa*", corpora+"kyverno-policies/pod-security__subrule__*")
	compared := 0
	for _, dir := range dirs {
		compared += publishedOutcomes(t, dir)
	}
	t.Logf("%d outcomes of %d folders", compared, len(dirs))
	if compared < 40 {
		t.Error("too few outcomes were compared")
	}
}

func publishedOutcomes(t *testing.T, dir string) int {
	compared := 0
	files, _ := filepath.Glob(dir + "/policies/*.yaml")
	var p policy
	rendertest.ReadYAML(t, files[0], &p)
	if len(p.Spec.Rules) != 1 || p.Spec.Rules[0].Validate.PodSecurity == nil {
		return 0
	}
	text := rendertest.ReadFile(t, dir+"/expect.json")
	var expected []struct {
		Resource struct {
			File string
			Doc  int
		}
		Result string
	}
	rendertest.OK(t, json.Unmarshal(text, &expected))
	for _, e := range expected {
		data := rendertest.ReadFile(t, filepath.Join(dir, e.Resource.File))
		var object map[string]any
		rendertest.OK(t, yaml.Unmarshal([]byte(documentOf(string(data), e.Resource.Doc)), &object))
		if e.Result != "pass" && e.Result != "fail" {
			continue
		}
		compared++
		if message, ok := p.Spec.Rules[0].evaluate(t, object); ok != (e.Result == "pass") {
			t.Errorf("%s %s: want %s: %s", dir, e.Resource.File, e.Result, message)
		}
	}
	return compared
}

// documentOf is one document of a file, not counting empty ones.
func documentOf(file string, n int) string {
	for _, d := range strings.Split("\n"+file, "\n---") {
		if strings.TrimSpace(d) == "" {
			continue
		}
		if n == 0 {
			return d
		}
		n--
	}
	return ""
}
