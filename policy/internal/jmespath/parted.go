package jmespath

// A Parted holds the results of an expression such as items[?a].b for each element of
// the list items, so that the result without one element is found without a new search.
// It is read-only.
type Parted struct {
	expression *Expression
	rest       node // is applied to the joined results, as length(@) in items[?a].b | length(@); may be nil
	out        []any
	parts      []partCost
	all        partCost
}

// A partCost has the number of an element's results, and the cost of the search in it.
type partCost struct{ values, steps, bytes int }

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
		part := partCost{len(found), steps - s.steps, bytes - s.bytes}
		p.out, p.parts = append(p.out, found...), append(p.parts, part)
		p.all.add(part, 1)
	}
	return p
}

func (m *partCost) add(other partCost, times int) {
	m.values += times * other.values
	m.steps += times * other.steps
	m.bytes += times * other.bytes
}

// elementwise reports whether a node's value of a list, a field of the data, is the
// concatenation of its values of the list's elements.
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
	made := joined{cost: p.all, list: make([]any, 0, len(p.out))}
	made.cost.add(p.parts[index], -1)
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

// joined is a node whose value is the list of the elements' results. Evaluating it
// counts the cost of the searches that found them.
type joined struct {
	list []any
	cost partCost
}

func (j *joined) eval(s *search, _ val) (val, error) {
	if err := s.spend(j.cost.steps); err != nil {
		return val{}, err
	}
	return val{v: j.list}, s.grow(j.cost.bytes)
}
