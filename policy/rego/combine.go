package rego

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// Combined evaluates all objects together, as `conftest --combine` does: the
// input is a list with the path and contents of each. It evaluates once, on
// first use, and assigns the violations to objects. It is safe for concurrent
// use.
type Combined struct {
	engine  *Engine
	objects []*render.Object // in the order of the input
	input   []any
	secrets opa.Secrets
	index   map[*render.Object]int

	once     sync.Mutex
	done     bool
	about    map[int][]policy.Result // by the index of an object
	rest     []policy.Result
	verdicts []verdict
}

// A verdict is a rule whose evaluation was decided, and the objects that violate
// it.
type verdict struct {
	rule   *rule
	failed map[int]bool
}

var _ policy.WrittenValidator = (*Combined)(nil)

// Combine makes a validator that evaluates all of the objects together. They are
// ordered by file, as conftest does, and by the order given.
func (e *Engine) Combine(objects []*render.Object) *Combined {
	c := &Combined{engine: e, objects: slices.Clone(objects), index: map[*render.Object]int{}}
	slices.SortStableFunc(c.objects, func(a, b *render.Object) int { return strings.Compare(fileOf(a), fileOf(b)) })
	for i, o := range c.objects {
		c.index[o] = i
		c.input = append(c.input, map[string]any{"path": fileOf(o), "contents": o.Object})
	}
	c.secrets = secrets(c.objects...)
	return c
}

// fileOf returns the file that an object is written in, or "".
func fileOf(o *render.Object) string {
	if at := o.At(""); len(at) > 0 {
		return at[0].File
	}
	return ""
}

// Rules returns the rules of the engine.
func (c *Combined) Rules() []policy.Rule { return c.engine.Rules() }

// EvaluatesWritten implements [policy.WrittenValidator].
func (c *Combined) EvaluatesWritten() {}

// Validate returns the results of the joint evaluation for the request's
// object, or none if the object is not among the evaluated ones.
func (c *Combined) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	i, ok := c.index[req.Object]
	if !ok {
		return nil, nil
	}
	if err := c.evaluate(ctx); err != nil {
		return nil, err
	}
	results := slices.Clone(c.about[i])
	for _, s := range c.verdicts {
		if !s.failed[i] {
			results = append(results, s.rule.finding(policy.Pass).Result)
		}
	}
	return results, nil
}

// Rest returns the results of the joint evaluation that are about no single
// object, such as a rule with an error. They have no object.
func (c *Combined) Rest(ctx context.Context) ([]policy.Result, error) {
	if err := c.evaluate(ctx); err != nil {
		return nil, err
	}
	return slices.Clone(c.rest), nil
}

// evaluate evaluates the rules on first use.
func (c *Combined) evaluate(ctx context.Context) error {
	c.once.Lock()
	defer c.once.Unlock()
	if c.done {
		return nil
	}
	e := c.engine
	q := question{
		Question: opa.Question{Input: opa.Value(c.input), Data: e.data.with("Combined", "."), Now: e.options.Now, Inside: new(opa.Inside)},
		secrets:  c.secrets,
	}
	q.Print = e.print(q.secrets)
	c.about, c.rest, c.verdicts = map[int][]policy.Result{}, nil, nil
	found := map[*rule][]finding{}
	if err := e.evaluate(ctx, &q, func(r *rule, f finding) { found[r] = append(found[r], f) }); err != nil {
		return err
	}
	for _, p := range e.packages {
		for _, r := range p.rules {
			c.share(r, found[r])
		}
	}
	c.done = true
	return nil
}

// share assigns a rule's findings to objects. Other objects pass the rule if it
// was decided.
func (c *Combined) share(r *rule, found []finding) {
	v := verdict{r, map[int]bool{}}
	undecided := false
	for _, f := range found {
		if f.Outcome == policy.Pass {
			continue
		}
		i, ok := 0, false
		if f.value != nil {
			if i, ok = c.attribute(&f); ok {
				f.Fields = c.secrets.Fields(c.objects[i].Object, f.Fields)
			}
		} else {
			undecided = undecided || f.Outcome != policy.Fail
		}
		if !ok {
			c.rest = append(c.rest, f.Result)
			continue
		}
		v.failed[i] = true
		c.about[i] = append(c.about[i], f.Result)
	}
	if !undecided {
		c.verdicts = append(c.verdicts, v)
	}
}

