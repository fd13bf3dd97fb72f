package tui

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// A dialogue is triage line by line, for screen readers and pipes. It draws
// nothing: lists are numbered, and questions are asked one at a time.
type dialogue struct {
	Options
	ctx     context.Context
	host    Host
	in      *bufio.Scanner
	out     *bufio.Writer
	session *session
	section section
	filter  string
	shown   []*entry
	last    acceptance
}

// RunPlain runs the dialogue until the input ends or the user leaves. It
// returns the staged decisions that are not written.
func RunPlain(ctx context.Context, host Host, o Options) (Decisions, error) {
	d := &dialogue{
		Options: o, ctx: ctx, host: host, in: bufio.NewScanner(o.Input), out: bufio.NewWriter(o.Output),
		session: newSession(), filter: o.Filter,
	}
	d.in.Buffer(nil, 1<<20)
	defer d.out.Flush()
	if err := d.evaluate(); err != nil {
		return Decisions{}, err
	}
	d.list()
	d.line("Type ? for what can be done here.")
	for ctx.Err() == nil {
		if line, ok := d.ask("triage> "); !ok || d.command(strings.TrimSpace(line)) {
			break
		}
	}
	return d.session.staged.Decisions, errors.Join(ctx.Err(), d.in.Err())
}

func (d *dialogue) line(format string, args ...any) {
	for l := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintln(d.out, report.Guard(l))
	}
}

// ask asks a question; ok is false if the input has ended.
func (d *dialogue) ask(question string) (answer string, ok bool) {
	d.out.WriteString(question)
	d.out.Flush()
	if !d.in.Scan() {
		d.line("")
		return "", false
	}
	return d.in.Text(), true
}

func (d *dialogue) evaluate() error {
	r, err := d.host.Evaluate(d.ctx, func(Progress) {})
	if err != nil {
		return err
	}
	d.session.applied = nil
	d.session.load(newIndex(r))
	return nil
}

// list shows the section by rule, each result with its number.
func (d *dialogue) list() {
	a := arrange(d.session.entries, spec{section: d.section, filter: parseFilter(d.filter)})
	d.shown = d.shown[:0]
	filtered := ""
	if d.filter != "" {
		filtered = " with " + report.Message(d.filter)
	}
	d.line("%s: %s%s.", d.section.title(&d.session.index), policy.Plural(a.n, "result"), filtered)
	if n := d.session.counts[isUndecided]; n > 0 && d.section == sectionNew {
		d.line("Not in this list: %s in error or undecided (s undecided lists them).", policy.Plural(n, "result"))
	}
	for _, g := range a.groups {
		d.line("%s, %s:", g.name, policy.Plural(len(g.items), "result"))
		for _, e := range g.items {
			d.shown = append(d.shown, e)
			d.line("  %d. %s%s: %s, %s", len(d.shown), e.class, stagedWord(e), report.ObjectName(e.Object), placeWord(e))
		}
	}
}

func stagedWord(e *entry) string {
	switch {
	case e.accepted:
		return ", accepted but not written"
	case e.restored:
		return ", suppression removed but not written"
	}
	return ""
}

func placeWord(e *entry) string {
	if e.file == "" {
		return "no line is known"
	}
	return report.Visible(e.place().String(), maxLine)
}

// plainHelp describes the dialogue's commands.
const plainHelp = `l              list the results
N              show result N: what is wrong, the line, the rule
/WORDS         filter: words, !word, rule: kind: ns: unit: file: sev: is:; / alone clears it
s NAME         section: open (new, with a base), all, suppressed, undecided, passed, proposed
g              what deploys what, with the state of each unit and what is open in it
x N            explain result N with the values of its expressions
o N            the rendered object of N; f N the places of the field at fault
a N,M-K|all    accept results: asks for the reason, the last day, the owner, the scope
d N,M-K        remove the suppressions that accept results
u              undo the last decision, or else the last write; U does it again
diff           what would be written
w              write it
r              evaluate again
q              leave; what is not written is printed`

