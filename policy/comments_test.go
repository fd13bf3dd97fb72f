package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

var commentDay = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func failureAt(file string, line int, rule string) Result {
	return Result{
		Engine: EngineKyverno, Policy: rule, Rule: "r", Outcome: Fail, Action: Deny, Object: render.Key{Kind: "Pod", Name: "p"},
		Origins: []render.Origin{{Span: render.Span{File: file, Line: line}}, {Span: render.Span{File: "other.yaml", Line: 1}}},
	}
}

// A result is accepted if its line has a comment about its rule, or one of the lines directly above it
// that have nothing but a comment, and so has each of its places if it has several fields. The model
// looks from the result upwards.
func TestComments(t *testing.T) {
	t.Parallel()
	rules := []string{"limits", "tags", "host"}
	accepting := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(all ...string) string { return all[random.IntN(len(all))] }
		var lines []string
		alone, about := make(map[int]bool), make(map[int]string) // by line: only a comment; the rule that it accepts
		for n := 1; n <= 12; n++ {
			rule := pick(rules...)
			text := pick(
				"preadmit:ignore "+rule+" until 2026-11-21: why: so", "preadmit:ignore  "+rule+"  until 2027-01-01:  a # b", // accept
				"preadmit:ignore "+rule+" until 2026-11-20: over", "preadmit:ignore "+rule+" until 2026-02-30: no day", "preadmit:ignore "+rule+" until 2027-01-01:",
				"preadmit:ignore until 2027-01-01: why", "preadmit:ignored "+rule+" until 2027-01-01: why", "preadmit:ignore"+rule+" until 2027-01-01: why", "see preadmit:ignore "+rule+" until 2027-01-01: why", rule,
			)
			accepts := strings.Contains(text, ": why: so") || strings.Contains(text, "a # b")
			text = pick("# "+text, "#"+text, "{{/* "+text+" */}}", "{{- /* "+text+" */ -}}")
			before := pick("", "  ", "a: b ", "a: b#", "{{ x }} ", "{{/* x */}} a: b ")
			if random.IntN(4) == 0 {
				lines = append(lines, pick("", "a: b", "  - c"))
				continue
			}
			alone[n] = strings.TrimSpace(before) == ""
			if accepts && !(strings.HasSuffix(before, "#") && text[0] == '#') {
				about[n] = rule
			}
			lines = append(lines, before+text+pick("", " ", "\r"))
		}
		s := NewSuppressions(nil, func(string) []byte { return []byte(strings.Join(lines, "\n") + "\n") })
		accepted := func(n int, rule string) bool {
			is := about[n] == rule
			for n--; alone[n]; n-- {
				is = is || about[n] == rule
			}
			return is
		}
		for n := 1; n <= len(lines); n++ {
			for _, rule := range rules {
				other := 1 + random.IntN(len(lines))
				if alone[n] || alone[other] {
					continue // no result is about a comment
				}
				one, two := failureAt("a.yaml", n, rule), failureAt("a.yaml", n, rule)
				two.Fields, two.Origins[1] = []string{"/a", "/b"}, failureAt("a.yaml", other, rule).Origins[0]
				results := []Result{one, two}
				Suppress(results, nil, s, commentDay)
				want := []bool{accepted(n, rule), accepted(n, rule) && accepted(other, rule)}
				got := []bool{results[0].Suppression != nil, results[1].Suppression != nil}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s at line %d, and also at %d, is accepted: %t, want %t\n%s", seed, rule, n, other, got, want, strings.Join(lines, "\n"))
				}
				if got[1] && other != n {
					accepting++
				}
			}
		}
	}
	if accepting < 100 {
		t.Errorf("only %d results are accepted", accepting)
	}
}

