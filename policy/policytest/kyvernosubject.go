package policytest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A subject is an object that an entry is about.
type subject struct {
	object *render.Object
	target bool   // of mutations of existing objects
	json   bool   // of a jsonPayload
	file   string // of JSON
}

// all returns the objects that an entry may name, targets first as in Kyverno.
func (k *kyvernoTest) all() []subject {
	if k.subjects == nil {
		for _, o := range k.setup.Targets {
			k.subjects = append(k.subjects, subject{object: o, target: true})
		}
		for _, o := range k.setup.Resources {
			k.subjects = append(k.subjects, subject{object: o})
		}
		for _, p := range k.payloads {
			k.subjects = append(k.subjects, subject{object: p.object, json: true, file: p.file})
		}
		k.byName = make(map[string][]subject, len(k.subjects))
		for _, s := range k.subjects {
			k.byName[s.object.GetName()] = append(k.byName[s.object.GetName()], s)
			if file := path.Base(s.file); s.file != "" && file != s.object.GetName() {
				k.byName[file] = append(k.byName[file], s)
			}
		}
	}
	return k.subjects
}

// called returns the objects with a name, and JSON of files with that name.
func (k *kyvernoTest) called(name string) []subject {
	k.all()
	return k.byName[name]
}

// subjects returns the objects that the entry names, or all if it names none.
// missing has a case for each name without an object.
func (k *kyvernoEntry) subjects() (found []subject, missing []Case) {
	if len(k.resources)+len(k.specs) == 0 {
		return k.unnamed(k.t.all()), nil
	}
	add := func(n node, called string, means func(subject) bool) {
		hits := slices.DeleteFunc(slices.Clone(k.t.called(called[strings.LastIndexByte(called, '/')+1:])), func(s subject) bool { return !means(s) })
		if len(hits) > 0 && !k.kindIsWrong(hits) {
			found = append(found, hits...)
			return
		}
		c := k.Case
		c.Resource, c.Line = called, n.span().Line
		if len(hits) > 0 {
			c.Reason = k.t.text(k.at["kind"].errorf("%q is not of kind %q: %s", called, k.Kind, kindsOf(hits)))
		} else {
			c.Reason = k.t.text(n.errorf("there is no %s %q among the resources%s", cmp.Or(k.Kind, "resource"), called, k.t.likely(k.Kind)))
		}
		missing = append(missing, c)
	}
	for _, r := range k.resources {
		called := r.text()
		add(r, called, func(s subject) bool { return s.file == called || meant(called, s.object) })
	}
	for _, s := range k.specs {
		add(s.node, s.String(), s.means)
	}
	return found, missing
}

// unnamed returns the objects of an entry that names none: all except targets
// that its policy does not change.
func (k *kyvernoEntry) unnamed(all []subject) []subject {
	var found []subject
	for _, s := range all {
		if !s.target || k.t.changes(s, k.t.named(k.Policy)) {
			found = append(found, s)
		}
	}
	return found
}

// meant reports whether called is the name, or namespace/name, of an object.
func meant(called string, o *render.Object) bool {
	namespace, short, ok := strings.Cut(called, "/")
	if !ok {
		return called == o.GetName()
	}
	return namespace == o.GetNamespace() && short == o.GetName()
}

func (r resourceSpec) String() string {
	if r.namespace == "" {
		return r.called
	}
	return r.namespace + "/" + r.called
}

func (r resourceSpec) means(of subject) bool {
	o := of.object
	gv := o.GroupVersionKind().GroupVersion()
	return gv.Group == r.group && gv.Version == r.version && o.GetNamespace() == r.namespace && o.GetName() == r.called
}

// likely lists the objects of a kind.
func (k *kyvernoTest) likely(kind string) string {
	if hint, ok := k.hints[kind]; ok {
		return hint
	}
	var names []string
	for _, s := range k.all() {
		if kind == "" || s.object.GetKind() == kind {
			names = append(names, cmp.Or(name(s.object), s.file))
		}
	}
	slices.Sort(names)
	hint := ""
	if names = slices.Compact(names); len(names) > 0 {
		hint = "; there are " + policy.Few(names)
	}
	k.hints[kind] = hint
	return hint
}

// kindIsWrong reports whether none of the entry's resources has its kind.
// Kyverno ignores the kind.
func (k *kyvernoEntry) kindIsWrong(subjects []subject) bool {
	if k.Kind == "" || len(subjects) == 0 {
		return false
	}
	return !slices.ContainsFunc(subjects, func(s subject) bool { return s.object.GetKind() == k.Kind || s.json })
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
