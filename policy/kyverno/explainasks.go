package kyverno

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/conditions"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/render"
)

// asks tells what the rule asks of the object, or why it does not.
func (b *account) asks(exempt string) []policy.Evaluation {
	rule := b.program.rule
	var all []policy.Evaluation
	switch {
	case rule.Mutate != nil:
		all = b.mutation()
	case rule.Generate != nil:
		all = b.generation()
	case rule.Validate == nil:
		all = b.verification()
	case rule.Validate.PodSecurity != nil:
		all = b.podSecurity()
	case rule.Validate.Manifests:
		all = []policy.Evaluation{b.described("validate.manifests", rule.Pointer+"/validate/manifests", "")}
		if exempt == "" {
			return nil
		}
	case rule.Validate.CEL != nil:
		all = []policy.Evaluation{b.described("validate.cel", rule.Pointer+"/validate/cel", "")}
		if exempt == "" {
			exempt = "the object is deleted, and Kyverno leaves these out then"
		}
	default:
		all = b.clause()
	}
	if exempt != "" {
		return notRun(all, exempt)
	}
	return all
}

// name is a pointer below the rule, as people write it.
func (b *account) name(pointer string) string {
	return dotted(strings.TrimPrefix(pointer, b.program.rule.Pointer))
}

// at is where a clause is written: validate, or an entry of its foreach.
func (b *account) at(c *clause) string {
	if c == b.program.clause {
		return b.program.rule.Pointer + "/validate"
	}
	return c.pointer
}

// clause tells deny, patterns or foreach of the rule.
func (b *account) clause() []policy.Evaluation {
	c := b.program.clause
	var all []policy.Evaluation
	switch {
	case c.denies:
		all = append(all, b.deny(c))
	case c.pattern != nil:
		all = append(all, b.pattern(c, 0, "/pattern", b.program.rule.Validate.Pattern))
	case c.anyPattern != nil:
		for i := range c.anyPattern {
			all = append(all, b.pattern(c, i, "/anyPattern/"+itoa(i), b.program.rule.Validate.AnyPattern[i]))
		}
	default:
		for _, f := range b.program.rule.Validate.Foreach {
			all = append(all, b.foreach(f.Pointer, f.List))
		}
	}
	return all
}

// deny tells conditions that deny where they hold.
func (b *account) deny(c *clause) policy.Evaluation {
	e := b.described("validate.deny", b.at(c)+"/deny", "")
	if c.deny == nil {
		e.Value, e.Expression, e.Summary = "false", "deny: {}", "it denies whatever it matches"
		return e
	}
	n := b.block(c.deny)
	if n == nil {
		e.NotRun = "it was not come to"
		return e
	}
	if n.err != nil {
		e.Error, e.Unknown = b.broken(n.err)
	} else {
		e.Value = fmt.Sprint(!n.held)
	}
	parts, holds := b.denying(n, b.at(c)+"/deny/", 0, "")
	e.Parts = cutParts(parts)
	if n.held {
		e.Summary = holds + ", which denies it"
		e.Culprits = b.culprits(b.failed(), "")
	}
	return e
}

// denying are the parts of a deny block, and which of its conditions hold.
func (b *account) denying(n *tracedBlock, base string, depth int, loop string) (parts []policy.Part, summary string) {
	var holds []string
	n.each(func(c *conditions.Condition, t *tracedCondition) {
		name := strings.TrimPrefix(strings.TrimPrefix(c.Pointer, base), "conditions/")
		name = dotted("/" + strings.Replace(name, "deny/conditions/", "deny/", 1))
		if t == nil || len(parts) >= maxParts {
			return
		}
		parts = append(parts, b.compared(n, t, depth, loop, name+": ")...)
		if t.err == nil && conditions.Compare(c.Operator, t.key, t.value) {
			holds = append(holds, name)
		}
	})
	switch len(holds) {
	case 0:
		return parts, "all of nothing holds"
	case 1:
		return parts, holds[0] + " holds"
	default:
		return parts, strings.Join(holds[:min(len(holds), 5)], ", ") + " hold"
	}
}

