// Package pattern matches JSON values with Kyverno's patterns: wildcards,
// operators and ranges in leaves, anchors in keys.
//
// In goes a pattern whose variables are substituted ([Compile]); out comes,
// for each value it is asked about, a [Verdict] with the place of the mismatch.
package pattern

// A Status is what matching came to.
type Status uint8

// The statuses. Error is Kyverno's for a pattern that an anchor key, missing
// from every place it was looked for, left without a verdict.
const (
	Pass Status = iota
	Fail
	Skip
	Error
)

// A Verdict is what a pattern says of a value.
type Verdict struct {
	Status  Status
	Path    string // as Kyverno writes it: /spec/containers/0/image/; "" of Pass and Error
	Pointer string // JSON pointer into the value: what was compared, or the field that is missing
	Err     string // as Kyverno words it; "" of Pass
}

// A Pattern is compiled, and safe for concurrent use.
type Pattern struct{ root any }

// Compile reads a pattern. The error says that it nests too deep, or holds
// what is no JSON.
func Compile(p any) (*Pattern, error) { return &Pattern{root: p}, nil }

// Match compares a JSON value with the pattern.
func (p *Pattern) Match(value any) Verdict { return Verdict{} }

// Leaf compares a value with a pattern that is no map or list: nil is a
// missing value.
func Leaf(value, pattern any) bool { return false }

// Wildcard says whether * (any run) and ? (one character) in a pattern make it
// the text.
func Wildcard(pattern, text string) bool { return false }

// HasWildcard says whether a text holds * or ?.
func HasWildcard(s string) bool { return false }

// HasAnchors says whether any key of a pattern, however deep, is an anchor.
func HasAnchors(p any) bool { return false }

// A Problem is what makes a pattern invalid, and where in it.
type Problem struct{ Pointer, Message string }

// Check says what Kyverno refuses in a pattern, whatever it is matched with;
// mutate is for patchStrategicMerge, where +() may stand.
func Check(p any, mutate bool) []Problem { return nil }
