// Package pattern matches JSON values with Kyverno's patterns: wildcards,
// operators and ranges in leaves, anchors in keys.
//
// In goes a pattern whose variables are substituted ([Compile]); out comes,
// for each value it is asked about, a [Verdict] with the place of the mismatch.
//
// Kyverno reads every number as a float64; here integers of any type are
// taken for one, so objects need no conversion.
package pattern

// A Status is what matching came to.
type Status uint8

// The statuses. Error is Kyverno's for a mismatch where an anchor's key was
// missing from every place it was looked for.
const (
	Pass Status = iota
	Fail
	Skip
	Error
)

func (s Status) String() string {
	return [...]string{"pass", "fail", "skip", "error"}[s]
}

// A Verdict is what a pattern says of a value.
type Verdict struct {
	Status  Status
	Path    string // as Kyverno writes it: /spec/containers/0/image/; "" of Pass and Error
	Pointer string // JSON pointer into the value: what was compared, or the field that is missing
	Err     string // as Kyverno words it, which names the values compared; "" of Pass
}

// A Pattern is compiled, and safe for concurrent use.
type Pattern struct {
	root *node
	keys int // how many conditions and existence anchors have keys of their own
}

// Match compares a JSON value with the pattern. A nil value is a missing one.
func (p *Pattern) Match(value any) Verdict { return p.match(value, nil) }

func (p *Pattern) match(value any, told *tracer) Verdict {
	m := matcher{told: told}
	if p.keys > len(m.few)*64 {
		m.many = make([]presence, (p.keys+63)/64)
	}
	f := m.match(value, p.root)
	if f == nil {
		return Verdict{}
	}
	v := Verdict{Status: f.status, Path: f.path, Pointer: f.pointer, Err: f.Error()}
	if f.status == Fail && !f.negation && (f.path == "" || m.keysMissing()) {
		v.Status, v.Path = Error, ""
	}
	return v
}
