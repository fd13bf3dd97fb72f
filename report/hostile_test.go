package report

import (
	"bytes"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// hostile are texts that somebody may have put into a manifest to have the
// reader of a report, or the runner that prints it, act on them.
var hostile = []string{
	"", " ", "\n",
	"x\r::add-mask::privileged",
	"\n::stop-commands::z",
	"a ##[add-mask]b",
	"\u00a0::error::x",
	"\u3000::error file=x::y",
	"::error file=a.yaml,line=1::x",
	"\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
	"\x1b]52;c;aGk=\x07\x1b[2J",
	"\u009b31m red",
	"\u202eevil\u2066\u2069",
	"zero\u200bwidth\ufeff\u2060",
	"a" + strings.Repeat("\u0301", 10000),
	"\x00\x01\x7f",
	"bad \xff\xfe utf8 \xe2\x82",
	"line\u2028break\u2029\u0085here",
	"[x](9) [y](http://evil) [open",
	"\\](1)",
	"{0} {{1}} %s %d",
	"<!-- </details> <script>",
	"@org/team #1 ![x](http://evil)",
	"## ✅ All passed\n| a | b |",
	"##",
	"[warning]",
	strings.Repeat("long ", 4000),
	"\U000e0001\U000e0041tags",
	"\u115f\u1160\u3164",
	"a\tb",
	"`a` ``b`` ```c <img src=x> ` @me",
	"```\n## ok\n~~~",
	"]]><failure/><!--",
	"\"><script>alert(1)</script>",
	"%0A::error::x%25",
	"- a: &b !!c\n---\n\": {",
	"$x$ $(y) \\ \\\" '",
	"[a]: javascript:alert(1)",
	"&lt;b&gt; &#60;i&#62;",
	"名前 ключ 😀👨\u200d👩",
}

// unsafeLine says what in a line of output a terminal or a runner would act on.
func unsafeLine(line string) string {
	for _, r := range line {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError && !strings.Contains(line, "\uFFFD") {
			return fmt.Sprintf("it holds %U", r)
		}
	}
	if !utf8.ValidString(line) {
		return "it is not UTF-8"
	}
	if strings.Contains(line, "##[") {
		return "it holds ##["
	}
	if strings.HasPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "::") {
		return "it begins with ::"
	}
	return ""
}

// fillIn sets every string in a value to s, but for those that take words of
// ours alone.
func fillIn(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fillIn(v.Elem(), s)
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(v.Field(i), s)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillIn(v.Index(i), s)
		}
	case reflect.String:
		switch v.Type() {
		case reflect.TypeFor[policy.Outcome](), reflect.TypeFor[policy.Action]():
		default:
			v.SetString(s)
		}
	case reflect.Int:
		v.SetInt(1)
	}
}

// hostileReport has s in every field, in results of every outcome and action.
func hostileReport(s string) *Report {
	r := &Report{Tree: hostileTree(s)}
	fillIn(reflect.ValueOf(&r.Tool), s)
	fillIn(reflect.ValueOf(&r.Units), s)
	fillIn(reflect.ValueOf(&r.Rules), s)
	fillIn(reflect.ValueOf(&r.Notes), s)
	fillIn(reflect.ValueOf(&r.Base), s)
	fillIn(reflect.ValueOf(&r.Changes), s)
	fillIn(reflect.ValueOf(&r.Proposed), s)
	r.Units[1].ID, r.Units[1].Path = "2"+s, "2"+s // which the first one deploys
	r.Changes = append(r.Changes, Change{Object: render.Key{Kind: s, Name: s, Unit: "2" + s}})
	for i := range r.Proposed {
		r.Proposed[i].Outcome, r.Proposed[i].Action, r.Proposed[i].Baseline = policy.Fail, policy.Deny, []policy.Baseline{policy.New, policy.Absent}[i]
	}
	i := 0
	for _, outcome := range policy.Outcomes {
		for _, action := range policy.Actions {
			for _, where := range []string{s, "plain.yaml", ""} {
				var x policy.Result
				fillIn(reflect.ValueOf(&x), s)
				x.Outcome, x.Action, x.Baseline = outcome, action, ""
				for j := range x.Origins {
					x.Origins[j].Span = render.Span{File: where, Line: j + 1, Column: 1 + i%7, EndLine: j + 1, EndColumn: 9 + i%7}
				}
				if i%3 > 0 {
					x.Suppression = nil
				}
				if i%7 == 6 {
					x.Baseline = []policy.Baseline{policy.New, policy.Unchanged, policy.Absent, policy.Baseline(s)}[i/7%4]
				}
				if i++; i%5 == 0 {
					x.Object = render.Key{Unit: s}
					x.Engine = policy.EngineRender
				}
				r.Results = append(r.Results, x)
			}
		}
	}
	return r
}

func hostileTree(s string) fs.FS {
	tree := fstest.MapFS{"plain.yaml": {Data: []byte(s + "\n::error::second\n##[error]third\n")}}
	if fs.ValidPath(s) && len(s) < 200 {
		tree[s] = &fstest.MapFile{Data: []byte(s + "\n" + s)}
	}
	return tree
}

// checkSinks holds every format against what a terminal, a runner and a reader
// of its own kind would act on.
func checkSinks(t *testing.T, s string) {
	t.Helper()
	r := hostileReport(s)
	for _, sink := range sinks() {
		sink.check(t, r, s)
	}
	agree(t, r)
	checkCoverageSinks(t, s)
}

