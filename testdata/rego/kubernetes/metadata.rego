package metadata

import rego.v1

required := {"app.kubernetes.io/name", "app.kubernetes.io/instance", "team"}

deny_labels contains msg if {
	given := {key | some key, _ in input.metadata.labels}
	missing := required - given
	count(missing) > 0
	msg := sprintf("%s %s lacks the labels %s", [input.kind, input.metadata.name, concat(", ", sort(missing))])
}

deny_namespace contains msg if {
	input.metadata.namespace in {"default", "kube-system"}
	msg := sprintf("%s is in namespace %s", [input.metadata.name, input.metadata.namespace])
}

warn_annotations contains msg if {
	some key, value in input.metadata.annotations
	count(value) > 1000
	msg := sprintf("annotation %s is long", [key])
}
