package policy

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/preadmit/preadmit/render"
)

// A Fix is a change of one field of an object that makes a rule pass. It is plain data: it names the
// field, never a file or a line.
type Fix struct {
	render.Edit
	// Unsafe fixes may change what runs: a container may be refused, or miss a permission that it
	// uses. The others leave running programs as they are.
	Unsafe bool
	Source FixSource
}

// A Repair is a change of files that removes a failure. It was proved by another run, without the fixes of
// other findings in the same documents or objects.
type Repair struct {
	Text   string        `json:"text"`             // such as "Set allowPrivilegeEscalation: false (safe)"
	Unsafe bool          `json:"unsafe,omitempty"` // it may change what runs
	Edits  []Replacement `json:"edits"`            // by file and place
}

// A Replacement is a new text for a place in a file, which may be empty.
type Replacement struct {
	render.Span
	Text string `json:"text"`
}

// String says what the fix does, such as "set allowPrivilegeEscalation: false".
func (f Fix) String() string {
	path := render.Path(f.Pointer)
	name := "the object"
	for i := len(path) - 1; i >= 0; i-- {
		if _, err := strconv.Atoi(path[i]); err != nil && path[i] != "-" {
			name = path[i]
			break
		}
	}
	value, err := json.Marshal(f.Value)
	if text, isText := f.Value.(string); isText && f.Source != FixType || err != nil {
		value = []byte(text)
	}
	switch shown := render.Cut(string(value), 60); {
	case f.Delete:
		return "remove " + name
	case f.Key != "":
		return "rename " + name + " to " + f.Key
	case len(path) > 0 && path[len(path)-1] != name:
		return fmt.Sprintf("add %s to %s", shown, name)
	default:
		return fmt.Sprintf("set %s: %s", name, shown)
	}
}

// A FixSource says what determines the value of a Fix.
type FixSource string

// The sources.
const (
	FixStandard FixSource = "Pod Security Standards" // the only value, or the default, that the standards allow
	FixPattern  FixSource = "policy"                 // the value that the policy itself asks for
	FixMutation FixSource = "mutation"               // the value that a mutating policy would set
	FixSchema   FixSource = "schema"                 // the name or version that the schema has instead
	FixType     FixSource = "type"                   // the written value in the type of the field, without loss
)
