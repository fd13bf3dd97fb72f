package schema

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
	"github.com/preadmit/preadmit/render"
)

// A placer finds the fields of an object that the API server's errors are about. A
// path in an error may be less exact than the text after it, and some paths name
// fields that do not exist.
type placer struct {
	fields *known         // of the kind; nil if unknown
	object map[string]any // as validated
	old    map[string]any // before an update, or nil
}

// maxPlaces limits the fields of one error.
const maxPlaces = 8

// place returns the pointers of the fields of a cause, the one in its path first, and
// the text to show.
func (p placer) place(c *apiserver.Cause) (pointers []string, message string) {
	steps := p.resolve(c.Field)
	head, value, detail := splitMessage(c.Message)
	detail, _, _ = strings.Cut(detail, "\n") // a diff follows
	if strings.HasPrefix(detail, "user information") {
		value = "" // a password
	}
	message = head
	if text := showValue(value); text != "" {
		message += ": " + text
	}
	if detail != "" {
		message += ": " + detail
	}
	if c.Field != "" {
		message = c.Field + ": " + message
	}
	var at [][]any
	switch below := p.find(steps, value); {
	case c.Changed:
		at = p.changed(steps, detail)
	case below != nil:
		at = [][]any{below}
	default:
		at = p.mentioned(steps, detail, true)
	}
	if len(at) == 0 {
		at = [][]any{steps}
	}
	at = append(at, p.mentioned(steps, detail, false)...)
	if other := p.twin(at[0]); other != nil && c.Type == metav1.CauseTypeFieldValueDuplicate {
		at = append(at, other)
	}
	for _, steps := range at {
		if pointer := render.Pointer(steps...); !slices.Contains(pointers, pointer) && len(pointers) < maxPlaces {
			pointers = append(pointers, pointer)
		}
	}
	return pointers, message
}

// resolve follows a path of the API server, such as spec.ports[0].name, as far as the
// object or its kind has the fields. It skips names that neither has.
func (p placer) resolve(path string) (steps []any) {
	at, fields := any(p.object), p.fields
	names := splitPath(path)
	for i, name := range names {
		if list, ok := at.([]any); ok {
			n := indexOf(list, name)
			if n < 0 {
				return steps
			}
			steps, at, fields = append(steps, n), list[n], fields.descend([]string{""})
			if strings.HasPrefix(name, "[") {
				continue
			}
		}
		m, _ := at.(map[string]any)
		key, ok := fieldNamed(m, fields, name)
		if metadata, _ := m["metadata"].(map[string]any); !ok && fields.descend([]string{"metadata"}).has(name) {
			// The server's paths may omit it.
			steps, m, fields, key, ok = append(steps, "metadata"), metadata, fields.descend([]string{"metadata"}), name, true
		}
		if rest := strings.Join(names[i:], "."); m[rest] != nil { // a key with dots
			return append(steps, rest)
		}
		if ok {
			steps, at, fields = append(steps, key), m[key], fields.descend([]string{key})
		}
	}
	return steps
}

