package packs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/packs"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, version, err string }{
		{"best-practices", "", ""},
		{"best-practices", "v1.33.2", ""},
		{"best-practices", "1.33", ""},
		{"none", "", `no such pack: "none"`},
		{"best-practices", "1", `kubernetes version must look like 1.31, not "1"`},
		{"best-practices", "2.1", `kubernetes version must look like 1.31, not "2.1"`},
		{"best-practices", "1.x", `kubernetes version must look like 1.31, not "1.x"`},
	} {
		all, err := packs.Objects(c.name, c.version)
		if err == nil && c.err != "" || err != nil && err.Error() != c.err {
			t.Errorf("%s %s: error %v, want %s", c.name, c.version, err, c.err)
		}
		if (len(all) == 0) != (c.err != "") {
			t.Errorf("%s %s: %d objects", c.name, c.version, len(all))
		}
		for _, o := range all {
			if o.Provenance != nil || o.Unit != nil {
				t.Errorf("%s is not written in the tree", o.GetName())
			}
		}
	}
}

// TestObjectsAreCopies holds that callers do not see each other's changes.
func TestObjectsAreCopies(t *testing.T) {
	t.Parallel()
	objects(t, newest)[0].Object["spec"] = nil
	if _, ok := render.Lookup(objects(t, newest)[0].Object, "/spec/validations"); !ok {
		t.Error("a policy was changed by another caller")
	}
}

// TestPolicies holds what all files have in common.
func TestPolicies(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("best-practices/*.yaml")
	rendertest.OK(t, err)
	all := pairs(t, objects(t, newest))
	if len(files) != len(all) {
		t.Fatalf("%d files, %d policies", len(files), len(all))
	}
	texts := map[string]map[string]bool{} // of variables that many policies have
	for i, p := range all {
		if want := "best-practices-" + strings.TrimSuffix(filepath.Base(files[i]), ".yaml"); p.name != want {
			t.Errorf("%s holds the policy %s", files[i], p.name)
		}
		document(t, p)
		for name, text := range variables(p.policy) {
			if texts[name] == nil {
				texts[name] = map[string]bool{}
			}
			texts[name][text] = true
		}
	}
	for name, most := range map[string]int{"pod": 3, "main": 1, "containers": 1, "running": 1, "minor": 1} {
		if n := len(texts[name]); n == 0 || n > most {
			t.Errorf("the variable %s has %d definitions", name, n)
		}
	}
}

// document holds that a policy says what it is about, and that its binding
// denies only what is bad enough.
func document(t *testing.T, p pair) {
	t.Helper()
	a := p.policy.GetAnnotations()
	for key, pattern := range map[string]string{
		"preadmit.dev/title":       `^[A-Z][^.\n]{10,60}$`,
		"preadmit.dev/severity":    `^(critical|high|medium|low|info)$`,
		"preadmit.dev/description": `^[A-Za-z][^\n]{80,}[.]$`,
		"preadmit.dev/url":         `^https://kubernetes[.](io/docs|github[.]io/ingress-nginx)/`,
		"preadmit.dev/help":        "(?s)^[A-Z][^\n]+[.]\n\nBad:\n\n```yaml\n.*\nGood:\n\n```yaml\n.*```\n$",
	} {
		if !regexp.MustCompile(pattern).MatchString(a[key]) {
			t.Errorf("%s: odd %s: %q", p.name, key, a[key])
		}
	}
	actions, _ := render.Lookup(p.binding.Object, "/spec/validationActions")
	list, _ := actions.([]any)
	severity := policy.Severity(a["preadmit.dev/severity"])
	switch {
	case len(list) != 1:
		t.Errorf("%s: actions %v", p.name, actions)
	case list[0] == "Deny" && slices.Index(policy.Severities, severity) > 2,
		list[0] == "Audit" && slices.Index(policy.Severities, severity) < 3:
		t.Errorf("%s: %s severity, but %s", p.name, severity, list[0])
	}
	validations, _ := render.Lookup(p.policy.Object, "/spec/validations")
	for _, v := range validations.([]any) {
		if m, _ := v.(map[string]any)["messageExpression"].(string); m == "" {
			t.Errorf("%s: a validation without a message", p.name)
		}
	}
}

