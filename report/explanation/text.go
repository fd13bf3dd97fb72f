package explanation

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A printer writes explanations for people: the rule, whether it matches
// the object, each step of its evaluation, the fields at fault, and the actions
// that follow.
type printer struct {
	report.Options
	out    *bufio.Writer // keeps the first error
	byRule bool          // the explanation at hand is of one rule of Kyverno's own kinds
}

func writeText(w io.Writer, e *Explanations, o report.Options) error {
	p := &printer{Options: o, out: bufio.NewWriter(w)}
	p.explanations(e.Explanations)
	return p.out.Flush()
}

// visible makes one line of text safe to show.
func visible(s string) string {
	return report.Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(s), maxText)
}

// maxText is the most bytes of a text that an explanation shows. Engines
// cut quoted values; this limits everything else.
const maxText = 64 << 10

// line writes a line; each argument is made safe to show.
func (p *printer) line(indent int, format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case painted:
		case string:
			args[i] = visible(a)
		case render.Span:
			args[i] = visible(a.String())
		}
	}
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	fmt.Fprintln(p.out, report.Guard(strings.Repeat("  ", indent)+text))
}

// painted is text that is safe to show and may contain colours.
type painted string

func (p *printer) paint(colour, s string) painted {
	s = visible(s)
	if !p.Color || s == "" {
		return painted(s)
	}
	return painted("\x1b[" + colour + "m" + s + "\x1b[0m")
}

func (p *printer) heading(format string, args ...any) {
	p.line(0, "")
	p.line(0, "%s", p.paint("1", fmt.Sprintf(format, args...)))
}

// block writes text of several lines.
func (p *printer) block(indent int, text string) {
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		p.line(indent, "%s", strings.ReplaceAll(l, "\t", "  "))
	}
}

// explanations writes them all. Rules of one policy that are explained one by
// one share its heading and the object.
func (p *printer) explanations(es []policy.Explanation) {
	for i := range es {
		shared := i > 0 && es[i].Engine == policy.EngineKyverno && es[i-1].Engine == es[i].Engine && es[i-1].Origin == es[i].Origin
		if i > 0 && !shared {
			p.line(0, "")
		}
		p.explanation(&es[i], shared)
	}
	p.line(0, "")
}

func (p *printer) explanation(e *policy.Explanation, shared bool) {
	p.byRule = e.Engine == policy.EngineKyverno && e.Matches != ""
	if !shared {
		p.line(0, "%s %s", p.paint("1", visible(e.Engine)+" "+visible(e.Policy)), placeIn(e.Origin))
	}
	p.rules(e)
	if !shared {
		p.subject(e)
	}
	p.match(e)
	p.bindings(e)
	for i := range e.Trials {
		p.trial(&e.Trials[i], len(e.Rules) == 1)
	}
	p.verdict(e)
}

func placeIn(s render.Span) string {
	if s.File == "" {
		return ""
	}
	return "(" + s.String() + ")"
}

func (p *printer) rules(e *policy.Explanation) {
	for _, r := range e.Rules {
		p.heading("rule %s %s", r.Name, placeIn(r.Origin))
		if r.Title != "" && r.Title != strings.TrimSpace(r.Expression) {
			p.line(1, "%s", r.Title)
		}
		if r.Expression != "" {
			p.block(2, r.Expression)
		}
		for _, text := range []string{r.Description, r.Help} {
			if text != "" {
				p.block(1, text)
			}
		}
		if r.URL != "" {
			p.line(1, "see %s", r.URL)
		}
	}
}

