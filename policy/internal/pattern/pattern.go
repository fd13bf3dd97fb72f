// Package pattern matches JSON values with Kyverno's patterns: wildcards,
// operators and ranges in leaves, anchors in keys.
//
// [Compile] takes a pattern whose variables are substituted. [Pattern.Match]
// returns for each value a [Verdict] with the place of the mismatch.
//
// Kyverno reads every number as a float64. This package accepts numbers of any
// type, so objects need no conversion.
package pattern

// A Status is the result of matching.
type Status uint8

// The statuses. Error is Kyverno's status for a mismatch if an anchor's key was
// missing everywhere it was looked for.
const (
	Pass Status = iota
	Fail
	Skip
	Error
)

func (s Status) String() string {
	return [...]string{"pass", "fail", "skip", "error"}[s]
}

// A Verdict is the result of matching a value with a pattern.
type Verdict struct {
	Status  Status
	Path    string // in Kyverno's form: /spec/containers/0/image/; "" for Pass and Error
	Pointer string // JSON pointer into the value: the compared value, or the missing field
	Err     string // Kyverno's message, which names the compared values; "" for Pass

	Literals []string // texts in the compared value that the pattern does not allow: :latest for !*:latest
}

// A Pattern is compiled, and safe for concurrent use.
type Pattern struct {
	root *node
	keys int // number of different keys with condition and existence anchors
}

// Match compares a JSON value with the pattern. A nil value is a missing one.
func (p *Pattern) Match(value any) Verdict { return p.match(value, nil) }

func (p *Pattern) match(value any, trace *tracer) Verdict {
	m := matcher{trace: trace}
	if p.keys > len(m.few)*64 {
		m.many = make([]presence, (p.keys+63)/64)
	}
	f := m.match(value, p.root)
	if f == nil {
		return Verdict{}
	}
	v := Verdict{Status: f.status, Path: f.path, Pointer: f.pointer, Err: f.Error(), Literals: f.literals()}
	if f.status == Fail && !f.negation && (f.path == "" || m.keysMissing()) {
		v.Status, v.Path = Error, ""
	}
	return v
}