// In a change, a comment accepts what a comment of the base accepts. The model has a key for what
// the failures of an object and rule have in common on both sides.
func TestCommentsOfChange(t *testing.T) {
	t.Parallel()
	counts := make(map[bool]int)
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 2))
		// side returns failures, each at a line of its own in a random order, and a file with comments at some.
		type failure struct {
			key     string
			fields  []string
			comment bool
		}
		side := func() (list []failure, results []Result, s *Suppressions) {
			for _, key := range []string{"p", "q", "r"} {
				for range random.IntN(3) {
					fields := [][]string{{"/a"}, {"/a", "/b"}, {"/b"}, {"/c"}}[random.IntN(4)]
					list = append(list, failure{key, fields, random.IntN(3) > 0})
				}
			}
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			var text strings.Builder
			for i, f := range list {
				r := failureAt("a.yaml", i+1, "limits")
				r.Object.Name, r.Fields, r.Origins = f.key, f.fields, r.Origins[:1]
				results = append(results, r.Fingerprinted())
				fmt.Fprint(&text, "a: b")
				if f.comment {
					fmt.Fprint(&text, " # preadmit:ignore limits until 2027-01-01: why")
				}
				fmt.Fprintln(&text)
			}
			return list, results, NewSuppressions(nil, func(string) []byte { return []byte(text.String()) })
		}
		were, base, ofBase := side()
		are, head, ofHead := side()
		Suppress(base, nil, ofBase, commentDay)
		compared := Comparison{Base: base}.Compare(head)
		for i := range are { // some count as new for another reason
			if random.IntN(8) == 0 {
				compared[i].Baseline = New
			}
		}
		ofHead.Paired = true
		Suppress(compared, nil, ofHead, commentDay)
		for i := range are {
			was := func(open bool) bool { // whether the base has a failure that may be the same one, and is accepted or not
				return slices.ContainsFunc(were, func(f failure) bool {
					same := func(field string) bool { return slices.Contains(f.fields, field) }
					return f.key == are[i].key && f.comment != open && slices.ContainsFunc(are[i].fields, same)
				})
			}
			got := compared[i].Suppression != nil
			if got && !(are[i].comment && was(false) && compared[i].Baseline == Unchanged) {
				t.Fatalf("seed %d: failure %d is accepted\nbase: %v\nhead: %v", seed, i, were, are)
			}
			if !got && are[i].comment && compared[i].Baseline == Unchanged && !was(true) {
				t.Fatalf("seed %d: failure %d is not accepted\nbase: %v\nhead: %v", seed, i, were, are)
			}
			counts[got]++
		}
		for _, r := range compared[len(are):] {
			if r.Suppression != nil {
				t.Fatalf("seed %d: a fixed failure is suppressed", seed)
			}
		}
	}
	if counts[true] < 100 || counts[false] < 100 {
		t.Errorf("accepted: %v", counts)
	}
}

// Results that a CompactList holds are accepted as others are.
func TestCommentsOfHeld(t *testing.T) {
	t.Parallel()
	var list CompactList
	list.Keep(list.Add([]Result{failureAt("a.yaml", 1, "limits").Fingerprinted(), failureAt("a.yaml", 2, "limits").Fingerprinted()}))
	read := 0
	s := NewSuppressions(map[string]bool{"other.yaml": false}, func(string) []byte {
		read++
		return []byte("a: b\nc: d # preadmit:ignore limits until 2027-01-01: why\ne: f # preadmit:ignore gone until 2027-01-01: why\n")
	})
	_, unused := Suppress(nil, &list, s, commentDay)
	var got []bool
	for r := range list.All() {
		got = append(got, r.Suppression != nil)
	}
	rendertest.Equal(t, []bool{false, true}, got)
	if read != 1 || len(unused) != 1 || unused[0].Rule != "gone" {
		t.Errorf("%d files read, unused: %+v", read, unused)
	}
	elsewhere := failureAt("other.yaml", 3, "limits")
	if unused[0].Rule = "limits"; unused[0].Covers(&elsewhere) {
		t.Error("a comment covers a result in another file")
	}
	malformed := Suppression{Object: "**", Path: "a.yaml", Line: 1}
	if unnamed := failureAt("a.yaml", 1, ""); malformed.Covers(&unnamed) {
		t.Error("a comment without a rule covers a result of no policy")
	}
}

// TestCommentsLimited holds that of a file with more comments the first ones are read.
func TestCommentsLimited(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a: 1 # preadmit:ignore r until 2027-03-31: reason\n", maxComments+5)
	if n := len(parseComments("f", []byte(text))); n != maxComments {
		t.Errorf("%d comments are read", n)
	}
}
