package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/html"

	"github.com/preadmit/preadmit/policy"
)

// checks read what a format wrote as its readers do, and say what is wrong.
var checks = map[string]func(*Report, []byte, Options) error{
	"text":         checkText,
	"concise":      checkConcise,
	"json":         func(_ *Report, out []byte, _ Options) error { return validJSON(out) },
	"sarif":        checkLog,
	"markdown":     checkMarkdown,
	"github":       checkCommands,
	"junit":        checkJUnit,
	"gitlab":       checkQuality,
	"html":         checkPage,
	"policyreport": checkClusterReports,
}

func TestEveryFormatHasCheck(t *testing.T) {
	t.Parallel()
	for _, f := range Formats {
		if checks[f.Name] == nil {
			t.Errorf("nothing checks %s", f.Name)
		}
	}
	for _, g := range goldens {
		r := g.of(t)
		if err := checks[g.format](r, write(t, g.format, r, g.options), g.options); err != nil {
			t.Errorf("%s: %v", g.file, err)
		}
	}
}

func validJSON(out []byte) error {
	if !json.Valid(out) {
		return errors.New("it is not JSON")
	}
	return nil
}

// checkConcise holds that each line is a finding.
func checkConcise(_ *Report, out []byte, o Options) error {
	for line := range strings.Lines(string(out)) {
		if !conciseLine.MatchString(line) {
			return fmt.Errorf("line is no finding: %.200q", line)
		}
	}
	return checkText(nil, out, o)
}

var conciseLine = regexp.MustCompile(`^(.*: )?(denied|error|unknown|warning|audit|not rendered)(:( .*)?)?\n$`)

func checkText(_ *Report, out []byte, o Options) error {
	if !o.Verbose && len(out) > 4<<20 {
		return fmt.Errorf("it has %d bytes", len(out))
	}
	return nil
}

func checkLog(r *Report, out []byte, _ Options) error {
	var errs []error
	for _, p := range Verify(out, r.Tree) {
		errs = append(errs, fmt.Errorf("%s", p))
	}
	return errors.Join(append(errs, validJSON(out))...)
}

// The lines that the markdown format writes outside of blocks, up to what
// others wrote, and what is dangerous in the rest once its code is taken out.
var (
	ourMarkdown = regexp.MustCompile(`^(## preadmit: |### [A-Z][a-z ,]+ \(\d+\)$|(Deployed: .+ )?Checked: |Change: |\*\*Incomplete|\*\*Nothing was|\*\*Not all is|\*\*\d+ of these|\*\*[a-z]+\*\*: |(  )?- |$)`)
	ourFold     = regexp.MustCompile(`^(  )?(<details><summary>(needed by|what changes|\d+ (more )?(object|unit)s?)</summary>|</details>)$`)
	ourMermaid  = regexp.MustCompile(`^(graph LR|  (n\d+ --> )?n\d+(\["label"\]|\(\["label"\]\)))$`)
	mermaidText = regexp.MustCompile(`"[^"]*"`)
	entity      = regexp.MustCompile(`#\d+;`)
	oursInline  = strings.NewReplacer("<span>$</span>", "", "&#8203;", "\u200b")
	escaped     = regexp.MustCompile(`\\[!-/:-@\[-` + "`" + `{-~]`)
	dangerous   = regexp.MustCompile("[<`$]|\\]\\(|\\]:|!\\[|@[^\u200b]|://[^\u200b]|www[^\u200b]|\\*[^*].*\\*[^*]|_")
)