func (p *printer) subject(e *policy.Explanation) {
	k := e.Object
	p.heading("object %s %s", strings.TrimPrefix(k.Namespace+"/"+k.Name, "/"), firstPlace(e.Origins))
	p.line(1, "%s %s in unit %s", k.APIVersion, k.Kind, k.Unit)
	if e.Pods {
		p.line(1, "this is about what its controller creates")
	}
	a := e.Request
	if a.Resource == "" {
		return
	}
	in := ""
	if a.Namespace != "" {
		in = " in namespace " + a.Namespace
	}
	p.line(1, "asked for: %s of %s in %s%s", string(e.Operation), a.Resource, strings.TrimPrefix(a.Group+"/"+a.Version, "/"), in)
	groups := ""
	if len(a.Groups) > 0 {
		groups = " (" + strings.Join(a.Groups, ", ") + ")"
	}
	p.line(1, "by %s%s", cmp.Or(a.User, "an unknown user: set it with --as"), groups)
	for _, n := range e.Notes {
		p.line(1, "note: %s", n)
	}
}

// firstPlace returns the first place of a list, in brackets.
func firstPlace(origins []render.Origin) string {
	if len(origins) == 0 {
		return ""
	}
	return placeIn(origins[0].Span)
}

func (p *printer) answer(a policy.Answer) painted {
	switch a {
	case policy.Yes:
		return p.paint("32", fmt.Sprintf("%-7s", a))
	case policy.No:
		return p.paint("31", fmt.Sprintf("%-7s", a))
	default:
		return p.paint("33", fmt.Sprintf("%-7s", a))
	}
}

func (p *printer) match(e *policy.Explanation) {
	if e.Matches == "" {
		return
	}
	p.heading("does the %s match? %s", p.word("policy", "rule"), e.Matches)
	p.checks(1, e.Match)
	if e.Matches == policy.No {
		p.line(1, "so it does not apply to the object, and nothing is evaluated")
	}
}

// word returns the term for something: one for policies in general, another for
// Kyverno's rules.
func (p *printer) word(ofPolicy, ofRule string) string {
	if p.byRule {
		return ofRule
	}
	return ofPolicy
}

func (p *printer) checks(indent int, checks []policy.Check) {
	for _, c := range checks {
		p.placed(indent, p.answer(c.Answer)+" ", c.Name+": "+c.Text, c.Origin)
		if c.Why != "" {
			p.line(indent+4, "%s", c.Why)
		}
	}
}

func (p *printer) bindings(e *policy.Explanation) {
	switch {
	case e.Matches == "" || e.Matches == policy.No:
		return
	case p.byRule && len(e.Bindings) > 0:
		p.heading("what follows when it fails? %s", followsBy(e))
	case !bound(e.Engine):
		return
	default:
		p.heading("is it enforced? %s", enforced(e))
	}
	for i := range e.Bindings {
		b := &e.Bindings[i]
		name := p.word("binding ", "") + b.Name
		if b.Name == "" {
			name = "no binding is there: checked as if there were one"
		}
		p.line(1, "%s %s: %s %s", p.answer(b.Matches), name, strings.Join(b.Actions, ", "), placeIn(b.Origin))
		p.checks(3, b.Match)
		for _, k := range b.Params {
			p.line(5, "parameter %s", keyText(k))
		}
		if b.Problem != "" {
			p.line(5, "%s", b.Problem)
		}
	}
}

// followsBy returns the text of the setting that applies.
func followsBy(e *policy.Explanation) string {
	for _, b := range e.Bindings {
		if b.Matches == policy.Yes {
			return strings.Join(b.Actions, ", ")
		}
	}
	return "unknown"
}

// bound reports whether policies of an engine are enforced by bindings.
func bound(engine string) bool {
	return engine == policy.EngineAdmission || engine == policy.EngineMutation
}

func enforced(e *policy.Explanation) string {
	switch {
	case len(e.Bindings) == 0:
		return "no: no binding names the policy"
	case slices.ContainsFunc(e.Bindings, func(b policy.Bound) bool { return b.Matches == policy.Yes }):
		return "yes"
	case slices.ContainsFunc(e.Bindings, func(b policy.Bound) bool { return b.Matches == policy.Undecided }):
		return "unknown"
	default:
		return "no: no binding matches"
	}
}

func keyText(k render.Key) string {
	return k.Kind + " " + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/")
}

