package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// expansions holds the expansion templates, which describe the objects that
// controllers create from others, and the mutators that apply to created
// objects. It is read-only and safe for concurrent use
// (gatekeeper/v3/pkg/expansion).
type expansions struct {
	mutators *mutator.Set
	byKind   map[string][]*expansionTemplate // by the kind that they apply to, and by name
}

// An expanded is an object that a controller will create from another one.
type expanded struct {
	document.Matchable // its Source is SourceGenerated
	template           *expansionTemplate
	prefix             string         // pointer into parent of the part from which it is created
	parent             map[string]any // the object that the request is about
	assumed            []string       // mutations that could not be applied
	set                []setBy        // changes made by mutators
}

// A setBy holds the fields that a mutator set in an expanded object.
type setBy struct {
	pointers []string
	by       *mutator.Mutator
}

// maxDepth is how often created objects are expanded again, as in Gatekeeper.
// maxExpanded is the most objects that one object is expanded to,
// maxExpandedWeight the most values that they hold. After maxExpandErrors
// errors expansion ends.
const (
	maxDepth          = 30
	maxExpanded       = 1000
	maxExpandErrors   = 16
	maxExpandedWeight = 2 << 20
)

// expand returns the objects that will be created from x, and a result for each
// that can't be created. Objects created from created objects come first. If x
// is as written, the mutators change it first, as in gator; otherwise the chain
// has applied them. It fails only if ctx ends.
func (e *expansions) expand(ctx context.Context, x document.Matchable) ([]expanded, []policy.Result, error) {
	if e.none() {
		return nil, nil, nil
	}
	r := &expansionRun{expansions: e, ctx: ctx, root: x.Object}
	if x.Written {
		changed, err := e.mutators.Mutate(ctx, mutator.Target{Matchable: x, Kind: kindOf(x.Object)})
		if err != nil {
			return nil, r.refused(err, nil, ""), ctx.Err()
		}
		x.Object = changed.Object
	}
	r.recurse(x, "", 0)
	return r.made, r.results, ctx.Err()
}

func (e *expansions) none() bool { return e == nil || len(e.byKind) == 0 }

func kindOf(object map[string]any) schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: object}).GroupVersionKind()
}

// An expansionRun expands one object.
type expansionRun struct {
	*expansions
	ctx     context.Context
	root    map[string]any
	made    []expanded
	count   int // number of objects, including those that are not in made yet
	weight  int
	results []policy.Result
	full    bool
}

func (e *expansionRun) recurse(x document.Matchable, prefix string, depth int) {
	gvk := kindOf(x.Object)
	var found []expanded
	for _, t := range e.byKind[gvk.Kind] {
		if t.concerns(gvk) && !e.full && e.ctx.Err() == nil {
			if made, ok := e.one(t, x, prefix, depth); ok {
				found = append(found, made)
			}
		}
	}
	for i := range found {
		e.recurse(found[i].Matchable, found[i].prefix, depth+1)
	}
	e.made = append(e.made, found...)
}

func (e *expansionRun) one(t *expansionTemplate, x document.Matchable, prefix string, depth int) (expanded, bool) {
	made := expanded{template: t, prefix: prefix + t.pointer(), parent: e.root}
	var object map[string]any
	var err error
	policy.Observed(e.ctx, policy.EngineGatekeeper, t.id(), func() {
		if object, err = t.make(x); err == nil {
			err = e.room(object, depth)
		}
	})
	switch {
	case object == nil && err == nil: // the template is set apart
		return made, false
	case err != nil:
		e.results = append(e.results, t.broken(err, prefix))
		e.full = e.full || len(e.results) == maxExpandErrors
		return made, false
	}
	made.Matchable = document.Matchable{Object: object, Namespace: x.Namespace, Source: document.SourceGenerated, Written: x.Written}
	after, err := e.mutators.Mutate(e.ctx, mutator.Target{Matchable: made.Matchable, Kind: t.generates})
	if err != nil {
		e.results = append(e.results, e.refused(err, t, made.prefix)...)
		return made, false
	}
	for _, s := range after.Steps {
		if s.After != nil {
			made.set = append(made.set, setBy{patch.Differences(made.Object, s.After), s.By})
			made.Object = s.After
		}
	}
	for _, u := range after.Unknowns {
		result := u.Result()
		result.Message, result.Fields = t.implied(result.Message), []string{made.prefix}
		e.results = append(e.results, result)
		made.assumed = append(made.assumed, fmt.Sprintf("%s %s could not be applied: checked without its changes", result.Engine, result.Policy))
	}
	return made, true
}

