package kindcheck

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// containerRestarts is the release since which containers have restart rules
// (ContainerRestartRules).
const containerRestarts release = 35

func (c *checker) containers(p *Spot) {
	list := p.In("containers")
	if len(c.spec.Containers) == 0 {
		c.required(list, "")
		return
	}
	seen := map[string]bool{}
	ports := map[string]bool{}
	for i := range c.spec.Containers {
		container, at := &c.spec.Containers[i], list.In(i)
		c.container(container, at)
		if seen[container.Name] {
			c.duplicate(at.In("name"), container.Name)
		}
		seen[container.Name] = true
		c.lifecycleAndProbes(container, at)
		if c.release < containerRestarts && container.RestartPolicy != nil {
			c.forbidden(at.In("restartPolicy"), "may not be set for non-init containers")
		}
		if c.release >= containerRestarts {
			c.restartRules(container, at)
		}
		c.hostPorts(container, at, ports)
	}
}

// allRestarts is the release since which rules may restart all containers
// (RestartAllContainersOnContainerExits).
const allRestarts release = 36

func (c *checker) restartRules(o *corev1.Container, p *Spot) {
	rules := p.In("restartPolicyRules")
	if o.RestartPolicy != nil {
		oneOf(c.check, p.In("restartPolicy"), *o.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	} else if len(o.RestartPolicyRules) > 0 {
		c.required(p.In("restartPolicy"), "must specify restartPolicy when restart rules are used")
	}
	if n := len(o.RestartPolicyRules); n > 20 {
		c.tooMany(rules, n, 20)
	}
	actions := []corev1.ContainerRestartRuleAction{corev1.ContainerRestartRuleActionRestart}
	if c.release >= allRestarts {
		actions = append(actions, corev1.ContainerRestartRuleActionRestartAllContainers)
	}
	for i, r := range o.RestartPolicyRules {
		oneOf(c.check, rules.In(i, "action"), r.Action, actions...)
		codes := rules.In(i, "exitCodes")
		if r.ExitCodes == nil {
			c.required(codes, "must be specified")
			continue
		}
		oneOf(c.check, codes.In("operator"), r.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(r.ExitCodes.Values); n > 255 {
			c.tooMany(codes.In("values"), n, 255)
		}
	}
}

func (c *checker) initContainers(p *Spot) {
	seen := map[string]bool{}
	for i := range c.spec.Containers {
		seen[c.spec.Containers[i].Name] = true
	}
	for i := range c.spec.InitContainers {
		container, at := &c.spec.InitContainers[i], p.In("initContainers", i)
		c.container(container, at)
		if seen[container.Name] {
			c.duplicate(at.In("name"), container.Name)
		} else if container.Name != "" {
			seen[container.Name] = true
		}
		sidecar := container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if c.release < containerRestarts && container.RestartPolicy != nil {
			oneOf(c.check, at.In("restartPolicy"), *container.RestartPolicy, corev1.ContainerRestartPolicyAlways)
		}
		if c.release >= containerRestarts {
			c.initRestartRules(container, sidecar, at)
		}
		if sidecar {
			c.lifecycleAndProbes(container, at)
		} else {
			c.noProbes(container, at)
		}
		before := len(c.faults)
		c.hostPorts(container, p.In("initContainers", 0), map[string]bool{}) // so the server's paths
		for _, f := range c.faults[before:] {
			f.Fields[0] = strings.Replace(f.Fields[0], p.In("initContainers", 0).Pointer(), at.Pointer(), 1)
		}
	}
}

func (c *checker) initRestartRules(o *corev1.Container, sidecar bool, p *Spot) {
	if sidecar && c.release < allRestarts {
		if len(o.RestartPolicyRules) > 0 {
			c.forbidden(p.In("restartPolicyRules"), "restartPolicyRules are not allowed for init containers with restart policy Always")
		}
		return
	}
	if o.RestartPolicy == nil {
		if len(o.RestartPolicyRules) > 0 {
			c.required(p.In("restartPolicy"), "must specify restartPolicy when restart rules are used")
		}
		return
	}
	c.restartRules(o, p)
}

func (c *checker) noProbes(container *corev1.Container, p *Spot) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", container.Lifecycle != nil && !onlyStopSignal(container.Lifecycle)},
		{"livenessProbe", container.LivenessProbe != nil},
		{"readinessProbe", container.ReadinessProbe != nil},
		{"startupProbe", container.StartupProbe != nil},
	} {
		if f.set {
			c.forbidden(p.In(f.name), "may not be set for init containers without restartPolicy=Always")
		}
	}
}

