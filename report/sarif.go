package report

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/internal/sarif"
)

// The SARIF format, for GitHub code scanning first of all. GitHub's behaviour is taken from its
// documentation and from github/codeql-action in November 2026. The consequences are:
//
//   - GitHub identifies an alert by rule, file and line, so there is one result for
//     each of them. Further objects at the line are in the message,
//     occurrenceCount and properties.
//   - GitHub refuses an upload with a result without a location, and never shows a
//     path that is not in the repository. A result whose line is not in the tree
//     is placed at the nearest file that is. If there is none, it becomes a
//     notification.
//   - GitHub shows only results, neither notifications nor a result's kind. So an
//     error of rendering or compiling, or an undecided result, is a result, and a
//     notification for tools that read those. SARIF has the kind "open" with the
//     level "none" for undecided results (3.27.9). GitHub has no such alert, and
//     without a result the line would look clean: it is a warning (a note if the
//     rule only audits) whose message begins with "Not decided".
//   - GitHub would open alerts for suppressed and for fixed results: they are left
//     out.
//   - An upload replaces the one before, so it holds unchanged results. An upload
//     without results closes all alerts, so results is an array even then.
//   - executionSuccessful says that preadmit ran, not that nothing was found.
//   - A link in message.text is the only way to show a related location, and a
//     region of several lines is shown on a pull request only when all of
//     them changed: every location is linked, and every region is one line.
//   - GitHub refuses files with more than 25,000 results, 25,000 rules or 10 MB
//     (compressed), and of more than 5,000 results it keeps some of its own choice.
//     So a file has at most 5,000 results, the worst ones, and a notification with
//     the number of those left out.
const (
	maxAlerts        = 5000
	maxAlertBytes    = 8 << 20 // compressed, of the 10 MB
	maxNotifications = 1000
	maxListed        = 100 // objects in a result's properties
	maxLinked        = 20  // related locations of a result
	maxSARIFMessage  = 2000
)

func writeSARIF(w io.Writer, r *Report, o Options) error {
	results := newList(r)
	s := &sarifRun{src: newSource(r), rules: newRuleIDs(r, results)}
	alerts, omitted := s.results(s.alerts(results))
	s.units(r)
	completeness := ""
	if r.followed() {
		completeness = r.Summary.Completeness()
		s.notifyFirst("deployed", "note", completeness)
	}
	run := sarif.Run{
		Tool:               sarif.Tool{Driver: s.driver(r)},
		AutomationDetails:  sarif.AutomationDetails{ID: cmp.Or(o.Category, "preadmit/")},
		ColumnKind:         "unicodeCodePoints",
		OriginalURIBaseIDs: map[string]sarif.ArtifactBase{srcRoot: {Description: sarif.Text{Text: "The root of the repository."}}},
		Invocations:        []sarif.Invocation{{ExecutionSuccessful: true, Notifications: s.capped()}},
		Results:            alerts,
		Properties:         sarif.RunProperties{Profile: "github", Omitted: omitted, Deployed: completeness, Notes: proses(r.Notes)},
	}
	return encodeSARIF(w, sarif.Log{Schema: sarif.Schema, Version: sarif.Version, Runs: []sarif.Run{run}})
}

func encodeSARIF(w io.Writer, log sarif.Log) error {
	out := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(jsonSafeWriter{out})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(log); err != nil {
		return err
	}
	return out.Flush()
}

// A jsonSafeWriter applies jsonSafe. Each Write must contain a whole document, as those of
// json.Encoder do.
type jsonSafeWriter struct{ io.Writer }

