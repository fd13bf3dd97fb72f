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
	"github.com/preadmit/preadmit/render"
)

// A verdict is what one rule of a policy said with one parameter; bindings
// make results of it.
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
	spent    int64 // by the expression and its message, where it is counted
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
	request ref.Val // as that version
	objects *cel.Versioned
	meter   cel.Meter
	act     activation
}

// setUp makes the run one of a policy with a parameter, on the request as a
// version that the policy matches.
func (x *run) setUp(c *compiled, p *param, as policy.Version) *run {
	x.policy, x.params, x.as, x.objects = c, p, as, x.review.objects.In(as.Kind)
	var request cel.Sizes
	x.request, request = x.review.requests.As(as, x.review.requestFields)
	if x.review.engine.options.Cost {
		x.meter = c.plans.Counting()
	} else {
		x.meter = c.plans.Meter(cel.Inputs{Objects: x.objects.Sizes, Others: request.Max(x.review.namespaceSizes()), Params: p.sizes})
	}
	return x
}

// verdicts is the policy's say. It is one verdict a validation, but where the
// policy as a whole is exempt or breaks.
func (x *run) verdicts() []verdict {
	if x.objects.Err != nil {
		v := x.broken("matchConstraints", x.policy.object.Span("/spec/matchConstraints"), fmt.Errorf("failed to configure binding: %w", x.objects.Err))
		v.certain = true
		return []verdict{v}
	}
	if vs, done := x.conditions(); done {
		return vs
	}
	vs := x.validations()
	return append(vs, x.annotations()...)
}

// bind binds the variables for a group of expressions.
func (x *run) bind(namespace, authorizer bool, as policy.Version) {
	x.act.object, x.act.oldObject, x.act.params = x.objects.Object, x.objects.Old, x.params.value
	x.act.request = x.request
	if as != x.as {
		x.act.request, _ = x.review.requests.As(as, x.review.requestFields)
	}
	x.act.namespace, x.act.authorizer = namespace, authorizer
	x.act.variables.Reset(&x.policy.names)
}

// eval evaluates an expression. The error is cel.ErrBudget, or the API server's
// words for what went wrong with this expression alone.
func (x *run) eval(e *expression) (ref.Val, error) {
	x.review.questions.Reset()
	x.review.assume = ""
	v, err := x.meter.Eval(x.review.ctx, e.program, &x.act)
	if x.meter.Out() {
		return nil, cel.ErrBudget
	}
	if err != nil {
		return nil, fmt.Errorf("expression '%v' resulted in error: %w", e.source, cel.ShownError(e.source, err, x.secret()))
	}
	return v, nil
}

// secret says whether the expressions see a Secret.
func (x *run) secret() bool {
	return x.as.Kind.Kind == "Secret" || x.params.object != nil && x.params.object.GetKind() == "Secret"
}

// secrets are the objects of which a message may quote nothing.
func (x *run) secrets() []map[string]any {
	all := []map[string]any{x.review.req.Admitted, x.review.req.OldAdmitted}
	if p := x.params.object; p != nil && p.GetKind() == "Secret" {
		all = append(all, p.Object)
	}
	return all
}

// variable evaluates a composited variable.
func (x *run) variable(i int) ref.Val {
	e := x.policy.variables[i]
	shared := x.shared(e)
	if shared != nil && *shared != nil {
		return x.meter.Variable(i, *shared, nil)
	}
	v, err := x.meter.Eval(x.review.ctx, e.program, &x.act)
	if shared != nil && err == nil {
		*shared = v
	}
	return x.meter.Variable(i, v, err)
}

// conditions evaluates the match conditions. done says that the validations
// are not to be run (k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions).
func (x *run) conditions() (vs []verdict, done bool) {
	if len(x.policy.conditions) == 0 {
		return nil, false
	}
	err := x.meter.Group(conditionsGroup, func() error {
		x.bind(false, true, policy.Version{Resource: x.review.req.Resource.GroupVersionResource, Kind: x.as.Kind})
		vs, done = nil, false
		return x.eachCondition(&vs, &done)
	})
	if err != nil {
		return []verdict{x.broken("matchConditions", x.policy.object.Span("/spec/matchConditions"), err)}, true
	}
	return vs, done
}

func (x *run) eachCondition(vs *[]verdict, done *bool) error {
	var broken, open []verdict
	for i, e := range x.policy.conditions {
		v, err := x.eval(e)
		switch {
		case errors.Is(err, cel.ErrBudget):
			return err
		case err != nil && x.review.questions.Any():
			open = append(open, x.open(e))
		case err != nil:
			broken = append(broken, x.broken(e.rule, e.origin, err))
		case v == types.False:
			*vs, *done = x.exempt(x.policy.policy.Spec.MatchConditions[i].Name), true
			return nil
		}
	}
	switch {
	case len(open) > 0:
		*vs, *done = open, true
	case len(broken) > 0:
		*vs, *done = broken, true
	}
	return nil
}

// exempt is what happens to a policy one of whose conditions is false.
func (x *run) exempt(condition string) []verdict {
	return x.skip(fmt.Sprintf("exempt by match condition %q", condition))
}

// skip says about each validation why it was not run.
func (x *run) skip(why string) []verdict {
	vs := make([]verdict, len(x.policy.validations))
	for i, e := range x.policy.validations {
		vs[i] = verdict{rule: e.rule, origin: e.origin, outcome: policy.Skip, message: why, assumed: x.assumed()}
	}
	return vs
}

// open is the verdict of an expression that depends on what is not known.
func (x *run) open(e *expression) verdict {
	return verdict{rule: e.rule, origin: e.origin, outcome: policy.Unknown, message: x.review.questions.Text()}
}

