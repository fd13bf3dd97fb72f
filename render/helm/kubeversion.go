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

// kubeFunctions returns the functions that can read the patch version of Kubernetes or the suffix of a
// distribution, such as +k3s1. A version such as 1.34 leaves both open. If another end of the version
// changes a function's result, the function records that end, and the chart is also rendered for it.
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

// askEnd records the first of some ends that changes a result about the version of Kubernetes, unless the
// version outside variants changes it. It tries each end also with the suffix that the version has, because
// another condition may depend on that.
func (r *run) askEnd(version string, ends []string, result func(version string) bool) {
	if !r.isKubeVersion(version) {
		return
	}
	minor := minorOf.FindString(version) + "."
	suffix := suffixOf.FindString(version)
	for _, end := range append([]string{r.plainKube}, ends...) {
		end = strings.TrimPrefix(strings.TrimPrefix(end, "v"), strings.TrimPrefix(minor, "v"))
		for _, end := range []string{end + suffix, end} {
			switch {
			case result(minor+end) == result(version):
				continue
			case strings.TrimPrefix(minor+end, "v") != strings.TrimPrefix(r.plainKube, "v"):
				r.recordQuestion(asked{subject: render.AsksPatch, api: end})
			}
			return
		}
	}
}

// askEqual records an end of the version that changes whether values are equal, if one of them is the
// version of Kubernetes.
func (r *run) askEqual(values []reflect.Value) {
	var texts []string
	for _, v := range values {
		if v = concrete(v); v.Kind() == reflect.String {
			texts = append(texts, v.String())
		}
	}
	for i, version := range texts {
		for j, text := range texts {
			if i != j {
				r.askEnd(version, []string{text, "98"}, func(version string) bool { return version == text })
			}
		}
	}
}

// askEnds returns a function that also records another patch version and one with a suffix, if an argument
// is the version of Kubernetes. f is a function that takes the version apart.
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
	minorOf  = regexp.MustCompile(`^v?\d+\.\d+`)
	suffixOf = regexp.MustCompile(`[+-].*`)
	numbers  = regexp.MustCompile(`\d+`)
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
		all = append(all, text, "98"+text, "98+"+text, "98-"+text)
	}
	return all
}
