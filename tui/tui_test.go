package tui

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// TestScreens presses the keys of testdata/*.txtar and compares the screen, of
// the size that the name ends in. UPDATE_GOLDEN=1 rewrites them.
func TestScreens(t *testing.T) {
	t.Parallel()
	rendertest.Each(t, "testdata", func(t *testing.T, file string) {
		a := rendertest.ParseArchive(t, file)
		var width, height int
		size := file[strings.LastIndexByte(file, '-')+1:]
		if _, err := fmt.Sscanf(size, "%dx%d", &width, &height); err != nil {
			t.Fatal(err)
		}
		d := newDriver(t, width, height, nil)
		d.press(strings.ReplaceAll(string(a.Files[0].Data), "\n", " "))
		got := screen(d.model)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			a.Files = []txtar.File{a.Files[0], {Name: "want", Data: []byte(got)}}
			rendertest.OK(t, os.WriteFile(file, txtar.Format(a), 0o644))
			return
		}
		rendertest.Equal(t, string(a.Files[1].Data), got)
	})
}

// screen is what is seen, without colours and blanks at line ends.
func screen(m *model) string {
	var b strings.Builder
	for l := range strings.SplitSeq(ansi.Strip(m.View().Content), "\n") {
		b.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	return b.String()
}

// fits says that the screen is as large as it is said to be, and that nothing
// on it can do anything to a terminal but colour it.
func fits(t *testing.T, m *model) {
	t.Helper()
	content := m.View().Content
	lines := strings.Split(content, "\n")
	if len(lines) > max(m.height, 1) {
		t.Fatalf("%d lines on a screen of %d", len(lines), m.height)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n > m.width {
			t.Fatalf("line %d has %d cells on a screen of %d: %q", i, n, m.width, l)
		}
	}
	harmless(t, content)
}

func harmless(t *testing.T, s string) {
	t.Helper()
	var text strings.Builder
	for rest := s; ; {
		i := strings.IndexByte(rest, 0x1b)
		if i < 0 {
			text.WriteString(rest)
			break
		}
		end := strings.IndexByte(rest[i:], 'm')
		if end < 0 || strings.Trim(rest[i+1:i+end], "[0123456789;:") != "" {
			t.Fatalf("an escape that is no colour: %q", rest[i:min(len(rest), i+20)])
		}
		text.WriteString(rest[:i])
		rest = rest[i+end+1:]
	}
	for _, r := range text.String() {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			t.Fatalf("%q is on the screen", r)
		}
	}
}

// TestAnyKeys presses random keys at random sizes.
func TestAnyKeys(t *testing.T) {
	t.Parallel()
	keys := strings.Fields(`j j k g G h l - + n N J K / esc [ ] : t T "sec" s o space v a w d u ctrl+r W p P 1 2 3 4 5 6 x z enter enter tab e E r y ? q up down
		left right backspace pgdown pgup home end delete ctrl+d ctrl+u "prod" "!rule:images" "ü日本" "90d" m D`)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDriver(t, 1+r.IntN(200), 1+r.IntN(60), func(h *fakeHost, o *Options) {
			if seed%2 == 0 {
				h.report = hostile()
			}
			o.ReadOnly = seed%7 == 0
		})
		var pressed []string
		for range 120 {
			k := keys[r.IntN(len(keys))]
			pressed = append(pressed, k)
			switch r.IntN(12) {
			case 0:
				d.tell(tea.WindowSizeMsg{Width: r.IntN(220), Height: r.IntN(70)})
			case 1:
				d.tell(tea.MouseClickMsg{X: r.IntN(220), Y: r.IntN(70), Button: tea.MouseLeft})
			case 2:
				d.tell(tea.MouseWheelMsg{X: r.IntN(220), Y: r.IntN(70), Button: tea.MouseWheelDown})
			default:
				d.press(k)
			}
			fits(t, d.model)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(pressed, " "))
		}
	}
}

