package document

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// autogenAnnotation lists the kinds for which a policy's rules for pods are adapted,
// or is none. Without it, they are adapted for all.
const autogenAnnotation = "pod-policies.kyverno.io/autogen-controllers"

const cronJob = "CronJob"

// controllerKinds are the kinds that create pods, as generated rules name them;
// CronJob is last, since its rules differ.
var controllerKinds = []struct{ kind, selector string }{
	{"DaemonSet", "apps/v1/DaemonSet"},
	{"Deployment", "apps/v1/Deployment"},
	{"Job", "batch/v1/Job"},
	{"ReplicaSet", "apps/v1/ReplicaSet"},
	{"ReplicationController", "v1/ReplicationController"},
	{"StatefulSet", "apps/v1/StatefulSet"},
	{cronJob, "batch/v1/CronJob"},
}

// RulesFor returns the policy's rules for objects of a kind: the written ones,
// and for a kind that creates pods those that autogen generates.
func (p *Policy) RulesFor(gvk schema.GroupVersionKind) []*Rule {
	if rules, ok := p.controllers[gvk.Kind]; ok {
		return rules
	}
	return p.Rules
}

// Adapts reports whether autogen adapts the policy's rules about pods for a kind that creates pods.
func (p *Policy) Adapts(kind string) bool { return p.controllers[kind] != nil }

// RulesForAll returns the rules that Kyverno evaluates for objects of every kind where it
// mutates them or verifies images. So a rule generated from one for Pods and Services is
// evaluated for Services, too.
func (p *Policy) RulesForAll() []*Rule { return p.forAll }

func (p *Policy) rulesForAll() []*Rule {
	if len(p.controllers) == 0 {
		return p.Rules
	}
	return slices.DeleteFunc(p.AllRules(), func(r *Rule) bool { return r.Base == nil && isGeneratedName(r.Name) })
}

// isGeneratedName reports whether a written rule is named like a generated one. Where rules are
// generated, Kyverno ignores it.
func isGeneratedName(name string) bool { return strings.HasPrefix(name, "autogen-") }

// autogen returns the policy's rules for each kind for which rules are
// generated. As in Kyverno, rules are generated for the whole policy or not at
// all.
func (r reader) autogen(p *Policy) map[string][]*Rule {
	kinds := p.autogenKinds()
	if len(kinds) == 0 {
		return nil
	}
	var written, pods, crons []*Rule
	for _, rule := range p.Rules {
		if isGeneratedName(rule.Name) {
			continue
		}
		written = append(written, rule)
		if !rule.forPods() {
			continue
		}
		if selected := slices.DeleteFunc(slices.Clone(kinds), isCronJob); len(selected) > 0 {
			pods = r.generated(pods, rule, podTemplate{"autogen-", "/spec/template", selectors(selected)})
		}
		if slices.ContainsFunc(kinds, isCronJob) {
			crons = r.generated(crons, rule, podTemplate{"autogen-cronjob-", "/spec/jobTemplate/spec/template", selectors([]string{cronJob})})
		}
	}
	all := make(map[string][]*Rule)
	for _, kind := range kinds {
		made := pods
		if isCronJob(kind) {
			made = crons
		}
		if len(made) > 0 {
			all[kind] = slices.Concat(written, made)
		}
	}
	return all
}

func isCronJob(kind string) bool { return kind == cronJob }

func selectors(kinds []string) []any {
	all := make([]any, len(kinds))
	for i, kind := range kinds {
		all[i] = kind
		for _, c := range controllerKinds {
			if c.kind == kind {
				all[i] = c.selector
			}
		}
	}
	return all
}