// room counts an object. It returns an error if there are too many.
func (e *expansionRun) room(object map[string]any, depth int) error {
	e.count++
	e.weight += mutator.Weight(object)
	switch {
	case depth >= maxDepth:
		e.full = true
		return fmt.Errorf("unable to expand object: maximum recursion depth of %d reached", maxDepth)
	case e.count > maxExpanded || e.weight > maxExpandedWeight:
		e.full = true
		return errors.New("unable to expand object: it would create too many objects")
	}
	return nil
}

// refused returns the results for an object that a mutator failed on.
func (e *expansionRun) refused(err error, t *expansionTemplate, prefix string) []policy.Result {
	var refusal *mutator.Error
	if !errors.As(err, &refusal) {
		return nil // of the context
	}
	result := refusal.Result()
	if t != nil {
		result.Message, result.Fields = t.implied(result.Message), []string{prefix}
	}
	return []policy.Result{result}
}

// pointers converts fields of the expanded object to those of the request's object. A
// field that only the expanded object has becomes the field that it is created from.
func (e *expanded) pointers(fields []string) []string {
	out := make([]string, 0, len(fields))
	for _, f := range fields {
		pointer := e.prefix + f
		if _, own := render.Lookup(e.parent, pointer); !own && given(f) {
			pointer = e.prefix
		}
		if !slices.Contains(out, pointer) {
			out = append(out, pointer)
		}
	}
	return out
}

// assumptions returns the assumptions behind a response about fields: the mutators that
// set them, and those that could not be applied.
func (e *expanded) assumptions(fields []string) []string {
	assumed := slices.Clone(e.assumed)
	for _, s := range e.set {
		for _, p := range s.pointers {
			if slices.ContainsFunc(fields, func(f string) bool { return f == p || strings.HasPrefix(f, p+"/") }) {
				assumed = append(assumed, fmt.Sprintf("%s is set by %s %s", e.prefix+p, policy.EngineGatekeeper, s.by.Name))
			}
		}
	}
	return assumed
}

// given reports whether expansion sets a field itself, so that the source has no
// such field.
func given(pointer string) bool {
	return slices.ContainsFunc([]string{"/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/ownerReferences"}, func(p string) bool {
		return pointer == p || strings.HasPrefix(pointer, p+"/")
	})
}

// make returns the object that will be created from x.
func (e *expansionTemplate) make(x document.Matchable) (map[string]any, error) {
	parent := &unstructured.Unstructured{Object: x.Object}
	found, ok := render.Lookup(x.Object, e.pointer())
	if !ok {
		return nil, fmt.Errorf("unable to expand object: could not find source field %q", e.source)
	}
	from, ok := found.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("unable to expand object: source field %q is %s, and should be an object", e.source, mutator.TypeName(found))
	}
	copied, _ := render.Copy(from).(map[string]any)
	made := &unstructured.Unstructured{Object: copied}
	if meta, has := copied["metadata"]; has {
		if _, ok := meta.(map[string]any); !ok {
			return nil, fmt.Errorf("unable to expand object: metadata of source field %q is %s, and should be an object", e.source, mutator.TypeName(meta))
		}
	}
	made.SetGroupVersionKind(e.generates)
	if x.Namespace != nil {
		made.SetNamespace(x.Namespace.Name)
	} else if ns := parent.GetNamespace(); ns != "" {
		made.SetNamespace(ns)
	}
	name := parent.GetName()
	if e.generates.Kind != "" {
		name += "-"
	}
	made.SetName(strings.ToLower(name + e.generates.Kind))
	addOwner(made, parent)
	return made.Object, nil
}

// addOwner adds the parent to the owners of the created object.
func addOwner(made, parent *unstructured.Unstructured) {
	if parent.GetAPIVersion() == "" || parent.GetKind() == "" || parent.GetName() == "" {
		return
	}
	owner := map[string]any{"apiVersion": parent.GetAPIVersion(), "kind": parent.GetKind(), "name": parent.GetName(), "uid": ""}
	meta, _ := made.Object["metadata"].(map[string]any)
	owners, _ := meta["ownerReferences"].([]any)
	for _, o := range owners {
		if o, ok := o.(map[string]any); ok && o["apiVersion"] == owner["apiVersion"] && o["kind"] == owner["kind"] && o["name"] == owner["name"] {
			return
		}
	}
	meta["ownerReferences"] = append(slices.Clip(owners), owner)
}