// trial writes an evaluation with one parameter. If there is only one rule, it writes all parts
// even if they hold.
func (p *printer) trial(t *policy.Trial, only bool) {
	if t.Param != nil {
		p.heading("with %s %s", keyText(*t.Param), firstPlace(t.ParamOrigin))
	}
	if t.As != "" {
		p.heading("as %s", t.As)
	}
	if t.Problem != "" {
		if p.byRule {
			p.heading("the rule is not run")
		}
		p.line(1, "%s", t.Problem)
		return
	}
	if len(t.Conditions) > 0 {
		p.heading("%s%s", p.word("match conditions", "preconditions and exceptions"), spent(t.ConditionsCost))
		for i := range t.Conditions {
			p.evaluation(&t.Conditions[i], p.byRule || t.Conditions[i].Value != "true")
		}
	}
	if len(t.Variables) > 0 {
		p.heading("%s", p.word("variables", "context"))
		for i := range t.Variables {
			p.variable(&t.Variables[i])
		}
	}
	if len(t.Validations) > 0 {
		p.heading("%s%s", p.word("validations", does(t.Validations)), spent(t.ValidationsCost))
		for i := range t.Validations {
			p.evaluation(&t.Validations[i], only || t.Validations[i].Value != "true")
		}
	}
}

// does names the kind of a Kyverno rule.
func does(all []policy.Evaluation) string {
	if strings.HasPrefix(all[0].Name, "mutate") || strings.HasPrefix(all[0].Name, "generate") {
		return "what it does"
	}
	return "checks"
}

// spent formats the cost of several expressions, if it is counted.
func spent(c policy.Cost) string {
	if c.Limit == 0 {
		return ""
	}
	return ", cost " + c.String()
}

func (p *printer) variable(e *policy.Evaluation) {
	if e.NotRun != "" {
		p.line(1, "%s: %s %s", e.Name, e.NotRun, placeIn(e.Origin))
		return
	}
	p.line(1, "%s = %s %s", e.Name, outcomeText(e), placeIn(e.Origin))
	if e.Expression != "" {
		p.block(4, e.Expression)
	}
	p.parts(e.Parts)
}

// outcomeText describes the outcome of an evaluation.
func outcomeText(e *policy.Evaluation) string {
	switch {
	case e.NotRun != "":
		return "not run: " + e.NotRun
	case e.Unknown != "":
		return "unknown: " + e.Unknown
	case e.Error != "":
		return "error: " + e.Error
	default:
		return e.Value
	}
}

func (p *printer) evaluation(e *policy.Evaluation, parts bool) {
	colour := "31"
	if e.Value == "true" {
		colour = "32"
	}
	p.line(1, "%s: %s%s %s", e.Name, p.paint(colour, outcomeText(e)), costOf(e), placeIn(e.Origin))
	if e.NotRun != "" {
		return
	}
	if len(e.Parts) == 0 || !parts && !p.Verbose {
		if e.Expression != "" {
			p.block(4, e.Expression)
		}
	} else {
		p.parts(e.Parts)
	}
	p.culprits(e)
	if e.Message != nil {
		p.line(2, "messageExpression: %s%s %s", outcomeText(e.Message), costOf(e.Message), placeIn(e.Message.Origin))
	}
}

// costOf returns the cost of an evaluation, if it was counted.
func costOf(e *policy.Evaluation) string {
	if e.NotRun != "" || e.Cost == 0 {
		return ""
	}
	return fmt.Sprintf(", cost %d", e.Cost)
}

// parts writes sub-expressions below the expression that they are part of.
func (p *printer) parts(parts []policy.Part) {
	loop := ""
	for _, s := range parts {
		if s.Loop != loop && s.Loop != "" {
			p.line(3+min(s.Depth, 20), "for %s", s.Loop)
		}
		loop = s.Loop
		p.placed(3+min(s.Depth, 20), "", s.Text+"  =>  "+s.Value, s.Origin)
	}
	if len(parts) == 100 {
		p.line(3, "… and more")
	}
}

