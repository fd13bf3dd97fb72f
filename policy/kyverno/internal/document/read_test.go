package document

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// corpora is other people's data, beside the project where it is there at all.
const corpora = "../../../../../shared/corpora"

// TestPublishedPolicies holds that what Kyverno accepts is accepted: it called
// no published policy invalid.
func TestPublishedPolicies(t *testing.T) {
	t.Parallel()
	rendertest.SkipWithout(t, corpora)
	for _, dir := range []string{
		"upstream/kyverno-policies", "upstream/kyverno-cli", "kyverno-policies", "kyverno-cli", "kyverno-chainsaw",
		"kyverno-policies-chainsaw", "kyverno-traps",
	} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			policies, exceptions := 0, 0
			for _, file := range yamlFiles(t, filepath.Join(corpora, dir)) {
				data := rendertest.ReadFile(t, file)
				objects, _ := render.Parse(strings.TrimPrefix(file, corpora+"/"), data)
				p, e, err := Read(objects, Options{CLI: strings.Contains(dir, "kyverno-cli") || strings.Contains(dir, "policies")})
				if err != nil {
					t.Errorf("%s: %v", file, err)
				}
				policies, exceptions = policies+len(p), exceptions+len(e)
			}
			t.Logf("%d policies, %d exceptions", policies, exceptions)
			if policies == 0 {
				t.Error("no policies found")
			}
		})
	}
}

// TestPublishedRules holds that every rule which Kyverno's own run names is
// one of the policy's for the kind, generated ones too.
func TestPublishedRules(t *testing.T) {
	t.Parallel()
	rows := rendertest.ReadOrSkip(t, filepath.Join(corpora, "kyverno-rows.tsv"))
	byName := make(map[string][]*Policy)
	for _, file := range yamlFiles(t, filepath.Join(corpora, "upstream")) {
		data := rendertest.ReadFile(t, file)
		objects, _ := render.Parse(file, data)
		policies, _, _ := Read(objects, Options{CLI: true})
		for _, p := range policies {
			byName[p.Name] = append(byName[p.Name], p)
		}
	}
	seen := 0
	for _, line := range strings.Split(string(rows), "\n")[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) < 7 || len(byName[cells[1]]) == 0 || cells[5] != "Ok" || !strings.HasPrefix(cells[2], "autogen-") {
			continue
		}
		seen++
		if !anyHasRule(byName[cells[1]], cells[2], cells[3]) {
			t.Errorf("%s: no rule %s for %s", cells[1], cells[2], cells[3])
		}
	}
	if seen == 0 {
		t.Error("no row compared")
	}
	t.Logf("%d rows", seen)
}

func anyHasRule(policies []*Policy, rule, resource string) bool {
	parts := strings.Split(resource, "/")
	kind := parts[len(parts)-3]
	return slices.ContainsFunc(policies, func(p *Policy) bool {
		rules := p.RulesFor(schema.GroupVersionKind{Kind: kind})
		return slices.ContainsFunc(rules, func(r *Rule) bool { return r.Name == rule })
	})
}

func yamlFiles(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && !d.IsDir() && (ext == ".yaml" || ext == ".yml") {
			files = append(files, path)
		}
		return err
	})
	rendertest.OK(t, err)
	return files
}
