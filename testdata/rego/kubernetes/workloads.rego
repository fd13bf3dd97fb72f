package workloads

import rego.v1

deny contains msg if {
	input.kind == "Deployment"
	input.spec.replicas < 2
	msg := sprintf("Deployment %s has %d replicas", [input.metadata.name, input.spec.replicas])
}

deny contains msg if {
	input.kind == "Deployment"
	selected := input.spec.selector.matchLabels
	some key, value in selected
	not input.spec.template.metadata.labels[key] == value
	msg := sprintf("Deployment %s selects %s=%s, which its pods are not", [input.metadata.name, key, value])
}

deny_probes contains msg if {
	input.kind == "Deployment"
	some container in input.spec.template.spec.containers
	some probe in ["livenessProbe", "readinessProbe"]
	not container[probe]
	msg := sprintf("container %s has no %s", [container.name, probe])
}

warn contains msg if {
	input.kind == "Deployment"
	not input.spec.strategy
	msg := "no strategy is given"
}
