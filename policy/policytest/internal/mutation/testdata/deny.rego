package main

import rego.v1

deny contains "no limit" if {
	some c in input.spec.containers
	not c.resources.limits
	input.kind in {"Deployment", "Job"}
	startswith(c.image, "docker.io/")
}

test_deny if count(deny) == 0 with input as {}