// checkMarkdown reads the blocks and code spans by CommonMark's rules.
func checkMarkdown(_ *Report, out []byte, _ Options) error {
	if len(out) > MaxMarkdown {
		return fmt.Errorf("it has %d bytes", len(out))
	}
	fence, drawing := "", false
	for i, line := range strings.Split(string(out), "\n") {
		mark := strings.TrimLeft(line, " ")
		ticks := mark[:len(mark)-len(strings.TrimLeft(mark, "`"))]
		switch {
		case drawing && line != fence:
			label := mermaidText.FindString(line)
			signs := entity.ReplaceAllString(strings.Trim(label, `"`), "")
			if !ourMermaid.MatchString(mermaidText.ReplaceAllString(line, `"label"`)) || strings.ContainsAny(signs, "\"#;<>&`$%{}[]|*_~\\!") {
				return fmt.Errorf("line %d is none of Mermaid's that we write: %.200q", i+1, line)
			}
			continue
		case fence != "":
			drawing = false
			if len(line)-len(mark) <= 3 && len(ticks) >= len(fence) && strings.TrimSpace(mark[len(ticks):]) == "" {
				fence = ""
			}
			continue
		case len(ticks) >= 3:
			fence, drawing = ticks, line == "```mermaid"
			continue
		}
		if ourFold.MatchString(line) {
			continue
		}
		if !ourMarkdown.MatchString(line) {
			return fmt.Errorf("line %d is none of ours: %.200q", i+1, line)
		}
		text := escaped.ReplaceAllString(oursInline.Replace(withoutSpans(line)), "")
		text = strings.TrimPrefix(text, "**")
		if bad := dangerous.FindString(text); bad != "" {
			return fmt.Errorf("line %d holds %q: %.200q", i+1, bad, line)
		}
	}
	if fence != "" {
		return errors.New("a block of code has no end")
	}
	return nil
}

// withoutSpans is a line without its code spans. A backtick after a backslash
// opens none.
func withoutSpans(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			b.WriteString(line[i : i+2])
			i += 2
		case line[i] == '`':
			n := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
			end := spanEnd(line[i+n:], n)
			if end < 0 {
				b.WriteString(line[i : i+n])
				i += n
				continue
			}
			b.WriteByte('c')
			i += n + end
		default:
			b.WriteByte(line[i])
			i++
		}
	}
	return b.String()
}

// spanEnd is where the first run of exactly n backticks ends.
func spanEnd(s string, n int) int {
	for i := 0; i < len(s); {
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == n {
			return i + n
		}
		i += max(run, 1)
	}
	return -1
}

// A command is one as GitHub's runner reads it.
type command struct {
	name, data string
	props      map[string]string
}

// commands reads a log as the runner does: lines that begin with "::" after
// blanks, and "##[" anywhere.
func commands(out []byte) ([]command, error) {
	var all []command
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.ContainsAny(line, "\r\x00\x1b") || strings.Contains(line, "##[") {
			return nil, fmt.Errorf("%.200q is a command of the old kind or has controls", line)
		}
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		head, data, ok := strings.Cut(strings.TrimPrefix(line, "::"), "::")
		if !strings.HasPrefix(line, "::") {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("%.200q has no end", line)
		}
		name, rest, _ := strings.Cut(head, " ")
		c := command{name: name, data: uncommand(data), props: make(map[string]string)}
		for _, p := range strings.Split(rest, ",") {
			key, value, _ := strings.Cut(p, "=")
			c.props[key] = uncommand(value)
		}
		all = append(all, c)
	}
	return all, nil
}

