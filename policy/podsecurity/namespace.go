package podsecurity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// labelsRule is the rule of results about a Namespace's labels.
const labelsRule = "namespaceLabels"

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// labelKeys are the labels that the plugin reads, the most important first.
var labelKeys = []string{
	api.EnforceLevelLabel, api.EnforceVersionLabel,
	api.WarnLevelLabel, api.WarnVersionLabel,
	api.AuditLevelLabel, api.AuditVersionLabel,
}

// A namespace holds the levels that a pod's namespace sets.
type namespace struct {
	name   string
	object *render.Object // nil if it is not in the tree
	labels map[string]string
	policy api.Policy

	assumed []string // by each of its results
}

// namespace returns the namespace of a request.
func (e *Engine) namespace(req *policy.Request) namespace {
	ns := namespace{name: req.Namespace, object: e.cluster.Namespace(req.Subject().Unit, req.Namespace)}
	if ns.object != nil {
		ns.labels = e.labels(ns.object)
	}
	// For an invalid label the plugin, too, uses the strictest level. The Namespace
	// itself gets a result for it.
	ns.policy, _ = api.PolicyToEvaluate(ns.labels, e.defaults)
	if ns.object == nil && ns.name != "" && !e.unlabelled {
		ns.assumed = []string{"namespace " + strconv.Quote(ns.name) + " is not in the tree: assumed to have no pod-security labels"}
	}
	return ns
}

// labels returns the pod-security labels of a Namespace. Other labels may have
// any type.
func (e *Engine) labels(ns *render.Object) map[string]string {
	found := make(map[string]string)
	if e.unlabelled {
		return found
	}
	for _, key := range labelKeys {
		if v, ok := render.Lookup(ns.Object, labelPointer(key)); ok {
			if s, ok := v.(string); ok {
				found[key] = s
			}
		}
	}
	return found
}

// Labelled reports whether a Namespace of the cluster has pod-security labels.
func (e *Engine) Labelled() bool {
	return slices.ContainsFunc(e.cluster.List(namespaceKind), func(o *render.Object) bool { return len(e.labels(o)) > 0 })
}

func labelPointer(key string) string { return render.Pointer("metadata", "labels", key) }

// origin returns the place of a label.
func (n namespace) origin(label string) render.Span {
	if _, ok := n.labels[label]; !ok {
		return render.Span{}
	}
	if places := n.object.At(labelPointer(label)); len(places) > 0 {
		return places[0].Span
	}
	return render.Span{}
}

// exemption names the labels that exempt from controls of the pack.
func (n namespace) exemption() string {
	var set []string
	for _, key := range []string{api.EnforceLevelLabel, api.EnforceVersionLabel} {
		if v, ok := n.labels[key]; ok {
			set = append(set, key+"="+v)
		}
	}
	return fmt.Sprintf("namespace %q is labelled %s", n.name, strings.Join(set, ", "))
}

// A requirement is a control that applies in a namespace, or that a label of the
// namespace lifts.
type requirement struct {
	control
	level  api.LevelVersion // that requires it
	action policy.Action
	label  string // that requires or lifts it; "" if the pack requires it
	exempt bool   // a label lifts it
	again  bool   // another revision of it already applies
}

// result returns the result of a pod that meets the requirement.
func (r requirement) result(ns namespace) policy.Result {
	result := policy.Result{
		Engine: policy.EnginePodSecurity, Policy: string(r.level.Level), Rule: r.id,
		Outcome: policy.Pass, Action: r.action, Severity: documents()[r.id].Severity,
		PolicyOrigin: ns.origin(r.label), Assumed: ns.assumed,
	}
	if r.exempt {
		result.Outcome, result.Message = policy.Skip, ns.exemption()
	}
	return result
}

// plan lists the controls for a namespace: those of the enforced level, which
// is the pack's unless a label says another, those that its warn and audit
// labels add, and those of the pack that the labels lift.
func (e *Engine) plan(ns namespace) []requirement {
	key := planKey{ns.policy, e.action(ns)}
	if known, ok := e.plans.Load(key); ok {
		return known.([]requirement)
	}
	known, _ := e.plans.LoadOrStore(key, e.newPlan(key))
	return known.([]requirement)
}

// A planKey holds everything that the controls for a namespace depend on.
type planKey struct {
	policy api.Policy
	action policy.Action
}

