package resources

import data.lib.kubernetes as k
import rego.v1

units := {"": 1, "m": 0.001, "k": 1000, "Ki": 1024, "M": 1000000, "Mi": 1048576, "G": 1000000000, "Gi": 1073741824}

amount(q) := q if is_number(q)

amount(q) := to_number(m[1]) * units[m[2]] if {
	is_string(q)
	some m in regex.find_all_string_submatch_n(`^([0-9.]+)([A-Za-z]*)$`, q, 1)
}

violation_limits contains {"msg": msg, "details": {"container": c.name, "resource": r}} if {
	some c in k.containers
	some r in ["cpu", "memory"]
	not c.resources.limits[r]
	msg := sprintf("container <%v> has no %v limit", [c.name, r])
}

violation_requests contains {"msg": msg, "details": {"container": c.name}} if {
	some c in k.containers
	some r in ["cpu", "memory"]
	not c.resources.requests[r]
	msg := sprintf("container <%v> has no %v request", [c.name, r])
}

deny_memory contains msg if {
	some c in k.containers
	limit := amount(c.resources.limits.memory)
	limit > data.settings.memory
	msg := sprintf("container %v may take %v bytes of memory, more than %v", [c.name, limit, data.settings.memory])
}

warn_ratio contains msg if {
	some c in k.containers
	limit := amount(c.resources.limits.cpu)
	request := amount(c.resources.requests.cpu)
	request > 0
	limit / request > 4
	msg := sprintf("container %v may take more than 4 times the CPU that it asks for", [c.name])
}