// attribute finds the object that a violation is about and sets its fields:
// those that its details name, else those that the rule read.
func (c *Combined) attribute(f *finding) (int, bool) {
	if named := opa.Hinted(f.details, c.input); len(named) > 0 {
		if i, field, ok := c.split(render.Path(named[0])); ok {
			f.Fields = field
			return i, true
		}
	}
	if i, ok := c.objectNamed(f.details); ok {
		f.Fields = opa.Hinted(f.details, c.objects[i].Object)
		if len(f.Fields) == 0 {
			f.Fields = c.fields(f, i)
		}
		return i, true
	}
	i, ok := c.blamed(f)
	if ok {
		f.Fields = c.fields(f, i)
	}
	return i, ok
}

// split splits a path into the input into the index of an object and the pointer
// of a field in it.
func (c *Combined) split(path []string) (i int, fields []string, ok bool) {
	if len(path) == 0 {
		return 0, nil, false
	}
	i, err := strconv.Atoi(path[0])
	if err != nil || i < 0 || i >= len(c.objects) {
		return 0, nil, false
	}
	if len(path) > 2 && path[1] == "contents" {
		fields = []string{render.PathPointer(path[2:])}
	}
	return i, fields, true
}

// fields returns the fields of an object that a violation depends on.
func (c *Combined) fields(f *finding, object int) []string {
	fields, sure := opa.Pointers(f.blamed, []string{strconv.Itoa(object), "contents"})
	fields = slices.DeleteFunc(fields, func(p string) bool { return p == "" })
	if len(fields) > 0 && !sure {
		f.Assumed = append(f.Assumed, opa.Unsure)
	}
	return fields
}

// objectNamed returns the one object that the details name by file, kind and
// name.
func (c *Combined) objectNamed(details map[string]any) (int, bool) {
	text := func(keys ...string) (string, bool) {
		for _, k := range keys {
			if s, ok := details[k].(string); ok {
				return s, true
			}
		}
		return "", false
	}
	file, byFile := text("path", "file", "filename")
	kind, byKind := text("kind")
	name, byName := text("name")
	space, bySpace := text("namespace")
	if loc, ok := details["_loc"].(map[string]any); ok && !byFile {
		file, byFile = loc["file"].(string)
	}
	if !byFile && !byName {
		return 0, false
	}
	return c.only(func(o *render.Object) bool {
		return (!byFile || fileOf(o) == file) && (!byKind || o.GetKind() == kind) &&
			(!byName || o.GetName() == name) && (!bySpace || o.GetNamespace() == space)
	})
}

// only returns the single object for which holds is true, if there is exactly
// one.
func (c *Combined) only(holds func(*render.Object) bool) (int, bool) {
	found, n := 0, 0
	for i, o := range c.objects {
		if holds(o) {
			found, n = i, n+1
		}
	}
	return found, n == 1
}

// maxSharing is the most objects that may share a violation. If more do, it is
// reported without an object.
const maxSharing = 3

// blamed returns the object that a violation depends on: the first of the few
// that the message names, or else of those that failed expressions read, or
// that were read at all.
func (c *Combined) blamed(f *finding) (int, bool) {
	var named, sure, read []int
	for _, b := range f.blamed {
		i, _, ok := c.split(b.Path)
		if !ok {
			continue
		}
		if mentions(f.Message, c.objects[i].GetName()) {
			named = append(named, i)
		}
		if b.Sure {
			sure = append(sure, i)
		}
		read = append(read, i)
	}
	for _, some := range [][]int{distinct(named), distinct(sure), distinct(read)} {
		if len(some) > 0 && len(some) <= maxSharing {
			if len(some) > 1 {
				f.Assumed = append(f.Assumed, c.sharing(some))
			}
			return some[0], true
		}
	}
	return 0, false
}

// sharing returns why a violation is reported for the first of several objects.
func (c *Combined) sharing(some []int) string {
	text := "all objects are checked together, and the violation depends on this one"
	for i, o := range some[1:] {
		if i == 0 {
			text += ", with "
		} else {
			text += " and "
		}
		text += c.objects[o].GetKind() + " " + c.objects[o].GetName()
	}
	return text
}

func distinct(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// mentions reports whether a message has a name as a word.
func mentions(message, name string) bool {
	if name == "" {
		return false
	}
	return slices.Contains(strings.FieldsFunc(message, func(r rune) bool {
		return !(r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}), name)
}
