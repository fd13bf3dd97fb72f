# METADATA
# title: Images
# description: What containers run.
package images

import data.lib.kubernetes as k
import rego.v1

# METADATA
# title: An image has a tag
# description: Without a tag it is whatever is newest.
# custom:
#   severity: high
deny contains msg if {
	some c in k.containers
	k.tag(c.image) in {"", "latest"}
	not contains(c.image, "@sha256:")
	msg := sprintf("%s %s: container %s runs %s, which has no tag of its own", [input.kind, k.name, c.name, c.image])
}

deny_registry contains msg if {
	some c in k.containers
	r := k.registry(c.image)
	not r in data.settings.registries
	msg := sprintf("container %s comes from %s", [c.name, r])
}

warn_pull_policy contains msg if {
	some c in k.containers
	k.tag(c.image) != "latest"
	c.imagePullPolicy == "Always"
	msg := sprintf("container %s pulls %s each time", [c.name, c.image])
}
