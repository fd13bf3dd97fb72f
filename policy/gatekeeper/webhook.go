package gatekeeper

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/gatekeeperdoc"
	matching "github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// A webhook is the configuration of one of Gatekeeper's webhooks. The zero
// value is the chart's default.
type webhook struct {
	object   *render.Object // its configuration; nil if there is none
	rules    []v1.RuleWithOperations
	criteria *matching.Criteria
}

const (
	ignoreLabel = "admission.gatekeeper.sh/ignore"
	// ownNamespace is the namespace in which Gatekeeper's chart installs it.
	ownNamespace = "gatekeeper-system"
)

// How Gatekeeper's chart calls its webhooks besides that of admission, which is
// called as its enforcement point.
const (
	mutationWebhook = "mutation.gatekeeper.sh"
	labelWebhook    = "check-ignore-label.gatekeeper.sh"
)

const registrationGroup = "admissionregistration.k8s.io"

// Kinds of the configurations of Gatekeeper's webhooks, and their names in its
// chart. A configuration with another name is an additional one, which does not
// change these.
const (
	validatingKind = "ValidatingWebhookConfiguration"
	mutatingKind   = "MutatingWebhookConfiguration"
)

var configurationNames = map[string]string{
	validatingKind: "gatekeeper-validating-webhook-configuration",
	mutatingKind:   "gatekeeper-mutating-webhook-configuration",
}

// webhookOf reads the webhook configuration with a name from the cluster. A
// configuration that can't be decoded is ignored, because the API server would
// refuse it. The errors are warnings about ignored fields.
func webhookOf(cluster *policy.Cluster, kind, name string) (webhook, []error) {
	for _, o := range cluster.List(schema.GroupKind{Group: registrationGroup, Kind: kind}) {
		if o.GetName() != configurationNames[kind] {
			continue
		}
		data, err := json.Marshal(o.Object)
		var configuration v1.ValidatingWebhookConfiguration // has all that the other kind has, but one thing
		if err != nil || json.Unmarshal(data, &configuration) != nil {
			continue
		}
		for i := range configuration.Webhooks {
			if w := &configuration.Webhooks[i]; w.Name == name {
				if made, ok := newWebhook(o, w); ok {
					return made, conditional(o, i, w)
				}
			}
		}
	}
	return webhook{}, nil
}

// conditional warns of conditions, which are not evaluated.
func conditional(o *render.Object, i int, w *v1.ValidatingWebhook) []error {
	if len(w.MatchConditions) == 0 {
		return nil
	}
	err := errors.New("matchConditions of Gatekeeper's webhooks are not evaluated: they are assumed to hold")
	return []error{gatekeeperdoc.Warning(o, render.Pointer("webhooks", i, "matchConditions"), "webhook", err)}
}