// command runs a line; it returns true to leave.
func (d *dialogue) command(line string) (leave bool) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case line == "":
	case strings.HasPrefix(line, "/"):
		d.filter = strings.TrimSpace(line[1:])
		d.list()
	case word == "?" || word == "help":
		d.line("%s", plainHelp)
	case word == "q" || word == "quit":
		d.line("Leaving.")
		return true
	case word == "l":
		d.list()
	case word == "s":
		d.toSection(rest)
	case word == "g":
		d.graph()
	case word == "x" || word == "o" || word == "f":
		d.each(rest, func(e *entry) { d.look(word, e) })
	case word == "a":
		d.acceptance(rest)
	case word == "d":
		d.remove(rest)
	case word == "u":
		d.undo()
	case word == "U":
		d.step("Again:", d.session.redo)
	case word == "diff":
		d.propose()
	case word == "w":
		d.write()
	case word == "r":
		d.evaluateAgain()
	default:
		if _, err := strconv.Atoi(word); err != nil {
			d.line("%s is not known here; ? says what is.", report.Name(word))
			return false
		}
		d.each(word, d.show)
	}
	return false
}

func (d *dialogue) say(err error) {
	if err != nil {
		d.line("%s", report.Message(err.Error()))
	}
}

func (d *dialogue) toSection(name string) {
	for s := range numSections {
		words := []string{strings.ToLower(s.title(&d.session.index)), strings.ToLower(sectionNames[s])}
		if s == sectionUndecided {
			words = append(words, "undecided")
		}
		if name != "" && s != sectionGraph && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, strings.ToLower(name)) }) {
			d.section = s
			d.list()
			return
		}
	}
	d.line("There are open or new, all, suppressed, undecided, passed, proposed.")
}

// chosen returns the results of "1,3-5" or "all".
func (d *dialogue) chosen(s string) ([]*entry, error) {
	if s == "all" {
		return d.shown, nil
	}
	var all []*entry
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(from)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 1 || b < a || b > len(d.shown) {
			return nil, fmt.Errorf("%q is no number of the list, which has %d", part, len(d.shown))
		}
		all = append(all, d.shown[a-1:b]...)
	}
	return all, nil
}

func (d *dialogue) each(s string, f func(*entry)) {
	all, err := d.chosen(s)
	d.say(err)
	for _, e := range all {
		f(e)
	}
}

const plainWidth = 100

// show describes a result, with the line and the rule.
func (d *dialogue) show(e *entry) {
	d.line("%s: %s", e.class, report.Message(e.Message))
	d.line("object: %s in %s", report.ObjectName(e.Object), report.Visible(e.Object.Unit, maxLine))
	d.line("place: %s", placeWord(e))
	if lines, err := d.lines(e.file); err == nil && e.line > 0 && e.line <= len(lines) {
		text, _, _ := report.Excerpt(strings.TrimSpace(lines[e.line-1]), masked("…", e.place()), plainWidth)
		d.line("line: %s", text)
	}
	d.pane(d.session.rulePane(e, plainWidth))
}

func (d *dialogue) lines(file string) ([]string, error) {
	if file == "" {
		return nil, errors.New("no file is known")
	}
	return d.host.Lines(d.ctx, file)
}

// graph lists what deploys what.
func (d *dialogue) graph() {
	g := newGraph()
	g.load(d.session.report)
	g.count(d.session.entries)
	for _, r := range g.rows {
		about := strings.TrimPrefix(r.state()+prefixed(", ", r.own.String()), ", ")
		d.line("%s%s%s", strings.Repeat("  ", min(r.depth, 20)), r.title, prefixed(": ", about))
	}
}

func (d *dialogue) look(what string, e *entry) {
	switch what {
	case "f":
		d.pane(d.session.originsPane(e, d.lines, plainWidth))
	case "x":
		text, err := d.host.Explain(d.ctx, e.Result)
		d.say(err)
		d.pane(textPane(text, plainWidth))
	default:
		r, err := d.host.Object(d.ctx, e.Result)
		if err != nil {
			d.say(err)
			return
		}
		d.pane(objectPane(e, r, 0)) // without places
	}
}

func (d *dialogue) pane(p pane) {
	for _, l := range p.lines {
		d.line("%s", strings.TrimRight(l.gutter+l.text, " "))
	}
}

// acceptance asks for the fields of a suppression, and stages it.
func (d *dialogue) acceptance(which string) {
	targets, err := d.chosen(which)
	if err != nil || d.ReadOnly {
		d.say(cmp.Or(err, errReadOnly))
		return
	}
	targets = slices.DeleteFunc(slices.Clone(targets), func(e *entry) bool { return !e.acceptable() })
	if len(targets) == 0 {
		d.line("Nothing to accept there.")
		return
	}
	d.line("Accepting %s. An empty reason leaves it.", policy.Plural(len(targets), "result"))
	a, ok := d.asked()
	if !ok {
		d.line("Nothing was accepted.")
		return
	}
	d.last = a
	n := d.session.stage("accepting "+policy.Plural(len(targets), "result"), Decisions{Add: d.session.accept(targets, a)})
	d.line("Staged %s. diff shows what w would write, u takes it back.", policy.Plural(n, "suppression"))
}

