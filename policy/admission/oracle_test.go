package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	upstream "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// oracle is the API server's validator of a policy, put together as its plugin
// does it (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
func oracle(t testing.TB, p *v1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	full := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	plain := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	rendertest.OK(t, err)
	for _, v := range p.Spec.Variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, full, environment.StoredExpressions)
	}
	condition := func(list []plugincel.ExpressionAccessor, vars plugincel.OptionalVariableDeclarations) plugincel.ConditionEvaluator {
		return compiler.CompileCondition(list, vars, environment.StoredExpressions)
	}
	var conditions, validations, messages, annotations []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, nil)
		if v.MessageExpression != "" {
			messages[len(messages)-1] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	for _, a := range p.Spec.AuditAnnotations {
		annotations = append(annotations, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	var matcher matchconditions.Matcher
	if len(conditions) > 0 {
		matcher = matchconditions.NewMatcher(condition(conditions, full), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	return validating.NewValidator(condition(validations, full), matcher, condition(annotations, full), condition(messages, plain), p.Spec.FailurePolicy, nil)
}

// typed is an object as the API server holds it: in its Go type if it has one.
func typed(t testing.TB, tree map[string]any) runtime.Object {
	t.Helper()
	if tree == nil {
		return nil
	}
	u := &unstructured.Unstructured{Object: tree}
	o, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return u
	}
	rendertest.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(tree, o))
	o.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
	return o
}

// lawyer allows what it is asked in namespaces that begin with p.
type lawyer struct{}

func (lawyer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch {
	case a.GetVerb() == "fail":
		return authorizer.DecisionNoOpinion, "", errors.New("no answer")
	case strings.HasPrefix(a.GetNamespace(), "p"), strings.HasPrefix(a.GetPath(), "/h"):
		return authorizer.DecisionAllow, "because", nil
	}
	return authorizer.DecisionDeny, "never", nil
}

// versionedAttributes are the request's for the oracle.
func versionedAttributes(t testing.TB, req *policy.Request) *upstream.VersionedAttributes {
	t.Helper()
	var options runtime.Object = &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}}
	switch req.Operation {
	case policy.Update:
		options = &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}}
	case policy.Delete:
		options = &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}}
	}
	object, old := typed(t, req.Admitted), typed(t, req.OldAdmitted)
	namespace := req.Namespace
	if req.Kind.Kind == "Namespace" {
		namespace = req.Name
	}
	attrs := upstream.NewAttributesRecord(object, old, req.Kind, namespace, req.Name, req.Resource.GroupVersionResource, req.SubResource,
		upstream.Operation(req.Operation), options, req.DryRun, &user.DefaultInfo{Name: req.UserInfo.Username, Groups: req.UserInfo.Groups})
	va := &upstream.VersionedAttributes{Attributes: attrs, VersionedKind: req.Kind}
	if object != nil {
		va.VersionedObject.Set(object)
	}
	if old != nil {
		va.VersionedOldObject.Set(old)
	}
	return va
}

// decisions are the oracle's, one line a decision.
func decisions(t testing.TB, v validating.Validator, req *policy.Request, params *render.Object, paramTree map[string]any, ns *corev1.Namespace) []string {
	t.Helper()
	var versionedParams runtime.Object
	if params != nil {
		versionedParams = typed(t, paramTree)
	}
	if req.Namespace == "" {
		ns = nil
	}
	result := v.Validate(context.Background(), req.Resource.GroupVersionResource, versionedAttributes(t, req), versionedParams, ns, celconfig.RuntimeCELCostBudget, lawyer{})
	var lines []string
	for _, d := range result.Decisions {
		reason := ""
		if d.Evaluation == validating.EvalDeny {
			reason = string(d.Reason)
		}
		lines = append(lines, fmt.Sprintf("%s %s%s", d.Evaluation, d.Message, reason))
	}
	for _, a := range result.AuditAnnotations {
		if a.Action == validating.AuditAnnotationActionError {
			lines = append(lines, "annotation "+a.Error)
		}
	}
	return lines
}

