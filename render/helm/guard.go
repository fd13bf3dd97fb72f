package helm

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// decodeYAML decodes Chart.yaml and values files as Helm does: YAML 1.1 by way
// of JSON. It first bounds the expansion of aliases, since the library counts
// nodes and not the bytes behind them.
func decodeYAML(data []byte, into any) (line int, err error) {
	if line, err := guardYAML(data); err != nil {
		return line, err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return yamlError(data, err)
	}
	return 0, nil
}

// guardYAML refuses YAML that is short as text but large or deep as a value.
func guardYAML(data []byte) (line int, err error) {
	if bytes.IndexByte(data, '&') < 0 || bytes.IndexByte(data, '*') < 0 {
		return 0, nil // without aliases a value is no larger than its text
	}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(data, &doc); err != nil {
		return yamlError(data, err)
	}
	g := guard{seen: map[*yamlv3.Node]weight{}}
	w, err := g.weigh(&doc, 0)
	switch {
	case err != nil:
		return g.line, err
	case w.nodes > maxYAMLNodes || w.bytes > maxYAMLBytes:
		return 0, errExpands
	}
	return 0, nil
}

var errExpands = errors.New("aliases expand beyond the limit of a file")

var (
	errNested = fmt.Errorf("%w: they are nested more than %d deep", errExpands, maxYAMLDepth)
	errLoop   = fmt.Errorf("%w: one refers to a value that contains it", errExpands)
)

type weight struct{ nodes, bytes int }

type guard struct {
	seen map[*yamlv3.Node]weight // the expanded size of an anchored node
	line int
}

// weigh counts nodes and bytes with aliases expanded.
func (g *guard) weigh(n *yamlv3.Node, depth int) (weight, error) {
	if depth > maxYAMLDepth {
		g.line = n.Line
		return weight{}, errNested
	}
	if n.Kind == yamlv3.AliasNode {
		return g.alias(n, depth)
	}
	w := weight{1, len(n.Value)}
	for _, c := range n.Content {
		cw, err := g.weigh(c, depth+1)
		if err != nil {
			return w, err
		}
		w.nodes = min(w.nodes+cw.nodes, 1<<40)
		w.bytes = min(w.bytes+cw.bytes, 1<<40)
	}
	return w, nil
}

func (g *guard) alias(n *yamlv3.Node, depth int) (weight, error) {
	if w, ok := g.seen[n.Alias]; ok {
		if w.nodes == 0 {
			g.line = n.Line
			return w, errLoop
		}
		return w, nil
	}
	g.seen[n.Alias] = weight{}
	w, err := g.weigh(n.Alias, depth+1)
	g.seen[n.Alias] = w
	return w, err
}

var yamlLine = regexp.MustCompile(`line (\d+)(: |,|$)`)

// yamlError removes the line from the library's message and returns it.
func yamlError(data []byte, err error) (line int, cleaned error) {
	if e := (*render.Error)(nil); errors.As(render.SyntaxError("", data, err), &e) && e.Span.Line > 0 {
		return e.Span.Line, e.Err
	}
	text := err.Error()
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		line, _ = strconv.Atoi(text[m[2]:m[3]])
		text = text[m[1]:]
	}
	if !yamlSentence.MatchString(text) {
		return line, errors.New("is not valid YAML of the expected shape")
	}
	return line, errors.New("YAML: " + text)
}

// yamlSentence matches the library's messages that quote nothing of the file.
var yamlSentence = regexp.MustCompile(`^(did not find|could not find|found |mapping |block |cannot start|exceeded|invalid |unexpected|control char|while |tab )[a-zA-Z0-9 ,:'"\-\[\]{}.()?]*$`)