func newWebhook(o *render.Object, w *v1.ValidatingWebhook) (webhook, bool) {
	for _, s := range []*metav1.LabelSelector{w.NamespaceSelector, w.ObjectSelector} {
		if _, err := gatekeeperdoc.SelectorOf(s); err != nil {
			return webhook{}, false
		}
	}
	m := &v1.MatchResources{NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchPolicy: w.MatchPolicy}
	for _, r := range w.Rules {
		m.ResourceRules = append(m.ResourceRules, v1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	matching.Default(m)
	return webhook{object: o, rules: w.Rules, criteria: matching.New(m)}, true
}

// about reports whether the API server calls the webhook for an operation at
// all.
func (w *webhook) about(op policy.Operation) bool {
	if w.object == nil {
		return op != policy.Delete
	}
	return slices.ContainsFunc(w.rules, func(r v1.RuleWithOperations) bool {
		return slices.Contains(r.Operations, v1.OperationAll) || slices.Contains(r.Operations, v1.OperationType(op))
	})
}

// An exemption is the reason why a webhook does not evaluate a request. The
// zero value means that it does.
type exemption struct {
	why  string
	open bool // it is unknown whether the webhook is called
}

func (e exemption) outcome() policy.Outcome {
	if e.open {
		return policy.Unknown
	}
	return policy.Skip
}

// exempts returns the reason why the API server does not call the webhook for a
// request.
func (w *webhook) exempts(s *asking) exemption {
	if s.req.Kind.Group == registrationGroup && slices.Contains(unasked, s.req.Kind.Kind) {
		return exemption{why: "the API server calls no webhook for a " + s.req.Kind.Kind}
	}
	if w.object == nil {
		return exemptByChart(s)
	}
	answer, _ := w.criteria.Match(s)
	if answer == matching.Unknown {
		// A namespace that is not in the tree is taken to have no label that
		// exempts it.
		bare := *s
		bare.bare = true
		if answer, _ = w.criteria.Match(&bare); answer == matching.No {
			return exemption{"needs to know namespace " + s.In() + ", whose labels decide whether Gatekeeper's webhook is called: give the Namespace with --with", true}
		}
	}
	if answer == matching.Yes {
		return exemption{}
	}
	what := "a " + s.req.Kind.Kind
	switch {
	case gatekeeperdoc.IsNamespace(s.subject()):
		what = "Namespace " + s.In()
	case s.In() != "":
		what += " in namespace " + s.In()
	}
	return exemption{why: fmt.Sprintf("Gatekeeper's webhook is not called for %s, by its configuration at %s", what, w.object.Span("/metadata/name"))}
}

// unasked lists the kinds for which the API server calls no webhooks
// (k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules).
var unasked = []string{
	validatingKind, mutatingKind, "ValidatingAdmissionPolicy",
	"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}

func exemptByChart(s *asking) exemption {
	name := s.In()
	labels, _ := s.NamespaceLabels()
	switch _, ignored := labels[ignoreLabel]; {
	case name == "":
	case ignored:
		return exemption{why: fmt.Sprintf("namespace %s has the label %s, so Gatekeeper's webhook is not called", name, ignoreLabel)}
	case name == ownNamespace:
		return exemption{why: fmt.Sprintf("Gatekeeper's webhook is not called for namespace %s, which is its own", name)}
	}
	return exemption{}
}

// An asking is a request as the rules of webhooks look at it.
type asking struct {
	req       *policy.Request
	kinds     policy.Kinds             // may be nil
	namespace *gatekeeperdoc.Namespace // that the object is in, or nil
	bare      bool                     // the namespace has only the known labels
}

var _ matching.Subject = (*asking)(nil)

func (e *Engine) asking(req *policy.Request, ns *gatekeeperdoc.Namespace) *asking {
	return &asking{req: req, kinds: e.options.Kinds, namespace: ns}
}

// subject returns the object of the request.
func (a *asking) subject() map[string]any {
	if a.req.Admitted != nil {
		return a.req.Admitted
	}
	return a.req.OldAdmitted
}

// Request implements matching.Subject.
func (a *asking) Request() *policy.Request { return a.req }

// In implements matching.Subject.
func (a *asking) In() string {
	switch {
	case gatekeeperdoc.IsNamespace(a.subject()):
		return gatekeeperdoc.MetaText(a.subject(), "name")
	case a.namespace != nil:
		return a.namespace.Name
	}
	return ""
}

// NamespaceLabels implements matching.Subject.
func (a *asking) NamespaceLabels() (set map[string]string, complete bool) {
	switch {
	case gatekeeperdoc.IsNamespace(a.subject()):
		set = gatekeeperdoc.LabelsOf(a.subject())
		set[corev1.LabelMetadataName] = a.In()
		return set, true
	case a.namespace != nil:
		return a.namespace.Labels, a.namespace.Known || a.bare
	}
	return nil, true
}

// Equivalents implements matching.Subject.
func (a *asking) Equivalents() []policy.Version {
	if a.kinds == nil {
		return nil
	}
	return a.kinds.Equivalent(a.req.Resource.GroupVersionResource)
}

// exempts returns the reason why one of Gatekeeper's processes does not
// evaluate a request, from its Config.
func (e *Engine) exempts(process string, s *asking) exemption {
	if x := e.webhook.exempts(s); x.why != "" {
		return x
	}
	name := s.In()
	x := e.config.excludes(process, name)
	if x == nil {
		return exemption{}
	}
	what := map[string]string{processWebhook: "the webhook", processMutation: "mutation"}[process]
	return exemption{why: fmt.Sprintf("namespace %s is excluded from %s by the Config at %s", name, cmp.Or(what, process), x.object.Span(x.pointer))}
}
