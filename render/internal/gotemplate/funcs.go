package gotemplate

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// functions returns the functions that templates can call: those of sprig and those that Argo CD
// and Flux add, without those that read the environment. The size of their results is limited.
func (t *Template) functions() template.FuncMap {
	fns := template.FuncMap{"__step": t.step, "__enter": t.enter, "__leave": t.leave}
	for name, f := range library() {
		fns[name] = t.guard(f)
	}
	return fns
}

var library = sync.OnceValue(func() template.FuncMap {
	fns := sprig.GenericFuncMap()
	hermetic := sprig.HermeticTxtFuncMap()
	for name := range fns {
		if hermetic[name] == nil || slices.Contains(random, name) {
			fns[name] = unstable(name)
		}
	}
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(fns, name)
	}
	maps.Copy(fns, template.FuncMap{
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"__keys": entries("keys"), "__values": entries("values"),
		"normalize": Normalize, "slugify": Slugify,
		"toYaml": toYAML, "fromYaml": fromYAML, "fromYamlArray": fromYAMLArray,
		"until": func(n int) ([]int, error) { return untilStep(0, n, Sign(n)) }, "untilStep": untilStep,
		"seq": func(params ...int) (string, error) { return Seq(untilStep, params...) }, "repeat": repeat, "indent": indent, "nindent": nindent, "replace": replace,
		"regexReplaceAll": regexReplaceAll, "mustRegexReplaceAll": regexReplaceAll,
		"regexReplaceAllLiteral": regexReplaceAllLiteral, "mustRegexReplaceAllLiteral": regexReplaceAllLiteral,
	})
	return fns
})

// random lists functions of sprig that return a different value at each call or take very long, in
// addition to those that sprig itself leaves out of HermeticTxtFuncMap.
var random = []string{
	"randInt", "shuffle", "bcrypt", "htpasswd", "derivePassword", "encryptAES",
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "buildCustomCert",
}

// unstable returns a function that always fails. It replaces a function whose value is not known
// offline.
func unstable(name string) any {
	return func(...any) (any, error) {
		return nil, fmt.Errorf("%s returns a different value each time, so the result is unknown", name)
	}
}

var errorType = reflect.TypeFor[error]()

