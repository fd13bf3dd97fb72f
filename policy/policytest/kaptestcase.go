package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A kaptestCase is one test of a manifest.
type kaptestCase struct {
	Case
	k      *kaptestSuite
	at     node // of the policy's name
	expect node

	object, old   resourceRef
	param         resourceRef
	user          policy.UserInfo
	deniedMessage string
	errs          []error // why it can't be run
}

// A resourceRef names a resource of the suite. An empty field matches anything.
type resourceRef struct {
	node
	group, version, kind string
	namespace, called    string
}

func (r resourceRef) given() bool { return r.value != nil }

func (r resourceRef) String() string {
	if r.namespace == "" {
		return r.called
	}
	return r.namespace + "/" + r.called
}

// readRef reads a name, and with typed a kind.
func readRef(n node, typed bool) resourceRef {
	r := resourceRef{node: n}
	keys := []string{"namespace", "name"}
	if typed {
		keys = []string{"group", "version", "kind", "namespace", "name"}
	}
	f := n.fields(keys...)
	r.called, r.namespace = f["name"].text(), f["namespace"].text()
	if typed {
		r.group, r.version, r.kind = f["group"].text(), f["version"].text(), f["kind"].text()
	}
	return r
}

// read sets k from the fields that tests of both kinds of policies have. It returns all
// fields of the test; more names those that its kind adds.
func (k *kaptestCase) read(t node, more ...string) map[string]node {
	f := t.fields(append([]string{"object", "oldObject", "param", "userInfo", "expect"}, more...)...)
	k.object, k.old, k.param = readRef(f["object"], true), readRef(f["oldObject"], true), readRef(f["param"], false)
	k.expect = f["expect"]
	k.Want = k.expect.text()
	u := f["userInfo"].fields("name", "groups", "extra")
	k.user = policy.UserInfo{Username: u["name"].text(), Groups: u["groups"].texts(), Extra: u["extra"].extra()}
	subject := k.object
	if !subject.given() {
		subject = k.old
	}
	k.Kind, k.Resource = subject.kind, subject.String()
	switch {
	case k.object.given() && k.old.given():
		k.Operation = string(policy.Update)
	case k.old.given():
		k.Operation = string(policy.Delete)
	default:
		k.Operation = string(policy.Create)
	}
	return f
}

// expects refuses the test unless it expects one of the outcomes.
func (k *kaptestCase) expects(outcomes []string) {
	if !slices.Contains(outcomes, k.Want) {
		err := k.expect.errorf("expect %q is none of %s", k.Want, strings.Join(outcomes, ", "))
		k.k.fail(err)
		k.refuse(err)
	}
}

// extra returns a mapping of lists.
func (n node) extra() map[string][]string {
	m, ok := n.value.(map[string]any)
	if n.value != nil && !ok {
		n.fail("%s must be a mapping", n.name())
	}
	extra := make(map[string][]string, len(m))
	for k, v := range m {
		extra[k] = node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(k), value: v}.texts()
	}
	return extra
}

// refuse records why the case can't be run.
func (k *kaptestCase) refuse(err error) { k.errs = append(k.errs, err) }

func (k *kaptestCase) run() {
	k.expects(kaptestExpectations)
	if k.deniedMessage != "" && k.Want != deny {
		k.refuse(errors.New("deniedMessage is given, and expect is not deny"))
	}
	p := k.k.policies[k.Policy]
	if p == nil {
		e := k.at.errorf("%w", missing(validatingKind, k.Policy, k.k.policies))
		k.refuse(e)
	}
	req := k.request()
	var params *render.Object
	if p != nil {
		params = k.params(p)
	}
	if len(k.errs) > 0 {
		k.Reason = k.k.text(k.errs...)
		return
	}
	k.evaluate(p, req, params)
}