// hostile is a report whose every text holds what a terminal would act on.
func hostile() *report.Report {
	r := sample()
	evil := "a\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202e日本語\r\n::add-mask::x\x9b31m" + strings.Repeat("\u0301", 30) + strings.Repeat("W", 300)
	for i := range r.Results {
		x := &r.Results[i]
		x.Message += evil
		x.Policy, x.Rule, x.Engine = evil, evil, evil
		x.Object.Name, x.Object.Kind, x.Object.Unit = evil, evil, evil
		x.Fields = []string{"/" + evil}
		if x.Suppression != nil {
			x.Suppression.Reason, x.Suppression.Expires = evil, evil
		}
		for k := range x.Origins {
			if i%2 == 0 {
				x.Origins[k].File = evil
			}
		}
	}
	tree := sampleTree()
	for name, f := range tree {
		f.Data = append([]byte(evil+"\n"+strings.Repeat(evil, 200)+"\n"), f.Data...)
		tree[name] = f
	}
	r.Tree = tree
	return r
}

func TestAcceptUndoWrite(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`/ "max-rep" enter w "too large for now" tab ctrl+u "30d" enter`)
	want := policy.Suppression{Rule: "max-replicas/validations[0]", Object: "apps/Deployment/prod/web", Reason: "too large for now", Expires: "2026-12-21"}
	if diff := cmp.Diff([]policy.Suppression{want}, d.session.staged.Add); diff != "" {
		t.Fatal(diff)
	}
	d.press("u")
	if n := d.session.staged.Len(); n != 0 {
		t.Fatalf("%d staged after undo", n)
	}
	d.press("ctrl+r W")
	if d.mode != modeReview || !strings.Contains(screen(d.model), "too large for now") {
		t.Fatalf("no diff:\n%s", screen(d.model))
	}
	d.press("enter")
	if len(d.host.written) != 1 || d.session.staged.Len() != 0 {
		t.Fatalf("written %v, staged %d", d.host.written, d.session.staged.Len())
	}
	d.press("q")
	if !d.quit {
		t.Error("q asks although all is written")
	}
}

// TestFix is a person who sees the fix of a result, leaves it, writes it, and takes it back. What is
// staged stays, and the decision that is written later is taken back first.
func TestFix(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`/ "kind:Pod" enter w "for now" enter / ctrl+u "max-rep" enter f`)
	for _, want := range []string{"Set replicas: 3 (safe): this would be written to a.yaml and 1 other file", "+3"} {
		if got := screen(d.model); d.mode != modeReview || !strings.Contains(got, want) {
			t.Fatalf("no %q:\n%s", want, got)
		}
	}
	d.press("esc")
	if string(d.host.file) != "" || d.session.staged.Len() != 1 || d.mode != modeList {
		t.Errorf("left: %q, %d staged", d.host.file, d.session.staged.Len())
	}
	d.press("f enter")
	if string(d.host.file) != "3" || d.session.staged.Len() != 1 || len(d.host.written) != 0 {
		t.Errorf("written: %q, %d staged, %v", d.host.file, d.session.staged.Len(), d.host.written)
	}
	d.press("W enter")
	if string(d.host.file) == "3" || len(d.host.written) != 1 {
		t.Errorf("the decision is not written: %q, %v", d.host.file, d.host.written)
	}
	d.press("u")
	if string(d.host.file) != "3" {
		t.Errorf("the decision is taken back: %q", d.host.file)
	}
	d.press("u")
	if len(d.host.file) != 0 || d.session.canUndo() {
		t.Errorf("the fix is taken back: %q", d.host.file)
	}
	d.press("f")
	d.review(proposedMsg{d.reviews - 1, &Change{File: "late"}, "", nil})
	if d.change == nil || d.change.File == "late" {
		t.Errorf("another review is shown: %+v", d.change)
	}
	d.press(`esc / ctrl+u "kind:Pod" enter f`)
	if e := d.selected(); e == nil || e.Object.Kind == "Deployment" || d.mode != modeList || !strings.Contains(screen(d.model), "no fix: no rule or standard") {
		t.Errorf("no reason:\n%s", screen(d.model))
	}
}

func TestFormRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, want string }{
		{`w enter`, "a reason is required"},
		{`w "x" tab ctrl+u enter`, "the last day is required"},
		{`w "x" tab ctrl+u "soon" enter`, "is no day such as"},
		{`w "x" tab ctrl+u "2026-11-20" enter`, "is over already"},
		{`w "x" tab ctrl+u "9999y" enter`, "is too far away"},
	} {
		d := newDriver(t, 120, 40, nil)
		d.press(c.keys)
		if got := screen(d.model); !strings.Contains(got, c.want) || d.session.staged.Len() != 0 {
			t.Errorf("%s: staged %d, want %q on\n%s", c.keys, d.session.staged.Len(), c.want, got)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys string
		want policy.Suppression
	}{
		{``, policy.Suppression{Object: "apps/Deployment/prod/web"}},
		{`right`, policy.Suppression{Object: "**", Path: "charts/web/values.yaml"}},
		{`right right`, policy.Suppression{Object: "**", Path: "charts/web"}},
		{`left`, policy.Suppression{Object: "**"}},
	} {
		d := newDriver(t, 120, 40, nil)
		d.press(`/ "max-rep" enter w "r" up ` + c.keys + ` enter`)
		c.want.Rule, c.want.Reason, c.want.Expires = "max-replicas/validations[0]", "r", "2027-02-19"
		if diff := cmp.Diff([]policy.Suppression{c.want}, d.session.staged.Add); diff != "" {
			t.Error(c.keys, diff)
		}
	}
}

// TestStagedCovers holds that what a suppression would accept is shown as
// accepted, and only that.
func TestStagedCovers(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`] / "images" enter w "r" up left enter`)
	for _, e := range d.session.entries {
		if want := e.Policy == "images"; e.accepted != want {
			t.Errorf("%s %s: accepted %v", e.Policy, e.Object.Name, e.accepted)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`] o o o o a w "many" enter`)
	if n := len(d.session.staged.Add); n != 6 {
		t.Errorf("%d suppressions for the 6 results that are open", n)
	}
	for _, s := range d.session.staged.Add {
		if s.Object == "///" && s.Path != "charts/api" {
			t.Errorf("what is about no object is accepted anywhere: %+v", s)
		}
	}
	d = newDriver(t, 120, 40, nil)
	d.press(`] o o o o v j j w "range" enter`)
	if n := len(d.session.staged.Add); n != 3 {
		t.Errorf("%d suppressions for a range of 3", n)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`] ] d W enter`)
	if len(d.host.written) != 1 || len(d.host.written[0].Remove) != 1 || d.host.written[0].Remove[0].Reason != "sealed in CI" {
		t.Errorf("written: %+v", d.host.written)
	}
}

func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, func(h *fakeHost, _ *Options) { h.changed = true })
	d.press(`w "r" enter W enter`)
	if d.mode != modeReview || len(d.host.written) != 0 || d.session.staged.Len() != 1 || !strings.Contains(screen(d.model), "was changed meanwhile") {
		t.Fatalf("mode %d, written %v, staged %d\n%s", d.mode, d.host.written, d.session.staged.Len(), screen(d.model))
	}
	d.press("enter")
	if len(d.host.written) != 1 {
		t.Error("the second time it is written")
	}
}

func TestQuitAsks(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`w "r" enter q`)
	if d.quit || d.mode != modeQuit {
		t.Fatal("leaves with a decision that is not written")
	}
	d.press("esc q ctrl+c")
	if !d.quit || d.session.staged.Len() != 1 {
		t.Errorf("quit %v, %d handed back", d.quit, d.session.staged.Len())
	}
	d = newDriver(t, 120, 40, nil)
	d.press(`w "r" enter q D`)
	if !d.quit || d.session.staged.Len() != 0 {
		t.Errorf("quit %v, %d handed back that were discarded", d.quit, d.session.staged.Len())
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, func(_ *fakeHost, o *Options) { o.ReadOnly = true })
	d.press(`w e E ] ] d`)
	if d.session.staged.Len() != 0 || len(d.host.edits) != 0 || d.mode != modeList {
		t.Errorf("staged %d, edits %v, mode %d", d.session.staged.Len(), d.host.edits, d.mode)
	}
}