// failed are the fields that the rule names.
func (b *account) failed() []string {
	var fields []string
	for i := range b.responses {
		fields = append(fields, b.responses[i].Fields...)
	}
	return fields
}

// pattern tells a pattern, or one of several, on the whole object.
func (b *account) pattern(c *clause, i int, at string, written any) policy.Evaluation {
	e := b.described(b.name(b.at(c)+at), b.at(c)+at, strings.TrimSpace(yamlText(written, maxExpression)))
	n := b.matched(b.trace.whole, c, i)
	switch {
	case n == nil && b.review.object == nil:
		e.NotRun = "nothing is left of an object that is deleted"
		return e
	case n == nil:
		e.NotRun = "those before it decide"
		return e
	}
	e.Parts = cutParts(b.steps(n, 0, ""))
	failed := b.step(n, n.failing())
	switch n.verdict.Status {
	case pattern.Pass:
		e.Value = "true"
		return e
	case pattern.Skip:
		e.Value, e.Summary = "skipped", b.because(n, failed)
		return e
	case pattern.Error:
		e.Value = "error"
		e.Error, _ = b.broken(fmt.Errorf("%s", n.verdict.Err))
	default:
		e.Value = "false"
	}
	e.Summary = b.because(n, failed)
	e.Culprits = b.culprits([]string{n.verdict.Pointer}, failed.Text)
	return e
}

// because says in a line what of a pattern does not hold.
func (b *account) because(n *tracedMatch, failed policy.Part) string {
	if failed.Text == "" {
		return ""
	}
	text := failed.Text + " does not hold"
	if failed.Loop != "" {
		text += " for " + failed.Loop
	}
	return text
}

// matched is what was noted of a pattern in an element.
func (b *account) matched(in *tracedElement, c *clause, i int) *tracedMatch {
	for _, n := range in.notes {
		if n, ok := n.(*tracedMatch); ok && n.clause == c && n.index == i {
			return n
		}
	}
	return nil
}

// failing is the step that the verdict hung on: the innermost of the last that
// did not hold.
func (n *tracedMatch) failing() *pattern.Step {
	for i := len(n.steps) - 1; i >= 0; i-- {
		if s := &n.steps[i]; s.Status != pattern.Pass && (n.verdict.Status == pattern.Skip || s.Status != pattern.Skip) &&
			(n.verdict.Pointer == "" || strings.HasPrefix(n.verdict.Pointer, s.Pointer) || strings.HasPrefix(s.Pointer, n.verdict.Pointer)) {
			return s
		}
	}
	return nil
}

// steps are the parts of a pattern.
func (b *account) steps(n *tracedMatch, depth int, loop string) []policy.Part {
	var parts []policy.Part
	for i := range n.steps {
		p := b.step(n, &n.steps[i])
		p.Depth += depth
		if p.Loop == "" {
			p.Loop = loop
		}
		parts = append(parts, p)
	}
	return thinned(parts, n.steps)
}

// thinned leaves out steps that hold where there are too many to read.
func thinned(parts []policy.Part, steps []pattern.Step) []policy.Part {
	most := maxParts / 2
	if len(parts) <= most {
		return parts
	}
	var kept []policy.Part
	for i, p := range parts {
		if i < most/2 || i >= len(parts)-most/4 || steps[i].Status == pattern.Fail && len(kept) < most {
			kept = append(kept, p)
		}
	}
	return kept
}

