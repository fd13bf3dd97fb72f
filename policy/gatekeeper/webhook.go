package gatekeeper

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
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

// Names of Gatekeeper's webhooks in its chart. The name of the one for admission
// is pointAdmission.
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
		var configuration v1.ValidatingWebhookConfiguration // MutatingWebhookConfiguration has the same fields, except reinvocationPolicy
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

// conditional returns a warning if the webhook has match conditions, because they
// are not evaluated.
func conditional(o *render.Object, i int, w *v1.ValidatingWebhook) []error {
	if len(w.MatchConditions) == 0 {
		return nil
	}
	err := errors.New("matchConditions of Gatekeeper's webhooks are not evaluated: they are assumed to hold")
	return []error{document.Warning(o, render.Pointer("webhooks", i, "matchConditions"), "webhook", err)}
}

func newWebhook(o *render.Object, w *v1.ValidatingWebhook) (webhook, bool) {
	for _, s := range []*metav1.LabelSelector{w.NamespaceSelector, w.ObjectSelector} {
		if _, err := document.SelectorOf(s); err != nil {
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

// hasOperation reports whether the API server calls the webhook for an operation.
func (w *webhook) hasOperation(op policy.Operation) bool {
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
func (w *webhook) exempts(s *webhookRequest) exemption {
	if s.req.Kind.Group == registrationGroup && slices.Contains(uncalled, s.req.Kind.Kind) {
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
	switch answer {
	case matching.Yes:
		return exemption{}
	case matching.Unknown:
		question, _ := w.criteria.Question(s)
		return exemption{question, true}
	}
	what := "a " + s.req.Kind.Kind
	switch {
	case document.IsNamespace(s.subject()):
		what = "Namespace " + s.In()
	case s.In() != "":
		what += " in namespace " + s.In()
	}
	return exemption{why: fmt.Sprintf("Gatekeeper's webhook is not called for %s, by its configuration at %s", what, w.object.Span("/metadata/name"))}
}

// uncalled lists the kinds for which the API server calls no webhooks
// (k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules).
var uncalled = []string{
	validatingKind, mutatingKind, "ValidatingAdmissionPolicy",
	"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}

func exemptByChart(s *webhookRequest) exemption {
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

// A webhookRequest is a request as the rules of webhooks see it.
type webhookRequest struct {
	req       *policy.Request
	kinds     policy.Kinds        // may be nil
	namespace *document.Namespace // that the object is in, or nil
	bare      bool                // use only the known labels of the namespace
}

var _ matching.Subject = (*webhookRequest)(nil)

func (e *Engine) webhookRequest(req *policy.Request, ns *document.Namespace) *webhookRequest {
	return &webhookRequest{req: req, kinds: e.options.Kinds, namespace: ns}
}

// subject returns the object of the request.
func (w *webhookRequest) subject() map[string]any {
	if w.req.Admitted != nil {
		return w.req.Admitted
	}
	return w.req.OldAdmitted
}

// Request implements matching.Subject.
func (w *webhookRequest) Request() *policy.Request { return w.req }

// In implements matching.Subject.
func (w *webhookRequest) In() string {
	switch {
	case document.IsNamespace(w.subject()):
		return document.MetaText(w.subject(), "name")
	case w.namespace != nil:
		return w.namespace.Name
	}
	return ""
}

// NamespaceLabels implements matching.Subject.
func (w *webhookRequest) NamespaceLabels() (set map[string]string, complete bool) {
	switch {
	case document.IsNamespace(w.subject()):
		set = document.LabelsOf(w.subject())
		set[corev1.LabelMetadataName] = w.In()
		return set, true
	case w.namespace != nil:
		return w.namespace.Labels, w.namespace.Known || w.bare
	}
	return nil, true
}

// Equivalents implements matching.Subject.
func (w *webhookRequest) Equivalents() []policy.Version {
	if w.kinds == nil {
		return nil
	}
	return w.kinds.Equivalent(w.req.Resource.GroupVersionResource)
}

// exempts returns the reason why one of Gatekeeper's processes does not
// evaluate a request, from its Config.
func (e *Engine) exempts(process string, s *webhookRequest) exemption {
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

// The label admission.gatekeeper.sh/ignore exempts everything in a namespace.
// Therefore Gatekeeper has another webhook, which refuses Namespaces with the
// label unless the controller's arguments exempt them
// (gatekeeper/v3/pkg/webhook/namespacelabel.go).

// ruleIgnoreLabel is the rule of the webhook's results. Their policy is the
// webhook.
const ruleIgnoreLabel = "ignore-label"

// controllerName is the name of the controller in Gatekeeper's chart.
const controllerName = "gatekeeper-controller-manager"

const ignoreLabelMessage = "Only exempt namespace can have the " + ignoreLabel + " label"

// ignoreLabelRule documents the webhook for the label.
func (e *Engine) ignoreLabelRule() policy.Rule {
	return policy.Rule{
		Engine: policy.EngineGatekeeper, Policy: labelWebhook, Name: ruleIgnoreLabel, Action: policy.Deny,
		Title:       "Only exempt namespaces have the label " + ignoreLabel,
		Description: "Gatekeeper's webhooks do not check objects in a namespace with this label. Therefore another of its webhooks refuses the label, except in namespaces that --exempt-namespace of Gatekeeper's controller names.",
		Origin:      e.label.origin(),
	}
}

// refuseLabel returns the webhook's result for a Namespace with the label.
func (e *Engine) refuseLabel(r *review) []policy.Result {
	if e.options.Written || r.operation == string(policy.Delete) || !document.IsNamespace(r.object) || r.request.SubResource != "" {
		return nil
	}
	if _, has := document.LabelsOf(r.object)[ignoreLabel]; !has {
		return nil
	}
	s := e.webhookRequest(r.request, nil)
	if e.label.object == nil && e.webhook.object != nil || e.label.object != nil && e.label.exempts(s).why != "" {
		return nil
	}
	exempt, known := e.exemptNamespaces()
	if slices.ContainsFunc(exempt, func(w document.Wildcard) bool { return w.Matches(s.In()) }) {
		return nil
	}
	result := policy.Result{
		Engine: policy.EngineGatekeeper, Policy: labelWebhook, Rule: ruleIgnoreLabel, Outcome: policy.Fail, Action: policy.Deny,
		Message: ignoreLabelMessage, Fields: []string{render.Pointer("metadata", "labels", ignoreLabel)}, PolicyOrigin: e.label.origin(),
	}
	if !known {
		result.Assumed = []string{"--exempt-namespace of Gatekeeper's controller names only " + ownNamespace}
	}
	return []policy.Result{result}
}

// origin returns the place of the webhook's configuration, if it is known.
func (w *webhook) origin() render.Span {
	if w.object == nil {
		return render.Span{}
	}
	return w.object.Span("/metadata/name")
}

// exemptNamespaces returns the namespaces that may have the label according to
// the arguments of Gatekeeper's controller. known is false if the controller is
// not in the tree.
func (e *Engine) exemptNamespaces() (names []document.Wildcard, known bool) {
	for _, o := range e.options.Cluster.List(schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		if o.GetName() != controllerName || o.GetNamespace() != ownNamespace {
			continue
		}
		containers, _ := render.Lookup(o.Object, "/spec/template/spec/containers")
		list, _ := containers.([]any)
		for _, c := range list {
			args, _ := asMap(c)["args"].([]any)
			for _, a := range args {
				text, _ := a.(string)
				if w, ok := exemptArgument(text); ok {
					names, known = append(names, w), true
				}
			}
		}
	}
	if !known {
		names = []document.Wildcard{ownNamespace}
	}
	return names, known
}

// exemptArgument returns the namespaces that an argument of the controller
// exempts.
func exemptArgument(text string) (document.Wildcard, bool) {
	flag, value, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
	switch flag {
	case "exempt-namespace":
		return document.Wildcard(value), value != ""
	case "exempt-namespace-prefix":
		return document.Wildcard(value + "*"), value != ""
	case "exempt-namespace-suffix":
		return document.Wildcard("*" + value), value != ""
	}
	return "", false
}
