package tui

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// counts are those of the sections, as the header has them.
func counts(d *driver) (open, suppressed int) {
	return d.session.sectionCount(sectionNew), d.session.sectionCount(sectionSuppressed)
}

func (d *driver) expect(t *testing.T, step string, open, suppressed, staged int) {
	t.Helper()
	gotOpen, gotSuppressed := counts(d)
	if gotOpen != open || gotSuppressed != suppressed || d.session.staged.Len() != staged {
		t.Fatalf("%s: %d open, %d suppressed, %d staged, want %d, %d and %d\n%s", step, gotOpen, gotSuppressed, d.session.staged.Len(), open, suppressed, staged, screen(d.model))
	}
}

// TestDecisionsApplyAtOnce holds that counts and sections go by what is decided
// and written, before anything is evaluated again, and that undo takes it back.
// The host's report never changes here.
func TestDecisionsApplyAtOnce(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.expect(t, "start", 3, 1, 0)
	d.press(`w "r" enter`)
	d.expect(t, "accepted", 2, 2, 1)
	if strings.Contains(screen(d.model), "prod/web Deployment  charts/web/values.yaml:4:8") {
		t.Errorf("what is accepted is still open:\n%s", screen(d.model))
	}
	d.press("u")
	d.expect(t, "undone", 3, 1, 0)
	d.press("ctrl+r")
	d.expect(t, "redone", 2, 2, 1)
	d.press("] ]") // suppressed
	d.press("g j d")
	d.expect(t, "removed while it is staged only", 3, 1, 0)
	d.press("u")
	d.expect(t, "undone", 2, 2, 1)
	d.press("d") // what the report has suppressed
	if open, _ := counts(d); open != 3 && d.session.staged.Len() == 0 {
		t.Errorf("%d open", open)
	}
}

// TestWriteTakenBack writes, and takes the file back byte for byte; what another
// wrote since is left alone.
func TestWriteTakenBack(t *testing.T) {
	t.Parallel()
	before := "# mine\nsuppressions: []"
	d := newDriver(t, 120, 40, func(h *fakeHost, _ *Options) { h.file = []byte(before) })
	evaluated := d.host.report
	d.host.err = errors.New("it can't be evaluated now") // what was written is applied all the same
	d.press(`w "r" enter W enter`)
	d.expect(t, "written", 2, 2, 0)
	if string(d.host.file) == before {
		t.Fatal("nothing was written")
	}
	d.press("u")
	d.expect(t, "taken back", 3, 1, 0)
	if string(d.host.file) != before {
		t.Errorf("the file is %q", d.host.file)
	}
	d.press("ctrl+r")
	d.expect(t, "staged again", 2, 2, 1)
	d.press("W enter")
	d.expect(t, "written again", 2, 2, 0)
	d.host.file = append(d.host.file, "# another\n"...)
	d.press("u")
	d.expect(t, "left alone", 2, 2, 0)
	if got := screen(d.model); !strings.Contains(got, "was changed since it was written here: it is left as it is") || !strings.HasSuffix(string(d.host.file), "# another\n") {
		t.Errorf("%q\n%s", d.host.file, got)
	}
	d.host.err, d.host.report = nil, evaluated
	d.press("r") // as if the file were not what was written
	d.expect(t, "evaluated", 3, 1, 0)
}

// TestNewNeedsABase holds that results are new only in a run with a base.
func TestNewNeedsABase(t *testing.T) {
	t.Parallel()
	for word, base := range map[string]*report.Base{"Open 3": nil, "New 3": {Revision: "main"}} {
		d := newDriver(t, 120, 40, func(h *fakeHost, _ *Options) { h.report.Base = base })
		got := screen(d.model)
		if !strings.Contains(got, word) || strings.Contains(got, "1 new") != (base != nil) || strings.Contains(got, "1 open") != (base == nil) {
			t.Errorf("want %q:\n%s", word, got)
		}
	}
}

// TestElided holds that names are cut in the middle, and that kinds stay.
func TestElided(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Results[1].Object.Name = "recommendation-engine-worker-with-a-long-name-europe-west4"
	r.Results[1].Object.Kind = "StatefulSet"
	for _, width := range []int{40, 60, 80, 120, 200} {
		d := newDriver(t, width, 24, func(h *fakeHost, _ *Options) { h.report = r })
		row := strings.Split(screen(d.model), "\n")[2]
		if !strings.Contains(row, "StatefulSet") || !strings.Contains(row, "pr") || width < 200 && !strings.Contains(row, "…") {
			t.Errorf("%d columns: %q", width, row)
		}
	}
	for _, c := range []struct {
		s     string
		width int
		want  string
	}{{"abcdefghij", 10, "abcdefghij"}, {"abcdefghij", 7, "abc…hij"}, {"abcdefghij", 6, "abc…ij"}, {"abc", 1, "…"}, {"日本語日本語", 7, "日…本語"}} {
		if got := elide(c.s, c.width); got != c.want {
			t.Errorf("%s in %d: %q, want %q", c.s, c.width, got, c.want)
		}
	}
}

