package kyverno

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

const (
	opCreate = string(policy.Create)
	opUpdate = string(policy.Update)
	opDelete = string(policy.Delete)
)

// A review is one request while the rules evaluate it. It is not safe for
// concurrent use.
type review struct {
	engine    *Engine
	ctx       context.Context
	req       *policy.Request
	mocks     *Mocks          // never nil
	given     *policy.Cluster // the mocks' resources, built on first use
	operation string
	simulated bool             // the operation is not the one in the test
	object    map[string]any   // as the earlier rules left it; nil on DELETE
	old       map[string]any   // nil on CREATE
	evaluates map[*Policy]bool // nil: all policies
	done      map[*Rule]bool   // rules that are left out
	changed   bool             // a rule has changed the object
	converted bool             // the rules see the objects in another version than the request's
	noVersion error            // why the objects could not be converted to it
	versions  bool             // no rule names the request's version, and it is unknown which others the kind has

	search jmespath.Options
	*notes

	requestValue map[string]any // built on first use
	cel          *celReview     // likewise
	images       map[string]any
	imagesErr    error
	imagesDone   bool
	imagesFor    *Rule
	podValue     *podsecurity.Pod
	podErr       error
	podRead      bool
	podKeyValue  string
	podImages    []string // set with the key
	podKeyed     bool

	run *run // of the last rule

	explainer *explainer // nil: no rule is explained
	trace     *trace     // trace of the rule that is being explained, or nil
}

// newReview returns a review of a request by the policies that a webhook evaluates when it is called.
func (e *Engine) newReview(ctx context.Context, req *policy.Request, mocks *Mocks, c call) *review {
	if mocks == nil {
		mocks = &Mocks{}
	}
	seen, err := e.in(req, c.as)
	r := &review{
		engine: e, ctx: ctx, req: seen, mocks: mocks, evaluates: c.evaluates,
		operation: string(req.Operation), object: seen.Admitted, old: seen.OldAdmitted,
		converted: seen != req, noVersion: err,
		versions: c.versionsUnknown(req),
		notes:    &notes{},
	}
	r.search = jmespath.Options{Now: e.options.Now, Assumed: r.assume, Spent: &r.work}
	if r.operation == opDelete {
		r.object = nil
	}
	return r
}

// mayMatch reports whether a rule would match the object in another version that the rule names, if it is unknown which
// versions there are.
func (r *review) mayMatch(rule *Rule, t *document.Target) bool {
	if !r.versions {
		return false
	}
	other := *t
	for _, f := range rule.Match.Filters() {
		for _, k := range f.Kinds {
			if other.Kind.Version = k.Version; k.Version == t.Kind.Version || pattern.HasWildcard(k.Version) {
				continue
			}
			if matched, _ := rule.Matches(&other); matched {
				return true
			}
		}
	}
	return false
}

// notes records the questions, assumptions and cost of the current rule. The
// reviews of one request share them.
type notes struct {
	questions []string         // questions that must be answered to decide the rule
	assumed   []string         // assumptions
	work      int              // cost so far, in steps of JMESPath searches and the like
	secrets   []map[string]any // Secrets that the rule looked up
}

// with returns a review of another state of the request: of a patched object,
// or of the old object as if it were created.
func (r *review) with(operation string, object, old map[string]any) *review {
	n := *r
	n.operation, n.object, n.old = operation, object, old
	n.simulated = r.simulated || operation != r.operation
	n.forget()
	return &n
}

// replace sets a patched object as the request's object.
func (r *review) replace(object map[string]any) {
	r.object, r.changed = object, true
	r.forget()
}

// forget drops the values derived from the object.
func (r *review) forget() {
	r.requestValue, r.images, r.imagesDone, r.cel = nil, nil, false, nil
	r.podValue, r.podErr, r.podRead, r.podKeyed, r.podKeyValue = nil, nil, false, false, ""
}

// seen returns the object as JMESPath sees it.
func (r *review) seen() any {
	if r.requestValue == nil {
		r.requestValue = r.newRequest()
	}
	if r.object != nil {
		return r.requestValue["object"]
	}
	return r.requestValue["oldObject"]
}

// subject returns the object that the request creates, updates or deletes.
func (r *review) subject() map[string]any {
	if r.object != nil {
		return r.object
	}
	return r.old
}

// maxWork is the most work that one rule may do for one request. The work grows
// fast where each element of a list is compared with another list.
const maxWork = 8_000_000

var errWork = errors.New("the rule takes too many steps for one object")

// spend adds to the rule's work. It fails if there is too much of it, searches
// included.
func (n *notes) spend(work int) error {
	if n.work += max(work, 0); n.work > maxWork {
		return errWork
	}
	return nil
}

