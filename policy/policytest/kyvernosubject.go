package policytest

import (
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A subject is an object that an entry is about.
type subject struct {
	object  *render.Object
	target  bool   // of mutations of existing objects
	payload string // its evaluation mode, if it is one
	file    string // of a payload
}

// all are the objects that may be meant: targets first, as Kyverno has it.
func (t *kyvernoTest) all() []subject {
	if t.subjects == nil {
		for _, o := range t.setup.Targets {
			t.subjects = append(t.subjects, subject{object: o, target: true})
		}
		for _, o := range t.setup.Resources {
			t.subjects = append(t.subjects, subject{object: o})
		}
		for _, p := range t.payloads {
			t.subjects = append(t.subjects, subject{object: p.object, payload: p.mode, file: p.file})
		}
		t.byName = make(map[string][]subject, len(t.subjects))
		for _, s := range t.subjects {
			t.byName[s.object.GetName()] = append(t.byName[s.object.GetName()], s)
			if file := path.Base(s.file); s.file != "" && file != s.object.GetName() {
				t.byName[file] = append(t.byName[file], s)
			}
		}
	}
	return t.subjects
}

// called are the objects of a name, and payloads of files of that name.
func (t *kyvernoTest) called(name string) []subject {
	t.all()
	return t.byName[name]
}

// subjects are the objects that the entry names, all where it names none, and
// a case for each name that is none's.
func (e *kyvernoEntry) subjects() (found []subject, missing []Case) {
	if len(e.resources)+len(e.specs) == 0 {
		return e.unnamed(e.t.all()), nil
	}
	add := func(n node, called string, means func(subject) bool) {
		hits := slices.DeleteFunc(slices.Clone(e.t.called(called[strings.LastIndexByte(called, '/')+1:])), func(s subject) bool { return !means(s) })
		if len(hits) > 0 && !e.kindIsWrong(hits) {
			found = append(found, hits...)
			return
		}
		c := e.Case
		c.Resource, c.Line = called, n.span().Line
		if len(hits) > 0 {
			c.Reason = e.t.text(e.at["kind"].errorf("%q is not of kind %q: %s", called, e.Kind, kindsOf(hits)))
		} else {
			c.Reason = e.t.text(n.errorf("there is no %s %q among the resources%s", cmpOr(e.Kind, "resource"), called, e.t.likely(e.Kind)))
		}
		missing = append(missing, c)
	}
	for _, r := range e.resources {
		called := r.text()
		add(r, called, func(s subject) bool { return s.file == called || meant(called, s.object) })
	}
	for _, s := range e.specs {
		add(s.node, s.String(), s.means)
	}
	return found, missing
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// unnamed are the objects where an entry names none: what it has a target for
// is evaluated there.
func (e *kyvernoEntry) unnamed(all []subject) []subject {
	var found []subject
	for _, s := range all {
		if !s.target || e.t.changes(s, e.t.named(e.Policy)) {
			found = append(found, s)
		}
	}
	return found
}

// meant says whether a name, or namespace/name, is an object's.
func meant(called string, o *render.Object) bool {
	namespace, short, ok := strings.Cut(called, "/")
	if !ok {
		return called == o.GetName()
	}
	return namespace == o.GetNamespace() && short == o.GetName()
}

func (s resourceSpec) String() string {
	if s.namespace == "" {
		return s.called
	}
	return s.namespace + "/" + s.called
}

func (s resourceSpec) means(of subject) bool {
	o := of.object
	gv := o.GroupVersionKind().GroupVersion()
	return gv.Group == s.group && gv.Version == s.version && o.GetNamespace() == s.namespace && o.GetName() == s.called
}

// likely lists the objects of a kind.
func (t *kyvernoTest) likely(kind string) string {
	if said, ok := t.hints[kind]; ok {
		return said
	}
	var names []string
	for _, s := range t.all() {
		if kind == "" || s.object.GetKind() == kind {
			names = append(names, cmpOr(name(s.object), s.file))
		}
	}
	slices.Sort(names)
	said := ""
	if names = slices.Compact(names); len(names) > 0 {
		said = "; there are " + policy.Few(names)
	}
	t.hints[kind] = said
	return said
}

// kindIsWrong says whether the kind of an entry is that of none of its
// resources. Kyverno does not look at it.
func (e *kyvernoEntry) kindIsWrong(subjects []subject) bool {
	if e.Kind == "" || len(subjects) == 0 {
		return false
	}
	return !slices.ContainsFunc(subjects, func(s subject) bool { return s.object.GetKind() == e.Kind || s.payload != "" })
}

func kindsOf(subjects []subject) string {
	var kinds []string
	for _, s := range subjects {
		if kind := s.object.GetKind() + " " + name(s.object); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return "there are " + policy.Few(kinds)
}
