package gatekeeper

import (
	"reflect"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// Compiled keeps the templates that were compiled last, so that engines of the
// same template and different constraints compile it once. It is safe for
// concurrent use.
type Compiled struct {
	mu   sync.Mutex
	last []*compiledTemplate
}

type compiledTemplate struct {
	object *render.Object
	once   sync.Once
	made   *template
	errs   []error
}

// mostCompiled limits how many templates are kept.
const mostCompiled = 16

// template compiles a template, or returns the earlier result if an equal
// object at the same place was compiled before.
func (c *Compiled) template(o *render.Object, compile func(*render.Object) (*template, []error)) (*template, []error) {
	if c == nil {
		return compile(o)
	}
	t := c.entry(o)
	t.once.Do(func() { t.made, t.errs = compile(t.object) })
	return t.made, t.errs
}

func (c *Compiled) entry(o *render.Object) *compiledTemplate {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.last {
		if t.object.Span("") == o.Span("") && reflect.DeepEqual(t.object.Object, o.Object) {
			return t
		}
	}
	t := &compiledTemplate{object: o}
	c.last = append(c.last[max(0, len(c.last)+1-mostCompiled):], t)
	return t
}