// maxQuestions is the most questions that are kept for one rule.
const maxQuestions = 32

// ask records a question that must be answered to decide the rule, and returns it
// as an error.
func (n *notes) ask(question string) error {
	if len(n.questions) < maxQuestions && !slices.Contains(n.questions, question) {
		n.questions = append(n.questions, question)
	}
	return &openError{question}
}

// An openError is the question that must be answered to evaluate an expression.
type openError struct{ question string }

func (o *openError) Error() string { return o.question }

func (n *notes) assume(what string) {
	if !slices.Contains(n.assumed, what) {
		n.assumed = append(n.assumed, what)
	}
}

// unit returns the object's unit. Lookups prefer the cluster's objects of the
// same unit.
func (r *review) unit() *render.Unit {
	if o := r.req.Subject(); o != nil {
		return o.Unit
	}
	return nil
}

// userKnown reports whether anything is known about the user. On Kyverno's
// command line the user is empty instead of unknown.
func (r *review) userKnown() bool {
	return r.engine.options.CLI || r.user().Known()
}

// needs returns what a text asks of the live request: a question of package policy, or "".
func needs(text string) string {
	switch {
	case aboutUser.MatchString(text):
		return policy.NeedsUser
	case aboutOptions.MatchString(text):
		return policy.NeedsOptions
	}
	return ""
}

// unknown asks what needs returned, unless that is known.
func (r *review) unknown(question string) error {
	if question == policy.NeedsUser && !r.userKnown() || question == policy.NeedsOptions && !r.engine.options.CLI {
		return r.ask(question)
	}
	return nil
}

func (r *review) user() *policy.UserInfo {
	if r.engine.options.CLI {
		return cmp.Or(r.mocks.UserInfo, &policy.UserInfo{})
	}
	return &r.req.UserInfo
}

// serviceAccount returns the name or the namespace in
// system:serviceaccount:NAMESPACE:NAME.
func (r *review) serviceAccount(which string) (any, bool, error) {
	if err := r.unknown(policy.NeedsUser); err != nil {
		return nil, false, err
	}
	if r.engine.options.CLI && r.mocks.UserInfo == nil {
		return nil, false, nil
	}
	namespace, name := "", ""
	if rest, ok := strings.CutPrefix(r.user().Username, "system:serviceaccount:"); ok {
		namespace, name, _ = strings.Cut(rest, ":")
	}
	if which == "serviceAccountName" {
		return name, true, nil
	}
	return namespace, true, nil
}

// request returns the JMESPath variable request.
func (r *review) request(mocks map[string]any) map[string]any {
	mocked, _ := mocks["request"].(map[string]any)
	if r.requestValue == nil {
		r.requestValue = r.newRequest()
	}
	if mocked == nil {
		return r.requestValue
	}
	m := merge(r.requestValue, mocked)
	if r.simulated {
		m["operation"] = r.operation
	}
	return m
}

// newRequest builds the variable request: all of it as in a cluster, or on
// Kyverno's command line the objects and little else.
func (r *review) newRequest() map[string]any {
	m := map[string]any{}
	if !r.engine.options.CLI {
		m = r.req.Fields(r.req.Version())
		delete(m, "userInfo")
	}
	m["operation"] = r.operation
	if r.engine.options.CLI {
		m["namespace"] = r.req.Namespace
	}
	if r.object != nil {
		m["object"] = floats(r.object)
	}
	if r.old != nil {
		m["oldObject"] = floats(r.old)
	}
	r.addUser(m)
	if r.engine.options.CLI {
		return m
	}
	for _, name := range []string{"object", "oldObject"} {
		if _, ok := m[name]; !ok {
			m[name] = nil
		}
	}
	if r.req.Kind == namespaceKind {
		m["namespace"] = r.req.Name // as the API server sets it
	}
	m["options"] = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": optionsKinds[r.operation]}
	return m
}

var optionsKinds = map[string]string{opCreate: "CreateOptions", opUpdate: "UpdateOptions", opDelete: "DeleteOptions"}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

func (r *review) addUser(m map[string]any) {
	if r.engine.options.CLI && r.mocks.UserInfo == nil || !r.userKnown() {
		return
	}
	u := r.user()
	info := u.Fields()
	info["username"] = u.Username
	m["userInfo"] = info
	roles, clusterRoles := r.roles()
	for name, names := range map[string][]string{"roles": roles, "clusterRoles": clusterRoles} {
		if len(names) > 0 { // else Kyverno sets no such key
			m[name] = policy.Anys(names)
		}
	}
}
