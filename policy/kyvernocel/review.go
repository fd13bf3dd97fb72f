package kyvernocel

import (
	"context"
	"errors"
	"fmt"
	"maps"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// A review is the evaluation of one request. It holds the variables of
// expressions, which are built once for all policies. It is not safe for
// concurrent use.
type review struct {
	match.Review
	ctx    context.Context
	engine *Engine
	mocks  *Mocks         // nil outside Kyverno's command line
	req    policy.Request // Admitted and OldAdmitted are the objects as they are evaluated
	policy *Policy        // the policy under evaluation; lookups of a namespaced policy are in its namespace

	objects        cel.Objects
	requests       cel.Requests
	namespaceValue ref.Val

	assumed   []string // assumptions of the policy under evaluation
	secret    bool     // the policy under evaluation looked up a Secret
	generated []map[string]any
}

func (e *Engine) review(ctx context.Context, req *policy.Request, mocks *Mocks) *review {
	r := &review{ctx: ctx, engine: e, mocks: mocks, req: *req}
	if mocks != nil {
		r.req.Admitted, r.req.OldAdmitted = asWritten(req.Object, req.Namespace), asWritten(req.OldObject, req.Namespace)
	}
	r.objects = cel.Objects{Request: &r.req, Kinds: e.options.Kinds, Absent: map[string]any{}}
	r.Review = match.NewReview(&r.req, e.options.Cluster, e.options.Kinds)
	return r
}

// asWritten returns an object as written. If it names no namespace, namespace
// is set.
func asWritten(o *render.Object, namespace string) map[string]any {
	if o == nil || namespace == "" || o.GetNamespace() != "" {
		if o == nil {
			return nil
		}
		return o.Object
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["namespace"] = namespace
	tree := maps.Clone(o.Object)
	tree["metadata"] = metadata
	return tree
}

// Equivalents implements match.Subject. Kyverno's command line knows no
// equivalent versions.
func (r *review) Equivalents() []policy.Version {
	if r.mocks != nil {
		return nil
	}
	return r.Review.Equivalents()
}

// NamespaceLabels implements match.Subject.
func (r *review) NamespaceLabels() (set map[string]string, complete bool) {
	if r.mocks == nil || r.OfNamespace() {
		return r.Review.NamespaceLabels()
	}
	set = map[string]string{}
	if o := r.mocks.Namespaces[r.Namespace]; o != nil {
		maps.Copy(set, o.GetLabels())
	}
	maps.Copy(set, r.mocks.Labels[r.Namespace])
	return r.Labelled(set), true
}

// requestTree returns the `request` variable as Kyverno fills it in: with the
// objects, without the uid.
func (r *review) requestTree(as policy.Version) map[string]any {
	tree := r.req.Fields(as)
	delete(tree, "uid")
	tree["name"], tree["userInfo"], tree["options"] = r.req.Name, r.userTree(), map[string]any{}
	if v := r.objects.In(r.req.Kind); v.Err == nil {
		tree["object"], tree["oldObject"] = v.Object, v.Old
	}
	return tree
}

// userTree returns request.userInfo. If the request has no user, it is unknown,
// or with Mocks empty.
func (r *review) userTree() any {
	u := r.req.UserInfo
	if r.mocks != nil {
		u = policy.UserInfo{}
		if r.mocks.UserInfo != nil {
			u = *r.mocks.UserInfo
		}
	} else if !u.Known() {
		return &cel.Partial{Ask: asking(policy.NeedsUser)}
	}
	return u.Fields()
}

// namespaceVar returns the `namespaceObject` variable, which is null for a
// cluster-scoped object.
func (r *review) namespaceVar() ref.Val {
	if r.namespaceValue == nil {
		r.namespaceValue = r.newNamespace()
	}
	return r.namespaceValue
}

func (r *review) newNamespace() ref.Val {
	switch {
	case r.req.Namespace == "":
		return types.NullValue
	case r.mocks != nil:
		if o := r.mocks.Namespaces[r.req.Namespace]; o != nil {
			return cel.Freeze(o.Object)
		}
		return types.NullValue
	}
	if o := r.NamespaceObject(); o != nil {
		tree := maps.Clone(o.Object)
		tree["metadata"] = cel.NamespaceMetadata(o, r.Namespace)
		return cel.Freeze(tree)
	}
	ask := asking(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", r.Namespace))
	return cel.PartialNamespace(r.Namespace, ask)
}

// A question is the error of an expression that reads something unknown. Its
// text names the missing data. `a || question` is true if a is true, and otherwise
// undecided.
type question struct{ text string }

func (q *question) Error() string { return q.text }

func ask(format string, args ...any) ref.Val {
	return types.WrapErr(&question{fmt.Sprintf(format, args...)})
}

// asked returns the question that err wraps.
func asked(err error) (*question, bool) {
	var q *question
	ok := errors.As(err, &q)
	return q, ok
}

// asking returns a function that always returns a question.
func asking(what string) func() ref.Val {
	return func() ref.Val { return types.WrapErr(&question{what}) }
}

// explainer compiles an expression for explanations, in an environment without
// Kyverno's orValue, which they don't support. It returns nil if the expression
// can't be explained.
func (c *compiled) explainer(e *cel.Expression) *explain.Explainer {
	f := flavour{kind: c.policy.Kind, namespaced: c.policy.Namespace != "", strict: true}
	d, err := f.dialect()
	if err != nil {
		return nil
	}
	s, err := newScope(d)
	if err != nil {
		return nil
	}
	variables := make([]explain.Variable, 0, len(c.variables))
	for _, v := range c.variables {
		a, err := cel.Compile(s.env, v.Source)
		if err != nil {
			return nil
		}
		s.fields[v.Name] = a.OutputType()
		variables = append(variables, explain.Variable{Name: v.Name, AST: a})
	}
	a, err := cel.Compile(s.env, e.Source)
	if err != nil {
		return nil
	}
	x, _ := explain.New(d.Env(), a, variables)
	return x
}

// blame returns the fields that made a validation fail, as pointers into the
// evaluated object, and the literals that the failed part compares them with.
// It returns no fields if they are unknown, or if the policy sees the object in
// another version.
func (r *run) blame(e *cel.Expression) (fields, literals []string) {
	if r.as.Kind != r.req.Kind {
		return nil, nil
	}
	return r.failure(e).Fields(r.ctx, e.Explainer(), r.roots(), cel.RootOf(r.req.Operation))
}

func (r *run) failure(e *cel.Expression) cel.Failure {
	return cel.Failure{Source: e.Source, Secret: r.secret}
}

// roots returns the variables of expressions.
func (r *run) roots() map[string]any {
	return cel.RootsOf(orEmpty(r.objects.Tree), orEmpty(r.objects.OldTree), r,
		"request", "namespaceObject", exceptionsName, nowName, "images", "attestors", "attestations", "resource", "http", "globalContext", "image")
}

// orEmpty returns a tree, or an empty one if it is nil, as Kyverno does.
func orEmpty(tree map[string]any) map[string]any {
	if tree == nil {
		return map[string]any{}
	}
	return tree
}

var _ celgo.Activation = (*run)(nil)
