package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// exceptionWords precede the names of exceptions in messages of Kyverno's
// policies about exempted objects.
var exceptionWords = []string{"due to policy exceptions ", "due to policy exception: "}

// noteException records the exceptions that a result names as the reason for
// exempting its object.
func (u *Uses) noteException(message string) {
	for _, words := range exceptionWords {
		if _, names, ok := strings.Cut(message, words); ok {
			for name := range strings.SplitSeq(names, ", ") {
				u.exceptions[name] = true
			}
		}
	}
}

// UnusedExceptions returns a finding for each PolicyException among objects that
// exempts none: it names a policy or rule that is not here, or selects no object
// that they match.
func (u *Uses) UnusedExceptions(objects []*render.Object) []Result {
	var all []Result
	written := make(map[string]bool) // includes policies that do not compile
	for _, o := range objects {
		written[o.GetName()] = strings.HasSuffix(o.GetKind(), "Policy") || written[o.GetName()]
	}
	for _, o := range objects {
		if o.GetKind() != "PolicyException" {
			continue
		}
		key := o.GetNamespace() + "/" + o.GetName()
		found, named := u.namesNothing(o, written)
		switch {
		case len(found) > 0:
			all = append(all, found...)
		case !named, partial(o), u.exceptions[key], u.exceptions["default/"+o.GetName()] && o.GetNamespace() == "", u.exceptions[o.GetName()]:
		default:
			all = append(all, NewFinding(ExemptsNone, o.GetName(), o.Span("/metadata/name"),
				"PolicyException %s exempts nothing: it selects no object that its policies match", o.GetName()))
		}
	}
	return all
}

// namesNothing returns findings for the policies and rules that an exception
// names and that do not exist. named reports that it names an existing one.
func (u *Uses) namesNothing(o *render.Object, written map[string]bool) (found []Result, named bool) {
	for i, x := range listAt(o, "/spec/exceptions") {
		at := render.Pointer("spec", "exceptions", i)
		name := textAt(x, "/policyName")
		engines, rules := u.named(name)
		if len(engines) == 0 {
			if !written[path.Base(name)] {
				found = append(found, u.unknownPolicy(o, at+"/policyName", name))
			}
			continue
		}
		named = true
		for k, r := range listOf(x, "/ruleNames") {
			rule, _ := r.(string)
			if !strings.ContainsAny(rule, "*?") && !slices.Contains(rules, WithoutAutogen(rule)) && !slices.Contains(rules, rule) {
				f := NewFinding(ExemptsNone, o.GetName(), o.Span(at+render.Pointer("ruleNames", k)), "PolicyException %s exempts nothing from %s/%s: the policy has no such rule", o.GetName(), name, rule)
				if meant := render.DidYouMean(rule, rules); meant != "" {
					f.Message += "; " + meant
				}
				found = append(found, f)
			}
		}
	}
	for i, x := range listAt(o, "/spec/policyRefs") {
		name := textAt(x, "/name")
		if engines, _ := u.named(name); len(engines) == 0 {
			if !written[path.Base(name)] {
				found = append(found, u.unknownPolicy(o, render.Pointer("spec", "policyRefs", i)+"/name", name))
			}
			continue
		}
		named = true
	}
	return found, named
}

func (u *Uses) unknownPolicy(o *render.Object, pointer, name string) Result {
	var names []string
	for _, use := range u.list {
		names = append(names, use.Policy)
	}
	f := NewFinding(ExemptsNone, o.GetName(), o.Span(pointer), "PolicyException %s exempts nothing from %s: there is no such policy", o.GetName(), name)
	if meant := render.DidYouMean(name, names); meant != "" {
		f.Message += "; " + meant
	}
	return f
}

// named returns the engines that have a policy of a name, which may begin with
// its namespace, and the policy's rules.
func (u *Uses) named(name string) (engines, rules []string) {
	_, bare, ok := strings.Cut(name, "/")
	for _, use := range u.list {
		if use.Policy == name || ok && use.Policy == bare {
			engines, rules = append(engines, use.Engine), append(rules, use.Rule)
		}
	}
	return engines, rules
}

// partial reports whether an exception exempts only parts of an object, which
// results do not show: controls of the Pod Security Standards, images, values.
func partial(o *render.Object) bool {
	for _, p := range []string{"/spec/podSecurity", "/spec/images", "/spec/allowedValues"} {
		if _, ok := render.Lookup(o.Object, p); ok {
			return true
		}
	}
	return false
}

func listAt(o *render.Object, pointer string) []any { return listOf(o.Object, pointer) }

func listOf(value any, pointer string) []any {
	v, _ := render.Lookup(value, pointer)
	list, _ := v.([]any)
	return list
}

func textAt(value any, pointer string) string {
	v, ok := render.Lookup(value, pointer)
	if !ok {
		return ""
	}
	return fmt.Sprint(v)
}
