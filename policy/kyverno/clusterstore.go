package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/render"
)

// A store looks up the cluster's other objects: those rendered or given with
// --with, or on Kyverno's command line those of a test.
type store struct {
	*review
	cluster *policy.Cluster
	shared  bool   // the last answer is the same for all requests
	parts   *items // or it is these, except the one with the index without
	without int
}

var configMaps = schema.GroupKind{Kind: "ConfigMap"}

func (r *review) store() *store {
	if !r.engine.options.CLI {
		return &store{review: r, cluster: r.engine.options.Cluster}
	}
	if r.given == nil {
		r.given = policy.NewCluster(r.mocks.Resources...)
	}
	return &store{review: r, cluster: r.given}
}

// get returns an object, or nil. The object of a CREATE does not exist yet.
func (s *store) get(kind schema.GroupKind, namespace, name string) map[string]any {
	for _, o := range s.cluster.Named(kind, name) {
		if in := s.namespaceOf(o); namespace == "" || in == "" || in == namespace {
			if held := s.held(o); held != nil {
				return held
			}
		}
	}
	return nil
}

// namespaceOf returns the namespace that an object is in, or will be created
// in.
func (s *store) namespaceOf(o *render.Object) string {
	if ns := o.GetNamespace(); ns != "" || s.engine.options.CLI {
		return ns
	}
	if k := s.engine.options.Kinds; k != nil && !k.Resource(o.GroupVersionKind()).Namespaced {
		return ""
	}
	return o.EffectiveNamespace()
}

// A listing identifies a list request: a kind and a namespace.
type listing struct {
	kind      schema.GroupKind
	namespace string // "" is all
}

// A listed is an object of the cluster, and its form in the API server.
type listed struct {
	object *render.Object
	held   map[string]any
}

// in returns the objects of a kind in a namespace. The engine caches lists of
// its own cluster, because a rule may list for every object.
func (s *store) in(kind schema.GroupKind, namespace string) []listed {
	key := listing{kind, namespace}
	if known, ok := s.engine.listed.Load(key); ok && !s.engine.options.CLI {
		return known.([]listed)
	}
	var found []listed
	for _, o := range s.cluster.Select(kind, func(o *render.Object) bool { return namespace == "" || s.namespaceOf(o) == namespace }) {
		found = append(found, listed{o, s.other(o)})
	}
	if !s.engine.options.CLI {
		s.engine.listed.Store(key, found)
	}
	return found
}

// held returns an object as the API server holds it during the request: the old
// object of an UPDATE, and nil for the object of a CREATE.
func (s *store) held(o *render.Object) map[string]any {
	switch {
	case s.engine.options.CLI:
		return o.Object
	case o == s.req.Object && s.req.OldObject == nil:
		return nil
	case o == s.req.Object || o == s.req.OldObject:
		return s.req.OldAdmitted
	}
	object := s.other(o)
	s.saw(object)
	return object
}

// other returns an object that is not the request's as the API server holds it.
func (s *store) other(o *render.Object) map[string]any {
	if s.engine.options.CLI {
		return o.Object
	}
	held, ok := s.engine.held.Load(o)
	if !ok {
		held = s.engine.admitted(o, s.namespaceOf(o))
		s.engine.held.Store(o, held)
	}
	return held.(map[string]any)
}

// admitted returns another object as the API server holds it, or as it is
// written if its kind is unknown.
func (e *Engine) admitted(o *render.Object, namespace string) map[string]any {
	if e.options.Kinds != nil {
		if held, err := e.options.Kinds.Admit(o, namespace); err == nil {
			return held
		}
	}
	return o.Object
}

// An apiPath is the parsed path of a GET to the API server.
type apiPath struct {
	group, version, resource, namespace, name string
	search                                    string // as it is written
	query                                     map[string]string
}

