package gatekeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A Response is a violation of a constraint, or its outcome if there are none.
type Response struct {
	Constraint *render.Object
	Outcome    policy.Outcome
	Actions    []string // Gatekeeper's enforcement actions, such as "deny"; several if they are scoped
	Message    string
	Details    any      // of a violation, as a JSON value; nil if it has none
	Fields     []string // JSON pointers into the object, the one at fault first
	Assumed    []string

	constraint *constraint
	ignored    bool     // an error that Gatekeeper ignores, by failurePolicy or always
	literals   []string // for policy.Result
	override   string   // action of the expansion template that created the object
}

// respond evaluates the constraints for a review, in order. The error is for
// cancellation.
func (e *Engine) respond(r *review) ([]Response, error) {
	kind := document.GroupKindOf(r.subject())
	candidates := e.of(kind)
	if r.object != nil && r.old != nil && document.GroupKindOf(r.old) != kind {
		candidates = e.constraints
	}
	all := make([]Response, 0, len(candidates))
	for _, c := range candidates {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		policy.Observed(r.ctx, policy.EngineGatekeeper, c.id, func() { all = append(all, r.evaluate(c)...) })
	}
	return all, nil
}

// evaluate evaluates one constraint.
func (r *review) evaluate(c *constraint) []Response {
	if !r.engine.options.Written && !c.template.concerns(r.operation) {
		return nil
	}
	matched, err := r.matches(c.match)
	var undecided *cel.Undecided
	switch {
	case errors.As(err, &undecided):
		return []Response{c.respond(policy.Unknown, undecided.Question)}
	case err != nil: // Gatekeeper counts this as a violation
		return []Response{c.respond(policy.Fail, fmt.Sprintf("unable to match constraints: error matching the requested object: %s :%v", document.MetaText(r.subject(), "name"), err))}
	case !matched:
		return nil
	case r.exemption.why != "":
		return []Response{c.respond(r.exemption.outcome(), r.exemption.why)}
	}
	if c.template.native != nil {
		return r.hide(c, r.evaluateNative(c))
	}
	return r.hide(c, r.evaluateRego(c))
}

func (c *constraint) respond(o policy.Outcome, message string) Response {
	return Response{Constraint: c.object, Outcome: o, Actions: c.actions, Message: message, constraint: c}
}

// evaluateRego evaluates a constraint whose template is in Rego.
func (r *review) evaluateRego(c *constraint) []Response {
	if c.slow.Load() > int64(patience) {
		return []Response{c.respond(policy.Error, "the template's Rego took too long on other objects, and is not evaluated for this one")}
	}
	q := r.question(c)
	answer, err := c.ask(r.ctx, q)
	switch {
	case r.ctx.Err() != nil:
		return nil
	case len(answer.Unknown) > 0:
		certain, _, _ := violationsOf(c.template.rego.query.Certain(r.ctx, q))
		return append(r.failed(c, q, certain), c.respond(policy.Unknown, "needs "+strings.Join(answer.Unknown, "; ")))
	case err != nil:
		return []Response{c.respond(policy.Error, "the template's Rego fails"+c.place(err)+": "+r.errorText(c, err))}
	}
	violations, ignored, broken := violationsOf(answer.Value)
	if broken != "" {
		return []Response{c.respond(policy.Error, broken)}
	}
	if len(violations) == 0 && r.readsNamespaces(c) && r.namespaceOpen() {
		return []Response{c.respond(policy.Unknown, "needs "+r.needsNamespace())}
	}
	if missing := r.engine.inventory.missing(c.inventory()); len(violations) == 0 && len(missing) > 0 {
		return []Response{c.respond(policy.Unknown, strings.Join(missing, "; "))}
	}
	switch divided := r.dividedByZero(c, answer.ByZero); {
	case len(violations) > 0:
		return append(r.failed(c, q, violations), divided...)
	case len(divided) > 0:
		return divided
	}
	return []Response{r.passed(c, answer.Errors, ignored)}
}

// dividedByZero returns the errors of divisions by zero. They hide violations, because Gatekeeper
// counts the expressions around them as not violated.
func (r *review) dividedByZero(c *constraint, errs []*rego.Error) []Response {
	if r.engine.options.Written { // gator says nothing of them
		return nil
	}
	var all []Response
	for _, e := range errs {
		x := c.respond(policy.Error, "ignored error: the template's Rego divides by zero"+c.place(e))
		x.ignored, x.Assumed = true, r.assumed(c)
		all = append(all, x)
	}
	return all
}