// TestViewChangesNothing holds that Update alone changes the model.
func TestViewChangesNothing(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"", `j x`, `? j j`, `t j`, `w "r" enter W`, `: "gr" tab`, `/ "web"`} {
		d := newDriver(t, 100, 30, nil)
		d.press(keys)
		d.model.send = nil // functions are never equal
		d.model.palette.offer = nil
		d.model.width-- // as if there were something to lay out anew
		model, list, graph, session := *d.model, *d.model.list, *d.model.graph, *d.model.session
		a, b := d.View(), d.View()
		if a.Content != b.Content || !reflect.DeepEqual(model, *d.model) || !reflect.DeepEqual(list, *d.model.list) ||
			!reflect.DeepEqual(graph, *d.model.graph) || !reflect.DeepEqual(session, *d.model.session) {
			t.Errorf("%s: View changed the model", keys)
		}
	}
}

func TestPalette(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys string
		want string // on the screen
		then func(*driver) bool
	}{
		{`: "graph" enter`, "deployed by", func(d *driver) bool { return d.inGraph() }},
		{`: "group file" enter`, "by file", func(d *driver) bool { return d.grouping == byFile }},
		{`: "group fi" tab enter`, "by file", func(d *driver) bool { return d.grouping == byFile }},
		{`: "group" enter`, "by file", func(d *driver) bool { return d.grouping == byFile }},
		{`: "sort name" enter`, "name", func(d *driver) bool { return d.ordering == byName }},
		{`: "section sup" tab enter`, "sealed in CI", func(d *driver) bool { return d.section == sectionSuppressed }},
		{`: "filter rule:max" enter`, "/rule:max", func(d *driver) bool { return d.list.n == 1 }},
		{`: "filter ru" tab "max" enter`, "/rule:max", func(d *driver) bool { return d.list.n == 1 }},
		{`: "expl" enter`, "object.spec.replicas = 12", func(d *driver) bool { return d.pane == paneExplain }},
		{`: "4" enter`, "4 of 5", func(d *driver) bool { return d.list.cursor == 3 }},
		{`: "nonsuch" enter`, `no command "nonsuch"`, func(d *driver) bool { return d.bad }},
		{`: "grpah" enter`, "did you mean graph?", func(d *driver) bool { return d.bad }},
		{`: "group colour" enter`, "there are rule, file, unit, object, nothing", func(d *driver) bool { return d.bad }},
		{`: "undo all" enter`, "undo takes nothing after its name", func(d *driver) bool { return d.bad }},
		{`: "help accept" enter`, "accept: accept (w)", func(d *driver) bool { return !d.bad }},
		{`: "help" enter`, "previous section", func(d *driver) bool { return d.mode == modeHelp }},
		{`: "theme light" enter`, "", func(d *driver) bool { return d.mode == modeList }},
		{`: "w" enter`, "nothing is staged", func(d *driver) bool { return !d.bad }},
		{`: backspace`, "", func(d *driver) bool { return d.mode == modeList }},
		{`: "x" esc`, "", func(d *driver) bool { return d.mode == modeList }},
		{`: enter`, "", func(d *driver) bool { return d.mode == modeList }},
		{`: "q" enter`, "", func(d *driver) bool { return d.quit }},
		{`w "r" enter : "q" enter`, "1 decision not written", func(d *driver) bool { return !d.quit }},
		{`w "r" enter : "q!" enter`, "", func(d *driver) bool { return d.quit && d.session.staged.Len() == 0 }},
	} {
		d := newDriver(t, 120, 40, nil)
		d.press(c.keys)
		if got := screen(d.model); !strings.Contains(got, c.want) || !c.then(d) {
			t.Errorf("%s: want %q on\n%s", c.keys, c.want, got)
		}
	}
}

// TestCommandsDescribed holds that each command has a help and completes.
func TestCommandsDescribed(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	for _, c := range allCommands() {
		if c.help == "" || c.action == noAction && c.run == nil {
			t.Errorf("%s does nothing, or says not what", c.name)
		}
		if found := d.offer(c.name); len(found) == 0 || found[0] != c.name {
			t.Errorf("%s completes to %v", c.name, found)
		}
	}
	for short, long := range shortCommands {
		if _, err := commandNamed(long); err != nil {
			t.Errorf("%s: %v", short, err)
		}
	}
}

// TestDefaultKeys holds that no key of the defaults does two things.
func TestDefaultKeys(t *testing.T) {
	t.Parallel()
	of := make(map[string]action)
	for a := noAction + 1; a < numActions; a++ {
		for _, key := range actions[a].keys {
			if err := checkKey(key); err != nil {
				t.Errorf("%s: %v", actions[a].name, err)
			}
			if other := of[key]; other != noAction {
				t.Errorf("%s is %s and %s", key, actions[other].name, actions[a].name)
			}
			of[key] = a
		}
		if actions[a].name == "" || actions[a].help == "" || actions[a].part == "" {
			t.Errorf("action %d has no name, help or part", a)
		}
	}
}

