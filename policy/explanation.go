package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// An Explainer is a Validator, or a Mutator, that can explain its decisions.
type Explainer interface {
	// Explain describes step by step how a policy, or one of its rules, decides
	// on a request. An empty rule means all. It returns nil if it has no policy
	// of that name. The chain sets Operation, Object, Origins, Request, and the
	// places of culprits and results. A Mutator is given the request as it was
	// before the Mutator changed it.
	Explain(ctx context.Context, req *Request, policy, rule string) ([]Explanation, error)
}

// An Explanation describes how one policy decides on one request. It is plain
// data, and hides the values of Secrets.
type Explanation struct {
	Engine string      `json:"engine"`
	Policy string      `json:"policy"`
	Origin render.Span `json:"policyOrigin"`
	Rules  []Rule      `json:"rules"` // the explained rules

	Operation Operation       `json:"operation"`
	Object    render.Key      `json:"object"`
	Origins   []render.Origin `json:"origins"`
	Pods      bool            `json:"pods,omitempty"` // about what the object's controller creates, such as pods
	Request   Asked           `json:"request"`
	Notes     []string        `json:"notes,omitempty"` // how --base affects the decision, a sentence each

	// Matches reports whether the policy matches the request; "" if its engine
	// does not say.
	Matches       Answer  `json:"matches"`
	Match         []Check `json:"match"` // the checks that decided Matches, in order
	FailurePolicy string  `json:"failurePolicy"`

	Bindings []Bound  `json:"bindings"`
	Trials   []Trial  `json:"trials"` // one for each parameter
	Results  []Result `json:"results"`
}

// Asked is the request to the API server, as policies see it.
type Asked struct {
	Group     string   `json:"group"`
	Version   string   `json:"version"`
	Resource  string   `json:"resource"`
	Namespace string   `json:"namespace"`
	User      string   `json:"user"`
	Groups    []string `json:"groups"`
}

// An Answer is the answer to a Check.
type Answer string

// The answers.
const (
	Yes       Answer = "yes"
	No        Answer = "no"
	Undecided Answer = "unknown"
)

// A Check is a question on the way to a verdict, with its answer.
type Check struct {
	Name   string      `json:"name"` // the policy language's name for it, such as "objectSelector"
	Text   string      `json:"text"` // the condition, as the policy writes it
	Answer Answer      `json:"answer"`
	Why    string      `json:"why"`
	Origin render.Span `json:"policyOrigin"`
}

// Bound is a binding of the policy.
type Bound struct {
	Name    string       `json:"name"` // "" if there is none, and one is assumed
	Origin  render.Span  `json:"policyOrigin"`
	Matches Answer       `json:"matches"`
	Match   []Check      `json:"match"`
	Actions []string     `json:"actions"` // in the policy language's words
	Params  []render.Key `json:"params"`
	Problem string       `json:"problem"` // why it can't be used
}

// A Trial is the policy evaluated with one parameter.
type Trial struct {
	Param       *render.Key     `json:"param"` // null if there is none
	ParamOrigin []render.Origin `json:"paramOrigins"`
	As          string          `json:"as"` // the version in which the policy sees the object, if it is another one
	Problem     string          `json:"problem"`

	Conditions  []Evaluation `json:"conditions"`
	Variables   []Evaluation `json:"variables"`
	Validations []Evaluation `json:"validations"`
	Annotations []Evaluation `json:"auditAnnotations"`

	ConditionsCost  Cost `json:"conditionsCost"`
	ValidationsCost Cost `json:"validationsCost"`

	// ParamObject and NamespaceObject are the objects of culprits with the roots
	// params and namespaceObject; the chain uses them to set places.
	ParamObject     *render.Object `json:"-"`
	NamespaceObject *render.Object `json:"-"`
}

// A Cost is the cost of a group of expressions, in the API server's units.
type Cost struct {
	Spent int64 `json:"spent"`
	Limit int64 `json:"limit"`
}

// An Evaluation is an expression with its value.
type Evaluation struct {
	Name       string      `json:"name"`
	Expression string      `json:"expression"`
	Origin     render.Span `json:"policyOrigin"`
	Value      string      `json:"value"`
	Error      string      `json:"error"`
	Unknown    string      `json:"unknown"` // the missing information, if the result is undecided
	NotRun     string      `json:"notRun"`  // why it was not evaluated
	Cost       int64       `json:"cost"`    // includes the variables that it was the first to read
	Message    *Evaluation `json:"message,omitempty"`

	Parts      []Part    `json:"parts"`
	Summary    string    `json:"summary"`
	Culprits   []Culprit `json:"culprits"`
	More       int       `json:"more"`       // number of culprits left out
	Incomplete bool      `json:"incomplete"` // there may be others
}

// A Part is a sub-expression with its value.
type Part struct {
	Depth int    `json:"depth"`
	Loop  string `json:"loop"` // the element of a loop that it was evaluated for
	Text  string `json:"text"`
	Value string `json:"value"`
	Error bool   `json:"error"`

	Origin render.Span `json:"policyOrigin,omitzero"` // where it is written, if not at the evaluation's place
}