func TestEditorFails(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`w "r" enter g j e`)
	if got := screen(d.model); !strings.Contains(got, "the editor failed") {
		t.Errorf("no word of it:\n%s", got)
	}
	if d.session.staged.Len() != 1 {
		t.Error("what was staged is lost")
	}
	d.host.editErr = errors.New("no-such-editor: no such program")
	d.press("e")
	if got := screen(d.model); !strings.Contains(got, "no such program") {
		t.Errorf("no word of it:\n%s", got)
	}
	rendertest.Equal(t, []string{"charts/web/values.yaml:5:11", "charts/web/values.yaml:5:11"}, d.host.edits)
}

// TestKeepsPlace evaluates again with a result gone and one more: the cursor
// and the marks stay where they were.
func TestKeepsPlace(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press(`/ "db" enter space /`)
	before := d.selected().key
	r := sample()
	r.Results = r.Results[1:]
	extra := r.Results[1]
	extra.Fingerprint, extra.Object.Name, extra.Object.Unit = "more", "aaa-db", "aaa"
	r.Results = append(r.Results, extra)
	d.host.report = r
	d.press(`enter r`)
	if got := d.selected().key; got != before {
		t.Errorf("the cursor went from %s to %s", before, got)
	}
	if n := d.session.marked; n != 1 {
		t.Errorf("%d marked", n)
	}
}

func TestEvaluateFails(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 80, 24, func(h *fakeHost, _ *Options) { h.err = errors.New("apps: no such file or directory") })
	if got := screen(d.model); !strings.Contains(got, "no such file") || !strings.Contains(got, "r tries again") {
		t.Errorf("no word of it:\n%s", got)
	}
	d.host.err = nil
	d.press("r")
	if d.selected() == nil {
		t.Error("r does not try again")
	}
}

// TestUndecidedAlone holds that a screen without failures says what is not decided.
func TestUndecidedAlone(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, func(h *fakeHost, _ *Options) {
		h.report.Results = slices.DeleteFunc(h.report.Results, func(r policy.Result) bool { return r.Outcome == policy.Fail })
		h.report.Summary.Objects, h.report.Summary.Rules = 1, 1
	})
	if got := screen(d.model); !strings.Contains(got, "No failures here, but 2 results") {
		t.Errorf("the screen is\n%s", got)
	}
}

func TestSecretsHidden(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{`] ] 1`, `] ] 3`, `] ] 4`} {
		d := newDriver(t, 120, 40, nil)
		d.press(keys)
		if got := screen(d.model); strings.Contains(got, "hunter") || !strings.Contains(got, "no-secrets") {
			t.Errorf("%s:\n%s", keys, got)
		}
	}
}

func TestCopyBounded(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	if cmd := d.copied(copiedMsg{what: "object", text: strings.Repeat("x", maxCopied+1)}); cmd != nil || !d.bad {
		t.Error("a clipboard of any size")
	}
	d.press("y p")
	if !strings.Contains(d.message, "charts/web/values.yaml:4:8") {
		t.Error(d.message)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter string
		want   int
	}{
		{"", 8},
		{"images", 2},
		{"IMAGES prod/web", 1},
		{"images !web", 1},
		{"rule:max-replicas/validations[0]", 1},
		{"rule:validations", 3},
		{"kind:pod", 3},
		{"kind:deploy", 3},
		{"ns:prod", 7},
		{"!ns:prod", 1},
		{"unit:charts", 4},
		{"sev:high", 1},
		{"sev:denied", 3},
		{"sev:warning", 1},
		{"new", 3},
		{"open", 3},
		{"is:open", 3},
		{"unit:=apps", 4},
		{"unit:=app", 0},
		{"unit:=\"charts/web\" !sev:=denied", 1},
		{"!new", 5},
		{"is:known", 1},
		{"is:suppressed", 1},
		{"is:unknown", 2},
		{"is:passed", 1},
		{"file:secret", 1},
		{`"other than latest"`, 2},
		{"name:db kind:Pod", 3},
		{`"`, 8},
		{"!", 8},
		{"nosuchfield:x", 0},
		{"日本", 0},
	} {
		f := parseFilter(c.filter)
		s := newSession()
		s.load(newIndex(sample()))
		got := 0
		for _, e := range s.entries {
			if f.match(e) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%q finds %d, want %d", c.filter, got, c.want)
		}
	}
}