// guard wraps a function so that its calls are counted and the size of its result is limited.
func (t *Template) guard(f any) any {
	fn := reflect.ValueOf(f)
	typ := fn.Type()
	in := make([]reflect.Type, typ.NumIn())
	for i := range in {
		in[i] = typ.In(i)
	}
	out := reflect.FuncOf(in, []reflect.Type{typ.Out(0), errorType}, typ.IsVariadic())
	return reflect.MakeFunc(out, func(args []reflect.Value) []reflect.Value {
		failed := func(err error) []reflect.Value {
			return []reflect.Value{reflect.Zero(typ.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		if _, err := t.step(); err != nil {
			return failed(err)
		}
		var results []reflect.Value
		if typ.IsVariadic() {
			results = fn.CallSlice(args)
		} else {
			results = fn.Call(args)
		}
		if len(results) == 2 && !results[1].IsNil() {
			return failed(results[1].Interface().(error))
		}
		m := meter{parts: maxParts, bytes: maxText}
		if err := m.measure(results[0], 0); err != nil {
			return failed(err)
		}
		return []reflect.Value{results[0], reflect.Zero(errorType)}
	}).Interface()
}

// A meter holds how many parts and bytes a value may still have.
type meter struct{ parts, bytes int }

func (m *meter) measure(v reflect.Value, depth int) error {
	if m.parts--; m.parts < 0 {
		return fmt.Errorf("makes a value of more than %d parts", maxParts)
	}
	if depth > maxDepth {
		return fmt.Errorf("makes a value that contains itself, or is nested more than %d deep", maxDepth)
	}
	switch v.Kind() {
	case reflect.String:
		if m.bytes -= v.Len(); m.bytes < 0 {
			return errLong
		}
	case reflect.Interface, reflect.Pointer:
		return m.measure(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := m.measure(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if err := errors.Join(m.measure(key, depth+1), m.measure(v.MapIndex(key), depth+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

var notInName = regexp.MustCompile("[^-a-z0-9.]")

// Normalize converts a text to the form of a DNS subdomain name, as Argo CD's normalize does.
func Normalize(name string) string {
	name = notInName.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(name[:min(len(name), 253)], "-.")
}

var notInSlug = regexp.MustCompile("[^a-z0-9_]+")

// Slugify converts its last argument to a part of a URL, as Argo CD's slugify does. The arguments
// before it are the maximum length, 50 by default, and whether to cut between words only.
func Slugify(args ...any) (string, error) {
	limit, smart := 50, false
	if len(args) == 0 || len(args) > 3 {
		return "", errors.New("slugify takes a text, and before it a length and whether to cut between words")
	}
	name, ok := args[len(args)-1].(string)
	if len(args) > 1 {
		limit = toInt(args[0])
	}
	if len(args) > 2 {
		smart, _ = args[1].(bool)
	}
	if !ok {
		return "", errors.New("slugify takes a text as its last argument")
	}
	slug := strings.Trim(notInSlug.ReplaceAllString(Normalize(name), "-"), "-_")
	if limit <= 0 || len(slug) <= limit {
		return slug, nil
	}
	if i := strings.LastIndexByte(slug[:limit+1], '-'); smart && i >= 0 {
		return slug[:i], nil
	}
	return strings.Trim(slug[:limit], "-_"), nil
}

func toInt(v any) int {
	n, _ := strconv.Atoi(fmt.Sprint(v))
	return n
}

func toYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(data), "\n"), err
}

func fromYAML(text string) (map[string]any, error) {
	m := map[string]any{}
	err := yaml.Unmarshal([]byte(text), &m)
	return m, err
}

func fromYAMLArray(text string) ([]any, error) {
	list := []any{}
	err := yaml.Unmarshal([]byte(text), &list)
	return list, err
}

// Sign returns -1 for a negative number, else 1.
func Sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// UntilStep returns the numbers from start up to but not including stop. It returns false if there
// would be more than most numbers.
func UntilStep(start, stop, step, most int) ([]int, bool) {
	list := []int{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(list) == most {
			return nil, false
		}
		list = append(list, i)
	}
	return list, true
}

func untilStep(start, stop, step int) ([]int, error) {
	list, ok := UntilStep(start, stop, step, maxParts)
	if !ok {
		return nil, fmt.Errorf("makes a list of more than %d items", maxParts)
	}
	return list, nil
}

// Seq returns numbers separated by blanks, as sprig's seq and the shell's do. untilStep makes the
// list, so that callers can limit its length.
func Seq(untilStep func(start, stop, step int) ([]int, error), params ...int) (string, error) {
	start, step, end := 1, 1, 0
	switch len(params) {
	case 1:
		end = params[0]
	case 2:
		start, end = params[0], params[1]
	case 3:
		start, step, end = params[0], params[1], params[2]
	default:
		return "", nil
	}
	past := 1
	if end < start {
		past = -1
		if len(params) < 3 {
			step = -1
		} else if step > 0 {
			return "", nil
		}
	}
	list, err := untilStep(start, end+past, step)
	return strings.Trim(fmt.Sprint(list), "[]"), err
}

// room returns an error if a result of n bytes would be too long. Functions call it before they
// make the result.
func room(n int) error {
	if n > maxText || n < 0 {
		return errLong
	}
	return nil
}

func repeat(count int, s string) (string, error) {
	if count < 0 || room(count) != nil || room(count*len(s)) != nil {
		return "", errLong
	}
	return strings.Repeat(s, count), nil
}

func indent(spaces int, s string) (string, error) {
	if spaces < 0 || room(spaces) != nil || room(spaces*(1+strings.Count(s, "\n"))+len(s)) != nil {
		return "", errLong
	}
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}

func nindent(spaces int, s string) (string, error) {
	text, err := indent(spaces, s)
	return "\n" + text, err
}

func replace(old, with, s string) (string, error) {
	if err := room(len(s) + strings.Count(s, old)*len(with)); err != nil {
		return "", err
	}
	return strings.ReplaceAll(s, old, with), nil
}

func regexReplaceAll(expr, s, with string) (string, error) {
	re, err := regexp.Compile(expr)
	if err == nil {
		// A replacement may name groups, each as long as the text.
		err = room(len(s) * (1 + len(with)))
	}
	if err != nil {
		return "", err
	}
	return re.ReplaceAllString(s, with), nil
}

func regexReplaceAllLiteral(expr, s, with string) (string, error) {
	re, err := regexp.Compile(expr)
	if err == nil {
		err = room((len(s) + 1) * (1 + len(with)))
	}
	if err != nil {
		return "", err
	}
	return re.ReplaceAllLiteralString(s, with), nil
}

// operator changes the functions of a template to those of flux-operator: it takes slim-sprig,
// which lacks some of sprig's functions, and has a toYaml and a slugify of its own.
func (t *Template) operator(fns template.FuncMap) {
	maps.DeleteFunc(fns, func(name string, _ any) bool { return slices.Contains(notSlim, name) })
	for name, f := range map[string]any{"toYaml": wholeYAML, "mustToYaml": wholeYAML, "slugify": slug} {
		fns[name] = t.guard(f)
	}
}

// notSlim lists the functions that Argo CD's templates have and flux-operator's do not.
var notSlim = strings.Fields(`
	abbrev abbrevboth add1f addf bcrypt buildCustomCert camelcase decryptAES deepCopy derivePassword divf
	encryptAES genCA genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert
	genSignedCertWithKey htpasswd initials kebabcase merge mergeOverwrite mulf mustDeepCopy mustMerge
	mustMergeOverwrite nospace randAlpha randAlphaNum randAscii randBytes randNumeric semver semverCompare
	sha512sum shuffle snakecase subf swapcase untitle uuidv4 wrap wrapWith
	normalize fromYaml fromYamlArray
`)

func wholeYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return string(data), err
}

var (
	notInWords = regexp.MustCompile("[^a-z0-9_]+")
	spelled    = strings.NewReplacer("&", "and", "@", "at", `"`, "", "'", "", "\u2019", "", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2015", "-")
)

// slug converts a text to the part of a URL as the library gosimple/slug does. It fails for letters
// outside of ASCII, which that library spells by a table.
func slug(text string) (string, error) {
	text = strings.ToLower(spelled.Replace(strings.TrimSpace(text)))
	for _, r := range text {
		if r > 0x7f {
			return "", errors.New("slugify of text that is not ASCII is not rendered")
		}
	}
	text = strings.Trim(notInWords.ReplaceAllString(text, "-"), "-_")
	const most = 63
	if len(text) <= most {
		return text, nil
	}
	if i := strings.LastIndexByte(text[:most+1], '-'); i >= 0 {
		return text[:i], nil
	}
	return text[:most], nil
}
