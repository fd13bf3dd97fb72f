package schema

import (
	"reflect"
	"slices"
)

// A rule changes every value of one type, anywhere in an object, as
// defaulter-gen does with a function SetDefaults_T.
type rule struct {
	typ reflect.Type
	do  func(r release, value any) // a pointer to the value
}

func on[T any](do func(release, *T)) rule {
	return rule{reflect.TypeFor[T](), func(r release, value any) { do(r, value.(*T)) }}
}

// A plan leads from a type to the values inside it to which rules apply. Rules
// of a type run before those of its parts.
type plan struct {
	rules []rule
	into  []*plan // for a pointer or slice, of its elements
	parts []part  // of a struct
	busy  bool    // rules apply to it or to its parts
}

type part struct {
	index int
	*plan
}

// newPlan compiles the plan of a type. nil means that nothing is to be done.
func newPlan(typ reflect.Type, rules []rule) *plan {
	byType := map[reflect.Type][]rule{}
	for _, r := range rules {
		byType[r.typ] = append(byType[r.typ], r)
	}
	p := (&planner{rules: byType, done: map[reflect.Type]*plan{}}).plan(typ)
	p.prune()
	if !p.busy {
		return nil
	}
	return p
}

type planner struct {
	rules map[reflect.Type][]rule
	done  map[reflect.Type]*plan
}

func (p *planner) plan(typ reflect.Type) *plan {
	if done := p.done[typ]; done != nil {
		return done
	}
	done := &plan{rules: p.rules[typ]}
	done.busy = len(done.rules) > 0
	p.done[typ] = done
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		child := p.plan(typ.Elem())
		done.into = append(done.into, child)
		done.busy = done.busy || child.busy
	case reflect.Struct:
		for i := range typ.NumField() {
			if !typ.Field(i).IsExported() {
				continue
			}
			child := p.plan(typ.Field(i).Type)
			done.parts = append(done.parts, part{i, child})
			done.busy = done.busy || child.busy
		}
	}
	return done
}

// prune drops the parts in which there is nothing to do.
func (p *plan) prune() {
	busy := slices.DeleteFunc(slices.Clone(p.parts), func(part part) bool { return !part.busy })
	p.parts = busy
	for _, part := range p.parts {
		part.prune()
	}
	for _, child := range p.into {
		child.prune()
	}
}

// apply applies the rules to a value and its parts.
func (p *plan) apply(r release, value reflect.Value) {
	if p == nil || !p.busy {
		return
	}
	for _, rule := range p.rules {
		rule.do(r, value.Addr().Interface())
	}
	for _, part := range p.parts {
		part.apply(r, value.Field(part.index))
	}
	for _, child := range p.into {
		switch value.Kind() {
		case reflect.Pointer:
			if !value.IsNil() {
				child.apply(r, value.Elem())
			}
		case reflect.Slice:
			for i := range value.Len() {
				child.apply(r, value.Index(i))
			}
		}
	}
}