// A Culprit is a field that is at fault.
type Culprit struct {
	Root    string          `json:"root"` // "object", "oldObject", "params", "namespaceObject", "request"
	Pointer string          `json:"pointer"`
	Missing bool            `json:"missing"`
	Value   string          `json:"value"`
	Text    string          `json:"text"`    // the part of the expression that failed on it
	Element string          `json:"element"` // the list element that contains it
	Origins []render.Origin `json:"origins"`
}

// Explain describes how the policies of a name decide on a request: one of their
// rules, or with "" all of them. For an engine that is no Explainer it returns the
// rules and their results. It returns none when no engine has the policy, and one
// that gives the reason when the API server would refuse the object before any
// policy runs. The error is for cancellation and bugs.
func (c Chain) Explain(ctx context.Context, req Request, policy, rule string) (es []Explanation, err error) {
	defer func() {
		if p := recover(); p != nil {
			es, err = []Explanation{{Engine: EngineCompile, Policy: policy, Results: []Result{brokenDown(&req, p)}}}, nil
		}
	}()
	return c.explainUnguarded(ctx, req, policy, rule)
}

func (c Chain) explainUnguarded(ctx context.Context, req Request, policy, rule string) (es []Explanation, err error) {
	var h history
	defer func() { c.Secrets.explained(es, &req, &h) }()
	asRendered := req.Subject()
	others, err := c.clusterScoped(ctx, &req)
	if err != nil {
		return nil, err
	}
	if results, admitted := c.admit(&req, &h); !admitted {
		for i := range results {
			c.undecide(&results[i], asRendered)
		}
		e := Explanation{Engine: EngineSchema, Results: results}
		e.locate(&req, &h)
		written, err := c.explainWritten(ctx, &req, policy, rule)
		return append([]Explanation{e}, written...), err
	}
	es, err = c.explainAdmitted(ctx, &req, &h, policy, rule, func(e *Explanation) {
		if c.scopeUnknown(&req) {
			e.undecideDiffering(others, req.needsScope())
		}
		for i := range e.Results {
			c.undecide(&e.Results[i], asRendered)
		}
		e.locate(&req, &h)
	})
	if err == nil {
		es, err = c.explainMade(ctx, &req, &h, es, policy, rule)
	}
	return es, cmp.Or(err, ctx.Err())
}

// explainAdmitted explains the engines in order. It calls done with the explanations of validators,
// before the object changes again.
func (c Chain) explainAdmitted(ctx context.Context, req *Request, h *history, policy, rule string, done func(*Explanation)) ([]Explanation, error) {
	all, err := c.explainMutations(ctx, req, h, policy, rule)
	if err != nil {
		return nil, err
	}
	var others []alternative
	for _, v := range c.Validators {
		es, err := explain(ctx, v, req, policy, rule)
		if err != nil {
			return nil, err
		}
		if len(es) > 0 {
			for _, other := range others {
				rs, err := c.validate(ctx, v, &other.Request)
				if err != nil {
					return nil, err
				}
				rs = slices.DeleteFunc(rs, func(r Result) bool { return !r.fails() })
				for i := range es {
					es[i].undecideDiffering(rs, other.differs)
				}
			}
		}
		for i := range es {
			done(&es[i])
		}
		all = append(all, es...)
		if p, ok := v.(Preparer); ok {
			for i := range others {
				others[i].prepareBy(p, newHistory())
			}
			others = append(others, req.prepareBy(p, h)...)
		}
	}
	return all, nil
}

// explainWritten explains the validators that, as in review, evaluate the written
// object because the API server does not serve its version.
func (c Chain) explainWritten(ctx context.Context, req *Request, policy, rule string) ([]Explanation, error) {
	if req.Admitted == nil {
		return nil, nil
	}
	var all []Explanation
	for _, v := range c.Validators {
		if _, ok := v.(WrittenValidator); !ok {
			continue
		}
		es, err := explain(ctx, v, req, policy, rule)
		if err != nil {
			return nil, err
		}
		for i := range es {
			for k := range es[i].Results {
				es[i].Results[k].Assumed = append(es[i].Results[k].Assumed, evaluatedAsWritten)
			}
			es[i].locate(req, &history{})
		}
		all = append(all, es...)
	}
	return all, nil
}

// explainMutations runs the mutators, and explains those with the policy's
// name.
func (c Chain) explainMutations(ctx context.Context, req *Request, h *history, policy, rule string) ([]Explanation, error) {
	var all []Explanation
	for _, m := range c.Mutators {
		before := *req
		results, err := Chain{Mutators: []Mutator{m}}.mutate(ctx, req, h)
		if err != nil {
			return nil, err
		}
		es := ruleExplanations(m.Rules(), results, policy, rule)
		if x, ok := m.(Explainer); ok && len(es) > 0 {
			if es, err = explainMutator(ctx, x, m, &before, policy, rule); err != nil {
				return nil, err
			}
			for i := range es {
				es[i].adopt(results)
			}
		}
		all = append(all, es...)
	}
	for i := range all {
		all[i].complete(req, h)
	}
	return all, nil
}

