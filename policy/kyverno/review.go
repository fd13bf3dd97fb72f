package kyverno

import (
	"context"
	"errors"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/render"
)

const (
	opCreate = string(policy.Create)
	opUpdate = string(policy.Update)
	opDelete = string(policy.Delete)
)

// A review is one request on its way through the rules. It is of one
// goroutine.
type review struct {
	engine    *Engine
	ctx       context.Context
	req       *policy.Request
	mocks     *Mocks          // never nil
	given     *policy.Cluster // of the mocks' resources, built when asked for
	operation string
	simulated bool           // operation is not what the test says
	object    map[string]any // as the rules before left it; nil on DELETE
	old       map[string]any // nil on CREATE

	search jmespath.Options
	*notes

	requestValue map[string]any // built when asked for
	cel          *celReview     // likewise
	images       map[string]any
	imagesErr    error
	imagesDone   bool
	imagesFor    *Rule
	podValue     *podsecurity.Pod
	podErr       error
	podRead      bool
	podKeyValue  string
	podImages    []string // once there is a key
	podKeyed     bool

	explainer *explainer // nil: nobody asked for explanations
	trace     *trace     // of the rule that is explained; nil: none
}

func (e *Engine) newReview(ctx context.Context, req *policy.Request, mocks *Mocks) *review {
	if mocks == nil {
		mocks = &Mocks{}
	}
	r := &review{
		engine: e, ctx: ctx, req: req, mocks: mocks,
		operation: string(req.Operation), object: req.Admitted, old: req.OldAdmitted,
		notes: &notes{},
	}
	r.search = jmespath.Options{Now: e.options.Now, Assumed: r.assume, Spent: &r.work}
	if r.operation == opDelete {
		r.object = nil
	}
	return r
}

// notes are taken while a rule runs. The reviews of one request share them.
type notes struct {
	asked   []string         // what the rule at hand would have to know
	assumed []string         // what it took for granted
	work    int              // steps of searches and the like that it took
	secrets []map[string]any // that it looked up
}

// with is the review of another state of the request: of a patched object, or
// of the old one as if it were created.
func (r *review) with(operation string, object, old map[string]any) *review {
	n := *r
	n.operation, n.object, n.old = operation, object, old
	n.simulated = r.simulated || operation != r.operation
	n.forget()
	return &n
}

// replace makes the request one of a patched object.
func (r *review) replace(object map[string]any) {
	r.object = object
	r.forget()
}

// forget drops what was made of the object.
func (r *review) forget() {
	r.requestValue, r.images, r.imagesDone, r.cel = nil, nil, false, nil
	r.podValue, r.podErr, r.podRead, r.podKeyed, r.podKeyValue = nil, nil, false, false, ""
}

// seen is the object as JMESPath sees it.
func (r *review) seen() any {
	if r.requestValue == nil {
		r.requestValue = r.newRequest()
	}
	if r.object != nil {
		return r.requestValue["object"]
	}
	return r.requestValue["oldObject"]
}

// subject is the object that the request is about.
func (r *review) subject() map[string]any {
	if r.object != nil {
		return r.object
	}
	return r.old
}

// maxWork is how much work one rule may make of one request. Lists that each
// element of a list is compared with grow fast.
const maxWork = 8_000_000

var errWork = errors.New("the rule takes more steps than may be spent on one object")

// spend counts work, beside that of searches.
func (n *notes) spend(work int) error {
	if n.work += max(work, 0); n.work > maxWork {
		return errWork
	}
	return nil
}

// maxQuestions is how many questions are kept of one rule.
const maxQuestions = 32

// ask records what the rule would have to know.
func (n *notes) ask(question string) error {
	if len(n.asked) < maxQuestions && !slices.Contains(n.asked, question) {
		n.asked = append(n.asked, question)
	}
	return &openError{question}
}

// An openError says what would have to be known.
type openError struct{ question string }

func (o *openError) Error() string { return o.question }

func (n *notes) assume(what string) {
	if !slices.Contains(n.assumed, what) {
		n.assumed = append(n.assumed, what)
	}
}

// unit is that of the object, which the cluster's other objects of the same
// unit are nearest to.
func (r *review) unit() *render.Unit {
	if o := r.req.Subject(); o != nil {
		return o.Unit
	}
	return nil
}