// indexOf returns the index in a step such as [0], or that of the only element with the
// field of a step without index. It returns -1 if there is none.
func indexOf(list []any, name string) int {
	if text, ok := strings.CutPrefix(name, "["); ok {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < len(list) {
			return n
		}
		return -1
	}
	found := -1
	for i, element := range list {
		if m, _ := element.(map[string]any); m[name] != nil {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// fieldNamed returns the name in YAML of a step. The internal types capitalize some
// fields otherwise, and have lists where a version has a single value, too.
func fieldNamed(object map[string]any, fields *known, name string) (string, bool) {
	if key, ok := strings.CutPrefix(name, "["); ok {
		return key, fields == nil || fields.fields == nil // of a map
	}
	single := strings.TrimSuffix(name, "s")
	_, written := object[name]
	_, writtenSingle := object[single]
	switch {
	case written:
		return name, true
	case writtenSingle:
		return single, true
	case fields.has(name):
		return name, true
	}
	for key := range object {
		if strings.EqualFold(key, name) {
			return key, true
		}
	}
	return name, false
}

// splitPath splits a path at its dots and brackets. A step in brackets begins with one.
func splitPath(path string) []string {
	var steps []string
	for path != "" {
		if path[0] == '[' {
			if end := strings.IndexByte(path, ']'); end > 0 {
				steps, path = append(steps, path[:end]), path[end+1:]
				continue
			}
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end <= 0 {
			end = len(path)
		}
		steps, path = append(steps, path[:end]), path[end:]
	}
	return steps
}

// twin returns the field of an earlier element that has the value of a duplicate.
func (p placer) twin(steps []any) []any {
	last := len(steps) - 1
	for ; last >= 0; last-- {
		if _, ok := steps[last].(int); ok {
			break
		}
	}
	if last < 0 {
		return nil
	}
	value, _ := render.Lookup(p.object, render.Pointer(steps...))
	for i := range steps[last].(int) {
		other := slices.Clone(steps)
		other[last] = i
		if v, ok := render.Lookup(p.object, render.Pointer(other...)); ok && reflect.DeepEqual(v, value) {
			return other
		}
	}
	return nil
}

// find returns the only place below a field that has the text which an error quotes, as
// a key or as a value.
func (p placer) find(steps []any, quoted string) []any {
	text, err := strconv.Unquote(quoted)
	at, _ := render.Lookup(p.object, render.Pointer(steps...))
	if err != nil || text == "" || at == text {
		return nil
	}
	var found [][]any
	var search func(v any, steps []any)
	search = func(v any, steps []any) {
		steps = slices.Clip(steps)
		switch v := v.(type) {
		case map[string]any:
			for key, child := range v {
				if key == text {
					found = append(found, append(steps, key))
				}
				search(child, append(steps, key))
			}
		case []any:
			for i, child := range v {
				search(child, append(steps, i))
			}
		case string:
			if v == text {
				found = append(found, steps)
			}
		}
	}
	search(at, steps)
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// maxChanged is how many changed fields changed returns, unless one map has more.
const maxChanged = 8

// changed returns the changed fields at or below a field, the innermost ones unless they are many.
// It leaves out fields that the text quotes as those that may change.
func (p placer) changed(steps []any, text string) [][]any {
	pointer := render.Pointer(steps...)
	now, _ := render.Lookup(p.object, pointer)
	was, _ := render.Lookup(p.old, pointer)
	var differ []any
	switch now := now.(type) {
	case map[string]any:
		was, ok := was.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Concat(slices.Collect(maps.Keys(now)), slices.Collect(maps.Keys(was)))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if !reflect.DeepEqual(now[key], was[key]) && !strings.Contains(text, "'"+key+"'") {
				differ = append(differ, key)
			}
		}
	case []any:
		was, ok := was.([]any)
		if !ok || len(now) != len(was) {
			break
		}
		for i := range now {
			if !reflect.DeepEqual(now[i], was[i]) {
				differ = append(differ, i)
			}
		}
	}
	if len(differ) == 0 {
		return [][]any{steps}
	}
	var all, inner [][]any
	for _, step := range differ {
		at := append(slices.Clone(steps), step)
		all, inner = append(all, at), append(inner, p.changed(at, "")...)
	}
	if len(differ) > 1 && len(inner) > maxChanged {
		return all
	}
	return inner
}

// word matches names of fields in a text: quoted with backticks, or with a capital inside.
var word = regexp.MustCompile("`[a-zA-Z]+`|\\b[a-z]+[A-Z][a-zA-Z]*\\b")

// mentioned returns the other fields of the object that the text of an error names: those
// directly within the field at fault, or else the nearest ones around it.
func (p placer) mentioned(steps []any, text string, within bool) (all [][]any) {
	for _, w := range word.FindAllString(text, -1) {
		name := strings.Trim(w, "`")
		for n := len(steps); n > 0; n-- {
			around, _ := render.Lookup(p.object, render.Pointer(steps[:n]...))
			m, _ := around.(map[string]any)
			if m[name] == nil || n < len(steps) && steps[n] == name {
				continue
			}
			if within == (n == len(steps)) {
				all = append(all, append(slices.Clone(steps[:n]), name))
			}
			break
		}
	}
	return all
}

// valued are the beginnings of messages that a value may follow.
var valued = []string{"Invalid value", "Unsupported value", "Duplicate value", "Not found", "Too many"}

// splitMessage splits the message of an error into its kind, the value that it quotes, and
// its text. The value or the text may be "".
func splitMessage(message string) (kind, value, text string) {
	for _, kind := range valued {
		rest, ok := strings.CutPrefix(message, kind+": ")
		if !ok {
			continue
		}
		end := endOfValue(rest)
		return kind, rest[:end], strings.TrimPrefix(rest[end:], ": ")
	}
	kind, text, _ = strings.Cut(message, ": ")
	return kind, "", text
}

// endOfValue returns the length of the value at the beginning of a text: JSON, or what
// Go prints of a struct. It is 0 if there is none.
func endOfValue(text string) int {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		return len(quoted)
	}
	depth, brackets := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return 0
			}
			i += len(quoted) - 1
		case c == '{' || c == '[' || c == '(':
			depth, brackets = depth+1, true
		case c == '}' || c == ']' || c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], ": "):
			if value := text[:i]; brackets || json.Valid([]byte(value)) {
				return i
			}
			return 0
		}
	}
	if brackets && depth == 0 || json.Valid([]byte(text)) {
		return len(text)
	}
	return 0
}

// showValue returns a value of an error as a message shows it: not what Go prints of a
// struct, which has addresses, nor anything long.
func showValue(value string) string {
	const most = 200
	if len(value) > most || !json.Valid([]byte(value)) && !strings.HasPrefix(value, `"`) {
		return ""
	}
	return value
}