// TestArrangeKeepsEveryResult holds that no grouping or ordering loses or doubles a result, and
// that a directory holds what the groups below it hold, in their order.
func TestArrangeKeepsEveryResult(t *testing.T) {
	t.Parallel()
	s := newSession()
	s.load(newIndex(sample()))
	for g := range numGroupings {
		for o := range numOrderings {
			for x := range sectionGraph {
				a := arrange(s.entries, spec{section: x, grouping: g, ordering: o})
				seen := make(map[*entry]bool)
				for _, e := range heldBy(t, a.groups) {
					if seen[e] || !x.has(e) {
						t.Errorf("%s by %s: %s", sectionNames[x], groupingNames[g], e.key)
					}
					seen[e] = true
				}
				if len(seen) != a.n || a.n != s.sectionCount(x) {
					t.Errorf("%s by %s: %d of %d", sectionNames[x], groupingNames[g], len(seen), s.sectionCount(x))
				}
			}
		}
	}
}

// heldBy returns the entries of groups, and checks what directories say of those below them.
func heldBy(t *testing.T, groups []*group) []*entry {
	t.Helper()
	var all []*entry
	for _, g := range groups {
		if g.children != nil {
			rendertest.Equal(t, g.items, heldBy(t, g.children), cmp.Comparer(func(a, b *entry) bool { return a == b }))
		}
		var counts [numStates]int
		rank := g.items[0].rank
		for _, e := range g.items {
			counts[e.state()]++
			rank = min(rank, e.rank)
		}
		if counts != g.counts || rank != g.rank {
			t.Errorf("%s: counts %v and rank %d, want %v and %d", g.name, g.counts, g.rank, counts, rank)
		}
		all = append(all, g.items...)
	}
	return all
}

// filesDriver shows a denied result in each of the files, by file and by name.
func filesDriver(t *testing.T, files ...string) *driver {
	t.Helper()
	r := sample()
	x := r.Results[1]
	r.Results, r.Units = nil, nil
	for i, f := range files {
		x.Fingerprint, x.Origins = fmt.Sprint(i), []render.Origin{at(f, 1, 1, 2, render.Manifest)}
		r.Results = append(r.Results, x)
	}
	d := newDriver(t, 80, 24, func(h *fakeHost, _ *Options) { h.report = r })
	d.press(`: "group file" enter : "sort name" enter`)
	return d
}

// heads returns the heads that are shown, each as deep as it is and with its count; > is the cursor.
func heads(d *driver) string {
	var b strings.Builder
	for i, r := range d.list.rows {
		sign := ""
		if i == d.list.cursor {
			sign = ">"
		}
		if d.list.at(i) == nil {
			fmt.Fprintf(&b, "%s%s%s %d\n", strings.Repeat(" ", r.group.depth), sign, r.group.name, len(r.group.items))
		} else if sign != "" {
			fmt.Fprintf(&b, "%s> in it\n", strings.Repeat(" ", r.group.depth))
		}
	}
	return b.String()
}

