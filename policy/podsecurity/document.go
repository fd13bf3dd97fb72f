package podsecurity

import (
	"k8s.io/pod-security-admission/api"

	"github.com/preadmit/preadmit/policy"
)

const (
	standards  = "https://kubernetes.io/docs/concepts/security/pod-security-standards/#"
	labelsPage = "https://kubernetes.io/docs/concepts/security/pod-security-admission/#pod-security-admission-labels-for-namespaces"
)

// A document describes a control.
type document struct {
	level       api.Level // with the control; "" if it is not a control
	severity    policy.Severity
	title       string
	description string
	fix         string // a sentence
	bad, good   string // YAML, without the fields that don't matter
}

func (d document) rule(level, id string, action policy.Action) policy.Rule {
	url := labelsPage
	if d.level != "" {
		url = standards + string(d.level)
	}
	return policy.Rule{
		Engine: policy.EnginePodSecurity, Policy: level, Name: id,
		Severity: d.severity, Action: action,
		Title: d.title, Description: d.description, URL: url,
		Help: d.fix + "\n\nRefused:\n\n```yaml\n" + d.bad + "```\n\nAllowed:\n\n```yaml\n" + d.good + "```\n",
	}
}

// documents describes the controls, by ID. A test holds that none is missing and that
// the examples are refused and allowed.
var documents = map[string]document{
	labelsRule: {
		severity: policy.High,
		title:    "Namespace labels name known levels and versions",
		description: "The pod-security.kubernetes.io labels of a Namespace choose the level that its pods must hold. " +
			"The API server refuses a Namespace whose labels it does not understand; where such labels are already there, it enforces the strictest level.",
		fix: "Use `privileged`, `baseline` or `restricted` for levels, and `latest` or a version such as `v1.31` for versions.",
		bad: `metadata:
  name: shop
  labels:
    pod-security.kubernetes.io/enforce: strict
`,
		good: `metadata:
  name: shop
  labels:
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/enforce-version: latest
`,
	},

	"privileged": {
		level: api.LevelBaseline, severity: policy.Critical,
		title:       "No privileged containers",
		description: "A privileged container has every capability and every device of its node: whoever breaks into it has the node. It switches off most of what the other controls ask for.",
		fix:         "Remove `privileged: true`. Where one permission of it is needed, ask for that one: a capability, a device plugin, a CSI driver.",
		bad: `spec:
  containers:
  - name: web
    securityContext:
      privileged: true
`,
		good: `spec:
  containers:
  - name: web
    securityContext:
      privileged: false
`,
	},

	"hostNamespaces": {
		level: api.LevelBaseline, severity: policy.High,
		title:       "No sharing of the node's network, processes or IPC",
		description: "hostNetwork lets a pod listen to and speak as its node, past network policies; hostPID shows it every process of the node with its environment; hostIPC gives it their shared memory.",
		fix:         "Remove `hostNetwork`, `hostPID` and `hostIPC`. To be reached from outside, use a Service, an Ingress or a Gateway.",
		bad: `spec:
  hostNetwork: true
  containers:
  - name: web
`,
		good: `spec:
  containers:
  - name: web
    ports:
    - containerPort: 8080
`,
	},

	"hostPathVolumes": {
		level: api.LevelBaseline, severity: policy.High,
		title:       "No hostPath volumes",
		description: "A hostPath volume puts files of the node into a container: the container runtime's socket, the kubelet's credentials, other pods' data. Read-only mounts only make it a little harder.",
		fix:         "Use a volume of a type that belongs to the pod: a persistentVolumeClaim for data, emptyDir for scratch space, configMap, secret or projected for settings.",
		bad: `spec:
  containers:
  - name: web
  volumes:
  - name: data
    hostPath:
      path: /var/lib/web
`,
		good: `spec:
  containers:
  - name: web
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: web
`,
	},

	"hostPorts": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "No host ports",
		description: "A hostPort opens a port on the node itself. It bypasses network policies, is reachable by everything that reaches the node, and keeps two such pods from sharing a node. With hostNetwork, every container port is one.",
		fix:         "Remove `hostPort` and expose the pod by a Service.",
		bad: `spec:
  containers:
  - name: web
    ports:
    - containerPort: 8080
      hostPort: 80
`,
		good: `spec:
  containers:
  - name: web
    ports:
    - containerPort: 8080
`,
	},

	"hostProbesAndHostLifecycle": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "Probes and lifecycle hooks name no host",
		description: "The kubelet makes the requests of probes and hooks, from the node's network. With a host of its own choice, a pod has it call addresses that the pod itself may not reach.",
		fix:         "Remove `host`; the pod's own address is the default. For a virtual host, send the `Host` header.",
		bad: `spec:
  containers:
  - name: web
    livenessProbe:
      httpGet:
        host: 169.254.169.254
        path: /healthz
        port: 8080
`,
		good: `spec:
  containers:
  - name: web
    livenessProbe:
      httpGet:
        path: /healthz
        port: 8080
        httpHeaders:
        - name: Host
          value: shop.example
`,
	},

	"capabilities_baseline": {
		level: api.LevelBaseline, severity: policy.High,
		title:       "No capabilities beyond the container runtime's default",
		description: "Each Linux capability is a piece of root's power. Those that runtimes grant by default may be added; NET_ADMIN, SYS_ADMIN, SYS_PTRACE and the like let a container change its node or look into other pods.",
		fix:         "Remove the capability from `capabilities.add`. What needs it often has an unprivileged way, or belongs in a component of the platform.",
		bad: `spec:
  containers:
  - name: web
    securityContext:
      capabilities:
        add: [SYS_ADMIN]
`,
		good: `spec:
  containers:
  - name: web
    securityContext:
      capabilities:
        add: [NET_BIND_SERVICE]
`,
	},

	"windowsHostProcess": {
		level: api.LevelBaseline, severity: policy.Critical,
		title:       "No Windows HostProcess containers",
		description: "A HostProcess container runs as a process of its Windows node, with access to the node's files, network and accounts.",
		fix:         "Remove `windowsOptions.hostProcess`. Tasks on the node itself belong to the platform, in a namespace of their own.",
		bad: `spec:
  os:
    name: windows
  securityContext:
    windowsOptions:
      hostProcess: true
  containers:
  - name: web
`,
		good: `spec:
  os:
    name: windows
  securityContext:
    windowsOptions:
      runAsUserName: ContainerUser
  containers:
  - name: web
`,
	},

	"appArmorProfile": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "AppArmor is not switched off",
		description: "On nodes that have AppArmor, containers run under the runtime's profile. A pod may choose another that is loaded on the node, but not none.",
		fix:         "Remove the profile, or set its type to `RuntimeDefault` or `Localhost`.",
		bad: `spec:
  containers:
  - name: web
    securityContext:
      appArmorProfile:
        type: Unconfined
`,
		good: `spec:
  containers:
  - name: web
    securityContext:
      appArmorProfile:
        type: RuntimeDefault
`,
	},

	"seLinuxOptions": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "SELinux options keep to container types",
		description: "The SELinux type separates containers from their node. Only the types made for containers may be set; the user and the role may not be set at all.",
		fix:         "Remove `seLinuxOptions`, or set nothing but a container type, such as `container_t`, and a level.",
		bad: `spec:
  securityContext:
    seLinuxOptions:
      type: spc_t
  containers:
  - name: web
`,
		good: `spec:
  securityContext:
    seLinuxOptions:
      type: container_t
      level: "s0:c123,c456"
  containers:
  - name: web
`,
	},

	"procMount": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "The masks over /proc stay on",
		description: "Runtimes hide the parts of /proc that tell about, or change, the node. procMount: Unmasked shows them. It is fit only for pods in a user namespace of their own.",
		fix:         "Remove `procMount`. Nested containers, which need it, also need `hostUsers: false`.",
		bad: `spec:
  containers:
  - name: web
    securityContext:
      procMount: Unmasked
`,
		good: `spec:
  containers:
  - name: web
    securityContext:
      procMount: Default
`,
	},

	"seccompProfile_baseline": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "Seccomp is not switched off",
		description: "A seccomp profile limits the system calls that reach the kernel, which all pods of a node share. A pod may choose the runtime's profile or one of the node's, but not Unconfined.",
		fix:         "Remove the profile, or set its type to `RuntimeDefault` or `Localhost`.",
		bad: `spec:
  securityContext:
    seccompProfile:
      type: Unconfined
  containers:
  - name: web
`,
		good: `spec:
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  containers:
  - name: web
`,
	},

	"sysctls": {
		level: api.LevelBaseline, severity: policy.Medium,
		title:       "Only safe sysctls",
		description: "Sysctls are settings of the kernel. Those that are kept apart for each pod may be set; others change the node for everybody or switch off protections.",
		fix:         "Remove the sysctl, or have the platform set it on the nodes that need it. Newer versions of the standards allow more of them.",
		bad: `spec:
  securityContext:
    sysctls:
    - name: kernel.msgmax
      value: "65536"
  containers:
  - name: web
`,
		good: `spec:
  securityContext:
    sysctls:
    - name: net.ipv4.ip_unprivileged_port_start
      value: "80"
  containers:
  - name: web
`,
	},

	"allowPrivilegeEscalation": {
		level: api.LevelRestricted, severity: policy.Medium,
		title:       "Containers forbid privilege escalation",
		description: "Without allowPrivilegeEscalation: false, a process may gain more rights than its parent, as by a set-user-ID binary in the image. There is no setting for the whole pod: each container needs it, init containers too.",
		fix:         "Set `allowPrivilegeEscalation: false` in the security context of each container.",
		bad: `spec:
  containers:
  - name: web
`,
		good: `spec:
  containers:
  - name: web
    securityContext:
      allowPrivilegeEscalation: false
`,
	},

	"capabilities_restricted": {
		level: api.LevelRestricted, severity: policy.Medium,
		title:       "Containers drop all capabilities",
		description: "Most programs need none of root's powers, so each container drops them all. NET_BIND_SERVICE alone may be added back, for ports below 1024.",
		fix:         "Set `capabilities.drop: [ALL]` in the security context of each container and add nothing but `NET_BIND_SERVICE`.",
		bad: `spec:
  containers:
  - name: web
    securityContext:
      capabilities:
        drop: [NET_RAW]
        add: [CHOWN]
`,
		good: `spec:
  containers:
  - name: web
    securityContext:
      capabilities:
        drop: [ALL]
        add: [NET_BIND_SERVICE]
`,
	},

	"procMount_restricted": {
		level: api.LevelRestricted, severity: policy.Medium,
		title:       "The masks over /proc stay on, user namespace or not",
		description: "As procMount of the baseline level, without its exception for pods in a user namespace of their own.",
		fix:         "Remove `procMount`.",
		bad: `spec:
  hostUsers: false
  containers:
  - name: web
    securityContext:
      procMount: Unmasked
`,
		good: `spec:
  hostUsers: false
  containers:
  - name: web
    securityContext:
      procMount: Default
`,
	},

	"restrictedVolumes": {
		level: api.LevelRestricted, severity: policy.Low,
		title:       "Only volume types that belong to the pod",
		description: "Volumes that name a storage server or a disk in the pod itself let whoever writes pods reach any of them. Restricted pods take configuration, scratch space and claims; which storage stands behind a claim is decided elsewhere.",
		fix:         "Use configMap, secret, projected, downwardAPI, emptyDir, csi, ephemeral, image or persistentVolumeClaim.",
		bad: `spec:
  containers:
  - name: web
  volumes:
  - name: data
    nfs:
      server: files.example
      path: /exports/web
`,
		good: `spec:
  containers:
  - name: web
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: web
`,
	},

	"runAsNonRoot": {
		level: api.LevelRestricted, severity: policy.Medium,
		title:       "Containers must not run as root",
		description: "With runAsNonRoot: true the kubelet refuses to start a container whose user is root, whatever its image says. The pod's setting holds for every container that has none of its own.",
		fix:         "Set `runAsNonRoot: true` for the pod and remove `false` from its containers. The image must name a numeric user, or `runAsUser` must.",
		bad: `spec:
  containers:
  - name: web
`,
		good: `spec:
  securityContext:
    runAsNonRoot: true
  containers:
  - name: web
`,
	},

	"runAsUser": {
		level: api.LevelRestricted, severity: policy.Medium,
		title:       "The user is not set to 0",
		description: "User 0 is root, and root in a container is root of the node to the kernel, unless the pod has a user namespace of its own.",
		fix:         "Remove `runAsUser: 0`, or name another user.",
		bad: `spec:
  securityContext:
    runAsUser: 0
  containers:
  - name: web
`,
		good: `spec:
  securityContext:
    runAsUser: 10001
  containers:
  - name: web
`,
	},

	"seccompProfile_restricted": {
		level: api.LevelRestricted, severity: policy.Low,
		title:       "A seccomp profile is set",
		description: "Without a profile a container may make every system call, unless the kubelet is set up otherwise. The pod's profile holds for every container that has none of its own.",
		fix:         "Set `seccompProfile.type: RuntimeDefault` for the pod; `Localhost` profiles are allowed as well.",
		bad: `spec:
  containers:
  - name: web
`,
		good: `spec:
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  containers:
  - name: web
`,
	},
}
