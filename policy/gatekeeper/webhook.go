package gatekeeper

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A webhook is what Gatekeeper's validating webhook is asked about. The zero
// value is what its chart installs.
type webhook struct {
	deletes    bool
	object     *render.Object // that configures it; nil: none is there
	namespaces labels.Selector
}

const (
	ignoreLabel = "admission.gatekeeper.sh/ignore"
	// ownNamespace is where Gatekeeper's chart installs it.
	ownNamespace = "gatekeeper-system"
)

var webhookKind = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}

// webhookOf reads the configuration of Gatekeeper's webhook, if it is in the
// cluster. One that can't be read counts for nothing: the API server would
// not take it.
func webhookOf(cluster *policy.Cluster) webhook {
	for _, o := range cluster.List(webhookKind) {
		data, err := json.Marshal(o.Object)
		var configuration v1.ValidatingWebhookConfiguration
		if err != nil || json.Unmarshal(data, &configuration) != nil {
			continue
		}
		for _, w := range configuration.Webhooks {
			selector, err := selectorOf(w.NamespaceSelector)
			if w.Name != PointAdmission || err != nil {
				continue
			}
			return webhook{object: o, namespaces: selector, deletes: slices.ContainsFunc(w.Rules, deletes)}
		}
	}
	return webhook{}
}

func deletes(r v1.RuleWithOperations) bool {
	return slices.Contains(r.Operations, v1.Delete) || slices.Contains(r.Operations, v1.OperationAll)
}

// exempts is why the webhook is not asked about what is in a namespace; "" if
// it is.
func (w *webhook) exempts(name string, given map[string]string) string {
	if w.object == nil {
		switch _, ignored := given[ignoreLabel]; {
		case ignored:
			return fmt.Sprintf("namespace %s has the label %s, so Gatekeeper's webhook is not asked", name, ignoreLabel)
		case name == ownNamespace:
			return fmt.Sprintf("Gatekeeper's webhook is not asked about namespace %s, which is its own", name)
		}
		return ""
	}
	set := labels.Set(maps.Clone(given))
	if set == nil {
		set = labels.Set{}
	}
	set[nameLabel] = name
	if w.namespaces == nil || w.namespaces.Matches(set) {
		return ""
	}
	return fmt.Sprintf("namespace %s is not one that Gatekeeper's webhook is asked about, by its configuration at %s", name, span(w.object, "/metadata/name"))
}