// autogenKinds returns the kinds for which rules are generated. As in Kyverno's webhook,
// other kinds that the annotation names, such as Rollout, count only if it names none of
// Kubernetes, besides CronJob.
func (p *Policy) autogenKinds() []string {
	if !p.allowsAutogen() {
		return nil
	}
	var kinds []string
	text, some := p.Object.GetAnnotations()[autogenAnnotation]
	wanted := strings.Split(text, ",")
	for _, c := range controllerKinds {
		if !some || slices.Contains(wanted, c.kind) {
			kinds = append(kinds, c.kind)
		}
	}
	if !some || slices.ContainsFunc(kinds, func(kind string) bool { return !isCronJob(kind) }) {
		return kinds
	}
	for _, kind := range wanted {
		if kind != "" && kind != "none" && !isCronJob(kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// allowsAutogen returns false if one of the rules can't be adapted, or selects
// by names and labels, which a pod does not share with its controller, or if no
// rule is for pods.
func (p *Policy) allowsAutogen() bool {
	needed := false
	for _, r := range p.Rules {
		if r.Generate != nil || r.Mutate != nil && (r.Mutate.JSON6902 != "" || patchesJSON(r.Mutate.Foreach)) {
			return false
		}
		for _, f := range slices.Concat(r.Match.Filters(), r.Exclude.Filters()) {
			if len(f.Names) > 0 || f.Selector != nil || f.Annotations != nil || len(f.Kinds) > 1 && f.namesPods() {
				return false
			}
			needed = needed || slices.ContainsFunc(f.Kinds, isPodOrController)
		}
	}
	return needed
}

func patchesJSON(all []*ForeachMutate) bool {
	return slices.ContainsFunc(all, func(f *ForeachMutate) bool { return f.JSON6902 != "" })
}

func isPodOrController(k KindSelector) bool {
	if k.Group != "*" || k.Version != "*" || k.Subresource != "" {
		return false
	}
	for _, c := range controllerKinds {
		if c.kind == k.Kind {
			return true
		}
	}
	return k.Kind == "Pod"
}

func (f *Filter) namesPods() bool {
	return slices.ContainsFunc(f.Kinds, func(k KindSelector) bool { return k.Kind == "Pod" })
}

// forPods reports whether the rule can be adapted: its match names Pod, and so does
// its exclude, if that names kinds.
func (r *Rule) forPods() bool {
	if !slices.ContainsFunc(r.Match.Filters(), (*Filter).namesPods) {
		return false
	}
	some := false
	for _, f := range r.Exclude.Filters() {
		if f.namesPods() {
			return true
		}
		some = some || len(f.Kinds) > 0
	}
	return !some
}

// A podTemplate describes where objects of a kind contain their pods.
type podTemplate struct {
	name   string // prefix of a rule's name
	prefix string // pointer to the pod in the kind's objects
	kinds  []any
}

// isCron reports whether the pod template is inside another template.
func (p podTemplate) isCron() bool { return strings.Count(p.prefix, "/") > 2 }

// maxRuleName is the length to which Kyverno cuts the names of generated rules.
const maxRuleName = 63

// generated appends the rule as adapted to the template, if it can be.
func (r reader) generated(rules []*Rule, base *Rule, t podTemplate) []*Rule {
	source := t.rule(base.Source)
	if source == nil {
		return rules
	}
	source["name"] = (t.name + base.Name)[:min(len(t.name)+len(base.Name), maxRuleName)]
	source = t.replaced(source, base.Validate != nil && base.Validate.CEL != nil)
	rule := r.rule(field{source, base.Pointer})
	rule.Base, rule.Prefix = base, t.prefix
	return append(rules, rule)
}

// carried lists the fields of a rule that are copied unchanged.
var carried = []string{"context", "preconditions", "celPreconditions", "skipBackgroundRequests", "reportProperties", "verifyImages", "validate"}

// rule returns the rule with its kinds, patterns and patches adapted, or nil if
// no rule is generated from it. Unchanged parts are shared with the original.
func (p podTemplate) rule(source map[string]any) map[string]any {
	out := make(map[string]any)
	for _, key := range carried {
		if v := source[key]; v != nil {
			out[key] = v
		}
	}
	out["match"] = p.match(source["match"], true)
	if exclude := source["exclude"]; exclude != nil {
		out["exclude"] = p.match(exclude, false)
	}
	if v, ok := source["validate"].(map[string]any); ok {
		if v["manifests"] != nil {
			return nil
		}
		out["validate"] = p.validate(v)
	}
	if m, ok := source["mutate"].(map[string]any); ok {
		mutate := p.mutate(m)
		if mutate == nil {
			return nil
		}
		out["mutate"] = mutate
	}
	return out
}

// match replaces pods by controllers: in any and all where Pod is named, and for
// CronJob in every filter, as Kyverno does.
func (p podTemplate) match(block any, always bool) map[string]any {
	source, _ := block.(map[string]any)
	out := maps.Clone(source)
	listed := false
	for _, key := range []string{"any", "all"} {
		if filters, _ := source[key].([]any); len(filters) > 0 {
			out[key], listed = p.filters(filters), true
		}
	}
	resources, _ := source["resources"].(map[string]any)
	if kinds, _ := resources["kinds"].([]any); !listed && (always || len(kinds) > 0) {
		out["resources"] = p.resources(resources)
	}
	return out
}

func (p podTemplate) filters(filters []any) []any {
	out := make([]any, len(filters))
	for i, x := range filters {
		f, _ := x.(map[string]any)
		out[i] = x
		if p.isCron() || filter(field{value: f}).namesPods() {
			changed := maps.Clone(f)
			resources, _ := f["resources"].(map[string]any)
			changed["resources"] = p.resources(resources)
			out[i] = changed
		}
	}
	return out
}

func (p podTemplate) resources(source map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, source)
	out["kinds"] = p.kinds
	return out
}

func (p podTemplate) validate(source map[string]any) map[string]any {
	out := maps.Clone(source)
	if pattern := source["pattern"]; pattern != nil {
		out["pattern"] = p.wrap(pattern)
	}
	if patterns, ok := source["anyPattern"].([]any); ok {
		wrapped := make([]any, len(patterns))
		for i, pattern := range patterns {
			wrapped[i] = p.wrap(pattern)
		}
		out["anyPattern"] = wrapped
	}
	if message, ok := source["message"].(string); ok {
		out["message"] = p.shiftReferences(message, source)
	}
	return out
}

// wrap moves a value for a pod to the place of the kind's pod template.
func (p podTemplate) wrap(v any) any {
	keys := strings.Split(strings.TrimPrefix(p.prefix, "/"), "/")
	for _, key := range slices.Backward(keys) {
		v = map[string]any{key: v}
	}
	return v
}

// messageReference is $(path), in which a message names a value of the pattern.
var messageReference = regexp.MustCompile(`^\$\(.[^\ ]*\)|[^\\]\$\(.[^\ ]*\)`)

// shiftReferences adapts the references in a message as Kyverno does: also those to conditions
// and foreach, which stay where they are, and for CronJobs twice, so that they lead nowhere and
// Kyverno refuses the policy.
func (p podTemplate) shiftReferences(message string, validate map[string]any) string {
	for _, key := range []string{"pattern", "deny", "podSecurity", "anyPattern", "foreach"} {
		if validate[key] == nil {
			continue
		}
		if key == "foreach" {
			key = "pattern"
		}
		if p.isCron() {
			message = shifted(message, key, "/spec/template")
		}
		return shifted(message, key, p.prefix)
	}
	return message
}

// shifted inserts prefix behind key in the references of a message. Behind anyPattern it is
// inserted behind the number in the first reference.
func shifted(message, key, prefix string) string {
	return messageReference.ReplaceAllStringFunc(message, func(ref string) string {
		if key == "anyPattern" {
			_, rest, _ := strings.Cut(ref, key+"/")
			number, _, _ := strings.Cut(rest, "/")
			key += "/" + number
		}
		return strings.ReplaceAll(ref, key, key+prefix)
	})
}

func (p podTemplate) mutate(source map[string]any) map[string]any {
	if patch := source["patchStrategicMerge"]; patch != nil {
		return map[string]any{"patchStrategicMerge": p.wrap(patch)}
	}
	foreach, _ := source["foreach"].([]any)
	if len(foreach) == 0 {
		return nil
	}
	return map[string]any{"foreach": p.foreach(foreach)}
}

// foreach leaves out order and what is nested, as Kyverno does. An entry without a patch of
// its own becomes one that sets the pod template to null, which removes it.
func (p podTemplate) foreach(entries []any) []any {
	out := make([]any, len(entries))
	for i, x := range entries {
		source, _ := x.(map[string]any)
		entry := map[string]any{"patchStrategicMerge": p.wrap(source["patchStrategicMerge"])}
		for _, key := range []string{"list", "context", "preconditions"} {
			if v, ok := source[key]; ok {
				entry[key] = v
			}
		}
		out[i] = entry
	}
	return out
}

// replaced rewrites expressions to the path of the kind's pod template. Like
// Kyverno it replaces text in the rule's JSON, so other spellings of a path
// stay unchanged.
func (p podTemplate) replaced(source map[string]any, cel bool) map[string]any {
	data, err := json.Marshal(source)
	if err != nil {
		return source // a value tree always marshals
	}
	root := "request."
	if cel {
		root = ""
	}
	text, prefix := string(data), strings.ReplaceAll(p.prefix, "/", ".")
	for _, part := range []string{".spec", ".metadata"} {
		for _, object := range []string{"object", "oldObject"} {
			text = strings.ReplaceAll(text, root+object+part, root+object+prefix+part)
		}
	}
	var out map[string]any
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		return source // can't happen: replaced text has no quotes or braces
	}
	return out
}

// GeneratedFor returns the kinds for which autogen generated the rule.
func (p *Policy) GeneratedFor(rule *Rule) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.controllers)), func(kind string) bool { return !slices.Contains(p.controllers[kind], rule) })
}

// HasGenerated reports whether autogen generated a rule for the kind from this one.
func (p *Policy) HasGenerated(rule *Rule, gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(p.RulesFor(gvk), func(other *Rule) bool { return other.Base == rule })
}