// step is a step of a pattern as a part.
func (b *account) step(n *tracedMatch, s *pattern.Step) policy.Part {
	if s == nil {
		return policy.Part{}
	}
	object, prefix := n.value, ""
	if n.where != nil {
		if at := n.where(); at != "" {
			object, prefix = b.seen(), at
		}
	}
	loop, steps := b.elementIn(object, prefix+s.Pointer)
	keys := render.Path(s.Place)
	if from := steps - len(render.Path(prefix)); from > 0 && from < len(keys) {
		keys = keys[from:]
	}
	text := joined(keys)
	if s.Scalar {
		text += ": " + b.show(s.Wants, !n.static)
	}
	return policy.Part{
		Depth: s.Depth, Loop: loop, Text: text, Value: b.came(s), Origin: b.placeOf(n.clause, n.index, s.Place),
	}
}

// joined are keys of a pattern as people write them.
func joined(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		switch _, key := pattern.ParseKey(k); {
		case digits(k):
			b.WriteString("[" + k + "]")
		case strings.ContainsAny(key, ". "):
			b.WriteString("[" + strconv.Quote(k) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(k)
		}
	}
	return b.String()
}

// placeOf is the line of the policy that a place of a pattern is written on:
// what autogen put around it is not there.
func (b *account) placeOf(c *clause, i int, place string) render.Span {
	at := b.at(c) + "/pattern"
	if c.pattern == nil {
		at = b.at(c) + "/anyPattern/" + itoa(i)
	}
	return span(b.program.policy.Object, at+strings.TrimPrefix(place, b.program.rule.Prefix))
}

// came is what a step of a pattern came to, in words.
func (b *account) came(s *pattern.Step) string {
	it := "it is " + b.show(s.Value, true)
	if _, ok := s.Value.(map[string]any); ok && !s.Scalar {
		it = "it is there"
	}
	switch holds := s.Status == pattern.Pass; {
	case s.Anchor == pattern.Negation && holds:
		return "yes, there is none"
	case s.Anchor == pattern.Negation:
		return "no, " + it
	case !s.Found && holds && s.Anchor != pattern.None:
		return "yes, there is none, and none is needed"
	case s.Anchor == pattern.Existence && holds:
		return "yes, one of them is so"
	case s.Anchor == pattern.Existence && s.Status == pattern.Fail:
		return "no, none of them is so"
	case !s.Found:
		it = "there is none"
	}
	switch {
	case s.Status == pattern.Pass:
		return "yes, " + it
	case s.Anchor == pattern.Global:
		return "no, so the rule is skipped: " + it
	case s.Status == pattern.Skip:
		return "no, so it is skipped: " + it
	default:
		return "no, " + it
	}
}

// foreach tells an entry of foreach with its elements.
func (b *account) foreach(pointer, text string) policy.Evaluation {
	e := b.described(b.name(pointer), pointer, text)
	n := b.list(b.trace.whole, pointer)
	if n == nil {
		e.NotRun = "those before it decide"
		return e
	}
	if n.err != nil {
		e.Error, e.Unknown = b.broken(n.err)
		return e
	}
	applied := false
	for _, el := range n.elements {
		applied = applied || el.verdict != nil && el.verdict.status == StatusPass
	}
	failing := n.failing()
	switch {
	case failing == nil && !applied:
		e.Value, e.Summary = "skipped", "no element is concerned"
	case failing == nil:
		e.Value = "true"
	case failing.verdict.status == StatusError:
		e.Error, _ = b.broken(fmt.Errorf("%s", failing.verdict.message))
	case failing.verdict.status == StatusUndecided:
		e.Unknown = failing.verdict.message
	default:
		e.Value = "false"
		e.Culprits = b.culprits(b.failed(), "")
		e.Summary = b.whyElement(n, failing)
	}
	e.Parts = b.looped(n, 0, "")
	return e
}

// list is what was noted of a foreach in an element.
func (b *account) list(in *tracedElement, pointer string) *tracedList {
	for _, n := range in.notes {
		if n, ok := n.(*tracedList); ok && n.pointer == pointer {
			return n
		}
	}
	return nil
}

// failing is the element that ended the list.
func (n *tracedList) failing() *tracedElement {
	if len(n.elements) == 0 {
		return nil
	}
	last := n.elements[len(n.elements)-1]
	if v := last.verdict; v != nil && v.status != StatusPass && v.status != StatusSkip && !excused(v) {
		return last
	}
	return nil
}

