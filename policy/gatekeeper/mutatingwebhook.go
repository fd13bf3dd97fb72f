package gatekeeper

import (
	"encoding/json"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

var mutatingWebhookKind = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}

// mutatingWebhookName is how Gatekeeper's chart calls its mutating webhook.
const mutatingWebhookName = "mutation.gatekeeper.sh"

// mutatingWebhookOf reads the configuration of Gatekeeper's mutating webhook, as
// webhookOf does that of the other.
func mutatingWebhookOf(cluster *policy.Cluster) webhook {
	for _, o := range cluster.List(mutatingWebhookKind) {
		data, err := json.Marshal(o.Object)
		var configuration v1.MutatingWebhookConfiguration
		if err != nil || json.Unmarshal(data, &configuration) != nil {
			continue
		}
		for _, w := range configuration.Webhooks {
			if selector, err := selectorOf(w.NamespaceSelector); w.Name == mutatingWebhookName && err == nil {
				return webhook{object: o, namespaces: selector}
			}
		}
	}
	return webhook{}
}
