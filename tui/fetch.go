package tui

import (
	"context"
	"errors"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// Objects and explanations take time, so they are requested one after another,
// the one under the cursor first, and a few are kept.

// A fetchKey identifies a request: for the explanation or the object of an
// entry, or for the lines of a file.
type fetchKey struct {
	entry   string
	explain bool
	file    string
}

type fetched struct {
	object *Rendered
	text   string
	lines  []string
	err    error
}

type fetchedMsg struct {
	report *report.Report // the report it belongs to
	key    fetchKey
	fetched
}

type fetches struct {
	kept map[fetchKey]fetched
	old  []fetchKey // the oldest first
	busy bool
}

const maxFetched = 64

func newFetches() fetches { return fetches{kept: make(map[fetchKey]fetched)} }

func (f *fetches) keep(k fetchKey, x fetched) {
	if _, ok := f.kept[k]; !ok {
		f.old = append(f.old, k)
	}
	if f.kept[k] = x; len(f.old) > maxFetched {
		delete(f.kept, f.old[0])
		f.old = f.old[1:]
	}
}

// needs returns the requests that the pane needs.
func (p paneKind) needs(e *entry) []fetchKey {
	switch p {
	case paneObject, paneDiff:
		return []fetchKey{{entry: e.key}}
	case paneExplain:
		return []fetchKey{{entry: e.key, explain: true}}
	case paneRule:
		return nil
	}
	var keys []fetchKey
	for _, o := range append([]render.Origin{report.Place(e.Result)}, e.Origins...) {
		key := fetchKey{file: o.File}
		if o.File != "" && !slices.Contains(keys, key) && len(keys) < maxFetched/2 {
			keys = append(keys, key)
		}
		if p == paneSource {
			break
		}
	}
	return keys
}

// want requests the next item that is missing from the preview.
func (m *model) want() tea.Cmd {
	e := m.selected()
	if e == nil || m.fetched.busy || !m.layout.previews() {
		return nil
	}
	for _, key := range m.pane.needs(e) {
		if _, have := m.fetched.kept[key]; !have {
			m.fetched.busy = true
			return m.fetch(key, e)
		}
	}
	return nil
}

func (m *model) fetch(key fetchKey, e *entry) tea.Cmd {
	of, ctx, host := m.session.report, m.ctx, m.host
	return func() tea.Msg { return fetchedMsg{of, key, get(ctx, host, key, e)} }
}

func get(ctx context.Context, host Host, key fetchKey, e *entry) (f fetched) {
	switch {
	case key.file != "":
		f.lines, f.err = host.Lines(ctx, key.file)
	case key.explain:
		f.text, f.err = host.Explain(ctx, e.Result)
	default:
		f.object, f.err = host.Object(ctx, e.Result)
	}
	return f
}

// lines returns the lines of a requested file.
func (f *fetches) lines(file string) (lines []string, err error) {
	x, ok := f.kept[fetchKey{file: file}]
	if !ok {
		return nil, errNotYet
	}
	return x.lines, x.err
}

var errNotYet = errors.New("…")

func (m *model) fetchedOne(msg fetchedMsg) tea.Cmd {
	m.fetched.busy = false
	if msg.report == m.session.report {
		m.fetched.keep(msg.key, msg.fetched)
		m.built = builtPane{}
	}
	return m.want()
}

// A builtPane is a pane with the data it was built from.
type builtPane struct {
	pane
	of    *entry
	kind  paneKind
	width int
}

// preview returns the pane of the result under the cursor. It builds the pane
// again only if the data has changed.
func (m *model) preview(width int) *pane {
	e := m.selected()
	if b := &m.built; b.of == e && b.kind == m.pane && b.width == width && e != nil {
		return &b.pane
	}
	was := m.built
	m.built = builtPane{of: e, kind: m.pane, width: width}
	if e != nil {
		m.built.pane = m.makePane(e, width)
	}
	if was.of == nil || was.of != e || was.kind != m.pane {
		m.paneTop = -1 // scroll to the fault
	}
	return &m.built.pane
}

func (m *model) makePane(e *entry, width int) pane {
	switch m.pane {
	case paneSource:
		return sourcePane(e, m.fetched.lines, width)
	case paneOrigins:
		return m.session.originsPane(e, m.fetched.lines, width)
	case paneRule:
		return m.session.rulePane(e, width)
	}
	f, ok := m.fetched.kept[m.pane.needs(e)[0]]
	switch {
	case !ok:
		return textPane("…", width)
	case f.err != nil:
		return textPane(f.err.Error(), width)
	case m.pane == paneExplain:
		return textPane(f.text, width)
	case m.pane == paneDiff:
		return diffPane(f.object, width)
	default:
		return objectPane(e, f.object, width)
	}
}