// request returns the admission request that the test describes.
func (k *kaptestCase) request() *policy.Request {
	req := &policy.Request{Operation: policy.Operation(k.Operation), UserInfo: k.user, DryRun: true}
	if !k.object.given() && !k.old.given() {
		k.refuse(errors.New("names neither object nor oldObject"))
		return req
	}
	req.Object, req.OldObject = k.find(k.object, "object"), k.find(k.old, "oldObject")
	subject := req.Subject()
	if subject == nil {
		return req
	}
	if req.Object != nil && req.OldObject != nil && req.Object.GetNamespace() != req.OldObject.GetNamespace() {
		k.refuse(errors.New("object and oldObject are in different namespaces"))
	}
	req.Kind = subject.GroupVersionKind()
	req.Resource = k.k.kinds.Resource(req.Kind)
	req.Namespace, req.Name = subject.GetNamespace(), subject.GetName()
	req.Admitted, req.OldAdmitted = tree(req.Object), tree(req.OldObject)
	k.Kind, k.Resource = subject.GetKind(), name(subject)
	return req
}

func tree(o *render.Object) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}

func name(o *render.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// find returns the one resource that is meant, nil without a reference.
func (k *kaptestCase) find(r resourceRef, what string) *render.Object {
	switch {
	case !r.given():
		return nil
	case r.called == "" || r.kind == "":
		k.refuse(r.errorf("%s needs a kind and a name", what))
		return nil
	}
	return k.one(r, what)
}

func (k *kaptestCase) one(r resourceRef, what string) *render.Object {
	all := slices.DeleteFunc(slices.Clone(k.k.resources), func(o *render.Object) bool { return !r.means(o) })
	switch len(all) {
	case 1:
		return all[0]
	case 0:
		k.refuse(r.errorf("%s: there is no %s %s among the resources%s", what, r.kind, r, k.k.likely(r)))
	default:
		k.refuse(r.errorf("%s: %s %s is %d of the resources: %s and %s", what, r.kind, r, len(all), k.k.shown(all[0].Span("")), k.k.shown(all[1].Span(""))))
	}
	return nil
}

// means reports whether the reference is to o. As in kaptest, a version without a
// group is ignored.
func (r resourceRef) means(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return r.called == o.GetName() && r.kind == gvk.Kind &&
		(r.namespace == "" || r.namespace == o.GetNamespace()) &&
		(r.group == "" || r.group == gvk.Group && (r.version == "" || r.version == gvk.Version))
}

// likely lists the resources of the kind that is looked for.
func (k *kaptestSuite) likely(r resourceRef) string {
	var names []string
	for _, o := range k.resources {
		if o.GetKind() == r.kind {
			names = append(names, name(o))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "; there are " + policy.Few(names)
}

// params returns the policy's parameter.
func (k *kaptestCase) params(p *kaptestPolicy) *render.Object {
	apiVersion, _ := render.Lookup(p.object.Object, "/spec/paramKind/apiVersion")
	kind, _ := render.Lookup(p.object.Object, "/spec/paramKind/kind")
	gv, _ := apiVersion.(string)
	r := k.param
	if r.kind, _ = kind.(string); r.kind == "" {
		if k.param.given() {
			k.Notes = append(k.Notes, "the policy has no paramKind, so it does not see the param")
		}
		return nil
	}
	r.group, r.version = policy.ParseGroupVersion(gv).Group, policy.ParseGroupVersion(gv).Version
	if r.called == "" {
		k.refuse(k.at.errorf("policy %s needs a param of kind %s, and the test names none", k.Policy, r.kind))
		return nil
	}
	return k.one(r, "param")
}

// evaluate runs the policy and compares.
func (k *kaptestCase) evaluate(p *kaptestPolicy, req *policy.Request, params *render.Object) {
	refused := ""
	if errs := p.refusals(); len(errs) > 0 {
		refused = "the API server refuses the policy: " + k.k.text(errs...)
	}
	var results []policy.Result
	var err error
	if p.runs() {
		results, err = p.evaluator.Evaluate(k.k.ctx, req, k.Policy, params)
	}
	if err != nil {
		k.Reason = cmp.Or(refused, k.k.text(err))
		return
	}
	if refused != "" {
		k.Notes = append(k.Notes, refused)
	}
	k.Got, k.Reason = k.outcome(p, results)
	k.Vacuous = k.Got == admit && len(results) == 0
	k.OK = k.Got == k.Want
	k.comparedMessage(results)
	for _, r := range results {
		k.assume(r.Assumed)
	}
	ns := k.k.cluster.Namespace(nil, req.Namespace)
	if req.Namespace != "" && ns != nil && ns.Provenance == nil {
		k.Notes = append(k.Notes, fmt.Sprintf("Namespace %s is not among the resources: assumed to have no labels and annotations", req.Namespace))
	}
	k.unmatched(p, req)
}

// unmatched adds a note if the policy would not match the object in a cluster,
// which kaptest does not check.
func (k *kaptestCase) unmatched(p *kaptestPolicy, req *policy.Request) {
	x, ok := p.evaluator.(policy.Explainer)
	if !ok || !p.runs() {
		return
	}
	es, err := x.Explain(k.k.ctx, req, k.Policy, "matchConstraints")
	if err != nil || len(es) == 0 || es[0].Matches != policy.No {
		return
	}
	var why []string
	for _, m := range es[0].Match {
		if m.Answer == policy.No && !strings.HasPrefix(m.Name, "exclude") {
			why = append(why, fmt.Sprintf("%s: %s", m.Name, m.Why))
		}
		if m.Answer == policy.Yes && strings.HasPrefix(m.Name, "exclude") {
			why = append(why, m.Name+" excludes it")
		}
	}
	k.Unmatched = true
	k.Notes = append(k.Notes, "on a cluster the policy would not see this request: "+strings.Join(why, "; "))
}

// comparedMessage compares the message of a denial with the expected one.
func (k *kaptestCase) comparedMessage(results []policy.Result) {
	if !k.OK || k.deniedMessage == "" {
		return
	}
	var messages []string
	for _, r := range results {
		if r.Outcome == policy.Fail {
			if r.Message == k.deniedMessage {
				return
			}
			messages = append(messages, fmt.Sprintf("%q", r.Message))
		}
	}
	k.OK = false
	k.Reason = fmt.Sprintf("is denied as expected, but with %s and not %q", strings.Join(messages, ", "), k.deniedMessage)
}

// refusals returns the reasons why the API server would refuse the policy
// although its expressions compile.
func (k *kaptestPolicy) refusals() []error {
	var errs []error
	for _, e := range k.faults {
		if !strings.Contains(e.Rule, "[") {
			errs = append(errs, e)
		}
	}
	return errs
}

// runs reports whether the policy can be run. It can't if a variable or match
// condition does not compile.
func (k *kaptestPolicy) runs() bool {
	return !slices.ContainsFunc(k.faults, func(e *render.Error) bool {
		return strings.HasPrefix(e.Rule, "variables[") || strings.HasPrefix(e.Rule, "matchConditions[")
	})
}

// outcome returns kaptest's name for the outcome of the rules. An error takes
// precedence over a denial. An expression that does not compile is an error,
// unless a match condition exempts the object.
func (k *kaptestCase) outcome(p *kaptestPolicy, results []policy.Result) (got, reason string) {
	var errs, denials, skips []string
	evaluated := make(map[string]bool)
	for _, r := range results {
		evaluated[r.Rule] = true
		text := r.Rule + ": " + r.Message
		switch r.Outcome {
		case policy.Fail:
			denials = append(denials, text)
		case policy.Error, policy.Unknown:
			errs = append(errs, text)
		case policy.Skip:
			skips = append(skips, r.Message)
		}
	}
	if len(skips) > 0 {
		return skip, skips[0]
	}
	for _, e := range p.faults {
		if !evaluated[e.Rule] {
			errs = append(errs, "does not compile: "+k.k.text(e))
		}
	}
	switch {
	case len(errs) > 0:
		return broke, strings.Join(errs, "; ")
	case len(denials) > 0:
		return deny, strings.Join(denials, "; ")
	}
	return admit, ""
}

// asWritten are kinds whose objects are used as written.
type asWritten struct{ policy.Kinds }

// Admit implements policy.Kinds.
func (asWritten) Admit(o *render.Object, _ string) (map[string]any, error) {
	return runtime.DeepCopyJSON(o.Object), nil
}

// Convert implements policy.Kinds. It assumes that all versions of a kind have
// the same fields.
func (a asWritten) Convert(tree map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	converted, err := a.Kinds.Convert(tree, to)
	if err != nil {
		converted = runtime.DeepCopyJSON(tree)
		converted["apiVersion"] = to.GroupVersion().String()
	}
	return converted, nil
}

// newNamespace returns a Namespace with only a name and without provenance.
func newNamespace(name string) *render.Object {
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}}
}

// Unwrap returns the kinds as the API server has them.
func (a asWritten) Unwrap() policy.Kinds { return a.Kinds }
