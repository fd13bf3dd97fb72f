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

// A resourceRef names a resource of the suite. What it leaves out may be anything.
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

// read takes the test's fields.
func (c *kaptestCase) read(t node) {
	f := t.fields("object", "oldObject", "param", "userInfo", "expect", "deniedMessage")
	c.object, c.old, c.param = readRef(f["object"], true), readRef(f["oldObject"], true), readRef(f["param"], false)
	c.expect, c.deniedMessage = f["expect"], f["deniedMessage"].text()
	c.Want = c.expect.text()
	u := f["userInfo"].fields("name", "groups", "extra")
	c.user = policy.UserInfo{Username: u["name"].text(), Groups: u["groups"].texts(), Extra: u["extra"].extra()}
	c.about()
}

// about takes from the references what the case is about.
func (c *kaptestCase) about() {
	subject := c.object
	if !subject.given() {
		subject = c.old
	}
	c.Kind, c.Resource = subject.kind, subject.String()
	switch {
	case c.object.given() && c.old.given():
		c.Operation = string(policy.Update)
	case c.old.given():
		c.Operation = string(policy.Delete)
	default:
		c.Operation = string(policy.Create)
	}
}

// extra is a mapping of lists.
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

// refuse notes why the case can't be run.
func (c *kaptestCase) refuse(err error) { c.errs = append(c.errs, err) }

func (c *kaptestCase) run() {
	if !slices.Contains(kaptestExpectations, c.Want) {
		err := c.expect.errorf("expect %q is none of %s", c.Want, strings.Join(kaptestExpectations, ", "))
		c.k.fail(err)
		c.refuse(err)
	}
	if c.deniedMessage != "" && c.Want != deny {
		c.refuse(errors.New("deniedMessage is given, and expect is not deny"))
	}
	p := c.k.policies[c.Policy]
	if p == nil {
		e := c.at.errorf("%w", missing(validatingKind, c.Policy, c.k.policies))
		c.refuse(e)
	}
	req := c.request()
	var params *render.Object
	if p != nil {
		params = c.params(p)
	}
	if len(c.errs) > 0 {
		c.Reason = c.k.text(c.errs...)
		return
	}
	c.evaluate(p, req, params)
}

