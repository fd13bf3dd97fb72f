package security

import data.lib.kubernetes as k
import rego.v1

exception contains ["root", "privileged"] if k.name in data.settings.exempt

deny_root contains msg if {
	some c in k.containers
	not c.securityContext.runAsNonRoot
	not k.pod_spec.securityContext.runAsNonRoot
	msg := sprintf("container %s of %s may run as root", [c.name, k.name])
}

deny_privileged contains msg if {
	some c in k.containers
	c.securityContext.privileged
	msg := sprintf("container %s is privileged", [c.name])
}

deny_escalation contains msg if {
	some c in k.containers
	not c.securityContext.allowPrivilegeEscalation == false
	msg := sprintf("container %s may gain privileges", [c.name])
}

deny_host contains msg if {
	some field in ["hostNetwork", "hostPID", "hostIPC"]
	k.pod_spec[field] == true
	msg := sprintf("%s has %s", [k.name, field])
}

deny_path contains msg if {
	some v in k.pod_spec.volumes
	some prefix in ["/etc", "/var/run", "/proc"]
	startswith(v.hostPath.path, prefix)
	msg := sprintf("volume %s is %s of the node", [v.name, v.hostPath.path])
}

violation_capabilities contains {"msg": msg, "added": added} if {
	some c in k.containers
	added := {a | some a in c.securityContext.capabilities.add} - {"NET_BIND_SERVICE"}
	count(added) > 0
	msg := sprintf("container %s adds %s", [c.name, concat(", ", sort(added))])
}

warn_filesystem contains msg if {
	some c in k.containers
	object.get(c, ["securityContext", "readOnlyRootFilesystem"], false) != true
	msg := sprintf("container %s writes to its root file system", [c.name])
}