// Limits of a release. A chart that exceeds one is an error, never a hang. The
// figures are Helm's where Helm has one.
const (
	maxTreeBytes = 100 << 20 // a chart with all subcharts, archives unpacked
	maxEntries   = 10_000    // files of such a tree
	maxNesting   = 4         // archives within archives
	maxPathDepth = 64        // directories within directories
	maxLinks     = 8         // symbolic links on the way to a file
	maxLocal     = 8         // file:// dependencies of file:// dependencies
	maxFile      = 5 << 20   // one file, as Helm has it
	maxSyntax    = 256       // blocks and parentheses within one another
	maxInclude   = 1000      // include, tpl and template within one another
	maxTpl       = 100       // tpl within tpl
	maxSteps     = 4_000_000
	maxOutput    = 64 << 20  // bytes that all templates of a release write, partials included
	maxString    = 16 << 20  // one string that a function makes
	maxMade      = 256 << 20 // all such strings together
	maxList      = 1 << 20   // one list that a function makes
	maxNodes     = 5_000_000 // one value that a function walks
	maxValue     = 1000      // depth of maps and lists in it
	maxYAMLDepth = 500
	maxYAMLNodes = 1_000_000 // of a values file, aliases expanded
	maxYAMLBytes = 64 << 20
	maxSchema    = 100     // depth of objects and lists in a schema
	maxTOML      = 500     // depth of tables and arrays, parts of a key
	maxChecks    = 500_000 // subschemas that values are checked against
	maxMatching  = 1 << 31 // bytes of patterns times bytes of text they are matched against
	maxMessage   = 4 << 10
	maxWall      = 60 * time.Second // a backstop; the step limits should be reached first
)

var errLarge = &exceeded{"value has too many parts"}

// measure refuses a value that contains itself, or that shares parts so often
// that walking it would not end. Printing the former overflows the stack, from
// which Go can't recover.
func (r *run) measure(v reflect.Value) error {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	return r.measureShown(v.Interface())
}

// measureShown is measureAny for a value that becomes text as a whole. If it contains the data of
// the release, the text may differ for an upgrade, which is recorded.
func (r *run) measureShown(v any) error {
	m := meter{left: maxNodes, bytes: maxString}
	err := r.measureBy(&m, v)
	if m.release {
		r.recordQuestion(asked{subject: render.AsksUpgrade})
	}
	return err
}

func (r *run) measureAny(v any) error {
	switch v.(type) {
	case nil, string, bool, int, int64, float64:
		return nil
	}
	return r.measureBy(&meter{left: maxNodes, bytes: maxString}, v)
}

func (r *run) measureBy(m *meter, v any) error {
	err := m.any(v, 0)
	if err == nil {
		err = r.step((maxNodes - m.left) / 64)
	}
	return err
}

type meter struct {
	left, bytes int
	release     bool // it contains the data of the release
}

func (m *meter) any(v any, depth int) error {
	if m.left--; m.left < 0 || m.bytes < 0 {
		return errLarge
	}
	if depth > maxValue {
		return errCyclic
	}
	switch v := v.(type) {
	case nil, bool, int, int64, float64:
		return nil
	case string:
		m.bytes -= len(v)
		return nil
	case map[string]any:
		m.release = m.release || isRelease(v)
		for k, e := range v {
			m.bytes -= len(k)
			if err := m.any(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case table:
		return m.any(map[string]any(v), depth)
	case []any:
		for _, e := range v {
			if err := m.any(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return m.value(reflect.ValueOf(v), depth)
}

// value walks values of types that YAML does not give.
func (m *meter) value(v reflect.Value, depth int) error {
	if m.left--; m.left < 0 || m.bytes < 0 {
		return errLarge
	}
	if depth > maxValue {
		return errCyclic
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return m.part(v.Elem(), depth+1)
	case reflect.String:
		m.bytes -= v.Len()
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := m.part(it.Value(), depth+1); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Float64 {
			m.bytes -= v.Len()
			return nil
		}
		for i := range v.Len() {
			if err := m.part(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := m.part(v.Field(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *meter) part(v reflect.Value, depth int) error {
	if v.Kind() == reflect.Interface && v.CanInterface() && !v.IsNil() {
		return m.any(v.Interface(), depth)
	}
	return m.value(v, depth)
}
