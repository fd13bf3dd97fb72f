package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/openapi/openapitest"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A server is the API server's mutating admission: its dispatcher, its patchers
// and the OpenAPI documents that it publishes. Defaults are ours.
type server struct {
	dispatcher interface {
		Dispatch(context.Context, upstream.Attributes, upstream.ObjectInterfaces, []mutating.PolicyHook) error
	}
	interfaces upstream.ObjectInterfaces
	scheme     *runtime.Scheme
}

func newServer(t testing.TB, kinds *schema.Kinds) *server {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme} {
		rendertest.OK(t, add(s))
	}
	for _, o := range []runtime.Object{&appsv1.Deployment{}, &corev1.Pod{}, &corev1.Service{}} {
		s.AddTypeDefaultingFunc(o, func(obj any) { setDefaults(kinds, obj.(runtime.Object), s) })
	}
	manager := patch.NewTypeConverterManager(nil, openapitest.NewEmbeddedFileClient())
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go manager.Run(ctx)
	for manager.GetTypeConverter(appsv1.SchemeGroupVersion.WithKind("Deployment")) == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return &server{mutating.NewDispatcher(lawyer{}, matching.NewMatcher(everyNamespace{}, nil), manager), upstream.NewObjectInterfacesFromScheme(s), s}
}

func setDefaults(kinds *schema.Kinds, o runtime.Object, s *runtime.Scheme) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return
	}
	gvks, _, err := s.ObjectKinds(o)
	if err != nil {
		return
	}
	u := &unstructured.Unstructured{Object: tree}
	u.SetGroupVersionKind(gvks[0])
	if admitted, err := kinds.Admit(&render.Object{Unstructured: u}, "default"); err == nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(admitted, o)
	}
}

type everyNamespace struct{ listers.NamespaceLister }

func (everyNamespace) Get(name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}, nil
}
func (everyNamespace) List(labels.Selector) ([]*corev1.Namespace, error) { return nil, nil }

// hook puts a policy together as the plugin does.
func hook(t testing.TB, p *v1.MutatingAdmissionPolicy) mutating.PolicyHook {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	rendertest.OK(t, err)
	vars := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, vars, environment.StoredExpressions)
	}
	evaluator := mutating.PolicyEvaluator{CompositedCompiler: compiler}
	if len(p.Spec.MatchConditions) > 0 {
		var conditions []plugincel.ExpressionAccessor
		for i := range p.Spec.MatchConditions {
			conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
		}
		evaluator.Matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, vars, environment.StoredExpressions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	vars.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		if m.JSONPatch != nil {
			evaluator.Mutators = append(evaluator.Mutators, patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, vars, environment.StoredExpressions)))
		} else {
			evaluator.Mutators = append(evaluator.Mutators, patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, vars, environment.StoredExpressions)))
		}
	}
	match.Default(p.Spec.MatchConstraints)
	return mutating.PolicyHook{Policy: p, Evaluator: evaluator, Bindings: []*v1.MutatingAdmissionPolicyBinding{{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: v1.MutatingAdmissionPolicyBindingSpec{PolicyName: p.Name},
	}}}
}

// mutate is what the server makes of an object, or why it refuses it.
func (s *server) mutate(t testing.TB, kinds *schema.Kinds, hooks []mutating.PolicyHook, o *render.Object) (map[string]any, error) {
	t.Helper()
	admitted, err := kinds.Admit(o, "default")
	rendertest.OK(t, err)
	gvk := o.GroupVersionKind()
	into, err := s.scheme.New(gvk)
	rendertest.OK(t, err)
	rendertest.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(admitted, into))
	into.GetObjectKind().SetGroupVersionKind(gvk)
	attrs := upstream.NewAttributesRecord(into, nil, gvk, "default", o.GetName(), kinds.Resource(gvk).GroupVersionResource, "",
		upstream.Create, &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}}, false, &user.DefaultInfo{Name: "alice"})
	ctx := context.Background()
	if err := s.dispatcher.Dispatch(ctx, attrs, s.interfaces, hooks); err != nil {
		return nil, err
	}
	if again := attrs.GetReinvocationContext(); again.ShouldReinvoke() {
		again.SetIsReinvoke()
		if err := s.dispatcher.Dispatch(ctx, attrs, s.interfaces, hooks); err != nil {
			return nil, err
		}
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	rendertest.OK(t, err)
	u := &unstructured.Unstructured{Object: tree}
	u.SetGroupVersionKind(gvk)
	held, err := kinds.Admit(&render.Object{Unstructured: u}, "default")
	rendertest.OK(t, err)
	return held, nil
}

