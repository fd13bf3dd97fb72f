package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"

	"github.com/preadmit/preadmit/render"
)

// builtins are the functions of text/template, which exports no list of them.
var builtins = []string{
	"and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or",
	"print", "printf", "println", "slice", "urlquery",
}

// functionNames returns the names of all functions that a template may call,
// for the parser. version is that of Helm.
func functionNames(version string) map[string]any {
	names := map[string]any{}
	for _, name := range builtins {
		names[name] = true
	}
	for name := range (&run{src: render.Source{Helm: &render.Helm{Version: version}}}).functions() {
		names[name] = true
	}
	return names
}

// library returns sprig's functions, without those that read the process's
// environment.
var library = sync.OnceValue(func() template.FuncMap {
	fns := sprig.TxtFuncMap()
	delete(fns, "env")
	delete(fns, "expandenv")
	return fns
})

// functions returns the functions for templates: sprig's with Helm's changes,
// with limits on the size of results, and with fixed values where results would
// differ from run to run.
func (r *run) functions() template.FuncMap {
	fns := maps.Clone(library())
	for _, more := range []template.FuncMap{r.helmFunctions(), r.textFunctions(), r.listFunctions(), r.scalarFunctions(), r.regexFunctions(), r.stubs(), r.hooks()} {
		maps.Copy(fns, more)
	}
	maps.Copy(fns, r.kubeFunctions(fns))
	if isHelm4(r.src) {
		maps.Copy(fns, r.helm4Functions())
		if render.Since(params(r.src).Version, 4, 3) {
			maps.Copy(fns, durationFunctions)
		}
	}
	return fns
}

func (r *run) hooks() template.FuncMap {
	return template.FuncMap{
		"__out": r.hookOut, "__take": r.hookTake, "__if": r.hookIf,
		"__in": r.hookIn, "__leave": r.hookLeave, "__ask": r.hookAsk, "__see": r.hookSee, "__has": r.hookHas, "__found": r.hookFound, "__side": r.hookSide,
	}
}

// helmFunctions returns the functions that Helm adds to sprig's.
func (r *run) helmFunctions() template.FuncMap {
	return template.FuncMap{
		"include":       r.include,
		"tpl":           r.tpl,
		"required":      required,
		"fail":          func(message string) (string, error) { return "", &failure{message} },
		"lookup":        r.lookup,
		"getHostByName": r.getHostByName,
		"toYaml":        marshals(r, toYAML),
		"toYamlPretty":  marshals(r, toYAMLPretty),
		"toJson":        marshals(r, toJSON),
		"toToml":        walked(r, toTOML),
		"fromYaml":      parses(r, fromYAML),
		"fromYamlArray": parses(r, fromYAMLArray),
		"fromJson":      parses(r, fromJSON),
		"fromJsonArray": parses(r, fromJSONArray),
		"fromToml":      fromTOML,
	}
}

// A failure is the message of a template's fail or required.
type failure struct{ message string }

func (f *failure) Error() string { return f.message }

func required(message string, v any) (any, error) {
	if v == nil || v == "" {
		return v, &failure{message}
	}
	return v, nil
}

func (r *run) lookup(apiVersion, kind, namespace, name string) map[string]any {
	r.assume(assumedLookup)
	object := kind + "/" + name
	if len(r.raised) >= maxRaised {
		object = ""
	}
	r.recordQuestion(asked{subject: render.AsksLookup, api: object})
	if r.src.Variant.Lookup != render.LookupNothing {
		return r.found(apiVersion, kind, namespace, name)
	}
	return map[string]any{}
}

func (r *run) getHostByName(string) string {
	r.assume("template uses getHostByName, which finds nothing offline")
	return ""
}

// walked limits a function that walks a whole value and converts it to text.
func walked(r *run, f func(any) string) func(any) (string, error) {
	return func(v any) (string, error) {
		if err := r.measureShown(v); err != nil {
			return "", err
		}
		return r.text(f(v))
	}
}

// marshals is walked for a function that writes YAML or JSON. It records the value that the text
// was made from.
func marshals(r *run, f func(any) string) func(any) (string, error) {
	f2 := walked(r, f)
	return func(v any) (string, error) {
		s, err := f2(v)
		r.marshaled(s, v)
		return s, err
	}
}

// parses wraps a function that parses a text. It records the text as the origin of each part of the
// result.
func parses[V any](r *run, f func(string) (V, error)) func(string) (V, error) {
	return func(text string) (V, error) {
		v, err := f(text)
		if err == nil {
			r.parsed(text, v)
		}
		return v, err
	}
}

func toYAML(v any) string {
	text, _ := mustToYAML(v)
	return text
}

func mustToYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(data), "\n"), err
}