func TestOwnKeys(t *testing.T) {
	t.Parallel()
	keys := Keys{"accept": {"a", "f2"}, "mark-all": {"A"}, "undo": {}}
	rendertest.OK(t, keys.Check([]string{"accept", "mark-all", "undo"}))
	d := newDriver(t, 120, 40, func(_ *fakeHost, o *Options) { o.Keys = keys })
	d.press("w")
	if d.mode != modeList {
		t.Error("the key before still works")
	}
	d.press(`a "r" enter u`)
	d.expect(t, "u does nothing any more", 2, 2, 1)
	if got := screen(d.model); !strings.Contains(got, "a accept") || strings.Contains(got, "u undo") {
		t.Errorf("the footer:\n%s", got)
	}
	d.press("?")
	if got := screen(d.model); !strings.Contains(got, "a f2     accept") || !strings.Contains(got, "A        mark all shown") {
		t.Errorf("the help:\n%s", got)
	}
	for want, k := range map[string]Keys{
		"accept: the key d does remove already; give remove another key, or none by remove: []": {"accept": {"d"}},
		"accept: the key a does undo already":                                                   {"accept": {"a"}, "mark-all": {}, "undo": {"a"}},
		"acept: there is no such action":                                                        {"acept": {"a"}},
		`accept: "hyper+x" is no key`:                                                           {"accept": {"hyper+x"}},
		"accept: ctrl+c always quits":                                                           {"accept": {"ctrl+c"}},
		`accept: "shift+a": write a capital`:                                                    {"accept": {"shift+a"}},
		`accept: " " is no key`:                                                                 {"accept": {" "}},
		`accept: "" is no key`:                                                                  {"accept": {""}},
		"mark: the key f3 does mark-all already":                                                {"mark": {"f3"}, "mark-all": {"f3"}},
	} {
		var names []string
		for _, name := range append(Actions(), "acept") {
			if _, ok := k[name]; ok {
				names = append(names, name)
			}
		}
		if err := k.Check(names); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %s", k, err, want)
		}
	}
}

// TestGraph goes from a result to its unit and back, folds, and shows clusters.
func TestGraph(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 120, 40, nil)
	d.press("T")
	if n := d.graph.node(); !d.inGraph() || n == nil || n.key != "charts/web" {
		t.Fatalf("from a result to %+v", n)
	}
	d.press("h")
	if n := d.graph.node(); n.key != "apps" || len(d.graph.rows) != 4 {
		t.Errorf("folded at %s, %d rows", n.key, len(d.graph.rows))
	}
	if got := screen(d.model); !strings.Contains(got, "2 denied, 2 unknown, 1 warned") {
		t.Errorf("a folded node counts what is below:\n%s", got)
	}
	d.press("enter")
	if d.inGraph() || d.section != sectionAll || d.list.n != 4 {
		t.Errorf("the results of apps: %d\n%s", d.list.n, screen(d.model))
	}
	d.press("t esc")
	if d.inGraph() {
		t.Error("esc stays in the graph")
	}
	d.press(`t w "x" space e y`) // nothing is decided about what is not seen
	if d.mode != modeList || d.session.staged.Len()+d.session.marked+len(d.host.edits) > 0 {
		t.Errorf("mode %d, %d staged", d.mode, d.session.staged.Len())
	}
	d.tell(tea.MouseClickMsg{X: 5, Y: 2, Button: tea.MouseLeft})
	if n := d.graph.node(); n.key != "apps" {
		t.Errorf("a click goes to %s", n.key)
	}
	d.tell(tea.MouseClickMsg{X: 5, Y: 2, Button: tea.MouseLeft})
	if d.inGraph() || !strings.Contains(d.filtered, "unit:=") {
		t.Errorf("a second click filters by %q", d.filtered)
	}
}

// TestGraphShape holds clusters, owners that are missing, and owners in a circle.
func TestGraphShape(t *testing.T) {
	t.Parallel()
	units := []report.Unit{
		{ID: "prod:apps", Cluster: "prod"},
		{ID: "prod:web", Cluster: "prod", Owner: "prod:apps"},
		{ID: "dev:web", Cluster: "dev", Owner: "prod:apps"},
		{ID: "lost", Owner: "gone"},
		{ID: "a", Owner: "b"},
		{ID: "b", Owner: "a"},
		{ID: "self", Owner: "self"},
		{ID: "old", Status: "unreached"},
		{ID: "old/more", Status: "unreached", Owner: "old"},
	}
	g := newGraph()
	g.load(&report.Report{Units: units})
	var got []string
	for _, r := range g.rows {
		got = append(got, strings.Repeat(" ", r.depth)+r.title)
	}
	want := "lost|b| a|self|cluster prod| apps|  web|  web on dev|nothing found here deploys these| old|  old/more"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	if chain := ownersOf(units, "a"); len(chain) != 2 {
		t.Errorf("a circle gives a chain of %d", len(chain))
	}
}