// whyElement says in a line what an element failed on.
func (b *account) whyElement(n *tracedList, el *tracedElement) string {
	where := " for " + b.loop(n, el)
	for _, note := range el.notes {
		switch note := note.(type) {
		case *tracedBlock:
			if c := el.clauseOf(b, note); c != "" && note.held {
				_, why := b.denying(note, c, 0, "")
				return why + where + ", which denies it"
			}
		case *tracedMatch:
			if note.verdict.Status == pattern.Fail || note.verdict.Status == pattern.Error {
				return b.because(note, b.step(note, note.failing()))
			}
		case *tracedList:
			if inner := note.failing(); inner != nil {
				return b.whyElement(note, inner)
			}
		}
	}
	return ""
}

// clauseOf is the pointer that names of a deny block count from; "" for
// preconditions.
func (el *tracedElement) clauseOf(b *account, n *tracedBlock) string {
	for _, g := range n.block.block.Groups {
		for _, c := range slices.Concat(g.Any, g.All) {
			if i := strings.LastIndex(c.Pointer, "/deny/"); i >= 0 && !strings.Contains(c.Pointer[i:], "/preconditions") {
				return c.Pointer[:i+1]
			}
		}
	}
	return ""
}

// loop is what an element is called.
func (b *account) loop(n *tracedList, el *tracedElement) string {
	if el.pointer != "" {
		if name := b.element(b.seen(), el.pointer); name != "" {
			return name
		}
	}
	return fmt.Sprintf("element %d%s", el.index, b.called(el.value))
}

// looped are the parts of a list: how long it is, then what each element came
// to. Where they are too many those before one that fails are left out.
func (b *account) looped(n *tracedList, depth int, loop string) []policy.Part {
	head := policy.Part{Depth: depth, Loop: loop, Text: n.text(), Value: plural(n.count, "element"), Origin: span(b.program.policy.Object, n.pointer+"/list")}
	if n.err != nil {
		failed, unknown := b.broken(n.err)
		head.Value, head.Error = "error: "+failed, true
		if unknown != "" {
			head.Value, head.Error = "unknown: "+unknown, false
		}
		return []policy.Part{head}
	}
	var elements [][]policy.Part
	for _, el := range n.elements {
		elements = append(elements, b.inElement(n, el, depth+1))
	}
	room := maxParts - 2
	if f := n.failing(); f != nil && len(elements) > 0 {
		last := elements[len(elements)-1]
		last = last[max(0, len(last)-room/2):]
		elements[len(elements)-1] = last
		room -= len(last)
	}
	parts, left := []policy.Part{head}, n.dropped
	for i, el := range elements {
		if i < len(elements)-1 || n.failing() == nil {
			if room -= len(el); room < 0 {
				left++
				continue
			}
		} else if left > 0 {
			parts = append(parts, policy.Part{Depth: depth + 1, Text: "…", Value: plural(left, "element") + " that did not fail"})
			left = 0
		}
		parts = append(parts, el...)
	}
	if left > 0 {
		parts = append(parts, policy.Part{Depth: depth + 1, Text: "…", Value: plural(left, "element") + " that did not fail"})
	}
	return parts
}

// text is the list's expression, with its variables.
func (n *tracedList) text() string {
	if n.expr == nil {
		return "list"
	}
	return cel.Shorten(n.expr.String(), maxExpression)
}