// parsePath parses /api/v1/... and /apis/GROUP/VERSION/....
func parsePath(url string) (p apiPath, ok bool) {
	where, query, _ := strings.Cut(url, "?")
	p.search = query
	parts := strings.Split(strings.Trim(where, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		p.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		p.group, p.version, parts = parts[1], parts[2], parts[3:]
	default:
		return p, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 2 || slices.Contains(parts, "") {
		return p, false
	}
	p.resource = parts[0]
	if len(parts) == 2 {
		p.name = parts[1]
	}
	for pair := range strings.SplitSeq(query, "&") {
		k, v, _ := strings.Cut(pair, "=")
		if k != "" && p.query == nil {
			p.query = map[string]string{}
		}
		if k != "" {
			p.query[k] = v
		}
	}
	return p, true
}

// call answers a GET. If a single object is not found, the result is undecided,
// because the cluster may have it. A list holds the rendered objects, and an
// assumption says so.
func (s *store) call(url string) (any, error) {
	p, ok := parsePath(url)
	if !ok {
		return nil, s.missing("needs the answer to GET " + url)
	}
	kind, found := s.kindOf(p)
	if p.name != "" {
		if o := s.get(kind, p.namespace, p.name); found && o != nil {
			return o, nil
		}
		return nil, s.missing("needs the answer to GET " + url)
	}
	if !found && !s.engine.options.CLI {
		return nil, s.missing("needs the answer to GET " + url)
	}
	s.shared = s.isShared(kind)
	return s.list(kind, p, url)
}

// kindOf returns the kind of a path's resource, from the kinds of the objects.
func (s *store) kindOf(p apiPath) (schema.GroupKind, bool) {
	for _, kind := range s.cluster.Kinds() {
		if kind.Group != p.group {
			continue
		}
		if r := s.engine.resource(kind.WithVersion(p.version)); r == p.resource {
			return kind, true
		}
	}
	return schema.GroupKind{}, false
}

// isShared reports whether lists of a kind are the same for all requests: none of their
// objects is the request's, and none is a Secret, which a review must know of.
func (s *store) isShared(kind schema.GroupKind) bool {
	of := func(o *render.Object) bool { return o != nil && o.GroupVersionKind().GroupKind() == kind }
	return !s.engine.options.CLI && kind != (schema.GroupKind{Kind: "Secret"}) && !of(s.req.Object) && !of(s.req.OldObject)
}

func (s *store) list(kind schema.GroupKind, p apiPath, url string) (any, error) {
	items, err := s.items(kind, p)
	if err != nil {
		return nil, err
	}
	if !s.engine.options.CLI {
		s.assume(fmt.Sprintf("GET %s: the list has only the objects rendered or given with --with", url))
	}
	gv := schema.GroupVersion{Group: p.group, Version: p.version}
	return map[string]any{
		"apiVersion": gv.String(), "kind": kind.Kind + "List", "metadata": map[string]any{},
		"items": items,
	}, nil
}

// items are the objects in the answer to a list request, which may include the object
// under review.
type items struct {
	all []any
	at  map[*render.Object]int // the index in all, or -1 if the object is not selected
}

// items returns the objects that a list request selects.
func (s *store) items(kind schema.GroupKind, p apiPath) ([]any, error) {
	secrets := kind == schema.GroupKind{Kind: "Secret"}
	objects := s.in(kind, p.namespace)
	if !secrets && !s.engine.options.CLI && s.req.OldObject == nil {
		if known := s.engine.itemsOf(objects, selection{kind, p.namespace, p.search}, p); known != nil {
			i, own := known.at[s.req.Object]
			s.shared = !own
			if !own || i < 0 {
				return known.all, nil
			}
			s.parts, s.without = known, i
			return slices.Concat(known.all[:i], known.all[i+1:]), nil
		}
	}
	found := []any{}
	for _, o := range objects {
		held := o.held
		if secrets || o.object == s.req.Object || o.object == s.req.OldObject {
			if held = s.held(o.object); held == nil {
				continue
			}
		}
		fits, err := p.selects(held)
		if err != nil {
			return nil, err
		}
		if fits {
			found = append(found, held)
		}
	}
	return found, nil
}

// A selection identifies the objects in the answer to a list request.
type selection struct {
	kind              schema.GroupKind
	namespace, search string
}

// itemsOf returns the objects that a list request selects, found once for all requests.
// It returns nil if that fails or an object is listed twice.
func (e *Engine) itemsOf(objects []listed, key selection, p apiPath) *items {
	if known, ok := e.selected.Load(key); ok {
		return known.(*items)
	}
	made := &items{all: []any{}, at: make(map[*render.Object]int, len(objects))}
	for _, o := range objects {
		fits, err := p.selects(o.held)
		if _, twice := made.at[o.object]; err != nil || twice {
			made = nil
			break
		}
		if made.at[o.object] = -1; fits {
			made.at[o.object] = len(made.all)
			made.all = append(made.all, o.held)
		}
	}
	e.selected.Store(key, made)
	return made
}

// selects reports whether an object matches the path's labelSelector and
// fieldSelector.
func (a apiPath) selects(o map[string]any) (bool, error) {
	for k, v := range a.query {
		switch k {
		case "labelSelector":
			sel, err := labels.Parse(unescapeQuery(v))
			if err != nil {
				return false, fmt.Errorf("labelSelector of an API call: %w", err)
			}
			u := unstructured.Unstructured{Object: o}
			if !sel.Matches(labels.Set(u.GetLabels())) {
				return false, nil
			}
		case "fieldSelector":
			for term := range strings.SplitSeq(unescapeQuery(v), ",") {
				if !fieldFits(o, term) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

func unescapeQuery(v string) string {
	return strings.NewReplacer("%3D", "=", "%3d", "=", "%2C", ",", "%2c", ",", "%2F", "/", "%2f", "/", "%21", "!", "+", " ", "%20", " ").Replace(v)
}

// fieldFits evaluates FIELD=VALUE, FIELD==VALUE or FIELD!=VALUE.
func fieldFits(o map[string]any, term string) bool {
	field, value, not := "", "", false
	if before, after, ok := strings.Cut(term, "!="); ok {
		field, value, not = before, after, true
	} else {
		field, value, _ = strings.Cut(term, "=")
		value = strings.TrimPrefix(value, "=")
	}
	v, _ := render.Lookup(o, "/"+strings.ReplaceAll(field, ".", "/"))
	text, ok := v.(string)
	if v != nil && !ok {
		text = fmt.Sprint(v)
	}
	return (text == value) != not
}

// global returns the value of a GlobalContextEntry of the cluster: the objects
// of a kind, or one of its projections of them. name is ENTRY or
// ENTRY.PROJECTION.
func (s *store) global(name string) (any, error) {
	entryName, projection, _ := strings.Cut(name, ".")
	if s.engine.options.CLI {
		return nil, fmt.Errorf("no data of GlobalContextEntry %s is mocked", entryName)
	}
	o := s.cluster.Get(nil, schema.GroupKind{Group: "kyverno.io", Kind: "GlobalContextEntry"}, "", entryName)
	if o == nil {
		return nil, s.missing("needs GlobalContextEntry " + entryName)
	}
	data, err := s.globalData(o)
	if err != nil || projection == "" {
		return data, err
	}
	return s.project(o, projection, data)
}

func (s *store) globalData(o *render.Object) (any, error) {
	if call, ok := lookup(o.Object, "spec", "apiCall"); ok {
		m, _ := call.(map[string]any)
		url, _ := m["urlPath"].(string)
		if method, _ := m["method"].(string); url == "" || method != "" && method != "GET" {
			return nil, s.ask(fmt.Sprintf("needs the data of GlobalContextEntry %s", o.GetName()))
		}
		return s.call(url)
	}
	m, _ := lookupMap(o.Object, "spec", "kubernetesResource")
	text := func(k string) string { v, _ := m[k].(string); return v }
	p := apiPath{group: text("group"), version: text("version"), resource: text("resource"), namespace: text("namespace")}
	kind, found := s.kindOf(p)
	if !found {
		return nil, s.missing(fmt.Sprintf("needs the %s of GlobalContextEntry %s", p.resource, o.GetName()))
	}
	list, err := s.list(kind, p, p.resource)
	if err != nil {
		return nil, err
	}
	return list.(map[string]any)["items"], nil
}

func (s *store) project(o *render.Object, name string, data any) (any, error) {
	list, _ := lookup(o.Object, "spec", "projections")
	all, _ := list.([]any)
	for _, e := range all {
		p, _ := e.(map[string]any)
		if p["name"] != name {
			continue
		}
		text, _ := p["jmesPath"].(string)
		expr, err := jmespath.Compile(text)
		if err != nil {
			return nil, err
		}
		v, err := expr.Search(data, &s.search)
		return v, s.searched(err)
	}
	return nil, fmt.Errorf("GlobalContextEntry %s has no projection %s", o.GetName(), name)
}

// lookup returns the value at a path of nested maps.
func lookup(m map[string]any, path ...string) (any, bool) {
	var v any = m
	for _, name := range path {
		in, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = in[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

func lookupMap(m map[string]any, path ...string) (map[string]any, bool) {
	v, _ := lookup(m, path...)
	in, ok := v.(map[string]any)
	return in, ok
}
