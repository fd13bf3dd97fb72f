package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// An entry is a context entry with its templates parsed.
type entry struct {
	*document.ContextEntry
	fields map[string]*template // strings of the entry, by field name
	value  *template            // variable.value, or nil
	preset *template            // the default, or nil
	static *jmespath.Expression // jmesPath, if it has no variables
	err    error
}

func newEntries(list []*document.ContextEntry) []*entry {
	entries := make([]*entry, len(list))
	for i, c := range list {
		entries[i] = newEntry(c)
	}
	return entries
}

func newEntry(c *document.ContextEntry) *entry {
	e := &entry{ContextEntry: c, fields: map[string]*template{}}
	path := ""
	switch {
	case c.Variable != nil:
		path = c.Variable.JMESPath
		if c.Variable.Value != nil {
			e.value = newTemplate(c.Variable.Value)
		}
		if c.Variable.HasDefault {
			e.preset = newTemplate(c.Variable.Default)
		}
	case c.ConfigMap != nil:
		e.fields["name"], e.fields["namespace"] = newTemplate(c.ConfigMap.Name), newTemplate(c.ConfigMap.Namespace)
	case c.APICall != nil:
		path = c.APICall.JMESPath
		e.fields["urlPath"], e.fields["url"] = newTemplate(c.APICall.URLPath), newTemplate(c.APICall.ServiceURL)
		if c.APICall.HasDefault {
			e.preset = newTemplate(c.APICall.Default)
		}
	case c.ImageRegistry != nil:
		path = c.ImageRegistry.JMESPath
		e.fields["reference"] = newTemplate(c.ImageRegistry.Reference)
	case c.GlobalReference != nil:
		path = c.GlobalReference.JMESPath
		e.fields["name"] = newTemplate(c.GlobalReference.Name)
	}
	if t := newTemplate(path); t.static && path != "" {
		e.static, e.err = jmespath.Compile(path)
	} else {
		e.fields["jmesPath"] = t
	}
	return e
}

// load returns the entry's value. The scope holds the names before it.
func (e *entry) load(s *scope) (any, error) {
	switch {
	case e.Variable != nil:
		return e.loadVariable(s)
	case e.ConfigMap != nil:
		return e.loadConfigMap(s)
	case e.APICall != nil:
		return e.loadAPICall(s)
	case e.ImageRegistry != nil:
		ref, err := e.text(s, "reference")
		if err != nil {
			return nil, err
		}
		return nil, s.review.ask("needs the registry's data about image " + ref)
	case e.GlobalReference != nil:
		return e.loadGlobal(s)
	default:
		return nil, errors.New("it has no source")
	}
}

// text returns a string of the entry with its variables substituted.
func (e *entry) text(s *scope, field string) (string, error) {
	v, err := e.fields[field].fill(s)
	if err != nil {
		return "", err
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a string", field)
	}
	return text, nil
}

// path returns the entry's compiled jmesPath, or nil if it has none.
func (e *entry) path(s *scope) (*jmespath.Expression, error) {
	if e.static != nil || e.err != nil {
		return e.static, e.err
	}
	text, err := e.text(s, "jmesPath")
	if err != nil || text == "" {
		return nil, err
	}
	return jmespath.Compile(text)
}

// pick applies the entry's jmesPath to the loaded value.
func (e *entry) pick(s *scope, loaded any) (any, error) {
	path, err := e.path(s)
	if err != nil || path == nil {
		return loaded, err
	}
	v, err := path.Search(loaded, &s.review.search)
	return v, s.review.searched(err)
}

// pickOnce applies the entry's jmesPath to an answer that is the same for all
// requests, and keeps the result. A query of a long list takes much longer than the
// rest of a rule.
func (e *entry) pickOnce(s *scope, url string, answer any) (any, error) {
	path, err := e.path(s)
	if err != nil || path == nil {
		return answer, err
	}
	r, key := s.review, pickKey{url, path.String()}
	p, ok := r.engine.picked.get(key)
	if !ok {
		options := r.search
		options.Spent, options.Assumed = &p.spent, func(text string) { p.assumed = append(p.assumed, text) }
		p.value, err = path.Search(answer, &options)
		if err == nil {
			r.engine.picked.put(key, p)
		}
	}
	r.work += p.spent
	for _, text := range p.assumed {
		r.assume(text)
	}
	return p.value, r.searched(err)
}

// pickWithout applies the entry's jmesPath to a list of the cluster's objects, without
// the request's object. To search the list again for each of its objects would take
// quadratic time.
func (e *entry) pickWithout(s *scope, url string, answer any, from *store) (any, error) {
	path, err := e.path(s)
	if err != nil || path == nil {
		return answer, err
	}
	r, key := s.review, pickKey{url, path.String()}
	p, asked := r.engine.parted.get(key)
	switch {
	case !asked && e.static == nil:
		r.engine.parted.put(key, p)
	case !p.tried:
		options := r.search
		options.Spent = nil
		p = partedPick{path.Part("items", from.parts.all, &options), true}
		r.engine.parted.put(key, p)
	}
	if p.Parted == nil {
		return e.pick(s, answer)
	}
	v, err := p.Without(from.without, &r.search)
	return v, r.searched(err)
}