// TestTree holds which directories a list by file shows, after keys that fold, filter and arrange.
func TestTree(t *testing.T) {
	t.Parallel()
	files := []string{"apps/base/a.yaml", "clusters/prod/apps/db.yaml", "clusters/prod/apps/web/values.yaml", "clusters/prod/apps-old/x.yaml", "root.yaml"}
	for _, c := range []struct{ name, keys, want string }{
		{"single directories are joined", `G`, `
apps/base/a.yaml 1
clusters/prod/ 3
 apps-old/x.yaml 1
 apps/ 2
  db.yaml 1
  web/values.yaml 1
root.yaml 1
> in it`},
		{"fold goes up", `n n left`, `
apps/base/a.yaml 1
clusters/prod/ 3
 >apps-old/x.yaml 1
 apps/ 2
  db.yaml 1
  web/values.yaml 1
root.yaml 1`},
		{"and up", `n n left left`, `
apps/base/a.yaml 1
>clusters/prod/ 3
root.yaml 1`},
		{"enter unfolds a directory, and the directories in it that were not folded", `n n left left enter`, `
apps/base/a.yaml 1
>clusters/prod/ 3
 apps-old/x.yaml 1
 apps/ 2
  db.yaml 1
  web/values.yaml 1
root.yaml 1`},
		{"all", `n n n n -`, `
apps/base/a.yaml 1
>clusters/prod/ 3
root.yaml 1`},
		{"level by level", `n n n n - right right`, `
apps/base/a.yaml 1
clusters/prod/ 3
 >apps-old/x.yaml 1
 apps/ 2
root.yaml 1`},
		{"none", `n n n n - + right`, `
apps/base/a.yaml 1
clusters/prod/ 3
 >apps-old/x.yaml 1
 apps/ 2
  db.yaml 1
  web/values.yaml 1
root.yaml 1`},
		{"a filter hides empty directories", `n n n n j : "filter file:apps" enter`, `
apps/base/a.yaml 1
clusters/prod/ 3
 apps-old/x.yaml 1
 apps/ 2
  db.yaml 1
  > in it
  web/values.yaml 1`},
		{"and joins", `: "filter apps/web" enter`, `
>clusters/prod/apps/web/values.yaml 1`},
		{"back to the folded directory of an entry", `n left G "o" "o" "o" "o" "o" k k : "group file" enter`, `
apps/base/a.yaml 1
>clusters/prod/ 3
root.yaml 1`},
		{"most first", `: "sort most" enter g`, `
>clusters/prod/ 3
 apps/ 2
  db.yaml 1
  web/values.yaml 1
 apps-old/x.yaml 1
apps/base/a.yaml 1
root.yaml 1`},
	} {
		d := filesDriver(t, files...)
		d.press("g " + c.keys)
		if diff := cmp.Diff(c.want, "\n"+strings.TrimSuffix(heads(d), "\n")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestTreeOfAnyNames holds that paths which no file system has are shown once each.
func TestTreeOfAnyNames(t *testing.T) {
	t.Parallel()
	d := filesDriver(t, "a/", "a", "a//b", "/x", "", strings.Repeat("a/", 5000)+"1", strings.Repeat("a/", 5000)+"2", strings.Repeat("日/", 400)+"x")
	want := "/x 1\na 1\na/ 4\n  1\n /b 1\n a/a/a… 2\n  1 1\n  2 1\nno file is known 1\n> in it\n日/日/日… 1\n"
	got := regexp.MustCompile(`((\pL/){2}\pL)/(\pL/)+\S+ `).ReplaceAllString(heads(d), "$1… ")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	fits(t, d.model)
}

// TestTreeWhileResultsArrive holds that the counts of directories are those of the results so far, and
// that the cursor stays on its result.
func TestTreeWhileResultsArrive(t *testing.T) {
	t.Parallel()
	d := filesDriver(t, "a/b/1.yaml", "a/b/2.yaml", "a/c/3.yaml", "d.yaml")
	all := d.session.report
	d.whole = false
	for i, want := range []string{"d.yaml 1\n> in it\n", "a/c/3.yaml 1\nd.yaml 1\n> in it\n", "a/ 2\n b/2.yaml 1\n c/3.yaml 1\nd.yaml 1\n> in it\n", "a/ 3\n b/ 2\n  1.yaml 1\n  2.yaml 1\n c/3.yaml 1\nd.yaml 1\n> in it\n"} {
		r := *all
		r.Results = all.Results[3-i:]
		d.tell(progressMsg{index: newIndex(&r)})
		if i == 0 {
			d.press("G")
		}
		if got := heads(d); got != want {
			t.Errorf("%d of 4:\n%s, want\n%s", i+1, got, want)
		}
	}
}

func TestMissingFileAndLine(t *testing.T) {
	t.Parallel()
	for want, origins := range map[string][]render.Origin{
		"not available":     {at("gone.yaml", 3, 1, 2, "")},
		"only 7 lines now":  {at("apps/db.yaml", 99, 1, 2, "")},
		"no line is known":  nil,
		"known, not the li": {at("apps/db.yaml", 0, 0, 0, "")},
	} {
		r := sample()
		r.Results = []policy.Result{{Policy: "p", Object: render.Key{Kind: "Pod"}, Outcome: policy.Fail, Origins: origins}}
		d := newDriver(t, 120, 40, func(h *fakeHost, _ *Options) { h.report = r })
		if got := screen(d.model); !strings.Contains(got, want) {
			t.Errorf("want %q on\n%s", want, got)
		}
	}
}
