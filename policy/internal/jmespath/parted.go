package jmespath

// A Parted holds what an expression such as items[?a].b makes of each element of the
// list items, so that the list without one of them need not be searched. It is
// read-only.
type Parted struct {
	expression *Expression
	rest       node // what is made of the whole, as in items[?a].b | length(@); may be nil
	out        []any
	parts      []madePart
	all        madePart
}

// A madePart says how many values came of an element, and what finding them took.
type madePart struct{ values, steps, bytes int }

// Part searches a list that is a field of the data, element by element. It returns nil
// if the expression reads the list as a whole, fails for an element, or assumes something.
func (e *Expression) Part(field string, list []any, o *Options) *Parted {
	p := &Parted{expression: e}
	root := e.root
	if s, ok := root.(*stages); ok {
		root, p.rest = s.left, s.right
	}
	if !elementwise(root, field) {
		return nil
	}
	alone, assumed := Options{}, false
	if o != nil {
		alone = *o
	}
	alone.Assumed = func(string) { assumed = true }
	for _, element := range list {
		s := newSearch(&alone)
		steps, bytes := s.steps, s.bytes
		out, err := root.eval(s, val{v: map[string]any{field: []any{element}}})
		found, ok := out.v.([]any)
		if err != nil || assumed || !ok {
			return nil
		}
		part := madePart{len(found), steps - s.steps, bytes - s.bytes}
		p.out, p.parts = append(p.out, found...), append(p.parts, part)
		p.all.add(part, 1)
	}
	return p
}

func (m *madePart) add(other madePart, times int) {
	m.values += times * other.values
	m.steps += times * other.steps
	m.bytes += times * other.bytes
}

// elementwise reports whether a node makes of a list, a field of the data, what it makes
// of the elements, one after another.
func elementwise(n node, list string) bool {
	p, ok := n.(*projection)
	if !ok {
		return false
	}
	f, ok := p.of.(*field)
	return ok && f.name == list || elementwise(p.of, list)
}

// Without is Search of the list without the element of an index.
func (p *Parted) Without(index int, o *Options) (any, error) {
	made := joined{took: p.all, list: make([]any, 0, len(p.out))}
	made.took.add(p.parts[index], -1)
	first := 0
	for _, part := range p.parts[:index] {
		first += part.values
	}
	made.list = append(append(made.list, p.out[:first]...), p.out[first+p.parts[index].values:]...)
	e := &Expression{root: &made, made: p.expression.made}
	if p.rest != nil {
		e.root = &stages{&made, p.rest}
	}
	return e.Search(nil, o)
}

// joined is the list of the elements' results, and the cost of computing them.
type joined struct {
	list []any
	took madePart
}

func (j *joined) eval(s *search, _ val) (val, error) {
	if err := s.spend(j.took.steps); err != nil {
		return val{}, err
	}
	return val{v: j.list}, s.grow(j.took.bytes)
}
