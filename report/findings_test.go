package report

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// TestFindings holds that each result that counts is in one finding, at a part of a line
// that the tree has, and that those about nothing in the tree are told.
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Report{"all": sample(t), "change": sampleChange(t)} {
		found, placeless := Findings(r, NewSource(r))
		seen := make(map[*policy.Result]int)
		for _, f := range found {
			for _, x := range f.Results {
				seen[x]++
			}
			if f.Text == "" || f.Rule == "" || f.Help == "" || f.Level != "error" && f.Level != "warning" && f.Level != "note" {
				t.Errorf("%s: %+v", name, f)
			}
			for _, at := range append([]Marked{f.At, f.Written}, f.Related...) {
				if at.File == "" {
					continue
				}
				text, ok := NewSource(r).Lines(at.File)
				if !ok || at.Line < 1 || at.Line > len(text) || at.From < 1 || at.To < at.From || at.To > utf8.RuneCountInString(at.Text)+1 {
					t.Errorf("%s: %s: %+v is not in the tree", name, f.Rule, at)
				}
			}
		}
		want := Unrendered(r)
		for _, x := range r.Results {
			if _, _, ok := Class(&x); ok && Open(&x) {
				want = append(want, x)
			}
		}
		if len(seen)+len(placeless) != len(want) {
			t.Errorf("%s: %d results are in findings and %d are told; %d count", name, len(seen), len(placeless), len(want))
		}
		for x, n := range seen {
			if n != 1 || !Open(x) {
				t.Errorf("%s: %d times: %+v", name, n, x)
			}
		}
	}
}

// TestAddUncounted holds that failures in units that nothing deploys are notes in open files alone, that
// they are not repeated where they count, and that each reason why documents are not deployed is given once.
func TestAddUncounted(t *testing.T) {
	t.Parallel()
	r := sample(t)
	every, _ := Findings(r, NewSource(r))
	for i := range r.Results {
		r.Results[i].Unreached = true
	}
	r.Documents = []Document{
		{File: "charts/web/Chart.yaml", Line: 1, State: render.DocUnused, Reason: "nothing deploys it"},
		{File: "charts/web/Chart.yaml", Line: 2, State: render.DocUnused, Reason: "nothing deploys it"},
		{File: "charts/web/Chart.yaml", Line: 3, State: render.DocData, Reason: "a patch", Usual: true},
		{File: "charts/web/Chart.yaml", Line: 3, State: render.DocRendered},
	}
	s := NewSource(r)
	counted, _ := Findings(r, s)
	if got := AddUncounted(counted, r, s, func(string) bool { return false }); len(got) != len(counted) {
		t.Errorf("%d notes about files that are not open", len(got)-len(counted))
	}
	all := func(string) bool { return true }
	notes := AddUncounted(nil, r, s, all)
	why := notes[len(notes)-1]
	if why.Rule != "not-deployed" || why.At.Line != 1 || why.Text != "not deployed: nothing deploys it" || why.Help == "" {
		t.Errorf("the document is not deployed: %+v", why)
	}
	notes = notes[:len(notes)-1]
	if len(notes) == 0 || len(notes)+len(counted) != len(every) {
		t.Errorf("%d notes and %d findings, of %d that count where all is deployed", len(notes), len(counted), len(every))
	}
	for _, n := range notes {
		if n.Level != "note" || !strings.Contains(n.Text, "does not count") {
			t.Errorf("%+v", n)
		}
	}
	if got := AddUncounted(every, r, s, all); len(got) != len(every)+1 {
		t.Errorf("%d failures are repeated where they count", len(got)-len(every)-1)
	}
}

// TestFindingLevels holds what a person sees as wrong, and what only waits.
func TestFindingLevels(t *testing.T) {
	t.Parallel()
	source := []policy.Missing{{Kind: "source", Name: "charts.example.org"}}
	for want, results := range map[string][]policy.Result{
		"error":   {{Outcome: policy.Fail, Action: policy.Deny}, {Outcome: policy.Error, Action: policy.Deny}},
		"warning": {{Outcome: policy.Fail, Action: policy.Warn}, {Outcome: policy.Unknown, Action: policy.Deny}, {Outcome: policy.Error, Action: policy.Deny, Missing: source}},
		"note":    {{Outcome: policy.Fail, Action: policy.Audit}, {Outcome: policy.Unknown, Action: policy.Audit}},
	} {
		for _, x := range results {
			g := groupBy(newList(&Report{Results: []policy.Result{x}}), open)[0]
			if got := findingLevel(g); got != want {
				t.Errorf("%+v: %s, want %s", x, got, want)
			}
		}
	}
}

// TestHasSecret compares hasSecret with a regular expression, for random texts.
func TestHasSecret(t *testing.T) {
	expression := regexp.MustCompile(`["']?\bkind["']?\s*:\s*["']?Secret\b`)
	words := []string{"kind", "Secret", ":", " ", "\n", `"`, "'", "x", "_", "é", "\t", "-"}
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200_000 {
		var b strings.Builder
		for range 2 + random.IntN(9) {
			b.WriteString(words[random.IntN(len(words))])
		}
		want := expression.MatchString(b.String())
		if want {
			found++
		}
		if got := hasSecret(b.String()); got != want {
			t.Fatalf("hasSecret(%q) is %v", b.String(), got)
		}
	}
	if found < 100 {
		t.Errorf("only %d texts with a Secret", found)
	}
}