// A mutationPolicy is one of the policies that are compared.
type mutationPolicy struct {
	name, condition, selector string
	ignore, reinvoke          bool
	variables                 map[string]string
	mutations                 []string // those that begin with [ are JSON patches
}

func (m mutationPolicy) build() *v1.MutatingAdmissionPolicy {
	p := &v1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: m.name},
	}
	fail, never := v1.Fail, v1.NeverReinvocationPolicy
	if m.ignore {
		fail = v1.Ignore
	}
	if m.reinvoke {
		never = v1.IfNeededReinvocationPolicy
	}
	p.Spec = v1.MutatingAdmissionPolicySpec{FailurePolicy: &fail, ReinvocationPolicy: never, MatchConstraints: &v1.MatchResources{
		ResourceRules: []v1.NamedRuleWithOperations{{RuleWithOperations: v1.RuleWithOperations{
			Operations: []v1.OperationType{v1.Create}, Rule: v1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
		}}},
	}}
	if m.selector != "" {
		p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: m.selector, Operator: metav1.LabelSelectorOpExists}}}
	}
	if m.condition != "" {
		p.Spec.MatchConditions = []v1.MatchCondition{{Name: "c", Expression: m.condition}}
	}
	for name, expression := range m.variables {
		p.Spec.Variables = append(p.Spec.Variables, v1.Variable{Name: name, Expression: expression})
	}
	for _, e := range m.mutations {
		if strings.HasPrefix(e, "[") {
			p.Spec.Mutations = append(p.Spec.Mutations, v1.Mutation{PatchType: v1.PatchTypeJSONPatch, JSONPatch: &v1.JSONPatch{Expression: e}})
		} else {
			p.Spec.Mutations = append(p.Spec.Mutations, v1.Mutation{PatchType: v1.PatchTypeApplyConfiguration, ApplyConfiguration: &v1.ApplyConfiguration{Expression: e}})
		}
	}
	return p
}

func one(expressions ...string) mutationPolicy {
	return mutationPolicy{name: "p", mutations: expressions}
}

