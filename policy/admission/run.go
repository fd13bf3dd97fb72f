package admission

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	v1 "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// A verdict is the outcome of one rule of a policy with one parameter. It
// becomes a result for each binding.
type verdict struct {
	rule     string
	origin   render.Span // of the rule
	outcome  policy.Outcome
	message  string
	reason   string
	hint     string
	assumed  []string
	fields   []string
	literals []string
	spent    int64 // cost of the expression and its message, if counted
	cost     *policy.RuleCost
	// certain verdicts deny (or warn, where the failure policy is Ignore)
	// whatever the binding's actions are.
	certain bool
}

// A run evaluates one policy with one parameter on one request. A review has
// one, which is set up for each policy in turn.
type run struct {
	review  *review
	policy  *compiled
	params  *param
	as      policy.Version
	request ref.Val // in that version
	objects *cel.Versioned
	meter   cel.Meter
	act     activation
}

// setUp prepares the run for a policy, a parameter, and the version of the
// request that the policy matches.
func (r *run) setUp(c *compiled, p *param, as policy.Version) *run {
	r.policy, r.params, r.as, r.objects = c, p, as, r.review.objects.In(as.Kind)
	r.request = r.review.requests.As(as, r.review.typed(), r.review.requestFields)
	return r
}

// verdicts evaluates the policy. There is one verdict for each validation, or a
// single one if the policy exempts the request or breaks.
func (r *run) verdicts() []verdict {
	if r.objects.Err != nil {
		v := r.broken("matchConstraints", r.policy.object.Span("/spec/matchConstraints"), fmt.Errorf("failed to configure binding: %w", r.objects.Err))
		v.certain = true
		return []verdict{v}
	}
	if vs, done := r.conditions(); done {
		return vs
	}
	vs := r.validations()
	return append(vs, r.annotations()...)
}

// bind binds the variables for a group of expressions.
func (r *run) bind(namespace, authorizer bool, as policy.Version) {
	r.act.object, r.act.oldObject, r.act.params = r.objects.Object, r.objects.Old, r.params.value
	r.act.request = r.request
	if as != r.as {
		r.act.request = r.review.requests.As(as, r.review.typed(), r.review.requestFields)
	}
	r.act.namespace, r.act.authorizer = namespace, authorizer
	r.act.variables.Reset(&r.policy.names)
}

// eval evaluates an expression. The error is cel.ErrBudget, or has the API
// server's wording for this expression's failure.
func (r *run) eval(e *cel.Expression) (ref.Val, error) {
	r.review.questions.Reset()
	r.review.assume = ""
	return r.meter.Evaluate(r.review.ctx, e.Program, &r.act, e.Source, r.secret())
}

// secret reports whether the expressions see a Secret.
func (r *run) secret() bool {
	return r.as.Kind.Kind == "Secret" || r.params.object != nil && r.params.object.GetKind() == "Secret"
}

// secrets returns the Secrets whose values messages must not quote.
func (r *run) secrets() []map[string]any {
	all := []map[string]any{r.review.req.Admitted, r.review.req.OldAdmitted}
	if p := r.params.object; p != nil && p.GetKind() == "Secret" {
		all = append(all, p.Object)
	}
	return all
}

// variable evaluates a composited variable.
func (r *run) variable(i int) ref.Val {
	e := r.policy.variables[i]
	v, err := r.meter.Eval(r.review.ctx, e.Program, &r.act)
	return r.policy.names.Variable(i, v, err)
}

// conditions evaluates the match conditions. done reports that validations must
// not run (k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions).
func (r *run) conditions() (vs []verdict, done bool) {
	if len(r.policy.conditions) == 0 {
		return nil, false
	}
	r.meter.Begin(celconfig.RuntimeCELCostBudgetMatchConditions)
	r.bind(false, true, policy.Version{Resource: r.review.req.Resource.GroupVersionResource, Kind: r.as.Kind})
	if err := r.eachCondition(&vs, &done); err != nil {
		return []verdict{r.broken("matchConditions", r.policy.object.Span("/spec/matchConditions"), err)}, true
	}
	return vs, done
}

