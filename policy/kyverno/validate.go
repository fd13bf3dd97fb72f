package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// A clause is the check of validate, or of an entry of its foreach: deny, else
// a pattern, else a nested foreach.
type clause struct {
	pointer       string // for an entry of foreach: its pointer in the policy as written
	entries       []*entry
	preconditions *block
	denies        bool
	deny          *block
	pattern       *comparison
	anyPattern    []*comparison
	loops         []*loop
}

// A comparison is a pattern. It is compiled once if it has no variables.
type comparison struct {
	template *template
	compiled *pattern.Pattern
	err      error
}

func newComparison(t *template) *comparison {
	s := &comparison{template: t}
	if s.template.static && s.template.err == nil {
		v, _ := s.template.fill(nil)
		s.compiled, s.err = pattern.Compile(v)
	}
	return s
}

// newComparisons returns the patterns of anyPattern, which are one document for
// references and {{ @ }}.
func newComparisons(list []any) []*comparison {
	var all []*comparison
	for _, t := range newTemplate(list).elements(len(list)) {
		all = append(all, newComparison(t))
	}
	return all
}

// with returns the pattern with its variables substituted.
func (c *comparison) with(s *scope) (*pattern.Pattern, error) {
	if c.compiled != nil || c.err != nil {
		return c.compiled, c.err
	}
	v, err := c.template.fill(s)
	if err != nil {
		return nil, err
	}
	return pattern.Compile(v)
}

func newDeny(d *document.Deny) (bool, *block) {
	if d == nil {
		return false, nil
	}
	return true, newBlock(d.Conditions)
}

// A verdict is the outcome of a rule. A nil verdict means that there is no
// response.
type verdict struct {
	status   Status
	message  string
	fields   []string
	literals []string // see [policy.Result]
}

// broken returns the verdict for an error, with Kyverno's wording.
func broken(what string, err error) *verdict {
	return &verdict{status: StatusError, message: what + ": " + err.Error()}
}

// evaluate evaluates the clause in a scope, for the whole object or for the
// element at.
func (c *clause) evaluate(x *run, s *scope, at *element) *verdict {
	held, decided, err := c.preconditions.holds(s)
	switch {
	case err != nil:
		return broken("failed to evaluate preconditions", err)
	case !held:
		return x.unmet(c.preconditions, decided, s)
	}
	return c.body(x, s, at)
}

// unmet returns the skip of a rule whose preconditions do not hold.
func (r *run) unmet(b *block, decided []*conditions.Condition, s *scope) *verdict {
	message := "preconditions not met"
	if more := b.messages(decided, func(t *template) (any, error) { return r.message(t, s) }); more != "" {
		message += "; " + more
	}
	return &verdict{status: StatusSkip, message: message}
}

func (c *clause) body(x *run, s *scope, at *element) *verdict {
	switch {
	case c.denies:
		return c.evaluateDeny(x, s)
	case c.pattern != nil || c.anyPattern != nil:
		return c.evaluatePattern(x, s, at)
	case c.loops != nil:
		return x.evaluateLoops(c.loops, s, at)
	default:
		return nil
	}
}

// evaluateDeny returns a failure if the conditions hold.
func (c *clause) evaluateDeny(x *run, s *scope) *verdict {
	held, decided, err := c.deny.holds(s)
	switch {
	case err != nil:
		return broken("failed to check deny conditions", err)
	case !held:
		return x.passed()
	}
	return &verdict{status: StatusFail, message: x.denyMessage(c.deny, decided, s), fields: c.deny.fields(decided, s), literals: c.deny.literals(decided)}
}

func (r *run) passed() *verdict {
	return &verdict{status: StatusPass, message: r.program.passed}
}

// evaluatePattern matches the pattern with the element at, or with the object.
// On DELETE there is nothing to match.
func (c *clause) evaluatePattern(x *run, s *scope, at *element) *verdict {
	var patterns []*pattern.Pattern
	shapes := c.anyPattern
	if c.pattern != nil {
		shapes = []*comparison{c.pattern}
	}
	for _, sh := range shapes {
		p, err := sh.with(s)
		if err != nil {
			return broken("variable substitution failed", err)
		}
		patterns = append(patterns, p)
	}
	value, prefix := any(s.review.object), at
	switch {
	case at != nil:
		value = at.value
	case s.review.object == nil:
		return nil
	}
	if c.pattern != nil {
		s.review.engine.covered.pattern(x.program, c, 0, patterns[0], value)
		return x.matchOne(s.review.trace.match(c, 0, patterns[0], value, at), s, prefix)
	}
	return x.matchAny(c, patterns, value, prefix)
}

func (r *run) matchOne(v pattern.Verdict, s *scope, at *element) *verdict {
	switch v.Status {
	case pattern.Pass:
		return r.passed()
	case pattern.Skip:
		return &verdict{status: StatusSkip, message: r.quoting(v.Err)}
	case pattern.Error:
		return &verdict{status: StatusError, message: r.patternMessage(s, "", r.quoting(v.Err)), fields: at.fields(v)}
	default:
		return &verdict{status: StatusFail, message: r.patternMessage(s, v.Path, v.Err), fields: at.fields(v), literals: v.Literals}
	}
}