// picks caches results of queries over the cluster's lists.
type picks[T any] struct {
	mu    sync.Mutex
	known map[pickKey]T
}

type pickKey struct{ url, path string }

// A partedPick holds the results of a query by object. If the query has variables, it is tried
// when the query is asked again, since each object may have a query of its own.
type partedPick struct {
	*jmespath.Parted // nil if it is not tried, or if the query has no such results
	tried            bool
}

// A picked is the result of a query: its value, cost and assumptions.
type picked struct {
	value   any
	spent   int
	assumed []string
}

const maxPicks = 128

func (p *picks[T]) get(key pickKey) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.known[key]
	return found, ok
}

func (p *picks[T]) put(key pickKey, value T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPicks {
		p.known = map[pickKey]T{}
	}
	p.known[key] = value
}

// loadVariable returns the variable's value, with jmesPath applied. Without a
// value, jmesPath searches the whole scope. The default replaces errors of the
// search, and null if there is no value.
func (e *entry) loadVariable(s *scope) (any, error) {
	path, err := e.path(s)
	if err != nil {
		return nil, err
	}
	preset, err := e.fallback(s)
	if err != nil {
		return nil, err
	}
	var v any
	switch {
	case e.value != nil:
		if v, err = e.value.fill(s); err != nil {
			return nil, err
		}
		if path != nil {
			v, err = path.Search(v, &s.review.search)
			err = s.review.searched(err)
		}
	case path != nil:
		if v, err = s.query(path, needs(path.String())); v == nil && err == nil {
			v = preset
		}
	}
	switch {
	case err != nil:
		return preset, unreplaced(err, preset)
	case v == nil:
		return nil, errors.New("its value is null")
	}
	return v, nil
}

// fallback returns the entry's default, or nil if it has none.
func (e *entry) fallback(s *scope) (any, error) {
	if e.preset == nil {
		return nil, nil
	}
	return e.preset.fill(s)
}

// unreplaced returns err if no default replaces it. None replaces what is unknown.
func unreplaced(err error, preset any) error {
	if _, open := errors.AsType[*openError](err); open || preset == nil {
		return err
	}
	return nil
}

// loadConfigMap returns a ConfigMap of the cluster, as data and metadata.
func (e *entry) loadConfigMap(s *scope) (any, error) {
	name, err := e.text(s, "name")
	if err != nil {
		return nil, err
	}
	namespace, err := e.text(s, "namespace")
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(namespace, "default")
	o := s.review.store().get(configMaps, namespace, name)
	if o == nil {
		return nil, s.review.missing(fmt.Sprintf("needs ConfigMap %s/%s", namespace, name))
	}
	data, ok := o["data"]
	if !ok {
		data = map[string]any{}
	}
	return map[string]any{"data": data, "metadata": o["metadata"]}, nil
}

// missing returns the error for something that is not among the objects.
// Offline the cluster may have it, so the result becomes undecided. With
// Options.CLI it counts as absent.
func (r *review) missing(question string) error {
	if r.engine.options.CLI {
		return errors.New("not found: " + strings.TrimPrefix(question, "needs "))
	}
	return r.ask(question + ": give it with --with")
}

// loadAPICall returns the response of the API server, or of a test. The default
// replaces a failed call only.
func (e *entry) loadAPICall(s *scope) (any, error) {
	url, err := e.text(s, "urlPath")
	if err == nil && url == "" {
		url, err = e.text(s, "url")
	}
	if err != nil {
		return nil, err
	}
	preset, err := e.fallback(s)
	if err != nil {
		return nil, err
	}
	v, from, err := e.call(s, url)
	switch {
	case err != nil:
		return preset, unreplaced(err, preset)
	case from != nil && from.parts != nil:
		return e.pickWithout(s, url, v, from)
	case from != nil && from.shared:
		return e.pickOnce(s, url, v)
	}
	return e.pick(s, v)
}

// call answers the entry's call to url. If the answer is from the cluster's
// objects, it is from a store.
func (e *entry) call(s *scope, url string) (answer any, from *store, err error) {
	method := cmp.Or(e.APICall.Method, "GET")
	for _, c := range s.review.mocks.APICalls {
		if c.URL == url && cmp.Or(c.Method, "GET") == method {
			if c.Status >= 400 {
				return nil, nil, fmt.Errorf("the API call to %s was answered with status %d", url, c.Status)
			}
			return c.Body, nil, nil
		}
	}
	if method != "GET" || e.APICall.ServiceURL != "" {
		if s.review.engine.options.CLI {
			return nil, nil, fmt.Errorf("no answer to %s %s is mocked", method, url)
		}
		return nil, nil, s.review.ask(fmt.Sprintf("needs the answer to %s %s", method, url))
	}
	from = s.review.store()
	answer, err = from.call(url)
	return answer, from, err
}

// loadGlobal returns the value of a GlobalContextEntry or of one of its
// projections.
func (e *entry) loadGlobal(s *scope) (any, error) {
	name, err := e.text(s, "name")
	if err != nil {
		return nil, err
	}
	v, found := s.review.mocks.Global[name]
	if !found {
		if v, err = s.review.store().global(name); err != nil {
			return nil, err
		}
	}
	return e.pick(s, v)
}
