package jmespath

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever is written and searched: a search ends, changes nothing, answers the
// same twice and with a trace, and what it answers is JSON.
func FuzzSearch(f *testing.F) {
	for _, r := range grammarRows {
		f.Add(r.expr, pod)
	}
	for _, r := range functionRows {
		f.Add(r.expr, r.data)
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		e, err := Compile(expression)
		if err != nil {
			return
		}
		var data, copied any
		if json.Unmarshal([]byte(text), &data) == nil {
			_ = json.Unmarshal([]byte(text), &copied)
		}
		o := atNoon()
		o.Limits = Limits{Steps: 200_000, Bytes: 1 << 20}
		got, err := e.Search(data, o)
		again, _, traceErr := e.Trace(data, o)
		if message(err) != message(traceErr) || !cmp.Equal(got, again) {
			t.Errorf("search: %v, %v; trace: %v, %v", got, err, again, traceErr)
		}
		if !cmp.Equal(data, copied) {
			t.Error("the data changed")
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	})
}

// A replacement counted as it is made is that of the library.
func FuzzReplace(f *testing.F) {
	f.Add("a*", "baac", "$0x")
	f.Add("^|(b)?", "abc", "${1}-$2")
	f.Add(`\b`, "a b", "|")
	f.Fuzz(func(t *testing.T, pattern, in, with string) {
		s := newSearch(nil)
		s.calling = &call{}
		r, err := s.regex(pattern)
		if err != nil {
			return
		}
		got, err := regexReplace(s, []val{{v: pattern}, {v: in}, {v: with}})
		if want := r.ReplaceAllString(in, with); err == nil && got.v != want {
			t.Errorf("got %q, want %q", got.v, want)
		}
		s.calling = &call{}
		got, err = regexReplaceLiteral(s, []val{{v: pattern}, {v: in}, {v: with}})
		if want := r.ReplaceAllLiteralString(in, with); err == nil && got.v != want {
			t.Errorf("literal: got %q, want %q", got.v, want)
		}
	})
}
