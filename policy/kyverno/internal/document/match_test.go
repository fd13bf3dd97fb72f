package document

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestKindSelector(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"*":                                 "*,*,*,",
		"*.*":                               "*,*,*,*",
		"*/*":                               "*,*,*,*",
		"Pod":                               "*,*,Pod,",
		"v1/Pod":                            "*,v1,Pod,",
		"*/Pod":                             "*,*,Pod,",
		"batch/*/CronJob":                   "batch,*,CronJob,",
		"storage.k8s.io/v1/CSIDriver":       "storage.k8s.io,v1,CSIDriver,",
		"tekton.dev/v1beta1/TaskRun/st":     "tekton.dev,v1beta1,TaskRun,st",
		"v1/Pod.status":                     "*,v1,Pod,status",
		"v1/Pod/status":                     "*,v1,Pod,status",
		"v2beta10/Pod/status":               "*,v2beta10,Pod,status",
		"Pod.status":                        "*,*,Pod,status",
		"Pod/status":                        "*,*,Pod,status",
		"apps/v1/Deployment/scale":          "apps,v1,Deployment,scale",
		"apps/v1/Deployment.scale":          "apps,v1,Deployment,scale",
		"*/Deployment/scale":                "*,*,Deployment,scale",
		"*/Deployment.scale":                "*,*,Deployment,scale",
		"v1.demo/v1/Demo":                   "v1.demo,v1,Demo,",
		"*/scale":                           "*,*,*,scale",
		"Pod/*":                             "*,*,Pod,*",
		"*/*/*":                             "*,*,*,*",
		"*/*/*/*":                           "*,*,*,*",
		"*/*/*/*/*":                         ",,,",
		"v1/Pod.a.b":                        "v1,Pod,a,b",
		strings.Repeat("a/", 100_000) + "b": ",,,",
	} {
		k := filters.ParseKindSelector(in)
		if got := strings.Join([]string{k.Group, k.Version, k.Kind, k.Subresource}, ","); got != want {
			t.Errorf("%.40s: got %s, want %s", in, got, want)
		}
	}
}

// thing is an object with a request for it.
type thing struct {
	kind, sub, op string
	metadata      map[string]any
	namespace     map[string]string
	user          *policy.UserInfo
	roles         []string
	clusterRoles  []string
}

func (t thing) target() *Target {
	gvk := schema.FromAPIVersionAndKind("v1", t.kind)
	if i := strings.LastIndex(t.kind, "/"); i >= 0 {
		gvk = schema.FromAPIVersionAndKind(t.kind[:i], t.kind[i+1:])
	}
	if t.op == "" {
		t.op = "CREATE"
	}
	return &Target{
		Object: map[string]any{"kind": gvk.Kind, "metadata": t.metadata}, Kind: gvk, Subresource: t.sub, Operation: t.op,
		NamespaceLabels: func() map[string]string { return t.namespace },
		UserKnown:       t.user != nil, User: t.user, Roles: t.roles, ClusterRoles: t.clusterRoles,
	}
}

type meta = map[string]any

func inNamespace(name string) meta { return meta{"name": name, "namespace": "ns"} }

func labelled(labels meta) meta { return meta{"name": "a", "labels": labels, "annotations": labels} }

