package helm

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/semver/v3"

	"github.com/preadmit/preadmit/render"
)

// kubeFunctions are functions with which templates read the patch version of Kubernetes or the suffix of
// a distribution, such as +k3s1. A version such as 1.34 has neither. The functions count a result that
// may depend on them as byKubeDetail. If a template takes the version apart in other ways, the chart is
// rendered for another patch version and a suffix, too.
func (r *run) kubeFunctions(fns template.FuncMap) template.FuncMap {
	compare := fns["semverCompare"].(func(string, string) (bool, error))
	matches := fns["regexMatch"].(func(string, string) bool)
	mustMatch := fns["mustRegexMatch"].(func(string, string) (bool, error))
	same := func(first reflect.Value, others ...reflect.Value) (bool, error) {
		r.detailed(r.comparesPatch(append(others, first)))
		return equal(first, others...)
	}
	own := template.FuncMap{
		"semverCompare": func(constraint, version string) (bool, error) {
			is, err := compare(constraint, version)
			for _, other := range r.otherPatches(constraint, version) {
				also, _ := compare(constraint, other)
				r.detailed(err == nil && also != is)
			}
			return is, err
		},
		"eq": same,
		"ne": func(a, b reflect.Value) (bool, error) {
			is, err := same(a, b)
			return !is, err
		},
		"contains": func(part, text string) bool {
			is := strings.Contains(text, part)
			r.detailed(!is && r.isKubeVersion(text) && maySuffix.MatchString(part))
			return is
		},
		"hasSuffix": func(end, text string) bool {
			r.detailed(r.isKubeVersion(text) && maySuffix.MatchString(end))
			return strings.HasSuffix(text, end)
		},
		"regexMatch": func(expr, text string) bool {
			r.detailed(r.isKubeVersion(text) && asksSuffix.MatchString(expr))
			return matches(expr, text)
		},
		"mustRegexMatch": func(expr, text string) (bool, error) {
			r.detailed(r.isKubeVersion(text) && asksSuffix.MatchString(expr))
			return mustMatch(expr, text)
		},
	}
	if !givesPatch(r.src) {
		for _, name := range []string{
			"semver", "split", "splitList", "splitn", "trunc", "substr",
			"regexFind", "regexFindAll", "regexSplit", "mustRegexFind", "mustRegexFindAll", "mustRegexSplit",
			"regexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral",
		} {
			own[name] = r.asksPatch(fns[name])
		}
	}
	return own
}

// givesPatch reports whether the user has given the whole version of Kubernetes.
func givesPatch(src render.Source) bool { return strings.Count(params(src).KubeVersion, ".") > 1 }

// asksPatch adds to a function that it records the question for the patch version, if it is given the
// version of Kubernetes.
func (r *run) asksPatch(f any) any {
	fn := reflect.ValueOf(f)
	call := fn.Call
	if fn.Type().IsVariadic() {
		call = fn.CallSlice
	}
	return reflect.MakeFunc(fn.Type(), func(args []reflect.Value) []reflect.Value {
		for _, arg := range args {
			if arg = concrete(arg); arg.Kind() == reflect.String && r.isKubeVersion(arg.String()) {
				r.recordQuestion(asked{subject: render.AsksPatch})
			}
		}
		return call(args)
	}).Interface()
}

var (
	// maySuffix matches texts that the end of a version may hold.
	maySuffix = regexp.MustCompile(`^[0-9A-Za-z.+-]+$`)
	// asksSuffix matches expressions that may ask for the end of a version: with a letter but v, or a sign.
	asksSuffix = regexp.MustCompile(`[a-uw-zA-Z]|\\?\+[a-z]|-`)
	numbers    = regexp.MustCompile(`\d+`)
)

// detailed records that a result depends on the part of the version that is open.
func (r *run) detailed(depends bool) {
	if depends {
		r.counts[byKubeDetail]++
	}
}

// comparesPatch reports whether one of the values is the version of Kubernetes, and another a version
// that differs from it in no more than the patch and what follows.
func (r *run) comparesPatch(values []reflect.Value) bool {
	var texts []string
	for _, v := range values {
		if v = concrete(v); v.Kind() == reflect.String {
			texts = append(texts, v.String())
		}
	}
	i := slices.IndexFunc(texts, r.isKubeVersion)
	if i < 0 {
		return false
	}
	kube, err := semver.NewVersion(texts[i])
	return err == nil && slices.ContainsFunc(slices.Delete(texts, i, i+1), func(text string) bool {
		other, err := semver.NewVersion(text)
		return err == nil && other.Major() == kube.Major() && other.Minor() == kube.Minor()
	})
}

// isKubeVersion reports whether a text is the version of Kubernetes.
func (r *run) isKubeVersion(text string) bool {
	return text != "" && strings.TrimPrefix(text, "v") == strings.TrimPrefix(r.kube, "v")
}

// otherPatches returns the version with the patch versions at which the result of a constraint may
// change, if it is the version of Kubernetes.
func (r *run) otherPatches(constraint, version string) (others []string) {
	if !r.isKubeVersion(version) {
		return nil
	}
	is, err := semver.NewVersion(version)
	if err != nil {
		return nil
	}
	for _, n := range append(numbers.FindAllString(constraint, 16), "0", "98") {
		patch, err := semver.NewVersion("0.0." + n)
		if err != nil {
			continue
		}
		for _, p := range []uint64{patch.Patch() - min(1, patch.Patch()), patch.Patch(), patch.Patch() + 1} {
			others = append(others, "v"+semver.New(is.Major(), is.Minor(), p, "", "").String())
		}
	}
	return others
}