// oracleMutations are evaluated one by one.
var oracleMutations = []mutationPolicy{
	one(`Object{}`),
	one(`Object{metadata: Object.metadata{labels: {"a": "b", "app": "other"}}}`),
	one(`Object{metadata: Object.metadata{annotations: {"a": string(object.spec.size())}}}`),
	one(`Object{metadata: Object.metadata{labels: object.metadata.labels}}`),
	one(`Object{metadata: Object.metadata{labels: {"n": request.namespace, "u": request.userInfo.username}}}`),
	one(`Object{metadata: Object.metadata{finalizers: ["example.com/a", "example.com/b"]}}`),
	one(`Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: "1", name: "x", kind: "K", apiVersion: "v1"}]}}`),
	one(`Object{metadata: Object.metadata{wrong: "x"}}`),
	one(`Object{spec: Object.spec{wrong: "x"}}`),
	one(`Object{spec: Object.wrong{replicas: 1}}`),
	one(`Object{metadata: Object.metadata{labels: {"a": 1}}}`),
	one(`Object{kind: "Other", apiVersion: "x/v1"}`),
	one(`Object{metadata: Object.metadata{labels: object.missing}}`),
	one(`has(object.spec.replicas) ? Object{spec: Object.spec{replicas: object.spec.replicas * 2}} : Object{}`),
	one(`Object{spec: Object.spec{replicas: "two"}}`),
	one(`Object{spec: Object.spec{replicas: 1.5}}`),
	one(`Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"x": "y"}}}}`),
	one(`Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: 10}, hostNetwork: true}}`),
	one(`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}`),
	one(`Object{spec: Object.spec{containers: [Object.spec.containers{image: "unnamed"}]}}`),
	one(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "new", image: "i", args: ["a"]}]}}`),
	one(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "new", image: "i", resources: Object.spec.containers.resources{limits: {"cpu": "1000m"}}}]}}`),
	one(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "new", image: "i", ports: [Object.spec.containers.ports{containerPort: 80}]}]}}`),
	one(`Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: "a", operator: "Exists"}]}}`),
	one(`Object{spec: Object.spec{volumes: [Object.spec.volumes{name: "v", emptyDir: Object.spec.volumes.emptyDir{}}]}}`),
	one(`Object{spec: Object.spec{nodeSelector: {"a": "b"}}}`),
	one(`Object{spec: Object.spec{imagePullSecrets: [Object.spec.imagePullSecrets{name: "s"}]}}`),
	one(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{initContainers: [Object.spec.template.spec.initContainers{name: "i", image: "i"}]}}}}`),
	one(`Object{spec: Object.spec{strategy: Object.spec.strategy{type: "Recreate"}}}`),
	one(`Object{spec: Object.spec{ports: [Object.spec.ports{port: 80, protocol: "TCP", name: "web"}]}}`),
	one(`Object{metadata: Object.metadata{labels: {"q": string(quantity("1Gi").asInteger())}}}`),
	one(`Object{metadata: Object.metadata{labels: {"when": string(timestamp("2024-01-01T00:00:00Z"))}}}`),
	one(`Object{metadata: Object.metadata{labels: object.metadata.?labels.orValue({"d": "e"})}}`),
	one(`Object{metadata: Object.metadata{name: "renamed"}}`),
	one(`Object{status: Object.status{}}`),
	one(`Object{metadata: Object.metadata{labels: {"a": null}}}`),
	one(`[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]`),
	one(`[JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]`),
	one(`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y~z"), value: "b"}]`),
	one(`[JSONPatch{op: "remove", path: "/metadata/labels"}]`),
	one(`[JSONPatch{op: "replace", path: "/spec/replicas", value: 7}]`),
	one(`[JSONPatch{op: "replace", path: "/spec/replicas", value: "7"}]`),
	one(`[JSONPatch{op: "test", path: "/spec/replicas", value: 3}, JSONPatch{op: "replace", path: "/spec/replicas", value: 8}]`),
	one(`[JSONPatch{op: "test", path: "/metadata/name", value: "web"}, JSONPatch{op: "remove", path: "/metadata/labels"}]`),
	one(`[JSONPatch{op: "copy", from: "/metadata/name", path: "/metadata/generateName"}]`),
	one(`[JSONPatch{op: "move", from: "/metadata/labels", path: "/metadata/annotations"}]`),
	one(`[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "n", image: "i"}}]`),
	one(`[JSONPatch{op: "add", path: "/spec/containers/0", value: object.spec.containers[0]}]`),
	one(`[JSONPatch{op: "add", path: "/spec/containers/9", value: {}}]`),
	one(`[JSONPatch{op: "replace", path: "/spec/containers", value: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: "r/" + c.image})}]`),
	one(`[JSONPatch{op: "add", path: "/spec/containers/-1", value: Object.spec.containers{name: "n", image: "i"}}]`),
	one(`[JSONPatch{op: "add", path: "/spec/unknown", value: true}]`),
	one(`[JSONPatch{op: "add", path: "", value: {}}]`),
	one(`[JSONPatch{op: "frob", path: "/spec"}]`),
	one(`[JSONPatch{op: "replace", path: "/kind", value: "Secret"}]`),
	one(`[JSONPatch{op: "replace", path: "/metadata/name", value: "renamed"}]`),
	one(`[JSONPatch{op: "add", path: "/metadata/labels", value: {"big": string(9007199254740993)}}, JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 9007199254740993}]`),
	one(`[JSONPatch{op: "add", path: "/spec/securityContext", value: Object.wrong{runAsUser: 1}}]`),
	one(`[JSONPatch{op: "add", path: "/metadata/annotations", value: dyn({"a": "b", "c": "d"})}]`),
	one(`Object{metadata: Object.metadata{labels: {"one": "1"}}}`, `[JSONPatch{op: "add", path: "/metadata/labels/two", value: object.metadata.labels.one}]`, `Object{metadata: Object.metadata{labels: {"three": object.metadata.labels.two}}}`),
	one(`Object{spec: Object.spec{wrong: "x"}}`, `Object{metadata: Object.metadata{labels: {"after": "error"}}}`),
	{name: "p", condition: `object.metadata.name == "other"`, mutations: []string{`Object{metadata: Object.metadata{labels: {"a": "b"}}}`}},
	{name: "p", condition: `object.missing == 1`, mutations: []string{`Object{metadata: Object.metadata{labels: {"a": "b"}}}`}},
	{name: "p", condition: `object.missing == 1`, ignore: true, mutations: []string{`Object{metadata: Object.metadata{labels: {"a": "b"}}}`}},
	{name: "p", ignore: true, mutations: []string{`Object{spec: Object.spec{wrong: "x"}}`, `Object{metadata: Object.metadata{labels: {"a": "b"}}}`}},
	{name: "p", ignore: true, mutations: []string{`[JSONPatch{op: "add", path: "/spec/unknown", value: true}]`}},
	{name: "p", ignore: true, mutations: []string{`[JSONPatch{op: "replace", path: "/kind", value: "Secret"}]`}},
	{name: "p", variables: map[string]string{"l": `{"v": object.metadata.name}`}, mutations: []string{`Object{metadata: Object.metadata{labels: variables.l}}`}},
	{name: "p", variables: map[string]string{"l": `object.missing`}, mutations: []string{`Object{metadata: Object.metadata{labels: variables.l}}`}},
	{name: "p", mutations: []string{`authorizer.group("").resource("pods").namespace("prod").check("create").allowed() ? Object{metadata: Object.metadata{labels: {"may": "yes"}}} : Object{}`}},
}

