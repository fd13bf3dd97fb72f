package services

import rego.v1

deny contains msg if {
	input.kind == "Service"
	input.spec.type in {"NodePort", "LoadBalancer"}
	not input.metadata.annotations["example.com/public"] == "yes"
	msg := sprintf("Service %s is of type %s", [input.metadata.name, input.spec.type])
}

deny_ports contains msg if {
	input.kind == "Service"
	some p in input.spec.ports
	p.port in data.settings.ports
	msg := sprintf("Service %s has port %d", [input.metadata.name, p.port])
}

warn_names contains msg if {
	input.kind == "Service"
	count(input.spec.ports) > 1
	some i, p in input.spec.ports
	not p.name
	msg := sprintf("port %d of Service %s has no name", [i, input.metadata.name])
}