// request is the admission request that the test describes.
func (c *kaptestCase) request() *policy.Request {
	req := &policy.Request{Operation: policy.Operation(c.Operation), UserInfo: c.user, DryRun: true}
	if !c.object.given() && !c.old.given() {
		c.refuse(errors.New("names neither object nor oldObject"))
		return req
	}
	req.Object, req.OldObject = c.find(c.object, "object"), c.find(c.old, "oldObject")
	subject := req.Subject()
	if subject == nil {
		return req
	}
	if req.Object != nil && req.OldObject != nil && req.Object.GetNamespace() != req.OldObject.GetNamespace() {
		c.refuse(errors.New("object and oldObject are in different namespaces"))
	}
	req.Kind = subject.GroupVersionKind()
	req.Resource = c.k.kinds.Resource(req.Kind)
	req.Namespace, req.Name = subject.GetNamespace(), subject.GetName()
	req.Admitted, req.OldAdmitted = tree(req.Object), tree(req.OldObject)
	c.Kind, c.Resource = subject.GetKind(), name(subject)
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
func (c *kaptestCase) find(r resourceRef, what string) *render.Object {
	switch {
	case !r.given():
		return nil
	case r.called == "" || r.kind == "":
		c.refuse(r.errorf("%s needs a kind and a name", what))
		return nil
	}
	return c.one(r, what)
}

func (c *kaptestCase) one(r resourceRef, what string) *render.Object {
	all := slices.DeleteFunc(slices.Clone(c.k.resources), func(o *render.Object) bool { return !r.means(o) })
	switch len(all) {
	case 1:
		return all[0]
	case 0:
		c.refuse(r.errorf("%s: there is no %s %s among the resources%s", what, r.kind, r, c.k.likely(r)))
	default:
		c.refuse(r.errorf("%s: %s %s is %d of the resources: %s and %s", what, r.kind, r, len(all), c.k.shown(all[0].Span("")), c.k.shown(all[1].Span(""))))
	}
	return nil
}

// means says whether the reference is to o. A version without a group counts
// for nothing, as in kaptest.
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

// params is the parameter that the policy reads.
func (c *kaptestCase) params(p *kaptestPolicy) *render.Object {
	apiVersion, _ := render.Lookup(p.object.Object, "/spec/paramKind/apiVersion")
	kind, _ := render.Lookup(p.object.Object, "/spec/paramKind/kind")
	gv, _ := apiVersion.(string)
	r := c.param
	if r.kind, _ = kind.(string); r.kind == "" {
		if c.param.given() {
			c.Notes = append(c.Notes, "the policy has no paramKind, so it does not see the param")
		}
		return nil
	}
	r.group, r.version = policy.ParseGroupVersion(gv).Group, policy.ParseGroupVersion(gv).Version
	if r.called == "" {
		c.refuse(c.at.errorf("policy %s needs a param of kind %s, and the test names none", c.Policy, r.kind))
		return nil
	}
	return c.one(r, "param")
}

// evaluate runs the policy and compares.
func (c *kaptestCase) evaluate(p *kaptestPolicy, req *policy.Request, params *render.Object) {
	refused := ""
	if errs := p.refusals(); len(errs) > 0 {
		refused = "the API server refuses the policy: " + c.k.text(errs...)
	}
	var results []policy.Result
	var err error
	if p.runs() {
		results, err = p.evaluator.Evaluate(c.k.ctx, req, c.Policy, params)
	}
	if err != nil {
		c.Reason = cmp.Or(refused, c.k.text(err))
		return
	}
	if refused != "" {
		c.Notes = append(c.Notes, refused)
	}
	c.Got, c.Reason = c.outcome(p, results)
	c.Vacuous = c.Got == admit && len(results) == 0
	c.OK = c.Got == c.Want
	c.comparedMessage(results)
	c.takenForGranted(req, results)
	c.unmatched(p, req)
}

// unmatched notes that the policy would not see the object on a cluster, which
// kaptest does not ask.
func (c *kaptestCase) unmatched(p *kaptestPolicy, req *policy.Request) {
	x, ok := p.evaluator.(policy.Explainer)
	if !ok || !p.runs() {
		return
	}
	es, err := x.Explain(c.k.ctx, req, c.Policy, "matchConstraints")
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
	c.Unmatched = true
	c.Notes = append(c.Notes, "on a cluster the policy would not see this request: "+strings.Join(why, "; "))
}

// comparedMessage holds a denial against the message it should have.
func (c *kaptestCase) comparedMessage(results []policy.Result) {
	if !c.OK || c.deniedMessage == "" {
		return
	}
	var said []string
	for _, r := range results {
		if r.Outcome == policy.Fail {
			if r.Message == c.deniedMessage {
				return
			}
			said = append(said, fmt.Sprintf("%q", r.Message))
		}
	}
	c.OK = false
	c.Reason = fmt.Sprintf("is denied as expected, but with %s and not %q", strings.Join(said, ", "), c.deniedMessage)
}

// takenForGranted notes what the answer rests on.
func (c *kaptestCase) takenForGranted(req *policy.Request, results []policy.Result) {
	for _, r := range results {
		for _, a := range r.Assumed {
			if !slices.Contains(c.Notes, a) {
				c.Notes = append(c.Notes, a)
			}
		}
	}
	ns := c.k.cluster.Namespace(nil, req.Namespace)
	if req.Namespace != "" && ns != nil && ns.Provenance == nil {
		c.Notes = append(c.Notes, fmt.Sprintf("Namespace %s is not among the resources: taken to have no labels and annotations", req.Namespace))
	}
}

// refusals are the reasons for which the API server would not take the policy
// though its expressions compile.
func (p *kaptestPolicy) refusals() []error {
	var errs []error
	for _, e := range p.faults {
		if !strings.Contains(e.Rule, "[") {
			errs = append(errs, e)
		}
	}
	return errs
}

// runs says whether anything of the policy can be run: without a variable or a
// match condition it can't.
func (p *kaptestPolicy) runs() bool {
	return !slices.ContainsFunc(p.faults, func(e *render.Error) bool {
		return strings.HasPrefix(e.Rule, "variables[") || strings.HasPrefix(e.Rule, "matchConditions[")
	})
}

// outcome is kaptest's word for what the rules said: an error counts before a
// denial. What does not compile is an error, unless a match condition exempts
// the object.
func (c *kaptestCase) outcome(p *kaptestPolicy, results []policy.Result) (got, reason string) {
	var errs, denials, skips []string
	evaluated := make(map[string]bool)
	for _, r := range results {
		evaluated[r.Rule] = true
		said := r.Rule + ": " + r.Message
		switch r.Outcome {
		case policy.Fail:
			denials = append(denials, said)
		case policy.Error, policy.Unknown:
			errs = append(errs, said)
		case policy.Skip:
			skips = append(skips, r.Message)
		}
	}
	if len(skips) > 0 {
		return skip, skips[0]
	}
	for _, e := range p.faults {
		if !evaluated[e.Rule] {
			errs = append(errs, "does not compile: "+c.k.text(e))
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

// asWritten are kinds whose objects are taken as they are written.
type asWritten struct{ policy.Kinds }

// Admit implements policy.Kinds.
func (asWritten) Admit(o *render.Object, _ string) (map[string]any, error) {
	return runtime.DeepCopyJSON(o.Object), nil
}

// Convert implements policy.Kinds: versions of a kind are taken to look alike.
func (a asWritten) Convert(tree map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	converted, err := a.Kinds.Convert(tree, to)
	if err != nil {
		converted = runtime.DeepCopyJSON(tree)
		converted["apiVersion"] = to.GroupVersion().String()
	}
	return converted, nil
}

// newNamespace returns a Namespace with nothing but a name. Its provenance
// is nil: it is not written anywhere.
func newNamespace(name string) *render.Object {
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}}
}

// Unwrap returns the kinds as the API server knows them.
func (a asWritten) Unwrap() policy.Kinds { return a.Kinds }
