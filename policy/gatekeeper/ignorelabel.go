package gatekeeper

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

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