func toYAMLPretty(v any) string {
	var data bytes.Buffer
	enc := goyaml.NewEncoder(&data)
	enc.SetIndent(2)
	if enc.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(data.String(), "\n")
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

func toTOML(v any) string {
	text, err := mustToTOML(v)
	if err != nil {
		return err.Error()
	}
	return text
}

func mustToTOML(v any) (string, error) {
	var data bytes.Buffer
	err := toml.NewEncoder(&data).Encode(v)
	return data.String(), err
}

// The from functions return errors within their results, as Helm's do.

func fromYAML(text string) (map[string]any, error) {
	m := map[string]any{}
	err := unmarshal(text, &m)
	if errors.Is(err, errExpands) {
		return nil, err
	} else if err != nil {
		m["Error"] = err.Error()
	}
	return m, nil
}

func fromYAMLArray(text string) ([]any, error) {
	list := []any{}
	err := unmarshal(text, &list)
	if errors.Is(err, errExpands) {
		return nil, err
	} else if err != nil {
		list = []any{err.Error()}
	}
	return list, nil
}

func unmarshal(text string, into any) error {
	if _, err := guardYAML([]byte(text)); err != nil {
		return err
	}
	return yaml.Unmarshal([]byte(text), into)
}

func fromJSON(text string) (map[string]any, error) {
	m := map[string]any{}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		m["Error"] = err.Error()
	}
	return m, nil
}

func fromJSONArray(text string) ([]any, error) {
	list := []any{}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		list = []any{err.Error()}
	}
	return list, nil
}

func fromTOML(text string) (map[string]any, error) {
	if deepTOML(text) {
		return nil, errDeepTOML
	}
	m := map[string]any{}
	if err := toml.Unmarshal([]byte(text), &m); err != nil {
		m["Error"] = err.Error()
	}
	return m, nil
}

var errDeepTOML = &exceeded{fmt.Sprintf("TOML is nested more than %d deep", maxTOML)}

// deepTOML reports whether TOML nests more than maxTOML tables and arrays, or
// has a key with more parts. The library keeps all keys above each key, so its
// memory grows with the square of the depth. Brackets and dots in strings count
// too.
func deepTOML(text string) bool {
	depth, dots := 0, 0
	for _, c := range []byte(text) {
		switch c {
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(0, depth-1), 0
		case ',', '=', '\n':
			dots = 0
		case '.':
			dots++
		}
		if depth > maxTOML || dots > maxTOML {
			return true
		}
	}
	return false
}

var (
	errLong = &exceeded{fmt.Sprintf("function makes a string of more than %d MiB", maxString>>20)}
	errMade = &exceeded{fmt.Sprintf("functions make more than %d MiB", maxMade>>20)}
	errList = &exceeded{fmt.Sprintf("function makes a list of more than %d items", maxList)}
)

// text charges a string that a function made to the budget.
func (r *run) text(s string) (string, error) {
	if r.made += len(s); strings.Contains(s, "0x") {
		s = r.withoutPointers(s)
	}
	switch {
	case len(s) > maxString:
		return "", errLong
	case r.made > maxMade:
		return "", errMade
	}
	return s, nil
}

// room returns an error if the result of a function will be too large.
func room(n int) error {
	if n > maxString || n < 0 {
		return errLong
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

var errCyclic = &exceeded{fmt.Sprintf("value contains itself, or is nested more than %d deep", maxValue)}

// durationFunctions are the functions that Helm 4.3 adds. If the argument is not a duration,
// mustToDuration fails, and the others use a duration of 0.
var durationFunctions = template.FuncMap{
	"mustToDuration":       toDuration,
	"durationSeconds":      func(v any) float64 { return duration(v).Seconds() },
	"durationMilliseconds": func(v any) int64 { return duration(v).Milliseconds() },
	"durationMicroseconds": func(v any) int64 { return duration(v).Microseconds() },
	"durationNanoseconds":  func(v any) int64 { return duration(v).Nanoseconds() },
	"durationMinutes":      func(v any) float64 { return duration(v).Minutes() },
	"durationHours":        func(v any) float64 { return duration(v).Hours() },
	"durationDays":         func(v any) float64 { return duration(v).Hours() / 24 },
	"durationWeeks":        func(v any) float64 { return duration(v).Hours() / 24 / 7 },
	// Round and Truncate return the duration itself for a multiple of 0.
	"durationRoundTo":    func(v, multiple any) time.Duration { return duration(v).Round(duration(multiple)) },
	"durationTruncateTo": func(v, multiple any) time.Duration { return duration(v).Truncate(duration(multiple)) },
}

func duration(v any) time.Duration {
	d, _ := toDuration(v)
	return d
}

// toDuration returns a duration, which may be a text such as "1h30m" or a number of seconds.
func toDuration(v any) (time.Duration, error) {
	switch v := v.(type) {
	case time.Duration:
		return v, nil
	case string:
		text := strings.TrimSpace(v)
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return ofSeconds(f)
		}
		return 0, fmt.Errorf("%q is no duration", v)
	case nil:
		return 0, errors.New("null is no duration")
	}
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		if n := v.Int(); n <= math.MaxInt64/int64(time.Second) && n >= math.MinInt64/int64(time.Second) {
			return time.Duration(n) * time.Second, nil
		}
		return 0, fmt.Errorf("%d seconds are too many for a duration", v.Int())
	case v.CanUint():
		if n := v.Uint(); n <= math.MaxInt64/uint64(time.Second) {
			return time.Duration(n) * time.Second, nil
		}
		return 0, fmt.Errorf("%d seconds are too many for a duration", v.Uint())
	case v.CanFloat():
		return ofSeconds(v.Float())
	}
	return 0, fmt.Errorf("a %T is no duration", v)
}

func ofSeconds(n float64) (time.Duration, error) {
	const most = float64(math.MaxInt64) / float64(time.Second)
	if !(math.Abs(n) <= most) { // or NaN
		return 0, fmt.Errorf("%v seconds are too many for a duration", n)
	}
	return time.Duration(n * float64(time.Second)), nil
}