func (j jsonSafeWriter) Write(b []byte) (int, error) {
	if _, err := j.Writer.Write(jsonSafe(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// A sarifRun builds a run.
type sarifRun struct {
	src           *source
	rules         *ruleIDs
	notifications []sarif.Notification
	notRendered   map[string]bool // units that have a notification
}

// An alert is a finding of one rule at one line.
type alert struct {
	*alertOutline
	at      render.Origin // in the tree, if there is one
	exact   bool          // at is the place of the finding, not just the nearest file
	results selection     // the worst first
}

// An alertOutline is the part of an alert that decides whether it is shown. The rest is computed
// for shown alerts only, because there may be very many others.
type alertOutline struct {
	id        string
	file      string
	line      int
	class     class // the worst
	unreached bool  // nothing found in the tree deploys its objects, so it is a note
	open      bool  // one of the results counts
	all       selection
}

// alerts joins the findings that are neither suppressed nor fixed. Those without any
// place in the tree become notifications.
func (s *sarifRun) alerts(results *list) []*alertOutline {
	var all []*alertOutline
	rules, files := make(map[string]uint32), make(map[string]uint32)
	byKey := make(map[lineKey]*alertOutline)
	for n, x := range results.all() {
		c, finding := classOf(x)
		if !finding || x.Suppression != nil || x.Baseline == policy.Absent {
			continue
		}
		id := s.rules.id(x)
		o, _, ok := s.src.locate(x)
		if !ok {
			one := selection{results, []uint32{n}}
			s.notify("no-place", &alert{alertOutline: &alertOutline{id: id, class: c, all: one}, results: one})
			continue
		}
		key := lineKey{numberOf(rules, id), numberOf(files, o.File), max(o.Line, 1)}
		a := byKey[key]
		if a == nil {
			a = &alertOutline{id: id, file: o.File, line: o.Line, class: c, unreached: x.Unreached, all: selection{of: results}}
			byKey[key] = a
			all = append(all, a)
		}
		a.add(n, c, x)
	}
	s.worstFirst(all)
	return all
}

// add adds a result. If some results are of deployed units, only those decide the class.
func (a *alertOutline) add(number uint32, c class, x *policy.Result) {
	switch {
	case a.unreached == x.Unreached:
		a.class = min(a.class, c)
	case a.unreached:
		a.class, a.unreached = c, false
	}
	a.open = a.open || open(x)
	a.all.add(number)
}

// alert returns the whole alert.
func (s *sarifRun) alert(o *alertOutline) *alert {
	a := &alert{alertOutline: o, results: o.worst()}
	a.at, a.exact, _ = s.src.locate(o.all.at(0))
	return a
}

// worst returns the results, the worst first.
func (a *alertOutline) worst() selection {
	if a.all.len() == 1 {
		return a.all
	}
	var ranked [2 * numClasses][]uint32
	for n, x := range a.all.all() {
		rank := mustClass(x)
		if x.Unreached {
			rank += numClasses
		}
		ranked[rank] = append(ranked[rank], n)
	}
	return selection{a.all.of, slices.Concat(ranked[:]...)}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func mustClass(x *policy.Result) class {
	c, _ := classOf(x)
	return c
}

// worstFirst sorts alerts: by class, new ones first, by severity, and then by rule and place.
func (s *sarifRun) worstFirst(all []*alertOutline) {
	slices.SortStableFunc(all, func(a, b *alertOutline) int {
		return cmp.Or(
			compareBool(a.unreached, b.unreached),
			cmp.Compare(rankOf(a.class), rankOf(b.class)),
			compareBool(b.open, a.open),
			cmp.Compare(severityRank(s.rules.severity(a.id)), severityRank(s.rules.severity(b.id))),
			strings.Compare(a.id, b.id),
			strings.Compare(a.file, b.file),
			cmp.Compare(a.line, b.line),
		)
	})
}

// results returns the results for as many alerts as GitHub accepts, and the number of alerts left
// out.
func (s *sarifRun) results(alerts []*alertOutline) ([]sarif.Result, int) {
	results := []sarif.Result{}
	s.trimRules(alerts[:min(maxAlerts, len(alerts))])
	size := newGzipSize()
	for _, o := range alerts {
		if o.class == broken || o.class == undecided {
			a := s.alert(o)
			s.notify(descriptorOf(a.results.at(0)), a)
		}
		if len(results) == maxAlerts || size.bytes() > maxAlertBytes {
			continue
		}
		result := s.result(s.alert(o))
		results = append(results, result)
		size.add(result)
	}
	omitted := len(alerts) - len(results)
	if omitted > 0 {
		s.notifyText("omitted", "warning", fmt.Sprintf(
			"%d of %d results are in this file, the worst first; %d are left out, since GitHub takes no more. The JSON report has them all.",
			len(results), len(alerts), omitted))
	}
	return results, omitted
}

// trimRules removes rules that none of the alerts needs if there are more than GitHub accepts.
func (s *sarifRun) trimRules(alerts []*alertOutline) {
	used := make(map[string]bool)
	for _, a := range alerts {
		used[a.id] = true
	}
	if n := s.rules.trim(used); n > 0 {
		s.notifyText("omitted", "warning", "left out of the list of rules: "+policy.Plural(n, "rule")+" that found nothing")
	}
}

func (s *sarifRun) result(a *alert) sarif.Result {
	x := a.results.at(0)
	res := sarif.Result{
		RuleID: a.id, RuleIndex: s.rules.index[a.id], Level: s.level(a),
		OccurrenceCount: a.results.len(),
		Locations:       []sarif.Location{s.src.location(a.at, x.Object)},
		Properties:      s.properties(a),
	}
	res.RelatedLocations, res.Message.Text = s.message(a)
	res.CodeFlows, res.Fixes = s.flow(x), s.fixes(a)
	res.PartialFingerprints = s.fingerprints(a)
	return res
}

func (s *sarifRun) level(a *alert) string {
	if a.unreached {
		return "note"
	} else if x := a.results.at(0); x.Undecided() {
		return actionLevel(x.Action, levelOf(a.class))
	}
	return levelOf(a.class)
}

func (s *sarifRun) properties(a *alert) sarif.ResultProperties {
	keys := objects(a.results)
	p := sarif.ResultProperties{Outcome: string(a.results.at(0).Outcome), Objects: []string{}, ObjectCount: len(keys)}
	for _, k := range keys[:min(maxListed, len(keys))] {
		p.Objects = append(p.Objects, full(k)+inUnit(k.Unit))
	}
	for _, f := range a.results.at(0).Fields[:min(maxListed, len(a.results.at(0).Fields))] {
		p.Fields = append(p.Fields, visible(f, maxMessage))
	}
	p.Base = refused(a.results)
	p.Assumed = proses(assumptions(a.results, maxListed))
	return p
}

// fingerprints returns two fingerprints: GitHub's hash of the line, which GitHub recomputes and
// compares, and our own, which does not change if the line does.
func (s *sarifRun) fingerprints(a *alert) map[string]string {
	prints := map[string]string{}
	if f := s.src.file(a.at.File); f != nil {
		if h := f.hash(a.at.Line); h != "" {
			prints["primaryLocationLineHash"] = h
		}
	}
	if fp := a.results.at(0).Fingerprint; fp != "" {
		prints["preadmit/v1"] = name(fp)
	}
	return prints
}

// flow returns the places that made the field, in the order in which they take effect. It returns
// nil for fewer than two places.
func (s *sarifRun) flow(x *policy.Result) []sarif.CodeFlow {
	order := []render.Role{render.Reference, render.Value, render.Generated, render.Manifest, render.Template, render.Patch}
	var steps []sarif.FlowLocation
	seen := make(map[line]bool)
	for _, role := range order {
		for _, o := range x.Origins {
			o, ok := s.src.within(o)
			key := line{o.File, o.Line}
			if !ok || o.Role != role || seen[key] || len(steps) == maxLinked {
				continue
			}
			seen[key] = true
			l := s.src.location(o, x.Object)
			l.Message = &sarif.Text{Text: cmp.Or(primaryLabel(role), "written here")}
			steps = append(steps, sarif.FlowLocation{Location: l})
		}
	}
	if len(steps) < 2 {
		return nil
	}
	return []sarif.CodeFlow{{ThreadFlows: []sarif.ThreadFlow{{Locations: steps}}}}
}

// fixes returns the fix that all results of an alert have.
func (s *sarifRun) fixes(a *alert) []sarif.Fix {
	x := a.results.at(0).Fix
	if x == nil {
		return nil
	}
	for i := range a.results.len() {
		if !reflect.DeepEqual(a.results.at(i).Fix, x) {
			return nil
		}
	}
	f := sarif.Fix{Description: sarif.Text{Text: prose(x.Text)}}
	for _, e := range x.Edits {
		o, ok := s.src.within(render.Origin{Span: e.Span})
		if !ok || o.Line < 1 || o.Column < 1 || o.EndLine < o.Line || o.EndColumn < 1 || o.EndLine == o.Line && o.EndColumn < o.Column {
			return nil
		}
		file := sarif.ArtifactLocation{URI: uri(o.File), URIBaseID: srcRoot}
		if n := len(f.Changes); n == 0 || f.Changes[n-1].Artifact != file {
			f.Changes = append(f.Changes, sarif.ArtifactChange{Artifact: file})
		}
		c := &f.Changes[len(f.Changes)-1]
		c.Replacements = append(c.Replacements, sarif.Replacement{
			Deleted:  sarif.Region{StartLine: o.Line, StartColumn: o.Column, EndLine: o.EndLine, EndColumn: o.EndColumn},
			Inserted: sarif.Text{Text: e.Text},
		})
	}
	if len(f.Changes) == 0 {
		return nil
	}
	return []sarif.Fix{f}
}

// A gzipSize measures the compressed size of the data written to it.
type gzipSize struct {
	n  int
	gz *gzip.Writer
}

func newGzipSize() *gzipSize {
	g := &gzipSize{}
	g.gz, _ = gzip.NewWriterLevel(g, gzip.BestSpeed) // the level is a valid one
	return g
}

func (g *gzipSize) Write(b []byte) (int, error) {
	g.n += len(b)
	return len(b), nil
}

func (g *gzipSize) bytes() int { return g.n }

func (g *gzipSize) add(v any) {
	json.NewEncoder(g.gz).Encode(v) // writes to a counter: no error
}