var errReadOnly = errors.New("--readonly: nothing is decided")

// asked asks for reason, day, owner and scope until they are valid.
func (d *dialogue) asked() (a acceptance, ok bool) {
	if a.reason, ok = d.ask("reason: "); !ok || strings.TrimSpace(a.reason) == "" {
		return a, false
	}
	suggested := d.last.expires
	if suggested == "" {
		suggested = d.Today.AddDate(0, 0, 90).Format(time.DateOnly)
	}
	for {
		if a.expires, ok = d.ask("last day, such as 90d [" + suggested + "]: "); !ok {
			return a, false
		}
		if strings.TrimSpace(a.expires) == "" {
			a.expires = suggested
		}
		err := a.check(d.Today)
		if err == nil {
			break
		}
		d.say(err)
	}
	if a.owner, ok = d.ask("owner, may be empty: "); !ok {
		return a, false
	}
	answer, ok := d.ask("scope, 1 this object, 2 this rule in this file, 3 in this unit, 4 everywhere [1]: ")
	if n, err := strconv.Atoi(strings.TrimSpace(answer)); err == nil && n >= 1 && n <= int(numScopes) {
		a.scope = scope(n - 1)
	} else if strings.TrimSpace(answer) != "" {
		d.line("That is no scope; it is this object then.")
	}
	a.owner = strings.TrimSpace(a.owner)
	return a, ok
}

func (d *dialogue) remove(which string) {
	targets, err := d.chosen(which)
	if err != nil || d.ReadOnly {
		d.say(cmp.Or(err, errReadOnly))
		return
	}
	n, where := d.session.unaccept(targets)
	d.line("Staged the removal of %s.", policy.Plural(n, "suppression"))
	if where != "" {
		d.line("%s", where)
	}
}

func (d *dialogue) step(word string, f func() (string, bool)) {
	did, ok := f()
	if !ok {
		d.line("There is nothing to undo or do again.")
		return
	}
	d.line("%s %s; staged now: %s.", word, did, policy.Plural(d.session.staged.Len(), "decision"))
}

// undo takes back the last staged decision, or else the last write.
func (d *dialogue) undo() {
	c := d.session.lastWrite()
	if c == nil {
		d.step("Took back:", d.session.undo)
		return
	}
	switch err := d.host.Write(c.reverse()); {
	case errors.Is(err, ErrChanged):
		d.line("%s was changed since it was written here: it is left as it is.", report.Visible(c.File, maxLine))
		return
	case err != nil:
		d.say(err)
		return
	}
	d.session.unwritten()
	d.line("%s is as it was before the write; U stages its decisions again.", report.Visible(c.File, maxLine))
	d.evaluateAgain()
}

// evaluateAgain evaluates again after a write and shows the results.
func (d *dialogue) evaluateAgain() {
	d.say(d.evaluate())
	d.list()
}

func (d *dialogue) propose() *Change {
	if d.session.staged.Len() == 0 {
		d.line("Nothing is staged.")
		return nil
	}
	c, err := d.host.Propose(d.session.staged.Decisions)
	if err != nil {
		d.say(err)
		return nil
	}
	d.line("To %s:", report.Visible(c.File, maxLine))
	for l := range strings.SplitSeq(strings.TrimRight(c.Diff, "\n"), "\n") {
		d.line("%s", clean(l))
	}
	return c
}

// write shows the diff, asks, and writes.
func (d *dialogue) write() {
	c := d.propose()
	if c == nil {
		return
	}
	if answer, ok := d.ask("write this? [y/N] "); !ok || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
		d.line("Not written; all stays staged.")
		return
	}
	if err := d.host.Write(c); err != nil {
		d.say(err)
		d.line("Not written; all stays staged.")
		return
	}
	d.line("Wrote %s to %s.", policy.Plural(d.session.staged.Len(), "decision"), report.Visible(c.File, maxLine))
	d.session.written(c)
	d.evaluateAgain()
}