func explainMutator(ctx context.Context, x Explainer, m Mutator, req *Request, policy, rule string) (es []Explanation, err error) {
	defer func() {
		if p := recover(); p != nil {
			es, err = []Explanation{{Engine: EngineCompile, Policy: policy, Results: []Result{panicked(m, p)}}}, nil
		}
	}()
	return x.Explain(ctx, req, policy, rule)
}

// adopt replaces the engine's results by those that have places.
func (e *Explanation) adopt(results []Result) {
	for i := range e.Results {
		mine := &e.Results[i]
		at := slices.IndexFunc(results, func(r Result) bool {
			return r.Engine == mine.Engine && r.Policy == mine.Policy && r.Rule == mine.Rule && r.Outcome == mine.Outcome && r.Message == mine.Message
		})
		if at >= 0 {
			*mine = results[at]
		}
	}
}

// explain converts a panic in an engine's libraries to a result, as validate
// does.
func explain(ctx context.Context, v Validator, req *Request, policy, rule string) (es []Explanation, err error) {
	defer func() {
		if p := recover(); p != nil {
			es, err = []Explanation{{Engine: EngineCompile, Policy: policy, Results: []Result{panicked(v, p)}}}, nil
		}
	}()
	if x, ok := v.(Explainer); ok {
		return x.Explain(ctx, req, policy, rule)
	}
	rules := pick(v.Rules(), policy, rule)
	if len(rules) == 0 {
		return nil, nil
	}
	results, err := validate(ctx, v, req)
	return ruleExplanations(rules, results, policy, rule), err
}

func pick(rules []Rule, policy, rule string) []Rule {
	var picked []Rule
	for _, r := range rules {
		if r.Policy == policy && (rule == "" || r.Name == rule) {
			picked = append(picked, r)
		}
	}
	return picked
}

// ruleExplanations returns explanations of the engines that are not Explainers and have such a
// policy: their rules and results alone.
func ruleExplanations(rules []Rule, results []Result, policy, rule string) []Explanation {
	var es []Explanation
	for _, r := range pick(rules, policy, rule) {
		if len(es) == 0 || es[len(es)-1].Engine != r.Engine {
			es = append(es, Explanation{Engine: r.Engine, Policy: policy})
		}
		e := &es[len(es)-1]
		e.Rules = append(e.Rules, r)
	}
	for i := range es {
		for _, x := range results {
			if x.Engine == es[i].Engine && x.Policy == policy && (rule == "" || x.Rule == rule) {
				es[i].Results = append(es[i].Results, x)
			}
		}
	}
	return es
}

// locate completes an explanation, and sets the places of its results.
func (e *Explanation) locate(req *Request, h *history) {
	for i := range e.Results {
		locate(&e.Results[i], req, h)
	}
	e.complete(req, h)
}

// complete sets the fields that follow from the request, and the places of
// culprits.
func (e *Explanation) complete(req *Request, h *history) {
	subject := req.Subject()
	e.Operation, e.Object, e.Origins = req.Operation, subject.Key(), subject.At("")
	e.Object.Namespace = cmp.Or(e.Object.Namespace, req.Namespace)
	e.Request = req.asked()
	for i := range e.Trials {
		t := &e.Trials[i]
		if t.ParamObject != nil {
			t.ParamOrigin = t.ParamObject.At("")
		}
		t.eachCulprit(func(c *Culprit) { t.place(c, req, h) })
	}
}

func (r *Request) asked() Asked {
	return Asked{
		Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource,
		Namespace: r.Namespace, User: r.UserInfo.Username, Groups: r.UserInfo.Groups,
	}
}

// eachCulprit calls f with each culprit of the trial's evaluations.
func (t *Trial) eachCulprit(f func(*Culprit)) {
	for _, list := range [][]Evaluation{t.Conditions, t.Variables, t.Validations, t.Annotations} {
		for i := range list {
			for j := range list[i].Culprits {
				f(&list[i].Culprits[j])
			}
		}
	}
}

// place sets the lines of a culprit. Another version of the object has other
// pointers.
func (t *Trial) place(c *Culprit, req *Request, h *history) {
	switch {
	case c.Root == "object" && req.Object != nil && t.As == "":
		c.Origins, _ = h.at(req.Object, c.Pointer)
		c.Pointer = written([]string{c.Pointer}, req.Object)[0]
	case c.Root == "oldObject" && t.As == "":
		c.Origins = req.OldObject.At(c.Pointer)
	case c.Root == "params":
		c.Origins = t.ParamObject.At(c.Pointer)
	case c.Root == "namespaceObject":
		c.Origins = t.NamespaceObject.At(c.Pointer)
	}
}

// String returns the cost and its limit.
func (c Cost) String() string { return fmt.Sprintf("%d of %d", c.Spent, c.Limit) }