// onlyStopSignal reports whether the server drops the field: the feature gate
// ContainerStopSignals is off by default.
func onlyStopSignal(l *corev1.Lifecycle) bool {
	return l.StopSignal != nil && l.PostStart == nil && l.PreStop == nil
}

// container validates the fields that all kinds of containers share.
func (c *checker) container(o *corev1.Container, p *Spot) {
	if o.Name == "" {
		c.required(p.In("name"), "")
	} else {
		c.invalids(p.In("name"), o.Name, dnsLabel(o.Name))
	}
	if o.Image == "" {
		c.required(p.In("image"), "")
	}
	oneOf(c.check, p.In("terminationMessagePolicy"), o.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	c.ports(o.Ports, p.In("ports"))
	c.env(o.Env, p.In("env"))
	c.envFrom(o.EnvFrom, p.In("envFrom"))
	c.mounts(o, p.In("volumeMounts"))
	c.devices(o, p.In("volumeDevices"))
	oneOf(c.check, p.In("imagePullPolicy"), o.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	c.resources(&o.Resources, p.In("resources"))
	c.resizePolicy(o.ResizePolicy, p.In("resizePolicy"))
	c.security(o.SecurityContext, p.In("securityContext"))
}

// resizes is the release since which containers are resized in place by default
// (InPlacePodVerticalScaling); before, the server drops resizePolicy.
const resizes release = 33

// resizePolicy validates how a container is resized. The server's paths leave out the
// index.
func (c *checker) resizePolicy(list []corev1.ContainerResizePolicy, p *Spot) {
	if c.release < resizes {
		return
	}
	seen := map[corev1.ResourceName]bool{}
	for i, r := range list {
		if seen[r.ResourceName] {
			c.duplicate(p.In(i), r.ResourceName)
		}
		seen[r.ResourceName] = true
		before := len(c.faults)
		if r.ResourceName == "" {
			c.required(p, "").at(p.In(i, "resourceName"))
		} else {
			oneOf(c.check, p, r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		}
		for _, f := range c.faults[before:] {
			f.at(p.In(i, "resourceName"))
		}
		before = len(c.faults)
		if r.RestartPolicy == "" {
			c.required(p, "")
		} else {
			oneOf(c.check, p, r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		}
		if c.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			c.invalid(p, r.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
		for _, f := range c.faults[before:] {
			f.at(p.In(i, "restartPolicy"))
		}
	}
}

func (c *checker) ports(list []corev1.ContainerPort, p *Spot) {
	seen := map[string]bool{}
	for i := range list {
		port, at := &list[i], p.In(i)
		if port.Name != "" {
			if texts := validation.IsValidPortName(port.Name); len(texts) > 0 {
				c.invalids(at.In("name"), port.Name, texts)
			} else if seen[port.Name] {
				c.duplicate(at.In("name"), port.Name)
			}
			seen[port.Name] = true
		}
		if port.ContainerPort == 0 {
			c.required(at.In("containerPort"), "")
		} else {
			c.portNumber(port.ContainerPort, at.In("containerPort"))
		}
		if port.HostPort != 0 {
			c.portNumber(port.HostPort, at.In("hostPort"))
		}
		c.protocol(port.Protocol, at.In("protocol"))
	}
}

func (c *check) portNumber(n int32, p *Spot) {
	if n < 1 || n > 65535 {
		c.invalids(p, n, validation.IsValidPortNum(int(n)))
	}
}

func (c *check) protocol(protocol corev1.Protocol, p *Spot) {
	if protocol == "" {
		c.required(p, "")
		return
	}
	oneOf(c, p, protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

// port validates a port that is a number or a name.
func (c *check) port(port intstr.IntOrString, p *Spot) {
	if port.Type == intstr.Int {
		c.portNumber(port.IntVal, p)
		return
	}
	c.invalids(p, port.StrVal, validation.IsValidPortName(port.StrVal))
}

func (c *checker) hostPorts(o *corev1.Container, p *Spot, seen map[string]bool) {
	for i, port := range o.Ports {
		if port.HostPort == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
		if seen[key] {
			c.duplicate(p.In("ports", i, "hostPort"), key)
		}
		seen[key] = true
	}
}

// mounts validates volume mounts. The server's paths of some faults leave out
// the index.
func (c *checker) mounts(o *corev1.Container, p *Spot) {
	seen := map[string]bool{}
	for i := range o.VolumeMounts {
		m, at := &o.VolumeMounts[i], p.In(i)
		if m.Name == "" {
			c.required(at.In("name"), "")
		}
		if _, ok := c.volumes[m.Name]; !ok {
			c.notFound(at.In("name"), m.Name)
		}
		if m.MountPath == "" {
			c.required(at.In("mountPath"), "")
		}
		if seen[m.MountPath] {
			c.invalid(at.In("mountPath"), m.MountPath, "must be unique")
		}
		seen[m.MountPath] = true
		for _, d := range o.VolumeDevices {
			if d.Name == m.Name {
				c.invalid(at.In("name"), m.Name, "must not already exist in volumeDevices")
			}
			if d.DevicePath == m.MountPath {
				c.invalid(at.In("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices")
			}
		}
		c.subPath(m.SubPath, p.In("subPath"), at.In("subPath"))
		if m.SubPathExpr != "" && m.SubPath != "" {
			c.invalid(at.In("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		c.subPath(m.SubPathExpr, p.In("subPathExpr"), at.In("subPathExpr"))
		c.propagation(o, m, p, at)
	}
}

func (c *checker) subPath(value string, reported, at *Spot) {
	for _, text := range descending(value) {
		c.invalid(reported, value, text).at(at)
	}
}

// descending returns the errors of a path that must not lead upwards.
func descending(value string) []string {
	var texts []string
	if path.IsAbs(value) {
		texts = append(texts, "must be a relative path")
	}
	return append(texts, backsteps(value)...)
}

func backsteps(value string) []string {
	if strings.Contains(value, "..") && slices.Contains(strings.Split(value, "/"), "..") {
		return []string{"must not contain '..'"}
	}
	return nil
}

// notReserved is descending, which also refuses names that begin with two dots.
func notReserved(value string) []string {
	texts := descending(value)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		texts = append(texts, "must not start with '..'")
	}
	return texts
}

// propagation validates how a volume is mounted at a place. reported is the place in the
// server's errors.
func (c *checker) propagation(o *corev1.Container, m *corev1.VolumeMount, reported, at *Spot) {
	if m.MountPropagation != nil {
		name := "mountPropagation"
		before := len(c.faults)
		oneOf(c.check, reported.In(name), *m.MountPropagation, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		privileged := o.SecurityContext != nil && o.SecurityContext.Privileged != nil && *o.SecurityContext.Privileged
		if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged {
			c.forbidden(reported.In(name), "Bidirectional mount propagation is available only to privileged containers")
		}
		for _, f := range c.faults[before:] {
			f.at(at.In(name))
		}
	}
	c.recursiveReadOnly(m, reported.In("recursiveReadOnly"), at.In("recursiveReadOnly"))
}

func (c *checker) recursiveReadOnly(m *corev1.VolumeMount, reported, at *Spot) {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return
	}
	before := len(c.faults)
	if oneOf(c.check, reported, *m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible) && !m.ReadOnly {
		c.forbidden(reported, "may only be specified when readOnly is true")
	}
	for _, f := range c.faults[before:] {
		f.at(at)
	}
}

func (c *checker) devices(o *corev1.Container, p *Spot) {
	names, paths := map[string]bool{}, map[string]bool{}
	for i, d := range o.VolumeDevices {
		at := p.In(i)
		source, ok := c.volumes[d.Name]
		if d.Name == "" {
			c.required(at.In("name"), "")
		}
		if names[d.Name] {
			c.invalid(at.In("name"), d.Name, "must be unique")
		}
		if !ok {
			c.notFound(at.In("name"), d.Name)
		} else if source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			c.invalid(at.In("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		if d.DevicePath == "" {
			c.required(at.In("devicePath"), "")
		}
		if paths[d.DevicePath] {
			c.invalid(at.In("devicePath"), d.DevicePath, "must be unique")
		}
		if len(backsteps(d.DevicePath)) > 0 {
			c.invalid(at.In("devicePath"), d.DevicePath, "can not contain backsteps ('..')")
		}
		names[d.Name], paths[d.DevicePath] = true, true
	}
}

func (c *checker) lifecycleAndProbes(o *corev1.Container, p *Spot) {
	if l := o.Lifecycle; l != nil {
		if l.PostStart != nil {
			c.handler(ofLifecycle(l.PostStart), p.In("lifecycle", "postStart"))
		}
		if l.PreStop != nil {
			c.handler(ofLifecycle(l.PreStop), p.In("lifecycle", "preStop"))
		}
	}
	c.probe(o.LivenessProbe, p.In("livenessProbe"), true)
	c.probe(o.ReadinessProbe, p.In("readinessProbe"), false)
	c.probe(o.StartupProbe, p.In("startupProbe"), true)
}

func (c *checker) probe(o *corev1.Probe, p *Spot, once bool) {
	if o == nil {
		return
	}
	c.handler(ofProbe(&o.ProbeHandler), p)
	c.notNegative(p, "initialDelaySeconds", int64(o.InitialDelaySeconds))
	c.notNegative(p, "timeoutSeconds", int64(o.TimeoutSeconds))
	c.notNegative(p, "periodSeconds", int64(o.PeriodSeconds))
	c.notNegative(p, "successThreshold", int64(o.SuccessThreshold))
	c.notNegative(p, "failureThreshold", int64(o.FailureThreshold))
	if s := o.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		c.invalid(p.In("terminationGracePeriodSeconds"), *s, "must be greater than 0")
	}
	if once && o.SuccessThreshold != 1 {
		c.invalid(p.In("successThreshold"), o.SuccessThreshold, "must be 1")
	}
	if !once && o.TerminationGracePeriodSeconds != nil {
		c.invalid(p.In("terminationGracePeriodSeconds"), o.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
	}
}

// A handler is the action of a probe or of a lifecycle hook.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func ofProbe(h *corev1.ProbeHandler) handler {
	return handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, grpc: h.GRPC}
}

func ofLifecycle(h *corev1.LifecycleHandler) handler {
	return handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}
}

func (c *checker) handler(h handler, p *Spot) {
	first := true
	for _, kind := range []struct {
		name  string
		set   bool
		check func(*Spot)
	}{
		{"exec", h.exec != nil, func(p *Spot) {
			if len(h.exec.Command) == 0 {
				c.required(p.In("command"), "")
			}
		}},
		{"httpGet", h.http != nil, func(p *Spot) { c.httpGet(h.http, p) }},
		{"tcpSocket", h.tcp != nil, func(p *Spot) { c.port(h.tcp.Port, p.In("port")) }},
		{"grpc", h.grpc != nil, func(p *Spot) { c.portNumber(h.grpc.Port, p.In("port")) }},
		{"sleep", h.sleep != nil, func(p *Spot) { c.sleep(h.sleep.Seconds, p) }},
	} {
		switch {
		case !kind.set:
		case first:
			kind.check(p.In(kind.name))
			first = false
		default:
			c.forbidden(p.In(kind.name), "may not specify more than 1 handler type")
		}
	}
	if first {
		c.required(p, "must specify a handler type")
	}
}

func (c *checker) httpGet(o *corev1.HTTPGetAction, p *Spot) {
	if o.Path == "" {
		c.required(p.In("path"), "")
	}
	c.port(o.Port, p.In("port"))
	oneOf(c.check, p.In("scheme"), o.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for i, h := range o.HTTPHeaders {
		for _, text := range validation.IsHTTPHeaderName(h.Name) {
			c.invalid(p.In("httpHeaders"), h.Name, text).at(p.In("httpHeaders", i, "name"))
		}
	}
}

// noSleep is the release since which a pod may sleep zero seconds
// (PodLifecycleSleepActionAllowZero).
const noSleep release = 33

func (c *checker) sleep(seconds int64, p *Spot) {
	switch {
	case c.grace == nil:
	case c.release >= noSleep && (seconds < 0 || seconds > *c.grace):
		c.invalid(p, seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *c.grace)).at(p.In("seconds"))
	case c.release < noSleep && (seconds <= 0 || seconds > *c.grace):
		c.invalid(p, seconds, fmt.Sprintf("must be greater than 0 and less than terminationGracePeriodSeconds (%d)", *c.grace)).at(p.In("seconds"))
	}
}
