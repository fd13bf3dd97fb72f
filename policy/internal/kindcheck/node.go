package kindcheck

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
)

func (c *check) runtimeClass(o *nodev1.RuntimeClass) {
	if o.Handler == "" {
		c.required(Top.In("handler"), "")
	} else {
		c.invalids(Top.In("handler"), o.Handler, dnsLabel(o.Handler))
	}
	if o.Overhead != nil {
		c.overhead(o.Overhead.PodFixed, Top.In("overhead"), Top.In("overhead", "podFixed"))
	}
	if s, at := o.Scheduling, Top.In("scheduling"); s != nil {
		c.labels(s.NodeSelector, at.In("nodeSelector"))
		(&checker{check: c}).tolerations(s.Tolerations, at.In("tolerations"))
	}
}

// overhead validates the resources that a pod needs besides its containers. The server
// validates them like a container's limits, and reports their place as reported.limits.
func (c *check) overhead(list corev1.ResourceList, reported, at *Spot) {
	before := len(c.faults)
	limits := reported.In("limits")
	c.resourceList(list, limits, containerResource)
	for _, f := range c.faults[before:] {
		f.Fields[0] = at.Pointer() + strings.TrimPrefix(f.Fields[0], limits.Pointer())
	}
}
