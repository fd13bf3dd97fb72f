package gatekeeper

import (
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// fieldsAssumed is what fields rest on that the policy does not name.
const fieldsAssumed = "the policy does not say which field is at fault: these are those that it read"

// maxFields is how many fields of one violation are named.
const maxFields = 16

// fieldsOf finds the fields that each violation is about: those that its
// details name, else those that the rule's body hung on. unsure says which
// rest on what was read alone.
func (r *review) fieldsOf(c *constraint, q rego.Question, violations []violation) (fields [][]string, unsure []bool) {
	fields, unsure = make([][]string, len(violations)), make([]bool, len(violations))
	var values []ast.Value
	var open []int
	for i, v := range violations {
		if fields[i] = r.hinted(v.details); fields[i] == nil {
			values, open = append(values, v.value), append(open, i)
		}
	}
	if len(values) == 0 || r.engine.options.Written {
		return fields, unsure
	}
	q.Print = nil
	blamed, err := c.template.rego.query.Blame(r.ctx, q, values)
	if err != nil || len(blamed) != len(values) {
		return fields, unsure
	}
	for j, i := range open {
		fields[i], unsure[i] = r.blamed(blamed[j])
	}
	return fields, unsure
}

// blamed makes pointers of the places of an input: those that what failed
// names, else those that were read.
func (r *review) blamed(found []rego.Field) (fields []string, unsure bool) {
	root := "object"
	for _, sure := range []bool{true, false} {
		for _, f := range found {
			if f.Sure != sure || len(f.Path) < 2 || f.Path[0] != "review" {
				continue
			}
			if f.Path[1] != root && (f.Path[1] != "oldObject" || r.operation != string(policy.Delete)) {
				continue
			}
			if p := pointerOf(f.Path[2:]); !slices.Contains(fields, p) && len(fields) < maxFields {
				fields = append(fields, p)
			}
		}
		if len(fields) > 0 {
			return fields, !sure
		}
	}
	return nil, false
}

func pointerOf(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteString(render.Pointer(p))
	}
	return b.String()
}

// hints are the keys of details under which policies say where they look.
var hints = []string{
	"_loc", "loc", "location", "path", "paths", "field", "fields", "_field", "fieldPath", "field_path",
	"pointer", "pointers", "jsonPointer", "json_pointer", "jsonPath", "json_path", "jsonpath",
}

// hinted are the fields that the details of a violation name, as JSON pointers
// or as dotted paths; nil where they name none that is in the object.
func (r *review) hinted(details ast.Value) []string {
	o, ok := details.(ast.Object)
	if !ok {
		return nil
	}
	var fields []string
	for _, key := range hints {
		t := o.Get(ast.StringTerm(key))
		if t == nil {
			continue
		}
		for _, text := range textsOf(t.Value) {
			if p, ok := r.locate(text); ok && !slices.Contains(fields, p) && len(fields) < maxFields {
				fields = append(fields, p)
			}
		}
	}
	return fields
}

// textsOf are the strings of a value, or of a list or set.
func textsOf(v ast.Value) []string {
	switch v := rego.Plain(v).(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}

// pathPart is a part of a dotted path: a key, or an index or a quoted key in
// brackets.
var pathPart = regexp.MustCompile(`^(?:\.?([A-Za-z0-9_-]+)|\[(\d+)\]|\[["']([^"']+)["']\])`)

// locate is the pointer that a text names, if that or what would hold it is in
// the object.
func (r *review) locate(text string) (pointer string, ok bool) {
	path := render.Path(text)
	if !strings.HasPrefix(text, "/") {
		if path, ok = dotted(text); !ok {
			return "", false
		}
	}
	for len(path) > 0 && (path[0] == "input" || path[0] == "review" || path[0] == "object") {
		path = path[1:]
	}
	if len(path) == 0 {
		return "", false
	}
	pointer = pointerOf(path)
	if _, ok = render.Lookup(r.subject(), pointer); ok {
		return pointer, true
	}
	holder, there := render.Lookup(r.subject(), pointerOf(path[:len(path)-1]))
	_, isMap := holder.(map[string]any)
	return pointer, there && isMap && len(path) > 1
}

func dotted(text string) (path []string, ok bool) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "$"), ".")
	for text != "" {
		m := pathPart.FindStringSubmatch(text)
		if m == nil {
			return nil, false
		}
		path = append(path, m[1]+m[2]+m[3])
		text = text[len(m[0]):]
	}
	return path, len(path) > 0
}