// ours are our verdicts in the same words.
func ours(vs []verdict) []string {
	var lines []string
	if len(vs) > 0 && vs[0].outcome == policy.Error && strings.HasPrefix(vs[0].rule, "matchConditions") {
		return brokenConditions(vs)
	}
	for _, v := range vs {
		message := strings.TrimPrefix(v.message, "ignored error: ")
		switch {
		case v.outcome == policy.Skip:
		case v.certain:
			if v.outcome == policy.Error && !strings.HasPrefix(v.message, "ignored") {
				lines = append(lines, "annotation "+message)
			}
		case v.outcome == policy.Pass:
			lines = append(lines, "admit ")
		case v.outcome == policy.Fail:
			lines = append(lines, "deny "+message+v.reason)
		default:
			lines = append(lines, string(v.outcome)+" "+message)
		}
	}
	return lines
}

// brokenConditions are the one decision that the API server makes of them all,
// or none where it ignores errors.
func brokenConditions(vs []verdict) []string {
	var errs []error
	for _, v := range vs {
		if strings.HasPrefix(v.message, "ignored error: ") {
			return nil
		}
		errs = append(errs, errors.New(v.message))
	}
	return []string{"error " + utilerrors.NewAggregate(errs).Error()}
}

// compareWithOracle evaluates every object, new, changed and deleted, by every
// policy with every parameter, and returns how many verdicts agreed.
func compareWithOracle(t *testing.T, policies, objects, cluster []*render.Object) int {
	t.Helper()
	kinds := testKinds{crds(append(cluster, objects...))}
	all := append(append([]*render.Object{}, cluster...), objects...)
	for _, o := range objects {
		all = append(all, &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": o.EffectiveNamespace()},
		}}})
	}
	e, _ := New(policies, Options{Kinds: kinds, Cluster: policy.NewCluster(all...), Authorizer: lawyer{}})
	n := 0
	for _, b := range e.policies {
		v := oracle(t, b.policy)
		for _, o := range objects {
			n += compareObject(t, e, b, v, o, all)
		}
	}
	return n
}

func compareObject(t *testing.T, e *Engine, b *bound, v validating.Validator, o *render.Object, all []*render.Object) (n int) {
	t.Helper()
	params := []*render.Object{nil}
	if k := b.policy.Spec.ParamKind; k != nil {
		params = append(params, e.options.Cluster.List(policy.ParseGroupVersion(k.APIVersion).WithKind(k.Kind).GroupKind())...)
	}
	for _, req := range requestsAbout(t, e.options.Kinds, o) {
		for _, p := range params {
			param, tree := nullParam, map[string]any(nil)
			if p != nil {
				param = e.param(p, policy.ParseGroupVersion(b.policy.Spec.ParamKind.APIVersion).WithKind(b.policy.Spec.ParamKind.Kind))
				if tree, _ = e.options.Kinds.Admit(p, ""); tree == nil {
					continue // the API server would not hold it
				}
			}
			r := newReview(context.Background(), e, &req)
			as := policy.Version{Resource: req.Resource.GroupVersionResource, Kind: req.Kind}
			want := decisions(t, v, &req, p, tree, namespaceOf(t, e, &req))
			x := r.run.setUp(b.compiled, param, as)
			if got := ours(x.verdicts()); !cmp.Equal(withoutPanics(want, got), got) {
				t.Errorf("%s on %s %s %s: upstream -, ours +\n%s", b.policy.Name, req.Operation, o.GetKind(), o.GetName(), cmp.Diff(want, got))
			}
			n += len(want)
		}
	}
	return n
}

// withoutPanics takes our error where upstream has one of its own making: its
// cost tracking panics when a list function's argument is an error.
func withoutPanics(want, got []string) []string {
	out := append([]string(nil), want...)
	for i := range out {
		head, _, panicked := strings.Cut(out[i], "internal error: interface conversion")
		if panicked && i < len(got) && strings.HasPrefix(got[i], head) {
			out[i] = got[i]
		}
	}
	return out
}