func (r *run) eachCondition(vs *[]verdict, done *bool) error {
	var broken, open []verdict
	exempt, err := cel.FirstFalse(r.policy.conditions, r.eval, func(e *cel.Expression, err error) {
		if r.review.questions.Any() {
			open = append(open, r.open(e))
		} else {
			broken = append(broken, r.broken(e.Rule, e.Origin, err))
		}
	})
	switch {
	case err != nil:
		return err
	case exempt != nil:
		*vs, *done = r.skip(fmt.Sprintf("exempt by match condition %q", exempt.Name)), true
	case len(open) > 0:
		*vs, *done = open, true
	case len(broken) > 0:
		*vs, *done = broken, true
	}
	return nil
}

// skip returns a skip for each validation, with the reason.
func (r *run) skip(why string) []verdict {
	vs := make([]verdict, len(r.policy.validations))
	for i, e := range r.policy.validations {
		vs[i] = verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Skip, message: why, assumed: r.assumed()}
	}
	return vs
}

// open returns the verdict of an expression that depends on unknown values.
func (r *run) open(e *cel.Expression) verdict {
	return verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Unknown, message: r.review.questions.Text()}
}

// broken returns the verdict for an error of evaluation.
func (r *run) broken(rule string, origin render.Span, err error) verdict {
	message := policy.Shorten(err.Error(), policy.MaxMessage)
	if r.policy.ignores() {
		message = policy.Shorten("ignored error: "+message, policy.MaxMessage)
	}
	return verdict{rule: rule, origin: origin, outcome: policy.Error, message: message, assumed: r.assumed()}
}

// ignores reports whether failurePolicy is Ignore: errors do not deny.
func (c *compiled) ignores() bool { return *c.policy.Spec.FailurePolicy == v1.Ignore }

func (r *run) assumed() []string {
	if r.review.assume == "" && r.params.assumed == "" {
		return nil
	}
	return slices.DeleteFunc([]string{r.review.assume, r.params.assumed}, func(a string) bool { return a == "" })
}

// validations evaluates the validations, and the messages of those that fail.
func (r *run) validations() []verdict {
	if len(r.policy.validations) == 0 {
		return nil
	}
	r.meter.Begin(celconfig.RuntimeCELCostBudget)
	r.bind(true, true, r.as)
	vs := r.review.verdicts(len(r.policy.validations))
	for i, e := range r.policy.validations {
		before := r.meter.Remaining()
		if err := r.validation(&vs[i], e); err != nil {
			return []verdict{r.broken(e.Rule, e.Origin, err)}
		}
		vs[i].spent = before - r.meter.Remaining()
	}
	r.messages(vs)
	r.setCosts(vs)
	return vs
}

func (r *run) validation(v *verdict, e *cel.Expression) error {
	val, err := r.eval(e)
	switch {
	case errors.Is(err, cel.ErrBudget):
		return err
	case err != nil && r.review.questions.Any():
		*v = r.open(e)
	case err != nil:
		if *v = r.broken(e.Rule, e.Origin, err); !cel.WasStopped(err) {
			v.fields, v.literals = r.blame(e)
		}
	case val == types.True:
		*v = verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Pass}
		v.assumed = r.assumed()
	default:
		*v = verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Fail, assumed: r.assumed()}
		v.fields, v.literals = r.blame(e)
	}
	return nil
}

// messages sets the messages of failures. Messages of passing validations are
// evaluated, too, because the API server evaluates all, and they cost.
func (r *run) messages(vs []verdict) {
	bound := false
	for i := range vs {
		e := r.policy.messages[i]
		if vs[i].outcome != policy.Fail && e == nil {
			continue
		}
		if e != nil && !bound {
			r.bind(true, false, r.as)
			bound = true
		}
		before := r.meter.Remaining()
		evaluated, err := r.message(e)
		if err != nil {
			r.messagesOverBudget(vs, err)
			return
		}
		vs[i].spent += before - r.meter.Remaining()
		if vs[i].outcome == policy.Fail {
			r.setMessage(&vs[i], i, evaluated)
		}
	}
}