// readsNamespaces reports whether the template reads Namespaces in data.inventory, and
// Gatekeeper syncs them.
func (r *review) readsNamespaces(c *constraint) bool {
	use := c.template.rego.inventory
	return use != nil && use.kinds["Namespace"] && r.engine.inventory.syncs(schema.GroupKind{Kind: "Namespace"})
}

// Limits on the time of slow evaluations of a constraint, after which it is not
// evaluated any more, so that a hostile template can't use its time limit for
// each of thousands of objects.
const (
	slow     = time.Second
	patience = 30 * time.Second
)

func (c *constraint) ask(ctx context.Context, q rego.Question) (rego.Answer, error) {
	start := time.Now()
	answer, err := c.template.rego.query.Ask(ctx, q)
	if took := time.Since(start); took > slow {
		c.slow.Add(int64(took))
	}
	return answer, err
}

// question returns the input of a constraint's evaluation.
func (r *review) question(c *constraint) rego.Question {
	input := ast.NewObject(
		[2]*ast.Term{ast.StringTerm("review"), r.input()},
		[2]*ast.Term{ast.StringTerm("parameters"), c.parameters},
	)
	q := rego.Question{Input: ast.NewTerm(input), Open: r.openPlaces(c.template.rego), Inside: r.insideReview()}
	if c.inventory() != nil {
		q.Data = r.engine.inventory.data(r)
	}
	if r.engine.options.Now != nil {
		q.Now = r.engine.options.Now()
	}
	if tell := r.engine.options.Print; tell != nil {
		secrets := r.secrets(c)
		q.Print = func(pointer string, line int, text string) {
			tell(c.object.GetName(), inside(c.template.object, pointer, c.source(pointer), line, 1), secrets.Hide(text))
		}
	}
	return q
}

// A violation is an element of the set that a template returns.
type violation struct {
	value   ast.Value
	message string
	details ast.Value // nil for none
}

// violationsOf converts the value of the violation rule to violations, as
// Gatekeeper's driver does. Items without msg are ignored. broken says why the
// driver can't use the value.
func violationsOf(value ast.Value) (all []violation, ignored int, broken string) {
	each := func(t *ast.Term) {
		o, ok := t.Value.(ast.Object)
		if !ok {
			ignored++
			return
		}
		msg := o.Get(ast.InternedTerm("msg"))
		if msg == nil {
			ignored++
			return
		}
		text, ok := msg.Value.(ast.String)
		if !ok {
			broken = "the msg of a violation is " + ast.ValueName(msg.Value) + ", and Gatekeeper can use a string only"
			return
		}
		v := violation{value: t.Value, message: string(text)}
		if d := o.Get(ast.InternedTerm("details")); d != nil {
			v.details = d.Value
		}
		all = append(all, v)
	}
	switch v := value.(type) {
	case ast.Set:
		v.Foreach(each)
	case ast.Object:
		v.Foreach(func(key, _ *ast.Term) { each(key) })
	case *ast.Array:
		ignored = v.Len()
	}
	slices.SortStableFunc(all, violation.compare)
	all = slices.CompactFunc(all, func(a, b violation) bool { return a.compare(b) == 0 })
	return all, ignored, broken
}

// compare orders violations by the fields by which Gatekeeper distinguishes them.
func (v violation) compare(w violation) int {
	return cmp.Or(strings.Compare(v.message, w.message), v.comparedDetails().Compare(w.comparedDetails()))
}

func (v violation) comparedDetails() ast.Value {
	if v.details == nil {
		return ast.InternedEmptyObject.Value
	}
	return v.details
}

// passed returns the response of a constraint that holds. It mentions built-in
// functions that failed, because the failure may be the only reason why no
// violation was found.
func (r *review) passed(c *constraint, swallowed []*rego.Error, ignored int) Response {
	x := c.respond(policy.Pass, "")
	var notes []string
	for _, e := range swallowed {
		notes = append(notes, r.errorText(c, e)+c.place(e))
	}
	if len(notes) > 0 {
		x.Message = policy.FunctionsFailed + ", so expressions that call them count as not violated: " + strings.Join(notes, "; ")
	}
	if ignored > 0 {
		x.Message = strings.TrimPrefix(x.Message+fmt.Sprintf("; Gatekeeper ignores %d of the template's violations, which have no msg", ignored), "; ")
	}
	x.Assumed = r.assumed(c)
	return x
}