// oracleRounds are policies that act on each other.
var oracleRounds = [][]mutationPolicy{
	{
		{name: "a", reinvoke: true, mutations: []string{`"b" in object.metadata.?labels.orValue({}) ? Object{metadata: Object.metadata{labels: {"a": "saw-b"}}} : Object{}`}},
		{name: "b", mutations: []string{`Object{metadata: Object.metadata{labels: {"b": "1"}}}`}},
	},
	{
		{name: "a", mutations: []string{`"b" in object.metadata.?labels.orValue({}) ? Object{metadata: Object.metadata{labels: {"a": "saw-b"}}} : Object{}`}},
		{name: "b", mutations: []string{`Object{metadata: Object.metadata{labels: {"b": "1"}}}`}},
	},
	{{name: "a", reinvoke: true, mutations: []string{`Object{metadata: Object.metadata{labels: {"n": object.metadata.?labels.n.orValue("") + "x"}}}`}}},
	{
		{name: "a", reinvoke: true, mutations: []string{`Object{metadata: Object.metadata{labels: {"n": object.metadata.?labels.n.orValue("") + "a"}}}`}},
		{name: "b", reinvoke: true, mutations: []string{`Object{metadata: Object.metadata{labels: {"n": object.metadata.?labels.n.orValue("") + "b"}}}`}},
		{name: "c", mutations: []string{`Object{metadata: Object.metadata{labels: {"n": object.metadata.?labels.n.orValue("") + "c"}}}`}},
	},
	{
		{name: "a", mutations: []string{`Object{metadata: Object.metadata{labels: {"seen": "yes"}}}`}},
		{name: "b", selector: "seen", mutations: []string{`Object{metadata: Object.metadata{labels: {"b": "matched"}}}`}},
		{name: "c", condition: `"seen" in object.metadata.labels`, mutations: []string{`Object{metadata: Object.metadata{labels: {"c": "matched"}}}`}},
	},
	{
		{name: "a", reinvoke: true, selector: "app", mutations: []string{`Object{metadata: Object.metadata{labels: {"n": object.metadata.?labels.n.orValue("") + "a"}}}`}},
		{name: "b", mutations: []string{`[JSONPatch{op: "remove", path: "/metadata/labels/app"}]`}},
	},
	{
		{name: "a", mutations: []string{`Object{spec: Object.spec{wrong: "x"}}`}},
		{name: "b", mutations: []string{`Object{metadata: Object.metadata{labels: {"b": "1"}}}`}},
	},
}

