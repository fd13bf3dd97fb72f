package authz

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const ruleFile = `
default: deny
rules:
- {user: jane, verb: [get, list], resource: pods, namespace: "team-*", decision: allow, reason: it is hers}
- {groups: [ops, "sre-*"], group: apps, resource: [deployments, "*/scale"], decision: allow}
- {serviceAccount: prod/*, resource: "*", namespace: prod, decision: noopinion, reason: nobody said}
- {user: "bot-*-ro", verb: get, path: ["/healthz", "/metrics/*"], decision: allow}
- {resource: configmaps, subresource: "*", namespace: "", decision: deny, reason: not everywhere}
- {resource: nodes, fieldSelector: "metadata.name=n1,spec.x!=2", decision: allow}
- {resource: nodes, labelSelector: "a in (x,y),b", decision: allow, reason: labelled}
- {resource: nodes, fieldSelector: "", labelSelector: "", name: [n1, n2], decision: allow, reason: named}
- {resource: leases, decision: error, reason: the webhook is down}
- {verb: bind, decision: unknown, reason: ask security}
- {verb: bind, decision: allow}
- {user: "*", groups: ops, verb: x, decision: allow, reason: both}
- {groups: dev, verb: x, decision: allow, reason: group}
- {user: joe, verb: x, decision: allow, reason: joe}
- {verb: proxy, decision: allow, reason: any check}
`

func mustParse(t testing.TB, text string) *Authorizer {
	t.Helper()
	a, err := Parse("r.yaml", []byte(text))
	rendertest.OK(t, err)
	if a.Assumed != "authorizer: decided by the rules of r.yaml" {
		t.Errorf("assumed %q", a.Assumed)
	}
	return a
}

func TestRules(t *testing.T) {
	t.Parallel()
	a := mustParse(t, ruleFile)
	for check, want := range map[string]string{
		"jane get pods -n team-a":         "allow: it is hers",
		"jane list pods x -n team-":       "allow: it is hers",
		"jane get pods -n tea":            "deny",
		"jane get pods/log -n team-a":     "deny", // none means the resource itself
		"jane delete pods -n team-a":      "deny",
		"joe get pods -n team-a":          "deny",
		"jane get pods.metrics -n team-a": "allow: it is hers",

		"joe;dev;sre-1 delete deployments.apps":          "allow",
		"joe;ops update statefulsets.apps/scale":         "allow",
		"joe;ops update deployments.apps/status":         "deny",
		"joe;ops delete deployments.extensions":          "deny",
		"joe;sr delete deployments.apps":                 "deny",
		"system:serviceaccount:prod:web x a.b/c -n prod": "noopinion: nobody said",
		"system:serviceaccount:prod:web x a.b/c -n dev":  "deny",
		"system:serviceaccount:dev:web x a.b/c -n prod":  "deny",

		"bot-7-ro get /healthz":    "allow",
		"bot--ro get /metrics/a/b": "allow",
		"bot-ro get /healthz":      "deny",
		"bot-7-ro get /metrics":    "deny",
		"bot-7-ro get healthz":     "deny",

		"joe get configmaps":            "deny: not everywhere",
		"joe get configmaps/x":          "deny: not everywhere",
		"joe get configmaps -n default": "deny",

		"joe list nodes -f spec.x!=2,metadata.name=n1": "allow",
		"joe list nodes -f metadata.name=n1":           "deny",
		"joe list nodes -l b,a=z":                      "deny",
		"joe list nodes -l b,a":                        "deny",
		"joe get nodes n2":                             "allow: named",
		"joe get nodes n3":                             "deny",
		"joe get leases.coordination.k8s.io":           "noopinion error: the webhook is down",
		"joe bind roles":                               `unknown: needs to know whether joe may bind roles: ask security`,
		"joe;ops x y":                                  "allow: both",
		"joe x y":                                      "allow: joe",
		"jim;dev x y":                                  "allow: group",
		"jim x y":                                      "deny",
		"-;dev x y":                                    `unknown: needs to know whether the user may x y`,
		"- proxy y":                                    "allow: any check",
		"- proxy /y":                                   "allow: any check",
		"- z y":                                        "deny",
		"- get pods -n team-a":                         `unknown: needs to know whether the user may get pods in namespace team-a`,
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
	for selector, want := range map[string]string{"b,a in (y, x)": "labelled", "a in (x,y)": "", "b,a in (x),a in (y)": ""} {
		c := parseCheck(t, "joe list nodes")
		c.LabelSelectorRequirements = parseLabels(t, selector)
		if _, reason, _ := a.Authorize(t.Context(), c); reason != want {
			t.Errorf("labels %s: reason %q, want %q", selector, reason, want)
		}
	}
}

func TestFallback(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"rules: []":                        `unknown: needs to know whether joe may get pods`,
		"default: unknown":                 `unknown: needs to know whether joe may get pods`,
		"default: allow\nrules: []":        "allow",
		"default: deny":                    "deny",
		`{"default": "deny", "rules": []}`: "deny",
	} {
		if got := ask(t, mustParse(t, file), "joe get pods"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "a", true},
		{"**", "", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"a*", "a", true},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "axbyc", true},
		{"a*b*c", "acb", false},
		{"*ab*ab*", "xabyabz", true},
		{"*ab*ab*", "xaby", false},
		{"a*bc*c", "abcc", true},
		{"a*bc*c", "abc", false},
	} {
		if got := newPattern(c.pattern).matches(c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.text, got)
		}
	}
}

// TestErrors holds what is said about files that can't be used. Each document
// of the golden is a file, with the errors below it.
func TestErrors(t *testing.T) {
	t.Parallel()
	for golden, parse := range map[string]func([]byte) error{
		"testdata/rules.errors": func(data []byte) error { _, err := Parse("f.yaml", data); return err },
		"testdata/user.errors":  func(data []byte) error { _, err := ParseUser("f.yaml", data); return err },
	} {
		want := rendertest.ReadFile(t, golden)
		var got strings.Builder
		for section := range strings.SplitSeq(strings.TrimPrefix(string(want), "==== "), "\n==== ") {
			title, rest, _ := strings.Cut(section, "\n")
			file, _, _ := strings.Cut(rest, "\n----")
			if got.Len() > 0 {
				got.WriteByte('\n')
			}
			got.WriteString("==== " + title + "\n" + file + "\n----\n")
			errs := render.Errors(parse([]byte(file + "\n")))
			if len(errs) == 0 {
				t.Errorf("%s: %s: no error", golden, title)
			}
			for _, e := range errs {
				got.WriteString(e.Error() + " [" + e.Rule + "]\n")
				if e.Hint != "" {
					got.WriteString("  hint: " + e.Hint + "\n")
				}
			}
		}
		rendertest.Golden(t, golden, got.String())
	}
}