// placed writes a line with a place. Kyverno's rules have long names, so their
// place moves to the next line if both do not fit a terminal.
func (p *printer) placed(indent int, head painted, text string, at render.Span) {
	hang, width := 2, 2*indent+utf8.RuneCountInString(visible(text)+" "+placeIn(at))
	if head != "" {
		hang, width = 4, width+len("unknown ")
	}
	if !p.byRule || at.File == "" || width <= 80 {
		p.line(indent, "%s%s %s", head, text, placeIn(at))
		return
	}
	p.line(indent, "%s%s", head, text)
	p.line(indent+hang, "%s", placeIn(at))
}

func (p *printer) culprits(e *policy.Evaluation) {
	if e.Summary != "" {
		p.line(2, "because %s", e.Summary)
	}
	for _, c := range e.Culprits {
		state := "is " + c.Value
		if c.Missing {
			state = "is missing"
		}
		in := ""
		if c.Element != "" {
			in = ", in " + c.Element
		}
		p.line(2, "%s %s %s%s", p.paint("1", c.Root), cmp.Or(c.Pointer, "(as a whole)"), state, in)
		p.origins(4, c.Origins)
	}
	switch {
	case e.More > 0:
		p.line(2, "and %d more fields", e.More)
	case e.Incomplete:
		p.line(2, "and maybe more: there was too much to look at")
	}
}

func (p *printer) origins(indent int, origins []render.Origin) {
	for _, o := range origins {
		p.line(indent, "%s (%s)", o.Span, string(o.Role))
	}
}

func (p *printer) verdict(e *policy.Explanation) {
	if len(e.Results) == 0 {
		p.heading("verdict: nothing")
		switch {
		case e.Matches == policy.No, p.byRule:
		case e.Matches == policy.Yes && len(e.Bindings) > 0:
			p.line(1, "no binding of the policy matches, or all its rules are about something else")
		case e.Matches == "":
			p.line(1, "the rule is not about this object")
		}
		return
	}
	for i := range e.Results {
		r := &e.Results[i]
		p.heading("verdict of %s: %s%s", r.Rule, r.Outcome, follows(r))
		if s := r.Suppression; s != nil {
			p.line(1, "suppressed until %s: %s", s.Expires, s.Reason)
		}
		if r.Message != "" {
			p.block(1, r.Message)
		}
		if r.Reason != "" {
			p.line(1, "reason: %s", r.Reason)
		}
		if r.Outcome == policy.Error && e.FailurePolicy != "" {
			p.line(1, "failurePolicy: %s", e.FailurePolicy)
		}
		if r.Outcome == policy.Fail {
			p.consequences(e)
		}
		if len(e.Trials) == 0 && r.Outcome != policy.Pass {
			p.fields(r)
		}
		for _, a := range r.Assumed {
			p.line(1, "assumed: %s", a)
		}
		if r.Hint != "" {
			p.line(1, "help: %s", r.Hint)
		}
	}
}

// consequences writes the action of each binding.
func (p *printer) consequences(e *policy.Explanation) {
	for _, b := range e.Bindings {
		if b.Matches == policy.Yes && b.Name != "" && b.Problem == "" {
			p.line(1, "by %s%s: %s", p.word("binding ", ""), b.Name, strings.Join(b.Actions, ", "))
		}
	}
}

// follows returns the action of the result, and how it compares with the base.
func follows(r *policy.Result) string {
	if r.Outcome == policy.Pass || r.Outcome == policy.Skip {
		return ""
	}
	text := ", action " + string(r.Action)
	if r.Baseline != "" {
		text += ", " + strings.ReplaceAll(string(r.Baseline), "already-failing", "already failing at the base")
	}
	return text
}

func (p *printer) fields(r *policy.Result) {
	for _, f := range r.Fields {
		p.line(2, "%s", cmp.Or(f, "(as a whole)"))
	}
	p.origins(4, r.Origins)
}