func uncommand(s string) string {
	return strings.NewReplacer("%25", "%", "%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",").Replace(s)
}

func checkCommands(_ *Report, out []byte, _ Options) error {
	all, err := commands(out)
	if err != nil {
		return err
	}
	known := []string{"file", "line", "endLine", "col", "endColumn", "title"}
	counts := make(map[string]int)
	for _, c := range all {
		if counts[c.name]++; counts[c.name] > 10 || !slices.Contains([]string{"error", "warning", "notice"}, c.name) {
			return fmt.Errorf("a command too many: %+v", c)
		}
		for key, value := range c.props {
			if bad := unsafeLine("x" + value); bad != "" || !slices.Contains(known, key) {
				return fmt.Errorf("the property %q=%q: %s", key, value, bad)
			}
		}
		for line := range strings.SplitSeq(c.data, "\n") {
			if bad := unsafeLine("x" + line); bad != "" {
				return fmt.Errorf("the message %q: %s", c.data, bad)
			}
		}
		if c.props["title"] == "" || c.data == "" || c.props["line"] != c.props["endLine"] || c.props["file"] == "" && c.props["line"] != "" {
			return fmt.Errorf("it lacks something: %+v", c)
		}
	}
	return nil
}

// The elements of JUnit that are used, as Jenkins' schema has them.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string `xml:"name,attr"`
	Tests      int    `xml:"tests,attr"`
	Failures   int    `xml:"failures,attr"`
	Errors     int    `xml:"errors,attr"`
	Skipped    int    `xml:"skipped,attr"`
	Properties []struct {
		Name  string `xml:"name,attr"`
		Value int    `xml:"value,attr"`
	} `xml:"properties>property"`
	Cases []junitCase `xml:"testcase"`
	Out   string      `xml:"system-out"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure []junitDetail `xml:"failure"`
	Error   []junitDetail `xml:"error"`
	Skipped []junitDetail `xml:"skipped"`
}

type junitDetail struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func readJUnit(out []byte) (*junitSuites, error) {
	d := xml.NewDecoder(bytes.NewReader(out))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if !slices.Contains([]string{"testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped", "system-out"}, tok.Name.Local) {
				return nil, fmt.Errorf("there is an element %s", tok.Name.Local)
			}
		case xml.Comment, xml.Directive:
			return nil, fmt.Errorf("there is a %T", tok)
		}
	}
	all := &junitSuites{}
	err := xml.Unmarshal(out, all)
	return all, err
}

func checkJUnit(_ *Report, out []byte, _ Options) error {
	all, err := readJUnit(out)
	if err != nil {
		return err
	}
	var tests, failures, errs int
	names := make(map[string]bool)
	for _, s := range all.Suites {
		tests, failures, errs = tests+s.Tests, failures+s.Failures, errs+s.Errors
		var f, e, k int
		for _, c := range s.Cases {
			f, e, k = f+len(c.Failure), e+len(c.Error), k+len(c.Skipped)
			if len(c.Failure)+len(c.Error)+len(c.Skipped) != 1 || c.Name == "" || c.Class == "" {
				return fmt.Errorf("a case that is none: %+v", c)
			}
		}
		passed, skipped := s.Properties[0].Value, s.Properties[1].Value
		if s.Out == "" && (f != s.Failures || e != s.Errors || k+skipped != s.Skipped || s.Tests != len(s.Cases)+passed+skipped) {
			return fmt.Errorf("suite %.60q counts %d tests, %d failures, %d errors, %d skipped, and has %d, %d, %d, %d",
				s.Name, s.Tests, s.Failures, s.Errors, s.Skipped, len(s.Cases)+passed+skipped, f, e, k+skipped)
		}
		if names[s.Name] {
			return fmt.Errorf("two suites are called %.60q", s.Name)
		}
		names[s.Name] = true
	}
	if tests != all.Tests || failures != all.Failures || errs != all.Errors {
		return fmt.Errorf("it counts %d, %d, %d, and has %d, %d, %d", all.Tests, all.Failures, all.Errors, tests, failures, errs)
	}
	return nil
}

func readQuality(out []byte) ([]qualityEntry, error) {
	var all []qualityEntry
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	err := d.Decode(&all)
	return all, err
}

func checkQuality(_ *Report, out []byte, _ Options) error {
	all, err := readQuality(out)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, e := range all {
		switch {
		case seen[e.Fingerprint] || len(e.Fingerprint) < 32:
			return fmt.Errorf("the fingerprint %q is there twice or is none", e.Fingerprint)
		case !slices.Contains(qualitySeverities, e.Severity):
			return fmt.Errorf("the severity %q is none", e.Severity)
		case e.Location.Path == "" || strings.HasPrefix(e.Location.Path, "./") || e.Location.Lines.Begin < 1:
			return fmt.Errorf("the place %+v is none", e.Location)
		case e.Description == "" || e.CheckName == "":
			return fmt.Errorf("it lacks something: %+v", e)
		}
		seen[e.Fingerprint] = true
	}
	return nil
}

// What a page may be made of: no element that asks for anything, no attribute
// that acts, no link out.
var pageElements = strings.Fields("html head meta title style body header h1 h2 h3 p strong nav ul li a span form label input main section details summary div pre mark dl dt dd code table thead tbody tr th td script select option")

func checkPage(_ *Report, out []byte, _ Options) error {
	doc, err := html.Parse(bytes.NewReader(out))
	if err != nil {
		return err
	}
	counts := make(map[string]int)
	ids, targets := make(map[string]bool), []string{}
	for n := range doc.Descendants() {
		if n.Type == html.CommentNode || n.Type == html.ElementNode && !slices.Contains(pageElements, n.Data) {
			return fmt.Errorf("there is a %s", n.Data)
		}
		if n.Type == html.ElementNode {
			counts[n.Data]++
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				if ids[a.Val] {
					return fmt.Errorf("two have the id %s", a.Val)
				}
				ids[a.Val] = true
			case "href":
				targets = append(targets, a.Val)
			case "class", "lang", "charset", "http-equiv", "content", "name", "hidden", "for", "role", "type", "autocomplete", "spellcheck", "placeholder", "value", "checked", "open", "scope", "aria-label", "aria-labelledby", "data-unit", "data-rule":
			default:
				return fmt.Errorf("there is the attribute %s=%q", a.Key, a.Val)
			}
		}
	}
	if counts["script"] != 1 || counts["style"] != 1 || counts["title"] != 1 || counts["main"] != 1 || counts["h1"] != 1 {
		return fmt.Errorf("it is made of %v", counts)
	}
	for _, target := range targets {
		if !strings.HasPrefix(target, "#") || !ids[target[1:]] {
			return fmt.Errorf("there is a link to %q", target)
		}
	}
	return nil
}

// A clusterDocument is a PolicyReport as its CustomResourceDefinition has it.
type clusterDocument struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name, Namespace string
		Labels          map[string]string
	} `yaml:"metadata"`
	Summary struct{ Pass, Fail, Warn, Error, Skip int } `yaml:"summary"`
	Results []clusterResult                             `yaml:"results"`
}

type clusterResult struct {
	Result, Source, Policy, Rule, Message, Severity string
	Scored                                          bool
	Resources                                       []struct {
		APIVersion            string `yaml:"apiVersion"`
		Kind, Namespace, Name string
	}
	Properties map[string]string
}

func readClusterReports(out []byte) ([]clusterDocument, error) {
	var all []clusterDocument
	d := yaml.NewDecoder(bytes.NewReader(out))
	d.KnownFields(true)
	for {
		var doc clusterDocument
		err := d.Decode(&doc)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, doc)
	}
}

func checkClusterReports(r *Report, out []byte, _ Options) error {
	all, err := readClusterReports(out)
	if err != nil {
		return err
	}
	total := 0
	names := make(map[string]bool)
	for _, doc := range all {
		kind := "PolicyReport"
		if doc.Metadata.Namespace == "" {
			kind = "ClusterPolicyReport"
		}
		if doc.APIVersion != "wgpolicyk8s.io/v1alpha2" || doc.Kind != kind || !strings.HasPrefix(doc.Metadata.Name, "preadmit") || names[doc.Metadata.Namespace+"/"+doc.Metadata.Name] {
			return fmt.Errorf("a document is %s %s %+v", doc.APIVersion, doc.Kind, doc.Metadata)
		}
		names[doc.Metadata.Namespace+"/"+doc.Metadata.Name] = true
		counts := make(map[string]int)
		for _, x := range doc.Results {
			counts[x.Result]++
			if x.Policy == "" || x.Severity != "" && !slices.Contains(policy.Severities, policy.Severity(x.Severity)) || !slices.Contains(reportResults, x.Result) {
				return fmt.Errorf("a result is %+v", x)
			}
		}
		s := doc.Summary
		if got := [5]int{counts["pass"], counts["fail"], counts["warn"], counts["error"], counts["skip"]}; got != [5]int{s.Pass, s.Fail, s.Warn, s.Error, s.Skip} {
			return fmt.Errorf("it counts %+v and has %v", s, got)
		}
		total += len(doc.Results)
	}
	want := 0
	for _, x := range withUnits(r).Results {
		if x.Baseline != policy.Absent {
			want++
		}
	}
	if total != want {
		return fmt.Errorf("of %d results there are %d", want, total)
	}
	return nil
}
