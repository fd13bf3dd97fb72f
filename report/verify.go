package report

import (
	"compress/gzip"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Problem is an error in a SARIF file, or something that GitHub would refuse or not show.
type Problem struct {
	Pointer string `json:"pointer"` // RFC 6901, into the file
	Message string `json:"message"` // a sentence, safe to show
}

func (p Problem) String() string {
	if at := name(p.Pointer); at != "" {
		return at + ": " + p.Message
	}
	return p.Message
}

// Verify compares a SARIF file, of any tool, with the tree of its paths: whether each
// path is a file of the tree, each region, snippet, fingerprint and link is right, and
// GitHub would accept and show all of it. It returns the problems in the order of the
// file, nil if there are none. With a nil tree it leaves out checks that need one.
//
// Validators of the schema accept files with these problems (docs: GitHub "SARIF support
// for code scanning"; tried with three validators in November 2026).
func Verify(data []byte, tree fs.FS) []Problem {
	v := &verifier{src: &source{tree: tree, files: make(map[string]*file)}}
	root, err := parseNode(data)
	if err != nil {
		v.add(root, "this is not SARIF: %s", err)
		return v.problems
	}
	v.log(root)
	if n := gzipped(data); n > 10<<20 {
		v.add(root, "the file has %d bytes when compressed, and GitHub refuses more than 10 MB", n)
	}
	return v.problems
}

func gzipped(data []byte) int {
	if len(data) < 10<<20 {
		return 0 // can't be too large, so it is not worth compressing
	}
	var g gzipSize
	gz := gzip.NewWriter(&g)
	gz.Write(data)
	gz.Close()
	return g.n
}

// A verifier collects problems.
type verifier struct {
	src      *source
	problems []Problem
	runs     map[string]string // pointers of runs by tool and category
	run      *runFacts
}

// runFacts are the facts about a run that its results are checked against.
type runFacts struct {
	columnKind string            //
	bases      node              // originalUriBaseIds
	rules      map[string][]node // by component: "" is the driver, else its index or name
	notes      []node            // descriptors of notifications
	seen       map[string]string // pointers of results by rule, file and line
}

func (v *verifier) add(n node, format string, args ...any) {
	v.problems = append(v.problems, Problem{n.at, prose(fmt.Sprintf(format, args...))})
}

func (v *verifier) log(root node) {
	if _, ok := root.value.(map[string]any); !ok {
		v.add(root, "this is not SARIF: it is no JSON object")
		return
	}
	if got := root.get("version").text(); got != "2.1.0" {
		v.add(root.get("version"), "the version is %q, and GitHub reads 2.1.0 alone", got)
	}
	if got := root.get("$schema").text(); !strings.Contains(got, "2.1.0") {
		v.add(root.get("$schema"), "$schema is %q, which names no schema of SARIF 2.1.0", got)
	}
	runs := root.get("runs")
	switch n := len(runs.list()); {
	case !runs.isList():
		v.add(runs, "there is no array of runs")
	case n == 0:
		v.add(runs, "there is no run in the file")
	case n > 20:
		v.add(runs, "there are %d runs, and GitHub refuses more than 20", n)
	}
	v.runs = make(map[string]string)
	for _, run := range runs.list() {
		v.runOf(run)
	}
}

func (v *verifier) runOf(run node) {
	v.category(run)
	v.run = &runFacts{
		columnKind: run.get("columnKind").text(),
		bases:      run.get("originalUriBaseIds"),
		rules:      make(map[string][]node),
		notes:      run.get("tool", "driver", "notifications").list(),
		seen:       make(map[string]string),
	}
	if run.get("columnKind").exists() && !slices.Contains([]string{"utf16CodeUnits", "unicodeCodePoints"}, v.run.columnKind) {
		v.add(run.get("columnKind"), "columnKind is neither utf16CodeUnits nor unicodeCodePoints")
	}
	v.components(run.get("tool"))
	v.invocations(run.get("invocations"))
	results := run.get("results")
	switch n := len(results.list()); {
	case !results.isList():
		v.add(results, "there is no array of results, without which GitHub refuses the file; a clean run has an empty one")
	case n > 25000:
		v.add(results, "there are %d results, and GitHub refuses more than 25,000", n)
	case n > maxAlerts:
		v.add(results, "there are %d results, of which GitHub keeps 5,000 of its own choice", n)
	}
	for _, r := range results.list() {
		v.result(r)
	}
}

// category checks that no two runs replace each other: they must differ in the tool or
// the category, which is the id up to its last slash.
func (v *verifier) category(run node) {
	driver, id := run.get("tool", "driver", "name"), run.get("automationDetails", "id")
	if driver.text() == "" {
		v.add(driver, "the tool has no name")
	}
	category := id.text()[:max(strings.LastIndexByte(id.text(), '/'), 0)]
	key := driver.text() + "\x00" + category
	if first, ok := v.runs[key]; ok {
		v.add(id, "this run and %s have the same tool and category %q, so GitHub refuses them or keeps one", first, category)
		return
	}
	v.runs[key] = run.at
}

func (v *verifier) invocations(all node) {
	for _, inv := range all.list() {
		failed := false
		for _, kind := range []string{"toolExecutionNotifications", "toolConfigurationNotifications"} {
			for _, n := range inv.get(kind).list() {
				failed = failed || n.get("level").text() == "error"
				v.notification(n)
			}
		}
		if ok, is := inv.get("executionSuccessful").value.(bool); !is {
			v.add(inv.get("executionSuccessful"), "executionSuccessful is not given")
		} else if !ok && !failed {
			v.add(inv.get("executionSuccessful"), "the run says that it failed, and no notification says why; findings are no failure")
		}
	}
}

func (v *verifier) notification(n node) {
	if d := n.get("descriptor"); d.exists() && len(v.run.notes) > 0 {
		v.reference(d, v.run.notes, "notification")
	}
	if r := n.get("associatedRule"); r.exists() {
		v.reference(r, v.run.rules[""], "rule")
	}
	v.places(n.get("locations"))
}

// reference checks an id and an index that point at a descriptor.
func (v *verifier) reference(ref node, descriptors []node, what string) {
	id := ref.get("id").text()
	i, ok := ref.get("index").number()
	switch {
	case ok && i == -1 || !ok && id == "":
	case ok && (i < 0 || i >= len(descriptors)):
		v.add(ref.get("index"), "there is no %s with the index %d", what, i)
	case ok && id != "" && !sameRule(id, descriptors[i].get("id").text()):
		v.add(ref.get("index"), "the %s with the index %d is %q, not %q", what, i, descriptors[i].get("id").text(), id)
	case !ok && !slices.ContainsFunc(descriptors, func(d node) bool { return sameRule(id, d.get("id").text()) }):
		v.add(ref.get("id"), "there is no %s %q", what, id)
	}
}

// sameRule reports whether a result's rule id equals the descriptor's, or is the id of a sub-rule:
// the descriptor's id with more path segments (SARIF 2.1.0, 3.27.5).
func sameRule(id, descriptor string) bool {
	return id == descriptor || descriptor != "" && strings.HasPrefix(id, descriptor+"/")
}

func (v *verifier) components(tool node) {
	v.run.rules[""] = v.rules(tool.get("driver", "rules"))
	extensions := tool.get("extensions").list()
	if len(extensions) > 100 {
		v.add(tool.get("extensions"), "there are %d extensions, and GitHub refuses more than 100", len(extensions))
	}
	for i, e := range extensions {
		rules := v.rules(e.get("rules"))
		v.run.rules[strconv.Itoa(i)] = rules
		if n := e.get("name").text(); n != "" {
			v.run.rules["name:"+n] = rules
		}
	}
}

func (v *verifier) rules(all node) []node {
	rules := all.list()
	if len(rules) > maxDescriptors {
		v.add(all, "there are %d rules, and GitHub refuses more than 25,000", len(rules))
	}
	seen := make(map[string]bool)
	for _, r := range rules {
		id := r.get("id").text()
		if id == "" {
			v.add(r.get("id"), "the rule has no id")
		} else if seen[id] {
			v.add(r.get("id"), "there are two rules %q", id)
		}
		seen[id] = true
		v.rule(r)
	}
	return rules
}

var (
	precisions = []string{"very-high", "high", "medium", "low"}
	severities = []string{"error", "warning", "recommendation"}
)

func (v *verifier) rule(r node) {
	v.atMost(r.get("shortDescription", "text"), maxDescription)
	v.atMost(r.get("fullDescription", "text"), maxDescription)
	v.atMost(r.get("name"), maxRuleName)
	v.oneOf(r.get("defaultConfiguration", "level"), levels)
	p := r.get("properties")
	if n := len(p.get("tags").list()); n > 20 {
		v.add(p.get("tags"), "the rule has %d tags, and GitHub refuses more than 20", n)
	} else if n > 10 {
		v.add(p.get("tags"), "the rule has %d tags, of which GitHub keeps 10", n)
	}
	v.oneOf(p.get("precision"), precisions)
	v.oneOf(p.get("problem.severity"), severities)
	if s := p.get("security-severity"); s.exists() {
		if f, err := strconv.ParseFloat(s.text(), 64); err != nil || !(f >= 0 && f <= 10) {
			v.add(s, "security-severity is not a string with a number from 0.0 to 10.0, so GitHub refuses the file")
		}
	}
}

func (v *verifier) atMost(n node, limit int) {
	if got := utf8.RuneCountInString(n.text()); got > limit {
		v.add(n, "the text has %d characters, and GitHub takes %d", got, limit)
	}
}

func (v *verifier) oneOf(n node, words []string) {
	if n.exists() && !slices.Contains(words, n.text()) {
		v.add(n, "%q is none of %s", n.text(), strings.Join(words, ", "))
	}
}

func (v *verifier) result(r node) {
	id := v.ruleOf(r)
	v.oneOf(r.get("level"), levels)
	if kind := r.get("kind").text(); kind != "" && kind != "fail" && r.get("level").exists() && r.get("level").text() != "none" {
		v.add(r.get("level"), "a result of the kind %q can't have the level %q", kind, r.get("level").text())
	}
	suppressed := v.suppressed(r)
	v.locations(r)
	v.related(r)
	for _, flow := range r.get("codeFlows").list() {
		for _, thread := range flow.get("threadFlows").list() {
			all := thread.get("locations")
			if n := len(all.list()); n > 10000 {
				v.add(all, "the flow has %d locations, and GitHub refuses more than 10,000", n)
			}
			for _, l := range all.list() {
				v.place(l.get("location"))
			}
		}
	}
	v.fixes(r.get("fixes"))
	v.fingerprint(r)
	v.once(r, id, suppressed)
}

// ruleOf checks the fields in which a result names its rule, and returns the rule's id.
func (v *verifier) ruleOf(r node) string {
	ref := r.get("rule")
	component := ""
	if c := ref.get("toolComponent"); c.exists() {
		if i, ok := c.get("index").number(); ok && i >= 0 {
			component = strconv.Itoa(i)
		} else if n := c.get("name").text(); n != "" && v.run.rules["name:"+n] != nil {
			component = "name:" + n
		}
	}
	id := r.get("ruleId")
	if !id.exists() {
		id = ref.get("id")
	}
	index := r.get("ruleIndex")
	if !index.exists() {
		index = ref.get("index")
	}
	rules := v.run.rules[component]
	i, indexed := index.number()
	indexed = indexed && i != -1
	switch {
	case id.text() == "" && !indexed:
		v.add(r.get("ruleId"), "the result names no rule")
	case indexed && (i < 0 || i >= len(rules)):
		v.add(index, "there is no rule with the index %d", i)
	case indexed && id.text() == "":
		return rules[i].get("id").text()
	case indexed && !sameRule(id.text(), rules[i].get("id").text()):
		v.add(index, "the rule with the index %d is %q, not %q", i, rules[i].get("id").text(), id.text())
	case !indexed && !slices.ContainsFunc(rules, func(d node) bool { return sameRule(id.text(), d.get("id").text()) }):
		v.add(id, "there is no rule %q", id.text())
	}
	return id.text()
}

// suppressed reports whether the result is suppressed. It reports suppressed and absent results as
// problems, since GitHub would open alerts for them.
func (v *verifier) suppressed(r node) bool {
	all := r.get("suppressions")
	accepted := slices.ContainsFunc(all.list(), func(s node) bool {
		status := s.get("status").text()
		return status == "" || status == "accepted"
	})
	if accepted {
		v.add(all, "the result is suppressed, and GitHub would open it as an alert")
	}
	if state := r.get("baselineState"); state.text() == "absent" {
		v.add(state, "the result is gone, and GitHub would open it as an alert")
	}
	return accepted
}

// once checks that a rule has only one result at a line, because GitHub shows only one.
func (v *verifier) once(r node, rule string, suppressed bool) {
	physical := r.get("locations").first().get("physicalLocation")
	line, _ := physical.get("region", "startLine").number()
	key := fmt.Sprintf("%q %q %d %t", rule, physical.get("artifactLocation", "uri").text(), line, suppressed)
	if first, ok := v.run.seen[key]; ok {
		v.add(r, "this result and %s are of one rule at one line, so GitHub shows one of them", first)
		return
	}
	v.run.seen[key] = r.at
}

func (n node) first() node {
	if all := n.list(); len(all) > 0 {
		return all[0]
	}
	return node{at: n.at + "/0"}
}

func (v *verifier) locations(r node) {
	if r.get("message", "text").text() == "" {
		v.add(r.get("message", "text"), "the result has no message.text, without which GitHub refuses the file")
	}
	all := r.get("locations")
	switch n := len(all.list()); {
	case n == 0:
		v.add(all, "the result has no location, without which GitHub refuses the file")
		return
	case n > 1000:
		v.add(all, "the result has %d locations, and GitHub refuses more than 1,000", n)
	}
	if region := all.first().get("physicalLocation", "region"); !region.get("startLine").exists() {
		v.add(region, "the first location has no startLine, so GitHub can't show it")
	}
	v.places(all)
}

// fixes checks the places that fixes replace.
func (v *verifier) fixes(all node) {
	for _, f := range all.list() {
		for _, c := range f.get("artifactChanges").list() {
			if !v.path(c.get("artifactLocation")) {
				continue
			}
			for _, r := range c.get("replacements").list() {
				v.region(r.get("deletedRegion"), v.fileOf(c.get("artifactLocation")))
			}
		}
	}
}

// link is [words](target) in a message (SARIF 2.1.0, 3.11.6).
var link = regexp.MustCompile(`\[(?:[^\[\]\\]|\\.)*\]\(([^)\s]*)\)`)

// related checks that each link has a location, and each related location a link, because GitHub
// shows no others.
func (v *verifier) related(r node) {
	all := r.get("relatedLocations")
	if n := len(all.list()); n > 1000 {
		v.add(all, "the result has %d related locations, and GitHub refuses more than 1,000", n)
	} else if n > 100 {
		v.add(all, "the result has %d related locations, of which GitHub keeps 100", n)
	}
	v.places(all)
	ids := v.ids(r)
	linked := make(map[string]bool)
	for _, form := range []string{"text", "markdown"} {
		message := r.get("message", form)
		for _, m := range link.FindAllStringSubmatch(message.text(), -1) {
			target := m[1]
			linked[target] = linked[target] || form == "text"
			if !ids[target] && !hasScheme(target) {
				v.add(message, "the link %s leads to no location of the result", m[0])
			}
		}
	}
	for _, l := range all.list() {
		if id, ok := l.get("id").number(); !ok || id < 0 {
			v.add(l, "the related location has no id, so nothing can link to it and GitHub does not show it")
		} else if !linked[strconv.Itoa(id)] {
			v.add(l.get("id"), "message.text has no link to the location %d, so GitHub does not show it", id)
		}
	}
}

// ids returns the ids of the result's locations, and reports those that occur twice.
func (v *verifier) ids(r node) map[string]bool {
	ids := make(map[string]bool)
	for _, l := range append(r.get("locations").list(), r.get("relatedLocations").list()...) {
		id, ok := l.get("id").number()
		if !ok || id < 0 {
			continue
		}
		if ids[strconv.Itoa(id)] {
			v.add(l.get("id"), "two locations of the result have the id %d", id)
		}
		ids[strconv.Itoa(id)] = true
	}
	return ids
}

// fingerprint checks the hash of the line, which GitHub recomputes too.
func (v *verifier) fingerprint(r node) {
	print := r.get("partialFingerprints", "primaryLocationLineHash")
	physical := r.get("locations").first().get("physicalLocation")
	f := v.fileOf(physical.get("artifactLocation"))
	if !print.exists() || f == nil {
		return
	}
	line, _ := physical.get("region", "startLine").number()
	if want := f.hash(line); want != "" && print.text() != want {
		v.add(print, "the fingerprint of the line is %s, not %q", want, print.text())
	}
}