// message evaluates a messageExpression. It returns "" if there is none or its
// value can't be used. The error is cel.ErrBudget.
func (r *run) message(e *cel.Expression) (string, error) {
	if e == nil {
		return "", nil
	}
	v, err := r.eval(e)
	if errors.Is(err, cel.ErrBudget) {
		return "", err
	}
	text, ok := cel.Message(v, err)
	if !ok {
		return "", nil
	}
	if r.secret() && cel.Quotes(e.Program.AST) && cel.Reveals(text, r.secrets()...) {
		return cel.ErrHidden.Error(), nil
	}
	return text, nil
}

// messagesOverBudget changes the verdicts if messages exceed the cost limit. As
// in the API server, only validations with errors keep their verdict.
func (r *run) messagesOverBudget(vs []verdict, err error) {
	for i, e := range r.policy.validations {
		if vs[i].outcome != policy.Error && vs[i].outcome != policy.Unknown {
			vs[i] = r.broken(e.Rule, e.Origin, fmt.Errorf("failed messageExpression: %w", err))
		}
	}
}

// setMessage sets the message and reason of a failure.
func (r *run) setMessage(v *verdict, i int, evaluated string) {
	validation := r.policy.policy.Spec.Validations[r.policy.validations[i].Index]
	v.message = cel.FailedMessage(validation.Expression, evaluated, validation.Message)
	v.message = policy.Shorten(v.message, celconfig.MaxEvaluatedMessageExpressionSizeBytes)
	v.reason = "Invalid"
	if validation.Reason != nil {
		v.reason = string(*validation.Reason)
	}
}

// annotations evaluates the audit annotations. Only their errors matter: these
// deny the request whatever the binding's actions are.
func (r *run) annotations() []verdict {
	if len(r.policy.annotations) == 0 {
		return nil
	}
	r.meter.Begin(celconfig.RuntimeCELCostBudget)
	r.bind(true, false, r.as)
	var vs []verdict
	for _, e := range r.policy.annotations {
		_, err := r.eval(e)
		switch {
		case errors.Is(err, cel.ErrBudget):
			return []verdict{r.broken("auditAnnotations", r.policy.object.Span("/spec/auditAnnotations"), err)}
		case err != nil && r.review.questions.Any():
			vs = append(vs, r.open(e))
		case err != nil:
			v := r.broken(e.Rule, e.Origin, err)
			v.certain = true
			vs = append(vs, v)
		}
	}
	return vs
}

// explainer returns a function that compiles an expression for explanations on
// first use. It returns nil if the expression can't be explained.
func (c *compiled) explainer(e *cel.Expression) func() *explain.Explainer {
	return c.names.ExplainerOf(e.AST, c.variables)
}

// blame returns the fields that made a validation fail, as pointers into the
// rendered object, and the literals that the failed part compares them with. It
// returns no fields if they are unknown, or if the policy sees the object in
// another version.
func (r *run) blame(e *cel.Expression) (fields, literals []string) {
	if r.as.Kind != r.review.req.Kind {
		return nil, nil
	}
	f := cel.Failure{Source: e.Source, Secret: r.secret()}
	return f.Fields(r.review.ctx, e.Explainer(), r.roots(), cel.RootOf(r.review.req.Operation))
}

// roots returns the variables with which the expression was evaluated.
func (r *run) roots() map[string]any {
	return cel.RootsOf(r.objects.Tree, r.objects.OldTree, &r.act, "params", "request", "namespaceObject", "authorizer", "authorizer.requestResource")
}

// setCosts sets the cost of each validation if Options.Cost is set. The caller
// must have evaluated the validations within their budget.
func (r *run) setCosts(vs []verdict) {
	if !r.review.engine.options.Cost {
		return
	}
	for i := range vs {
		vs[i].cost = &policy.RuleCost{
			Expression: vs[i].spent, ExpressionLimit: celconfig.PerCallLimit,
			Policy: celconfig.RuntimeCELCostBudget - r.meter.Remaining(), PolicyLimit: celconfig.RuntimeCELCostBudget,
		}
	}
}