// checkCoverageSinks holds each format of a coverage against lines that a runner acts on,
// and its page as checkPage does.
func checkCoverageSinks(t *testing.T, s string) {
	t.Helper()
	var branches []policy.Branch
	for _, file := range []string{s, "plain.yaml"} {
		for hits := range int64(2) {
			branches = append(branches, policy.Branch{
				Engine: s, Policy: s, Rule: s, Part: s, Case: s, Hits: hits, Origin: render.Span{File: file, Line: 2 + int(hits), Column: 1, EndLine: 2, EndColumn: 9},
			})
		}
	}
	c := NewCoverage(Tool{Name: s, Version: s}, branches, hostileTree(s))
	for _, format := range CoverageFormats.Names() {
		var out bytes.Buffer
		if err := CoverageFormats.Write(&out, format, c, Options{}); err != nil {
			t.Errorf("%q: coverage %s: %v", s[:min(len(s), 60)], format, err)
		}
		for i, line := range strings.Split(out.String(), "\n") {
			if bad := unsafeLine(line); bad != "" {
				t.Errorf("%q: coverage %s, line %d: %s: %.300q", s[:min(len(s), 60)], format, i+1, bad, line)
				break
			}
		}
		if format != "html" {
			continue
		}
		if err := checkPage(nil, out.Bytes(), Options{}); err != nil {
			t.Errorf("%q: coverage html: %v", s[:min(len(s), 60)], err)
		}
		if strings.Contains(out.String(), "<script>alert") {
			t.Errorf("%q: coverage html has a script that is not ours", s)
		}
	}
}

// A sink is a format with options, and the golden file that shows it.
type sink struct {
	file, format string
	options      Options
}

// sinks returns every format with each of the options that goldens have.
func sinks() []sink {
	var all []sink
	for _, g := range goldens {
		s := sink{g.file, g.format, g.options}
		if !slices.ContainsFunc(all, func(o sink) bool { return o.format == s.format && o.options == s.options }) {
			all = append(all, s)
		}
	}
	return all
}

// check writes a report that holds text, and holds it against what a terminal,
// a runner and a reader of the format would act on.
func (s *sink) check(t *testing.T, r *Report, text string) {
	t.Helper()
	out := write(t, s.format, r, s.options)
	shown := string(out)
	if s.options.Color {
		shown = ourEscapes.ReplaceAllString(shown, "")
	}
	for i, line := range strings.Split(shown, "\n") {
		if s.format == "github" && strings.HasPrefix(line, "::") {
			continue // checked as commands
		}
		if bad := unsafeLine(line); bad != "" {
			t.Errorf("%q: %s, line %d: %s: %.300q", text[:min(len(text), 60)], s.file, i+1, bad, line)
			break
		}
	}
	if bad := checks[s.format](r, out, s.options); bad != nil {
		t.Errorf("%q: %s: %v", text[:min(len(text), 60)], s.file, bad)
	}
}

// ourEscapes are the colours and links that the text format makes itself.
var ourEscapes = regexp.MustCompile(`\x1b\[[0-9;]*m|\x1b\]8;;(file:///repo/[!-~]*)?\x1b\\`)

// agree checks that JSON brings back what was written, and that it is written
// the same again.
func agree(t *testing.T, r *Report) {
	t.Helper()
	first := write(t, "json", r, Options{})
	back, err := Read(bytes.NewReader(first))
	if err != nil {
		t.Errorf("read: %v", err)
		return
	}
	if second := write(t, "json", back, Options{}); !bytes.Equal(first, second) {
		t.Errorf("written again it differs: %s", cmp.Diff(string(first), string(second)))
	}
	valid := utf8.ValidString(r.Tool.Name)
	if valid && (back.Tool != r.Tool || !reflect.DeepEqual(back.Notes, r.Notes) || !reflect.DeepEqual(back.Units, r.Units)) {
		t.Errorf("read %+v, wrote %+v", back, r)
	}
}

func TestHostileText(t *testing.T) {
	t.Parallel()
	for i, s := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			checkSinks(t, s)
		})
	}
}

// FuzzSinks tries more texts on less: a few results, in one format at a time.
func FuzzSinks(f *testing.F) {
	all := sinks()
	for i, s := range hostile {
		if len(s) < 1000 {
			f.Add(uint8(i), s)
		}
	}
	f.Add(uint8('O'), " ")
	f.Add(uint8('+'), "")
	f.Fuzz(func(t *testing.T, n uint8, s string) {
		s = s[:min(len(s), 500)]
		r := hostileReport(s)
		r.Results = append(r.Results[:2:2], r.Results[12], r.Results[20])
		k := all[int(n)%len(all)]
		k.check(t, r, s)
		if k.format == "json" {
			agree(t, r)
		}
	})
}

// Nobody's text becomes a link of a SARIF message.
func TestSARIFLinksAreOurs(t *testing.T) {
	t.Parallel()
	for _, s := range hostile {
		run := sarifOf(t, hostileReport(s), Options{})
		for _, res := range run.Results {
			for _, m := range link.FindAllStringSubmatch(res.Message.Text, -1) {
				if n := fmt.Sprint(len(res.RelatedLocations)); len(m[1]) > len(n) || m[1] == "9" {
					t.Errorf("%.60q: the message links to %q: %.200q", s, m[1], res.Message.Text)
				}
			}
			if n := len(res.Message.Text); n > 16<<10 {
				t.Errorf("%.60q: a message of %d bytes", s, n)
			}
		}
	}
}
