package helm

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/preadmit/preadmit/render"
)

// kubeFunctions are functions with which templates read the patch version of Kubernetes or the suffix of
// a distribution, such as +k3s1. A version such as 1.34 leaves both open. If another end of the version
// may change the result of such a function, the chart is rendered for that end, too.
func (r *run) kubeFunctions(fns template.FuncMap) template.FuncMap {
	if strings.Count(params(r.src).KubeVersion, ".") > 1 {
		return template.FuncMap{"eq": equal, "ne": notEqual}
	}
	compare := fns["semverCompare"].(func(string, string) (bool, error))
	matches := fns["regexMatch"].(func(string, string) bool)
	mustMatch := fns["mustRegexMatch"].(func(string, string) (bool, error))
	own := template.FuncMap{
		"semverCompare": func(constraint, version string) (bool, error) {
			r.askEnd(version, patches(constraint), func(version string) bool { is, err := compare(constraint, version); return is && err == nil })
			return compare(constraint, version)
		},
		"eq": func(first reflect.Value, others ...reflect.Value) (bool, error) {
			r.askEqual(append(others, first))
			return equal(first, others...)
		},
		"ne": func(a, b reflect.Value) (bool, error) {
			r.askEqual([]reflect.Value{a, b})
			return notEqual(a, b)
		},
		"regexMatch": func(expr, text string) bool {
			r.askEnd(text, ends(expr), func(version string) bool { return matches(expr, version) })
			return matches(expr, text)
		},
		"mustRegexMatch": func(expr, text string) (bool, error) {
			r.askEnd(text, ends(expr), func(version string) bool { is, _ := mustMatch(expr, version); return is })
			return mustMatch(expr, text)
		},
	}
	for name, is := range map[string]func(text, part string) bool{"contains": strings.Contains, "hasPrefix": strings.HasPrefix, "hasSuffix": strings.HasSuffix} {
		own[name] = func(part, text string) bool {
			r.askEnd(text, ends(part), func(version string) bool { return is(version, part) })
			return is(text, part)
		}
	}
	for _, name := range []string{
		"semver", "split", "splitList", "splitn", "trunc", "substr", "regexFind", "regexFindAll", "regexSplit", "mustRegexFind",
		"mustRegexFindAll", "mustRegexSplit", "regexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral",
	} {
		own[name] = r.askEnds(fns[name])
	}
	return own
}

// notEqual implements ne.
func notEqual(a, b reflect.Value) (bool, error) {
	is, err := equal(a, b)
	return !is, err
}

// askEnd asks for the first of some ends with which the version of Kubernetes gives another result.
func (r *run) askEnd(version string, ends []string, result func(version string) bool) {
	if !r.isKubeVersion(version) {
		return
	}
	minor := minorOf.FindString(version) + "."
	for _, end := range ends {
		if end = strings.TrimPrefix(end, strings.TrimPrefix(minor, "v")); result(minor+end) != result(version) {
			r.recordQuestion(asked{subject: render.AsksPatch, api: end})
			return
		}
	}
}

// askEqual asks for the end of a version that one of the values is, if another is the version of
// Kubernetes.
func (r *run) askEqual(values []reflect.Value) {
	var texts []string
	for _, v := range values {
		if v = concrete(v); v.Kind() == reflect.String {
			texts = append(texts, v.String())
		}
	}
	for _, version := range texts {
		for _, text := range texts {
			r.askEnd(version, []string{strings.TrimPrefix(text, "v")}, func(version string) bool { return version == text })
		}
	}
}

// askEnds makes a function ask for another patch version and for a suffix, if it is given the version of
// Kubernetes.
func (r *run) askEnds(f any) any {
	fn := reflect.ValueOf(f)
	call := fn.Call
	if fn.Type().IsVariadic() {
		call = fn.CallSlice
	}
	return reflect.MakeFunc(fn.Type(), func(args []reflect.Value) []reflect.Value {
		for _, arg := range args {
			if arg = concrete(arg); arg.Kind() == reflect.String && r.isKubeVersion(arg.String()) {
				r.recordQuestion(asked{subject: render.AsksPatch, api: "98"})
				r.recordQuestion(asked{subject: render.AsksPatch, api: "98+k3s1"})
			}
		}
		return call(args)
	}).Interface()
}

// isKubeVersion reports whether a text is the version of Kubernetes.
func (r *run) isKubeVersion(text string) bool {
	return text != "" && strings.TrimPrefix(text, "v") == strings.TrimPrefix(r.kube, "v")
}

var (
	minorOf = regexp.MustCompile(`^v?\d+\.\d+`)
	numbers = regexp.MustCompile(`\d+`)
	// suffixes are the texts in a condition that the end of a version may hold, without the signs of a
	// regular expression.
	suffixes = regexp.MustCompile(`[+-]?[0-9A-Za-z][0-9A-Za-z.+-]*`)
)

// patches returns the patch versions at which the result of a constraint may change.
func patches(constraint string) []string {
	all := []string{"0", "98"}
	for _, text := range numbers.FindAllString(constraint, 16) {
		if n, err := strconv.ParseUint(text, 10, 32); err == nil {
			all = append(all, fmt.Sprint(n), fmt.Sprint(n+1), fmt.Sprint(max(n, 1)-1))
		}
	}
	return all
}

// ends returns ends of versions that a text or a regular expression may look for.
func ends(condition string) []string {
	all := append(patches(condition), "98+k3s1", "98-gke.1", "98-eks-1")
	for _, text := range suffixes.FindAllString(strings.ReplaceAll(condition, `\`, ""), 16) {
		all = append(all, strings.TrimPrefix(text, "v"), "98"+text, "98+"+text, "98-"+text)
	}
	return all
}