func namespaceOf(t *testing.T, e *Engine, req *policy.Request) *corev1.Namespace {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace, Labels: map[string]string{corev1.LabelMetadataName: req.Namespace}}}
	if o := e.options.Cluster.Namespace(nil, req.Namespace); o != nil {
		rendertest.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(namespaceTree(o, req.Namespace), ns))
	}
	return ns
}

// requestsAbout are a CREATE, an UPDATE from a poorer object and a DELETE.
func requestsAbout(t testing.TB, kinds policy.Kinds, o *render.Object) []policy.Request {
	t.Helper()
	poor := &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()},
	}}}
	reqs := []policy.Request{
		{Operation: policy.Create, Object: o}, {Operation: policy.Update, Object: o, OldObject: poor}, {Operation: policy.Delete, OldObject: o},
	}
	for i := range reqs {
		req := &reqs[i]
		req.UserInfo = policy.UserInfo{Username: "alice", Groups: []string{"dev", "ops"}}
		req.Kind, req.Name = o.GroupVersionKind(), o.GetName()
		req.Resource = kinds.Resource(req.Kind)
		if req.Resource.Namespaced {
			req.Namespace = o.EffectiveNamespace()
		}
		for object, tree := range map[*render.Object]*map[string]any{req.Object: &req.Admitted, req.OldObject: &req.OldAdmitted} {
			if object == nil {
				continue
			}
			var err error
			if *tree, err = kinds.Admit(object, req.Namespace); err != nil {
				return nil // the API server would not get so far
			}
		}
	}
	return reqs
}

func TestAgreesWithUpstream(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/*.txtar")
	more, _ := filepath.Glob("testdata/oracle/*.txtar")
	for _, file := range append(files, more...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			a := rendertest.ParseArchive(t, file)
			if strings.Contains(string(a.Comment), "oracle: no") {
				t.Skip("the archive is about what upstream does not know")
			}
			objects := map[string][]*render.Object{}
			for _, f := range a.Files {
				if strings.HasSuffix(f.Name, ".yaml") {
					objects[f.Name] = rendertest.Parse(t, f.Name, f.Data)
				}
			}
			compareWithOracle(t, objects["policy.yaml"], objects["object.yaml"], objects["cluster.yaml"])
		})
	}
}

// TestAgreesWithUpstreamOnPublished evaluates other people's objects by their
// policies.
func TestAgreesWithUpstreamOnPublished(t *testing.T) {
	t.Parallel()
	n := 0
	for _, folder := range rendertest.GlobOrSkip(t, corpora+"kubescape-vap/*", corpora+"kaptest/*") {
		c := loadCase(t, folder)
		if c == nil {
			continue
		}
		n += compareWithOracle(t, c.objects("policies"), c.objects("resources"), append(c.objects("params"), c.objects("crds")...))
	}
	t.Logf("%d verdicts compared", n)
	if n < 500 {
		t.Errorf("only %d verdicts compared", n)
	}
}

// A publishedCase is a folder of the corpora.
type publishedCase struct {
	t      *testing.T
	folder string
	Files  map[string][]string `json:"files"`
	Expect []publishedOutcome  `json:"-"`
	Sem    string              `json:"semantics"`
}

type publishedOutcome struct {
	Policy, Result, Operation string
	Resource                  struct {
		Kind, Name, Namespace, File string
		Doc                         int
	}
	Params    *struct{ File, Name, Namespace, Kind string }
	UserInfo  *struct{ Name string }
	OldObject any
}

func loadCase(t *testing.T, folder string) *publishedCase {
	t.Helper()
	c := &publishedCase{t: t, folder: folder}
	for name, into := range map[string]any{"case.json": c, "expect.json": &c.Expect} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(folder, err)
		}
	}
	return c
}

func (p *publishedCase) objects(kind string) []*render.Object {
	var all []*render.Object
	for _, f := range p.Files[kind] {
		all = append(all, p.file(f)...)
	}
	return all
}

func (p *publishedCase) file(name string) []*render.Object {
	data, err := os.ReadFile(filepath.Join(p.folder, name))
	rendertest.OK(p.t, err)
	objects, err := render.Parse(name, data)
	if err != nil {
		p.t.Logf("%s: %v", p.folder, err)
	}
	return objects
}