// broken is the verdict of what went wrong while it ran.
func (x *run) broken(rule string, origin render.Span, err error) verdict {
	message := policy.Shorten(err.Error(), policy.MaxMessage)
	if x.policy.ignores() {
		message = policy.Shorten("ignored error: "+message, policy.MaxMessage)
	}
	return verdict{rule: rule, origin: origin, outcome: policy.Error, message: message, assumed: x.assumed()}
}

// ignores says whether errors let requests pass.
func (c *compiled) ignores() bool { return *c.policy.Spec.FailurePolicy == v1.Ignore }

func (x *run) assumed() []string {
	if x.review.assume == "" && x.params.assumed == "" {
		return nil
	}
	return slices.DeleteFunc([]string{x.review.assume, x.params.assumed}, func(a string) bool { return a == "" })
}

// validations evaluates the validations and the messages of those that fail.
func (x *run) validations() []verdict {
	if len(x.policy.validations) == 0 {
		return nil
	}
	var vs []verdict
	var last *expression
	err := x.meter.Group(validationsGroup, func() error {
		x.bind(true, true, x.as)
		if vs == nil {
			vs = x.review.verdicts(len(x.policy.validations))
		}
		for i, e := range x.policy.validations {
			last = e
			before := x.meter.Remaining()
			if err := x.validation(&vs[i], e); err != nil {
				return err
			}
			vs[i].spent = before - x.meter.Remaining()
		}
		return x.messages(vs)
	})
	if err != nil {
		return []verdict{x.broken(last.rule, last.origin, err)}
	}
	x.tellCosts(vs)
	return vs
}

func (x *run) validation(v *verdict, e *expression) error {
	val, err := x.eval(e)
	switch {
	case errors.Is(err, cel.ErrBudget):
		return err
	case err != nil && x.review.questions.Any():
		*v = x.open(e)
	case err != nil:
		if *v = x.broken(e.rule, e.origin, err); !cel.WasStopped(err) {
			v.fields, v.literals = x.blame(e)
		}
	case val == types.True:
		*v = verdict{rule: e.rule, origin: e.origin, outcome: policy.Pass}
		v.assumed = x.assumed()
	default:
		*v = verdict{rule: e.rule, origin: e.origin, outcome: policy.Fail, assumed: x.assumed()}
		v.fields, v.literals = x.blame(e)
	}
	return nil
}

// messages words the failures. Counted messages of passing validations are evaluated
// for their cost, as the API server evaluates all.
func (x *run) messages(vs []verdict) error {
	bound := false
	for i := range vs {
		e := x.policy.messages[i]
		if vs[i].outcome != policy.Fail && (e == nil || x.meter.Uncounted(e.program)) {
			continue
		}
		if e != nil && !bound {
			x.bind(true, false, x.as)
			bound = true
		}
		before := x.meter.Remaining()
		evaluated, err := x.message(e)
		if err != nil {
			return x.outOfMessages(vs, err)
		}
		vs[i].spent += before - x.meter.Remaining()
		if vs[i].outcome == policy.Fail {
			x.word(&vs[i], i, evaluated)
		}
	}
	return nil
}

// message evaluates a messageExpression, to "" when there is none or it can't
// be used. The error is cel.ErrBudget.
func (x *run) message(e *expression) (string, error) {
	if e == nil {
		return "", nil
	}
	v, err := x.eval(e)
	if errors.Is(err, cel.ErrBudget) {
		return "", err
	}
	text, ok := cel.Message(v, err)
	if !ok {
		return "", nil
	}
	if x.secret() && cel.Quotes(e.program.AST) && cel.Reveals(text, x.secrets()...) {
		return cel.ErrHidden.Error(), nil
	}
	return text, nil
}

// outOfMessages is what the API server makes of messages that cost too much:
// no validation that did not break by itself has a verdict.
func (x *run) outOfMessages(vs []verdict, err error) error {
	for i, e := range x.policy.validations {
		if vs[i].outcome != policy.Error && vs[i].outcome != policy.Unknown {
			vs[i] = x.broken(e.rule, e.origin, fmt.Errorf("failed messageExpression: %w", err))
		}
	}
	return nil
}

// word gives a failure its message and reason.
func (x *run) word(v *verdict, i int, evaluated string) {
	validation := x.policy.policy.Spec.Validations[x.policy.validations[i].index]
	v.message = cel.FailedMessage(validation.Expression, evaluated, validation.Message)
	v.message = policy.Shorten(v.message, celconfig.MaxEvaluatedMessageExpressionSizeBytes)
	v.reason = "Invalid"
	if validation.Reason != nil {
		v.reason = string(*validation.Reason)
	}
}

// annotations evaluates the audit annotations, of which only errors matter:
// they deny the request whatever the binding's actions are.
func (x *run) annotations() []verdict {
	if len(x.policy.annotations) == 0 {
		return nil
	}
	var vs []verdict
	err := x.meter.Group(annotationsGroup, func() error {
		x.bind(true, false, x.as)
		vs = nil
		for _, e := range x.policy.annotations {
			_, err := x.eval(e)
			switch {
			case errors.Is(err, cel.ErrBudget):
				return err
			case err != nil && x.review.questions.Any():
				vs = append(vs, x.open(e))
			case err != nil:
				v := x.broken(e.rule, e.origin, err)
				v.certain = true
				vs = append(vs, v)
			}
		}
		return nil
	})
	if err != nil {
		v := x.broken("auditAnnotations", x.policy.object.Span("/spec/auditAnnotations"), err)
		return []verdict{v}
	}
	return vs
}