func variables(p *render.Object) map[string]string {
	found := map[string]string{}
	list, _ := render.Lookup(p.Object, "/spec/variables")
	all, _ := list.([]any)
	for _, v := range all {
		v := v.(map[string]any)
		found[v["name"].(string)] = v["expression"].(string)
	}
	return found
}

// TestVersions: every policy compiles for every API server, and evaluates its
// examples alike, but where the version is the question.
func TestVersions(t *testing.T) {
	t.Parallel()
	ofVersion := map[string]string{"best-practices-removed-volumes": "1.33"}
	for _, v := range versions {
		for _, p := range pairs(t, objects(t, v)) {
			j := newKindValidator(t, v, []*render.Object{p.policy, p.binding})
			bad, good := examples(p.policy.GetAnnotations()["preadmit.dev/help"])
			for _, example := range bad {
				want := policy.Fail
				if since, ok := ofVersion[p.name]; ok && v < since {
					want = policy.Pass
				}
				if got := worst(j.review(t, rendertest.Parse(t, "bad.yaml", example))); got != want {
					t.Errorf("%s %s: %s for\n%s", v, p.name, got, example)
				}
			}
			for _, example := range good {
				if got := worst(j.review(t, rendertest.Parse(t, "good.yaml", example))); got != policy.Pass && got != "" {
					t.Errorf("%s %s: %s for\n%s", v, p.name, got, example)
				}
			}
		}
	}
}

// TestAccepted holds that the API server accepts each object of a pack, which engines do not check
// again.
func TestAccepted(t *testing.T) {
	t.Parallel()
	kinds, err := kindsOf[newest]()
	rendertest.OK(t, err)
	all := objects(t, newest)
	chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{schema.NewValidator(kinds, nil)}}
	results, err := chain.Review(t.Context(), policy.Requests(nil, all))
	rendertest.OK(t, err)
	if len(results) < len(all) {
		t.Errorf("%d results about %d objects", len(results), len(all))
	}
	for _, r := range results {
		if r.Outcome != policy.Pass {
			t.Errorf("%s %s: %s", r.Object.Kind, r.Object.Name, r.Message)
		}
	}
}

// TestTypes: the API server finds nothing wrong with the policies' types when
// they are written to a cluster.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"1.29", "1.32", newest} {
		kinds, err := kindsOf[v]()
		rendertest.OK(t, err)
		_, err = admission.New(objects(t, v), admission.Options{Kinds: kinds, Types: kinds, KubeVersion: v})
		for _, e := range render.Errors(err) {
			t.Errorf("%s: %s: %v", v, e.Rule, e)
		}
	}
}

// worst is the worst outcome, "" where nothing was evaluated.
func worst(results []policy.Result) policy.Outcome {
	for _, outcome := range policy.Outcomes {
		if slices.ContainsFunc(results, func(r policy.Result) bool { return r.Outcome == outcome }) {
			return outcome
		}
	}
	return ""
}

// TestRealTrees evaluates the manifests of real repositories, as they are written:
// every policy must be able to evaluate what people write.
func TestRealTrees(t *testing.T) {
	t.Parallel()
	const root = "../../../shared/repos"
	rendertest.SkipWithout(t, root)
	var all []*render.Object
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte("\nkind: ")) {
			found, _ := render.Parse(name, data) // templates of charts are no YAML
			all = append(all, found...)
		}
		return err
	})
	rendertest.OK(t, err)
	evaluated := 0
	for _, r := range newKindValidator(t, newest, objects(t, newest)).review(t, all) {
		if r.Engine != policy.EngineAdmission {
			continue
		}
		evaluated++
		if r.Undecided() || r.Outcome == policy.Fail && len(r.Fields) == 0 {
			t.Errorf("%s %s: %s/%s: %s: %s, fields %v", r.Object.Kind, r.Object.Name, r.Policy, r.Rule, r.Outcome, r.Message, r.Fields)
		}
	}
	if evaluated < 10_000 {
		t.Errorf("only %d results", evaluated)
	}
}