// inElement are the parts of an element.
func (b *account) inElement(n *tracedList, el *tracedElement, depth int) []policy.Part {
	var parts []policy.Part
	loop, base := b.loop(n, el), n.pointer+"/"
	for _, note := range el.notes {
		switch note := note.(type) {
		case *tracedEntry:
			parts = append(parts, b.entryPart(note, depth, loop))
		case *tracedBlock:
			inner, _ := b.denying(note, base, depth, loop)
			parts = append(parts, inner...)
		case *tracedMatch:
			parts = append(parts, b.steps(note, depth, loop)...)
		case *tracedList:
			parts = append(parts, b.looped(note, depth, loop)...)
		}
	}
	if el.patched {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "patched", Value: plural(el.changed, "field")})
	}
	if len(parts) == 0 {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "nothing is asked of it"})
	}
	if v := el.verdict; v != nil && (v.status == StatusError || v.status == StatusUndecided) {
		failed, _ := b.broken(fmt.Errorf("%s", v.message))
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: string(v.status), Value: failed, Error: true})
	}
	return parts
}

// entryPart is a context entry of an element.
func (b *account) entryPart(n *tracedEntry, depth int, loop string) policy.Part {
	p := policy.Part{Depth: depth, Loop: loop, Text: "context[" + n.Name + "] " + cel.Shorten(n.source(), maxExpression), Origin: span(b.program.policy.Object, n.Pointer)}
	if n.err == nil {
		p.Value = b.show(n.value, b.entryOpens(n))
		return p
	}
	failed, unknown := b.broken(n.err)
	p.Value, p.Error = "error: "+failed, true
	if unknown != "" {
		p.Value, p.Error = "unknown: "+unknown, false
	}
	return p
}