const oracleObjects = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {app: web}}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {containers: [{name: a, image: a, ports: [{containerPort: 80}]}, {name: b, image: b, args: [x]}], tolerations: [{key: z, operator: Exists}], nodeSelector: {disk: ssd}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, labels: {app: web}}, spec: {ports: [{port: 80, name: web}], selector: {app: web}}}
`

// TestMutatingOracle holds mutations against the API server's own plugin.
func TestMutatingOracle(t *testing.T) {
	t.Parallel()
	kinds, err := schema.New(nil, schema.Options{KubeVersion: "1.36"})
	rendertest.OK(t, err)
	s := newServer(t, kinds)
	var sets [][]mutationPolicy
	for _, p := range oracleMutations {
		sets = append(sets, []mutationPolicy{p})
	}
	n, worded := 0, 0
	for i, set := range append(sets, oracleRounds...) {
		var hooks []mutating.PolicyHook
		var objects []*render.Object
		for _, m := range set {
			p := m.build()
			objects = append(objects, object(t, tree(t, p)), object(t, tree(t, &v1.MutatingAdmissionPolicyBinding{
				TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicyBinding"},
				ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: v1.MutatingAdmissionPolicyBindingSpec{PolicyName: p.Name},
			})))
			hooks = append(hooks, hook(t, p))
		}
		ns := rendertest.Parse(t, "ns.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: default}}")
		m, err := NewMutating(objects, Options{Kinds: kinds, Cluster: policy.NewCluster(ns...), Authorizer: lawyer{}})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		for _, o := range rendertest.Parse(t, "objects.yaml", oracleObjects) {
			n++
			want, refusal := s.mutate(t, kinds, hooks, o)
			worded += compareMutation(t, fmt.Sprintf("%v on %s", set, o.GetKind()), policy.Chain{Kinds: kinds, Mutators: []policy.Mutator{m}}, o, want, refusal)
		}
	}
	t.Logf("%d requests, %d refused in other words", n, worded)
	if n < 200 || worded > 12 {
		t.Error("too few requests, or too many other words")
	}
}

func tree(t testing.TB, o any) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	rendertest.OK(t, err)
	var m map[string]any
	rendertest.OK(t, json.Unmarshal(data, &m))
	return m
}

func compareMutation(t *testing.T, name string, chain policy.Chain, o *render.Object, want map[string]any, refusal error) (worded int) {
	t.Helper()
	stored, results, err := chain.Stored(context.Background(), []policy.Request{{Operation: policy.Create, Object: o, UserInfo: policy.UserInfo{Username: "alice"}}})
	rendertest.OK(t, err)
	i := slices.IndexFunc(results, func(r policy.Result) bool { return r.Outcome == policy.Error && r.Action == policy.Deny })
	switch {
	case refusal == nil && i >= 0:
		t.Errorf("%s: refused by us alone: %s", name, results[i].Message)
	case refusal != nil && i < 0:
		t.Errorf("%s: refused by the server alone: %v; %+v", name, refusal, results)
	case refusal != nil:
		if words := refusalWords(refusal); !strings.Contains(words, results[i].Message) {
			t.Logf("%s: other words: %q, ours %q", name, words, results[i].Message)
			return 1
		}
	default:
		if d := cmp.Diff(want, stored[0].Object); d != "" {
			t.Errorf("%s: -server +ours: %s", name, d)
		}
	}
	return 0
}

func refusalWords(err error) string {
	var status *apierrors.StatusError
	words := err.Error()
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		for _, c := range status.ErrStatus.Details.Causes {
			words += "\n" + c.Message
		}
	}
	return words
}