// matchAny passes if one of the patterns matches. It stops at the first.
func (r *run) matchAny(c *clause, patterns []*pattern.Pattern, value any, at *element) *verdict {
	var failed, skipped, fields, literals []string
	for i, p := range patterns {
		r.review.engine.covered.pattern(r.program, c, i, p, value)
		v := r.review.trace.match(c, i, p, value, at)
		name := fmt.Sprintf("rule %s[%d]", r.program.rule.Name, i)
		switch {
		case v.Status == pattern.Pass:
			return &verdict{status: StatusPass, message: fmt.Sprintf("validation rule '%s' anyPattern[%d] passed.", r.program.rule.Name, i)}
		case v.Status == pattern.Skip:
			skipped = append(skipped, name+" skipped: "+r.quoting(v.Err))
			continue
		case v.Path == "":
			failed = append(failed, name+" failed: "+r.quoting(v.Err))
		default:
			failed = append(failed, name+" failed at path "+v.Path)
		}
		literals = append(literals, v.Literals...)
		for _, f := range at.fields(v) {
			if len(fields) < maxFields && f != "" && !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	if len(failed) == 0 {
		return &verdict{status: StatusSkip, message: strings.Join(skipped, " ")}
	}
	return &verdict{status: StatusFail, message: r.anyMessage(failed), fields: fields, literals: literals}
}

// An element is the map that patterns inside foreach match, with its pointer.
type element struct {
	value   map[string]any
	pointer func() string
}

// fields returns the pointers of the fields at which a pattern did not match.
func (e *element) fields(v pattern.Verdict) []string {
	if e == nil {
		return []string{v.Pointer}
	}
	prefix := e.pointer()
	if prefix == "" {
		return nil
	}
	return []string{prefix + v.Pointer}
}

var errScope = errors.New("cannot use elementScope=true foreach rules for elements that are not maps")

// evaluatePodSecurity checks the object's pod at the rule's level, less the
// rule's exclusions. If exceptions exempt all violations, the rule is skipped.
// The verdict is cached and reused for pods that are equal in all fields that
// the checks read. A DELETE has no verdict.
func (r *run) evaluatePodSecurity(exceptions []*exemption) *verdict {
	if r.ignoresDelete() {
		return nil
	}
	pod := r.review.podKey()
	if len(exceptions) > 0 || r.review.trace != nil || pod == "" {
		return r.checkPod(exceptions)
	}
	key := podKey{pod, podsecurity.ImageKey(r.program.excludes, r.review.podImages)}
	v, known := r.program.pods.find(key)
	if !known {
		if v = *r.checkPod(nil); v.status != StatusError {
			r.program.pods.add(key, v)
		}
	}
	return &v
}

// ignoresDelete reports whether the request is a DELETE and the rule checks podSecurity,
// which Kyverno then leaves out.
func (r *run) ignoresDelete() bool {
	v := r.program.rule.Validate
	return r.review.operation == opDelete && v != nil && v.PodSecurity != nil
}

// podVerdicts caches a rule's verdicts by pod. It is safe for concurrent use.
type podVerdicts struct {
	mu    sync.RWMutex
	known map[podKey]verdict
}

// A podKey identifies a pod by the parts that Pod Security checks read, as text. All rules use the same
// text for the pod of an object.
type podKey struct{ pod, images string }

// mostPods is the most verdicts of a rule that are cached.
const mostPods = 1024

func (p *podVerdicts) find(key podKey) (verdict, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	v, known := p.known[key]
	return v, known
}

func (p *podVerdicts) add(key podKey, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[podKey]verdict)
	}
	if len(p.known) < mostPods {
		v.fields = slices.Clip(v.fields)
		p.known[key] = v
	}
}

// podKey returns the cache key of the object's pod. Pods that differ only in
// images and in fields that no check reads have equal keys. It is "" if there
// is no pod, or if the pod is large.
func (r *review) podKey() string {
	if !r.podKeyed {
		r.podKeyed = true
		if at, ok := podPaths[r.req.Kind.Kind]; ok {
			r.podKeyValue, r.podImages = podsecurity.Key(r.subject(), at), podsecurity.Images(r.subject(), at)
		}
	}
	return r.podKeyValue
}

// checkPod evaluates podSecurity for a pod without a cached verdict.
func (r *run) checkPod(exceptions []*exemption) *verdict {
	p, name := r.program.rule.Validate.PodSecurity, r.program.rule.Name
	pod, err := r.review.pod()
	switch {
	case err != nil:
		return broken("Error while getting new resource", err)
	case pod == nil:
		return &verdict{status: StatusError, message: "Error while getting new resource: could not find correct resource type"}
	}
	standard, err := r.program.standard, r.program.noStandard
	if err != nil {
		return broken("failed to parse pod security api version", err)
	}
	found := standard.Check(pod)
	without := func(violations []podsecurity.Violation, excludes []podsecurity.Exclude) []podsecurity.Violation {
		if len(violations) == 0 || len(excludes) == 0 {
			return violations
		}
		return standard.Exempt(violations, excludes, pod)
	}
	refused := without(found, r.program.excludes)
	left := refused
	for _, e := range exceptions {
		left = without(left, excludesOf(e.PodSecurity))
	}
	r.review.trace.excluded(found, left)
	r.review.trace.violations(left)
	if len(refused) > 0 && len(left) == 0 {
		return skippedBy(exceptions)
	}
	level, version := p.Level, cmp.Or(p.Version, "latest")
	v := &verdict{status: StatusPass, message: podsecurity.Message(name, level, version, pod, left)}
	if len(left) > 0 {
		v.status, v.fields = StatusFail, podsecurity.Fields(left)
	}
	return v
}

// pod returns the object's pod, which is decoded once for all rules.
func (r *review) pod() (*podsecurity.Pod, error) {
	if !r.podRead {
		r.podRead = true
		if at, ok := podPaths[r.req.Kind.Kind]; ok {
			r.podValue, r.podErr = podsecurity.Read(r.subject(), at)
		}
	}
	return r.podValue, r.podErr
}