// podSecurity tells each control that is violated, and what is excluded.
func (b *account) podSecurity() []policy.Evaluation {
	p, at := b.program.rule.Validate.PodSecurity, b.program.rule.Pointer+"/validate/podSecurity"
	e := b.described("validate.podSecurity", at, p.Level+":"+orLatest(p.Version))
	if !b.trace.pod {
		return []policy.Evaluation{e}
	}
	var all []policy.Evaluation
	for _, v := range b.trace.found {
		x := e
		x.Name, x.Value, x.Summary = e.Name+": "+v.Control, "false", v.Reason
		for _, f := range v.Fields {
			if len(x.Culprits) == maxFields {
				x.More++
				continue
			}
			x.Culprits = append(x.Culprits, b.culprits([]string{f.Pointer}, f.Field)...)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		e.Value = "true"
		all = append(all, e)
	}
	all[0].Parts = b.sparedParts(b.trace.spared)
	return all
}

func orLatest(version string) string {
	if version == "" {
		return "latest"
	}
	return version
}

// sparedParts tell what excludes take out.
func (b *account) sparedParts(spared []podsecurity.Violation) []policy.Part {
	var parts []policy.Part
	for _, v := range spared {
		p := policy.Part{Text: v.Control, Value: "excluded, at least in part: " + v.Reason}
		for i, x := range b.program.rule.Validate.PodSecurity.Exclude {
			if x.ControlName == v.Control {
				p.Origin = span(b.program.policy.Object, b.program.rule.Pointer+"/validate/podSecurity/exclude/"+itoa(i))
				break
			}
		}
		parts = append(parts, p)
	}
	return cutParts(parts)
}

// verification tells each entry of verifyImages.
func (b *account) verification() []policy.Evaluation {
	var all []policy.Evaluation
	for _, entry := range b.program.rule.VerifyImages {
		e := b.described(b.name(entry.Pointer), entry.Pointer, strings.Join(entry.ImageReferences, ", "))
		e.Value = "true"
		for _, i := range b.trace.images {
			if i.entry != entry {
				continue
			}
			p := policy.Part{Text: "image " + i.ref, Value: "is not among its imageReferences"}
			if v := i.verdict; v != nil {
				p.Value = string(v.status) + ": " + v.message
				switch v.status {
				case StatusFail:
					e.Value, e.Summary = "false", v.message
					e.Culprits = b.culprits(v.fields, "")
				case StatusUndecided:
					e.Value, e.Unknown = "", v.message
				case StatusError:
					e.Value, e.Error = "", v.message
				}
			}
			e.Parts = append(e.Parts, p)
		}
		if len(e.Parts) == 0 {
			e.NotRun = "no image was held against it"
			e.Value = ""
		}
		e.Parts = cutParts(e.Parts)
		all = append(all, e)
	}
	return all
}

// mutation tells what the rule set, of the object or of its targets.
func (b *account) mutation() []policy.Evaluation {
	at := b.program.rule.Pointer + "/mutate"
	if len(b.program.mutation.targets) > 0 {
		return b.targets(at)
	}
	e := b.described("mutate", at, "")
	for i := range b.responses {
		b.outcome(&e, &b.responses[i])
		if after := b.responses[i].Patched; after != nil {
			for _, c := range changes(b.before, after) {
				e.Parts = append(e.Parts, b.changePart(c, 0, ""))
			}
		}
	}
	all := []policy.Evaluation{e}
	for _, n := range b.trace.whole.notes {
		if n, ok := n.(*tracedList); ok {
			x := b.described(b.name(n.pointer), n.pointer, n.text())
			x.Value, x.Parts = "true", b.looped(n, 0, "")
			if n.err != nil {
				x.Value = ""
				x.Error, x.Unknown = b.broken(n.err)
			}
			all = append(all, x)
		}
	}
	return all
}

// outcome is what a response came to.
func (b *account) outcome(e *policy.Evaluation, r *Response) {
	switch message := cel.Shorten(r.Message, maxValue); r.Status {
	case StatusPass:
		e.Value = "true"
	case StatusSkip:
		e.Value, e.Summary = "skipped", message
	case StatusUndecided:
		e.Unknown = message
	default:
		e.Error = message
	}
}

// targets tells each object that the rule changes beside that of the request.
func (b *account) targets(at string) []policy.Evaluation {
	var all []policy.Evaluation
	for i := range b.responses {
		if len(all) == maxFields {
			break
		}
		r := &b.responses[i]
		e := b.described("mutate.targets", at+"/targets", "")
		if r.Target != nil {
			kind, namespace, name := identity(r.Target)
			e.Expression = kind[1] + " " + strings.TrimPrefix(namespace+"/"+name, "/")
			if r.Patched != nil && !b.hidesOf(r.Target) {
				for _, c := range changes(r.Target, r.Patched) {
					e.Parts = append(e.Parts, b.changePart(c, 0, ""))
				}
			}
		}
		b.outcome(&e, r)
		all = append(all, e)
	}
	if len(all) == 0 {
		e := b.described("mutate.targets", at+"/targets", "")
		e.NotRun = "there is no such object in the tree"
		all = append(all, e)
	}
	return all
}

// hidesOf says that nothing of an object may be told.
func (b *account) hidesOf(o map[string]any) bool {
	return o["kind"] == "Secret" && !b.review.engine.options.CLI
}

func (b *account) changePart(c change, depth int, loop string) policy.Part {
	p := policy.Part{Depth: depth, Loop: loop, Text: c.pointer, Value: "removed"}
	switch {
	case c.has && c.had:
		p.Value = b.show(c.is, true) + ", which was " + b.show(c.was, true)
	case c.has:
		p.Value = b.show(c.is, true) + ", which was missing"
	}
	return p
}

// generation tells what the rule would make once the request is admitted.
func (b *account) generation() []policy.Evaluation {
	e := b.described("generate", b.program.rule.Pointer+"/generate", "")
	e.Value = "true"
	for i := range b.responses {
		r := &b.responses[i]
		e.Value = ""
		b.outcome(&e, r)
		for _, o := range r.Generated {
			kind, namespace, name := identity(o)
			e.Parts = append(e.Parts, policy.Part{Text: kind[1] + " " + strings.TrimPrefix(namespace+"/"+name, "/"), Value: "made once the request is admitted"})
		}
	}
	if e.Value == "true" && len(e.Parts) == 0 {
		e.Parts = append(e.Parts, policy.Part{Text: "nothing", Value: "what it makes is there"})
	}
	e.Parts = cutParts(e.Parts)
	return []policy.Evaluation{e}
}