// TestMatches holds one row for each line of what match and exclude say. The
// answer is yes or no, with a question mark where it rests on not knowing who
// asks.
func TestMatches(t *testing.T) {
	t.Parallel()
	jane := &policy.UserInfo{Username: "jane", Groups: []string{"devs", "system:authenticated"}}
	robot := &policy.UserInfo{Username: "system:serviceaccount:ci:robot"}
	pod := thing{kind: "Pod", metadata: inNamespace("web")}
	for _, row := range []struct {
		name, rule string
		thing      thing
		want       string
	}{
		{"kind", `match: {any: [{resources: {kinds: [Pod]}}]}`, pod, "yes"},
		{"another kind", `match: {any: [{resources: {kinds: [Job]}}]}`, pod, "no"},
		{"case counts", `match: {any: [{resources: {kinds: [pod]}}]}`, pod, "no"},
		{"wildcard in a kind", `match: {any: [{resources: {kinds: ["P?d"]}}]}`, pod, "yes"},
		{"group", `match: {any: [{resources: {kinds: [apps/v1/Deployment]}}]}`, thing{kind: "apps/v1/Deployment"}, "yes"},
		{"another group", `match: {any: [{resources: {kinds: [apps/v1/Deployment]}}]}`, thing{kind: "extensions/v1/Deployment"}, "no"},
		{"another version", `match: {any: [{resources: {kinds: [apps/v1/Deployment]}}]}`, thing{kind: "apps/v1beta1/Deployment"}, "no"},
		{"any version", `match: {any: [{resources: {kinds: [apps/*/Deployment]}}]}`, thing{kind: "apps/v1beta1/Deployment"}, "yes"},
		{"version alone is of any group", `match: {any: [{resources: {kinds: [v1/Deployment]}}]}`, thing{kind: "apps/v1/Deployment"}, "yes"},
		{"wildcard in a group", `match: {any: [{resources: {kinds: ["*.io/v1/A"]}}]}`, thing{kind: "x.io/v1/A"}, "yes"},
		{"a subresource is not its resource", `match: {any: [{resources: {kinds: [Pod]}}]}`, thing{kind: "Pod", sub: "exec"}, "no"},
		{"but ephemeral containers are", `match: {any: [{resources: {kinds: [Pod]}}]}`, thing{kind: "Pod", sub: "ephemeralcontainers"}, "yes"},
		{"of pods alone", `match: {any: [{resources: {kinds: [A]}}]}`, thing{kind: "A", sub: "ephemeralcontainers"}, "no"},
		{"subresource", `match: {any: [{resources: {kinds: [Pod/exec]}}]}`, thing{kind: "Pod", sub: "exec"}, "yes"},
		{"resource of a subresource", `match: {any: [{resources: {kinds: [Pod/exec]}}]}`, pod, "no"},
		{"any subresource", `match: {any: [{resources: {kinds: ["*/scale"]}}]}`, thing{kind: "apps/v1/Deployment", sub: "scale"}, "yes"},
		{"everything", `match: {any: [{resources: {kinds: ["*/*"]}}]}`, thing{kind: "apps/v1/Deployment", sub: "scale"}, "yes"},

		{"operation", `match: {any: [{resources: {kinds: [Pod], operations: [CREATE, UPDATE]}}]}`, pod, "yes"},
		{"another operation", `match: {any: [{resources: {kinds: [Pod], operations: [DELETE]}}]}`, pod, "no"},

		{"name", `match: {any: [{resources: {kinds: [Pod], name: "w*"}}]}`, pod, "yes"},
		{"names", `match: {any: [{resources: {kinds: [Pod], names: [a, "w?b"]}}]}`, pod, "yes"},
		{"another name", `match: {any: [{resources: {kinds: [Pod], names: [a, "w?"]}}]}`, pod, "no"},
		{"generateName", `match: {any: [{resources: {kinds: [Pod], names: ["w-*"]}}]}`, thing{kind: "Pod", metadata: meta{"generateName": "w-"}}, "yes"},
		{"namespace", `match: {any: [{resources: {kinds: [Pod], namespaces: ["n*"]}}]}`, pod, "yes"},
		{"another namespace", `match: {any: [{resources: {kinds: [Pod], namespaces: [nn]}}]}`, pod, "no"},
		{"a Namespace's own name", `match: {any: [{resources: {kinds: [Namespace], namespaces: [ns]}}]}`, thing{kind: "Namespace", metadata: meta{"name": "ns"}}, "yes"},
		{"cluster-scoped", `match: {any: [{resources: {kinds: [Node], namespaces: ["?*"]}}]}`, thing{kind: "Node", metadata: meta{"name": "ns"}}, "no"},
		{"cluster-scoped, any namespace", `match: {any: [{resources: {kinds: [Node], namespaces: ["*"]}}]}`, thing{kind: "Node"}, "yes"},

		{"annotations", `match: {any: [{resources: {kinds: [Pod], annotations: {"a/*": "?"}}}]}`, thing{kind: "Pod", metadata: labelled(meta{"a/b": "c"})}, "yes"},
		{"every annotation", `match: {any: [{resources: {kinds: [Pod], annotations: {"a/*": "?", x: "*"}}}]}`, thing{kind: "Pod", metadata: labelled(meta{"a/b": "c"})}, "no"},
		{"labels", `match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {a: b}}}}]}`, thing{kind: "Pod", metadata: labelled(meta{"a": "b"})}, "yes"},
		{"no labels", `match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {a: b}}}}]}`, pod, "no"},
		{"wildcards in labels", `match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {"a/*": "b*"}}}}]}`, thing{kind: "Pod", metadata: labelled(meta{"a/x": "bc"})}, "yes"},
		{"any label of none", `match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {"*": "*"}}}}]}`, pod, "no"},
		{"In", `match: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: a, operator: In, values: [x, b]}]}}}]}`, thing{kind: "Pod", metadata: labelled(meta{"a": "b"})}, "yes"},
		{"In, no wildcards", `match: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: a, operator: In, values: ["b"]}]}}}]}`, thing{kind: "Pod", metadata: labelled(meta{"a": "bb"})}, "no"},
		{"NotIn, missing", `match: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: a, operator: NotIn, values: [x]}]}}}]}`, pod, "yes"},
		{"Exists", `match: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: a, operator: Exists}]}}}]}`, pod, "no"},
		{"DoesNotExist", `match: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}}]}`, pod, "yes"},

		{"labels of the namespace", `match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {env: prod}}}}]}`, thing{kind: "Pod", metadata: inNamespace("a"), namespace: map[string]string{"env": "prod"}}, "yes"},
		{"a namespace without labels", `match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {env: prod}}}}]}`, pod, "no"},
		{"namespaceSelector never names a Namespace", `match: {any: [{resources: {kinds: [Namespace], namespaceSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}}]}`, thing{kind: "Namespace"}, "no"},

		{"attributes are ANDed", `match: {any: [{resources: {kinds: [Pod], names: [web], namespaces: [other]}}]}`, pod, "no"},
		{"any", `match: {any: [{resources: {kinds: [Job]}}, {resources: {kinds: [Pod]}}]}`, pod, "yes"},
		{"all", `match: {all: [{resources: {kinds: [Pod]}}, {resources: {kinds: ["P*"], names: [web]}}]}`, pod, "yes"},
		{"not all", `match: {all: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod], names: [x]}}]}`, pod, "no"},
		{"neither any nor all", `match: {resources: {kinds: [Pod], names: [web]}}`, pod, "yes"},
		{"empty", `match: {}`, pod, "no"},

		{"exclude any", `match: {any: [{resources: {kinds: [Pod]}}]}
exclude: {any: [{resources: {names: [x]}}, {resources: {namespaces: [ns]}}]}`, pod, "no"},
		{"exclude none of any", `match: {any: [{resources: {kinds: [Pod]}}]}
exclude: {any: [{resources: {names: [x]}}, {resources: {names: [web], namespaces: [x]}}]}`, pod, "yes"},
		{"exclude all", `match: {any: [{resources: {kinds: [Pod]}}]}
exclude: {all: [{resources: {names: [web]}}, {resources: {namespaces: [ns]}}]}`, pod, "no"},
		{"exclude not all", `match: {any: [{resources: {kinds: [Pod]}}]}
exclude: {all: [{resources: {names: [web]}}, {resources: {namespaces: [x]}}]}`, pod, "yes"},
		{"empty exclude", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {}", pod, "yes"},
		{"empty filter in exclude", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {any: [{resources: {}}]}", pod, "yes"},

		{"user", `match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: User, name: "j*"}]}]}`, thing{kind: "Pod", user: jane}, "yes"},
		{"another user", `match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: User, name: joe}]}]}`, thing{kind: "Pod", user: jane}, "no"},
		{"group of a user", `match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: User, name: x}, {kind: Group, name: "dev?"}]}]}`, thing{kind: "Pod", user: jane}, "yes"},
		{"service account", `match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: ServiceAccount, namespace: ci, name: "*"}]}]}`, thing{kind: "Pod", user: robot}, "yes"},
		{"service account elsewhere", `match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: ServiceAccount, namespace: c, name: robot}]}]}`, thing{kind: "Pod", user: robot}, "no"},
		{"role", `match: {any: [{resources: {kinds: [Pod]}, roles: ["a:b", "c:d"]}]}`, thing{kind: "Pod", user: jane, roles: []string{"c:d"}}, "yes"},
		{"another role", `match: {any: [{resources: {kinds: [Pod]}, roles: ["a:b"]}]}`, thing{kind: "Pod", user: jane, roles: []string{"c:d"}}, "no"},
		{"cluster role", `match: {any: [{resources: {kinds: [Pod]}, clusterRoles: [edit]}]}`, thing{kind: "Pod", user: jane, clusterRoles: []string{"edit"}}, "yes"},
		{"attributes of users are ANDed", `match: {any: [{resources: {kinds: [Pod]}, clusterRoles: [edit], subjects: [{kind: User, name: x}]}]}`, thing{kind: "Pod", user: jane, clusterRoles: []string{"edit"}}, "no"},
		{"user not known", `match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: User, name: joe}]}]}`, pod, "yes?"},
		{"user not known, kind is", `match: {any: [{resources: {kinds: [Job]}, subjects: [{kind: User, name: joe}]}]}`, pod, "no"},
		{"user not known, and no matter", `match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod]}, subjects: [{kind: User, name: joe}]}]}`, pod, "yes"},
		{"user not known, all", `match: {all: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod]}, roles: ["a:b"]}]}`, pod, "yes?"},
		{"users alone", `match: {any: [{subjects: [{kind: User, name: jane}]}]}`, thing{kind: "Pod", user: jane}, "yes"},
		{"users alone, not known", `match: {any: [{subjects: [{kind: User, name: jane}]}]}`, pod, "no"},
		{"excluded user", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {any: [{subjects: [{kind: User, name: jane}]}]}", thing{kind: "Pod", user: jane}, "no"},
		{"excluded user, not known", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {any: [{clusterRoles: [admin]}]}", pod, "yes?"},
		{"excluded user of other names", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {any: [{resources: {names: [x]}, clusterRoles: [admin]}]}", pod, "yes"},
		{"excluded for all, user not known", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {all: [{resources: {names: [web]}}, {clusterRoles: [admin]}]}", pod, "yes?"},
		{"not excluded for all, whoever asks", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {all: [{clusterRoles: [admin]}, {resources: {names: [x]}}]}", pod, "yes"},
		{"excluded whoever asks", "match: {any: [{resources: {kinds: [Pod]}}]}\nexclude: {any: [{clusterRoles: [admin]}, {resources: {names: [web]}}]}", pod, "no"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			source := rendertest.Parse(t, "rule.yaml", "apiVersion: v1\nkind: Rule\nmetadata: {name: a}\n"+row.rule)[0].Object
			rule := reader{faults: &faults{}}.rule(field{source, ""})
			matched, assumed := rule.Matches(row.thing.target())
			got := map[bool]string{true: "yes", false: "no"}[matched]
			if matched && assumed {
				got += "?"
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestManyKinds looks kinds up that are too many to go through.
func TestManyKinds(t *testing.T) {
	t.Parallel()
	text := "match: {any: [{resources: {kinds: [Pod/exec, apps/v1/Deployment, \"Job*\", " + strings.Repeat("Other, ", manyKinds) + "Last]}}]}"
	m := match(field{rendertest.Parse(t, "rule.yaml", "apiVersion: v1\nkind: Rule\nmetadata: {name: a}\n"+text)[0].Object, ""}.at("match"))
	if m.Any[0].byKind == nil {
		t.Fatal("the kinds are not sorted")
	}
	for _, row := range []struct {
		thing thing
		want  bool
	}{
		{thing{kind: "Pod", sub: "exec"}, true},
		{thing{kind: "Pod"}, false},
		{thing{kind: "apps/v1/Deployment"}, true},
		{thing{kind: "apps/v2/Deployment"}, false},
		{thing{kind: "batch/v1/JobSet"}, true},
		{thing{kind: "Last"}, true},
		{thing{kind: "Secret"}, false},
	} {
		if got, _ := m.matches(row.thing.target()); got != row.want {
			t.Errorf("%+v: got %v", row.thing, got)
		}
	}
}

// TestAnswersFromRolesAreAssumed holds that the caller learns whether an answer
// depends on the roles of the user.
func TestAnswersFromRolesAreAssumed(t *testing.T) {
	t.Parallel()
	byRole := &Match{Any: []*Filter{{Kinds: []KindSelector{filters.ParseKindSelector("Pod")}, ClusterRoles: []string{"admin"}}}}
	byName := &Match{Any: []*Filter{{Kinds: []KindSelector{filters.ParseKindSelector("Pod")}, Subjects: []Subject{{Kind: "User", Name: "jane"}}}}}
	for m, want := range map[*Match]bool{byRole: true, byName: false} {
		x := thing{kind: "Pod", user: &policy.UserInfo{Username: "jane"}}.target()
		m.matches(x)
		if x.RolesAsked != want {
			t.Errorf("%+v: got %v", m.Any[0], x.RolesAsked)
		}
	}
}

func TestInScope(t *testing.T) {
	t.Parallel()
	own, cluster := &Policy{Namespace: "ns"}, &Policy{Cluster: true}
	for _, row := range []struct {
		metadata meta
		own      bool
	}{
		{inNamespace("a"), true},
		{meta{"namespace": "other"}, false},
		{meta{"name": "ns"}, false},
		{nil, false},
	} {
		x := thing{kind: "Namespace", metadata: row.metadata}.target()
		if got := own.InScope(x); got != row.own {
			t.Errorf("%v: got %v", row.metadata, got)
		}
		if !cluster.InScope(x) {
			t.Errorf("%v: a ClusterPolicy has every namespace", row.metadata)
		}
	}
}

func TestIndex(t *testing.T) {
	t.Parallel()
	make := func(name string, kinds ...string) *Policy {
		f := &Filter{}
		for _, k := range kinds {
			f.Kinds = append(f.Kinds, filters.ParseKindSelector(k))
		}
		return &Policy{Name: name, Rules: []*Rule{{Match: &Match{Any: []*Filter{f}}}}}
	}
	pods := make("pods", "Pod")
	pods.controllers = map[string][]*Rule{"Deployment": make("", "apps/v1/Deployment").Rules}
	x := NewIndex([]*Policy{make("all", "*/*"), pods, make("jobs", "batch/v1/*Job"), make("both", "Pod", "Secret")})
	for kind, want := range map[string]string{
		"Pod": "all pods both", "Deployment": "all pods", "Secret": "all both", "CronJob": "all jobs", "Node": "all jobs",
	} {
		var got []string
		for _, p := range x.For(kind) {
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", kind, got, want)
		}
	}
}
