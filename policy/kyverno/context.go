package kyverno

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
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
	mocks     *Mocks // never nil
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
	r.search = jmespath.Options{Now: e.options.Now, Assumed: r.assume}
	if r.operation == opDelete {
		r.object = nil
	}
	return r
}

// notes are taken while a rule runs. The reviews of one request share them.
type notes struct {
	asked   []string // what the rule at hand would have to know
	assumed []string // what it took for granted
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

func (e *openError) Error() string { return e.question }

func (n *notes) assume(what string) {
	if !slices.Contains(n.assumed, what) {
		n.assumed = append(n.assumed, what)
	}
}

// A scope is what JMESPath sees: names bound by foreach and by context
// entries, the inner ones first, and below them the request.
type scope struct {
	review *review
	rule   *Rule
	parent *scope
	names  []binding
	mocks  map[string]any // of the outermost: what tests bring, as a tree
	target map[string]any // of mutate.targets
}

// A binding is a name with its value, or with the entry that gives it one when
// it is first asked for.
type binding struct {
	name    string
	value   any
	entry   *entry // nil: the value is there
	state   uint8
	err     error
	pointer func() string // of an element: where it stands in the object
}

const (
	notLoaded uint8 = iota
	loading
	loaded
)

var _ jmespath.Scope = (*scope)(nil)

// Lookup implements jmespath.Scope.
func (s *scope) Lookup(name string) (any, bool, error) {
	if b, in, i := s.find(name); b != nil {
		v, err := in.load(b, i)
		return v, true, err
	}
	return s.outermost().root(name)
}

func (s *scope) outermost() *scope {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// find is the innermost binding of a name, with its scope and index there.
func (s *scope) find(name string) (*binding, *scope, int) {
	for in := s; in != nil; in = in.parent {
		for i := len(in.names) - 1; i >= 0; i-- {
			if in.names[i].name == name {
				return &in.names[i], in, i
			}
		}
	}
	return nil, nil, 0
}

// load gives a binding its value. An entry sees the names before it.
func (s *scope) load(b *binding, i int) (any, error) {
	switch {
	case b.entry == nil || b.state == loaded:
		return b.value, b.err
	case b.state == loading:
		return nil, fmt.Errorf("context entry %s asks for itself", b.name)
	}
	b.state = loading
	b.value, b.err = b.entry.load(s.before(i))
	b.value = floats(b.value)
	if b.err != nil {
		b.err = fmt.Errorf("failed to load context entry %s: %w", b.name, b.err)
	}
	b.state = loaded
	return b.value, b.err
}

func (s *scope) before(i int) *scope {
	return &scope{review: s.review, rule: s.rule, parent: s.parent, names: s.names[:i], mocks: s.mocks, target: s.target}
}

// All implements jmespath.Scope.
func (s *scope) All() (map[string]any, error) {
	all := map[string]any{}
	if s.parent != nil {
		var err error
		if all, err = s.parent.All(); err != nil {
			return nil, err
		}
	} else {
		maps.Copy(all, s.mocks)
		for _, name := range []string{"request", "images", "target", "serviceAccountName", "serviceAccountNamespace"} {
			v, found, err := s.root(name)
			if err != nil {
				return nil, err
			}
			if found {
				all[name] = v
			}
		}
	}
	for i := range s.names {
		v, err := s.load(&s.names[i], i)
		if err != nil {
			return nil, err
		}
		all[s.names[i].name] = v
	}
	return all, nil
}

// root gives what is there without any context entry.
func (s *scope) root(name string) (any, bool, error) {
	r := s.review
	switch name {
	case "request":
		return r.request(s.mocks), true, nil
	case "images":
		if _, mocked := s.mocks[name]; !mocked {
			return r.imagesOf(s.rule)
		}
	case "target":
		if s.target != nil {
			return s.target, true, nil
		}
	case "serviceAccountName", "serviceAccountNamespace":
		if _, mocked := s.mocks[name]; !mocked {
			return r.serviceAccount(name)
		}
	}
	v, found := s.mocks[name]
	return v, found, nil
}

// query searches the scope. user says that the expression reads who makes the
// request.
func (s *scope) query(expr *jmespath.Expression, user bool) (any, error) {
	if user && !s.review.userKnown(s.mocks) {
		return nil, s.review.ask("needs to know who makes the request: give the user with --as")
	}
	v, err := expr.Search(s, &s.review.search)
	return v, s.review.searched(err)
}

// searched is the error of a search: one that says what is not known is a
// question.
func (r *review) searched(err error) error {
	if err == nil {
		return nil
	}
	if undecided, ok := errors.AsType[*jmespath.UndecidedError](err); ok {
		return r.ask(undecided.Error())
	}
	return fmt.Errorf("JMESPath query failed: %w", err)
}

// userKnown says whether anything is known of who makes the request. On the
// command line of Kyverno what is not known is not there.
func (r *review) userKnown(mocks map[string]any) bool {
	u := r.user()
	return r.engine.options.CLI || u.Username != "" || u.UID != "" || len(u.Groups) > 0 || len(u.Extra) > 0
}

func (r *review) user() *policy.UserInfo {
	if r.engine.options.CLI {
		return cmp.Or(r.mocks.UserInfo, &policy.UserInfo{})
	}
	return &r.req.UserInfo
}

// serviceAccount gives the parts of system:serviceaccount:NAMESPACE:NAME.
func (r *review) serviceAccount(which string) (any, bool, error) {
	if !r.userKnown(nil) {
		return nil, false, r.ask("needs to know who makes the request: give the user with --as")
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

// request is the variable of that name.
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

// newRequest is what Kyverno shows of a request: all of it in a cluster, on
// its command line the objects and little else.
func (r *review) newRequest() map[string]any {
	m := map[string]any{"operation": r.operation, "namespace": r.req.Namespace}
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
	kind, resource := kindTree(r.req), resourceTree(r.req)
	if r.req.Kind == namespaceKind {
		m["namespace"] = r.req.Name // as the API server has it
	}
	m["uid"], m["name"], m["dryRun"] = "", r.req.Name, r.req.DryRun
	m["kind"], m["requestKind"], m["resource"], m["requestResource"] = kind, kind, resource, resource
	if r.req.SubResource != "" {
		m["subResource"], m["requestSubResource"] = r.req.SubResource, r.req.SubResource
	}
	m["options"] = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": optionsKinds[r.operation]}
	return m
}

var optionsKinds = map[string]string{opCreate: "CreateOptions", opUpdate: "UpdateOptions", opDelete: "DeleteOptions"}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

func kindTree(req *policy.Request) map[string]any {
	return map[string]any{"group": req.Kind.Group, "version": req.Kind.Version, "kind": req.Kind.Kind}
}

func resourceTree(req *policy.Request) map[string]any {
	return map[string]any{"group": req.Resource.Group, "version": req.Resource.Version, "resource": req.Resource.Resource}
}

func (r *review) addUser(m map[string]any) {
	if r.engine.options.CLI && r.mocks.UserInfo == nil || !r.userKnown(nil) {
		return
	}
	u := r.user()
	info := map[string]any{"username": u.Username}
	if u.UID != "" {
		info["uid"] = u.UID
	}
	if len(u.Groups) > 0 {
		info["groups"] = anys(u.Groups)
	}
	if len(u.Extra) > 0 {
		extra := map[string]any{}
		for k, v := range u.Extra {
			extra[k] = anys(v)
		}
		info["extra"] = extra
	}
	m["userInfo"] = info
	roles, clusterRoles := r.roles()
	m["roles"], m["clusterRoles"] = anys(roles), anys(clusterRoles)
}

func anys(list []string) []any {
	made := make([]any, len(list))
	for i, s := range list {
		made[i] = s
	}
	return made
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// merge is a map with what another says over it, however deep. It changes
// neither.
func merge(under, over map[string]any) map[string]any {
	made := maps.Clone(under)
	for k, v := range over {
		inner, ok := v.(map[string]any)
		if below, both := made[k].(map[string]any); ok && both {
			made[k] = merge(below, inner)
			continue
		}
		made[k] = v
	}
	return made
}

// mocked is what a test brings for a rule, as a tree. nil: nothing.
func (r *review) mocked(rule *Rule) map[string]any {
	own := rule.Name
	if rule.Base != nil {
		own = rule.Base.Name
	}
	sets := []map[string]any{r.mocks.Variables, r.mocks.Rules[own], r.mocks.Foreach[own]}
	var tree map[string]any
	for _, set := range sets {
		for _, name := range sortedKeys(set) {
			if tree == nil {
				tree = map[string]any{}
			}
			plant(tree, splitName(name), floats(set[name]))
		}
	}
	return tree
}

// splitName takes a dotted name apart; a quoted part keeps its dots.
func splitName(name string) []string {
	var parts []string
	var part strings.Builder
	quoted := false
	for _, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteRune(c)
		}
	}
	return append(parts, part.String())
}

func plant(tree map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := tree[name].(map[string]any)
		if ok {
			below = maps.Clone(below)
		} else {
			below = map[string]any{}
		}
		tree[name] = below
		tree = below
	}
	tree[path[len(path)-1]] = value
}

// scopeOf is the scope of a rule's context entries.
func (r *review) scopeOf(rule *Rule, entries []*entry) *scope {
	s := &scope{review: r, rule: rule, mocks: r.mocked(rule)}
	s.names = s.bind(entries)
	return s
}

// inner is the scope of further entries and names.
func (s *scope) inner(names []binding, entries []*entry) *scope {
	n := &scope{review: s.review, rule: s.rule, parent: s, names: names}
	n.names = append(n.names, n.bind(entries)...)
	return n
}

// on is the scope in another review, with what was loaded.
func (s *scope) on(r *review) *scope {
	n := *s
	n.review = r
	if s.parent != nil {
		n.parent = s.parent.on(r)
	}
	return &n
}

// bind makes bindings of context entries. What a test brings for an entry
// stands for it, but for variables: they are always as the policy says.
func (s *scope) bind(entries []*entry) []binding {
	var names []binding
	for _, e := range entries {
		if s.review.stands(e, s.outermost().mocks) {
			names = append(names, binding{name: e.Name, entry: e})
		}
	}
	return names
}

// stands says whether an entry is loaded. Kyverno's tests load only those that
// they have answers for.
func (r *review) stands(e *entry, mocks map[string]any) bool {
	if e.Variable != nil || !r.engine.options.CLI {
		return true
	}
	if _, mocked := mocks[e.Name]; mocked {
		return false
	}
	switch {
	case e.APICall != nil:
		return r.mocks.Simulate || len(r.mocks.APICalls) > 0
	case e.GlobalReference != nil:
		return r.mocks.Simulate || len(r.mocks.Global) > 0
	case e.ConfigMap != nil:
		return r.mocks.Simulate
	default:
		return false
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