// source returns the module at a pointer of the template.
func (c *constraint) source(pointer string) string {
	v, _ := render.Lookup(c.template.object.Object, pointer)
	s, _ := v.(string)
	return s
}

// errorText returns an error's text without values that could be a Secret's,
// because functions quote their arguments. Modules are named by their place in
// the template.
func (r *review) errorText(c *constraint, err error) string {
	if r.secret() || r.secrets(c).Reveals(err.Error()) {
		return rego.Hidden
	}
	return modulePlace.ReplaceAllStringFunc(err.Error(), func(place string) string {
		i := strings.LastIndexByte(place, ':')
		line, _ := strconv.Atoi(place[i+1:])
		return cmp.Or(inside(c.template.object, place[:i], c.source(place[:i]), line, 1).String(), place)
	})
}

// place returns the line in the template's file where a rule failed, if it is
// known.
func (c *constraint) place(err error) string {
	var e *rego.Error
	if !errors.As(err, &e) || e.Name == "" || e.Line == 0 {
		return ""
	}
	return " at " + inside(c.template.object, e.Name, c.source(e.Name), e.Line, e.Column).String()
}

// modulePlace matches the place in a module as errors give it.
var modulePlace = regexp.MustCompile(`/spec/targets/0/[a-z0-9/]*:\d+`)

// inventoryAssumed is the assumption of results that read data.inventory.
const inventoryAssumed = "data.inventory holds only the objects of the tree and those given with --with"

// assumed returns the assumptions of a result.
func (r *review) assumed(c *constraint) []string {
	if c.inventory() != nil && !r.engine.options.Written {
		return []string{inventoryAssumed}
	}
	return nil
}

// failed returns the responses of a violated constraint.
func (r *review) failed(c *constraint, q rego.Question, violations []violation) []Response {
	blames := r.blames(c, q, violations)
	all := make([]Response, len(violations))
	for i, v := range violations {
		x := c.respond(policy.Fail, v.message)
		if v.details != nil {
			x.Details = rego.Plain(v.details)
		}
		x.Fields, x.literals, x.Assumed = blames[i].fields, blames[i].literals, r.assumed(c)
		if blames[i].unsure {
			x.Assumed = append(x.Assumed, rego.Unsure)
		}
		all[i] = x
	}
	return all
}

// A blame holds the fields that a violation is about. It is unsure if the
// fields were only read. literals are the values that its rule compares them
// with.
type blame struct {
	fields, literals []string
	unsure           bool
}

// blames returns the fields for each violation: those that its details name,
// else those that the rule's body depended on.
func (r *review) blames(c *constraint, q rego.Question, violations []violation) []blame {
	all := make([]blame, len(violations))
	secrets := r.secrets(c)
	values := make([]ast.Value, len(violations))
	hinted := true
	for i, v := range violations {
		values[i] = v.value
		if v.details != nil {
			all[i].fields = secrets.Fields(r.subject(), rego.Hinted(rego.Plain(v.details), r.subject()))
		}
		hinted = hinted && len(all[i].fields) > 0
	}
	if hinted || r.engine.options.Written {
		return all
	}
	causes, err := c.template.rego.query.Causes(r.ctx, q, values)
	if err != nil {
		return all // the violation is reported without fields
	}
	for i, cause := range causes {
		if len(all[i].fields) == 0 {
			all[i] = r.blamed(cause)
		}
	}
	return all
}

// insideReview returns the cache of field searches, which all constraints of
// the review share.
func (r *review) insideReview() *rego.Inside {
	r.inside.Field = "review"
	return &r.inside
}

// blamed returns the fields at fault by the fields that the evaluation read:
// those of failed expressions, else all.
func (r *review) blamed(cause rego.Cause) (b blame) {
	roots := [][]string{{"review", "object"}}
	if r.operation == string(policy.Delete) {
		roots = append(roots, []string{"review", "oldObject"})
	}
	fields, sure := rego.Pointers(cause.Fields, roots...)
	b = blame{fields: fields, unsure: len(fields) > 0 && !sure}
	if cause.Rule != nil {
		b.literals = rego.Literals(cause.Rule.Body)
	}
	return b
}
