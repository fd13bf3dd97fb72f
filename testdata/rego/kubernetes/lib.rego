package lib.kubernetes

import rego.v1

workloads := {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"}

pod_spec := input.spec.template.spec if input.kind in workloads

pod_spec := input.spec if input.kind == "Pod"

pod_spec := input.spec.jobTemplate.spec.template.spec if input.kind == "CronJob"

containers contains c if some c in pod_spec.containers

containers contains c if some c in pod_spec.initContainers

name := object.get(input, ["metadata", "name"], "unnamed")

label(key) := input.metadata.labels[key]

# tag is what stands behind the last colon of an image, "" where nothing does.
tag(image) := t if {
	parts := split(image, "/")
	named := split(parts[count(parts) - 1], ":")
	count(named) == 2
	t := named[1]
} else := ""

registry(image) := parts[0] if {
	parts := split(image, "/")
	count(parts) > 1
	regex.match(`[.:]|^localhost$`, parts[0])
} else := "docker.io"