func (e *Engine) newPlan(key planKey) []requirement {
	pack, enforce := e.defaults.Enforce, key.policy.Enforce
	var p planner
	if api.CompareLevels(enforce.Level, pack.Level) > 0 {
		kept := api.LevelVersion{Level: pack.Level, Version: enforce.Version}
		p.add(requirement{level: kept, action: policy.Deny, label: api.EnforceLevelLabel}, e.levels.controls(kept))
	}
	p.add(requirement{level: enforce, action: key.action, label: api.EnforceLevelLabel}, e.levels.controls(enforce))
	p.add(requirement{level: key.policy.Warn, action: policy.Warn, label: api.WarnLevelLabel}, e.levels.controls(key.policy.Warn))
	p.add(requirement{level: key.policy.Audit, action: policy.Audit, label: api.AuditLevelLabel}, e.levels.controls(key.policy.Audit))
	p.add(requirement{level: pack, action: key.action, label: api.EnforceLevelLabel, exempt: true}, e.levels.controls(pack))
	return p.requirements
}

// action returns the action of a failure of the enforced level in a namespace.
func (e *Engine) action(ns namespace) policy.Action {
	if _, asked := ns.labels[api.EnforceLevelLabel]; e.implied && !asked {
		return policy.Warn
	}
	return policy.Deny
}

// impliedNote is the note of a failure that no cluster would report.
const impliedNote = "preadmit's default: no policy that was read enforces it"

// A planner collects requirements. The first one for a control is used; other
// revisions of the control are checked as well.
type planner struct {
	requirements []requirement
	since        map[string][]api.Version
}

func (p *planner) add(d requirement, controls []control) {
	if p.since == nil {
		p.since = make(map[string][]api.Version)
	}
	for _, c := range controls {
		have := p.since[c.id]
		if slices.Contains(have, c.since) {
			continue
		}
		p.since[c.id] = append(have, c.since)
		d.control, d.again = c, len(have) > 0
		p.requirements = append(p.requirements, d)
	}
}

// validateLabels evaluates a Namespace that has pod-security labels.
func (e *Engine) validateLabels(req *policy.Request) []policy.Result {
	if req.SubResource != "" {
		return nil
	}
	found := e.labels(req.Object)
	if len(found) == 0 {
		return nil
	}
	r := policy.Result{
		Engine: policy.EnginePodSecurity, Policy: string(e.defaults.Enforce.Level), Rule: labelsRule,
		Outcome: policy.Pass, Action: policy.Deny, Severity: documents()[labelsRule].Severity,
	}
	_, wrong := api.PolicyToEvaluate(found, e.defaults)
	if len(wrong) > 0 && !e.wrongBefore(req, wrong) {
		r.Outcome = policy.Fail
		r.Message = render.Cut(apierrors.NewInvalid(namespaceKind, req.Name, wrong).Error(), policy.MaxMessage)
		r.Fields = wrongLabels(found, e.defaults)
	}
	return []policy.Result{r}
}

// wrongBefore reports whether the labels were equally wrong before an update, which
// the plugin accepts.
func (e *Engine) wrongBefore(req *policy.Request, wrong field.ErrorList) bool {
	if req.OldObject == nil {
		return false
	}
	_, before := api.PolicyToEvaluate(e.labels(req.OldObject), e.defaults)
	return slices.EqualFunc(wrong, before, func(a, b *field.Error) bool { return a.Error() == b.Error() })
}

// wrongLabels returns the pointers of invalid labels.
func wrongLabels(found map[string]string, defaults api.Policy) []string {
	var fields []string
	for _, key := range labelKeys {
		if v, ok := found[key]; ok {
			if _, errs := api.PolicyToEvaluate(map[string]string{key: v}, defaults); len(errs) > 0 {
				fields = append(fields, labelPointer(key))
			}
		}
	}
	return fields
}

// namespaces returns the distinct policies that the tree's Namespaces request,
// and the pack's own.
func (e *Engine) namespaces() []namespace {
	seen := map[api.Policy]bool{e.defaults: true}
	all := []namespace{{policy: e.defaults}}
	for _, o := range e.cluster.List(namespaceKind) {
		ns := namespace{name: o.GetName(), object: o, labels: e.labels(o)}
		ns.policy, _ = api.PolicyToEvaluate(ns.labels, e.defaults)
		if !seen[ns.policy] {
			seen[ns.policy] = true
			all = append(all, ns)
		}
	}
	return all
}

// Rules documents the controls of the pack and those of the labels of the tree's
// Namespaces, by level and name.
func (e *Engine) Rules() []policy.Rule {
	type name struct{ level, id string }
	actions := map[name]policy.Action{{string(e.defaults.Enforce.Level), labelsRule}: policy.Deny}
	for _, ns := range e.namespaces() {
		for _, d := range e.plan(ns) {
			n := name{string(d.level.Level), d.id}
			if was, ok := actions[n]; !ok || d.action.AtLeast(was) {
				actions[n] = d.action
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(actions), func(a, b name) int {
		if a.level != b.level {
			return api.CompareLevels(api.Level(a.level), api.Level(b.level))
		}
		return strings.Compare(a.id, b.id)
	})
	rules := make([]policy.Rule, 0, len(names))
	for _, n := range names {
		rules = append(rules, documents()[n.id].rule(n.level, n.id, actions[n]))
	}
	return rules
}
