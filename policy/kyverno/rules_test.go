package kyverno

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestRules evaluates each archive's object by its policies. In it are
// policy.yaml, object.yaml (objects), and perhaps old.yaml (the old object of
// an UPDATE; without an object, of a DELETE), cluster.yaml and user (a name);
// want has a line for each result, with its fields, and what mutations left.
// The archive's comment says what it is about; "cli" in its first line asks as
// Kyverno's command line does.
func TestRules(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata/rules", evaluateArchive)
}

func fileOf(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// plainKinds take objects as they are, and give them a namespace.
type plainKinds struct{}

func (plainKinds) Resource(gvk schema.GroupVersionKind) policy.Resource {
	name := strings.ToLower(gvk.Kind) + "s"
	scoped := gvk.Kind == "Namespace" || gvk.Kind == "ClusterRole"
	return policy.Resource{GroupVersionResource: gvk.GroupVersion().WithResource(name), Namespaced: !scoped, Known: true}
}

func (p plainKinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	c := o.DeepCopy()
	if p.Resource(o.GroupVersionKind()).Namespaced {
		c.SetNamespace(namespace)
	}
	if c.GetLabels()["refused"] != "" {
		return nil, &policy.FieldError{Fields: []string{"/metadata/labels/refused"}, Err: fmt.Errorf("the API server would not have it")}
	}
	return c.Object, nil
}

func (plainKinds) Equivalent(schema.GroupVersionResource) []policy.Version { return nil }

func (plainKinds) Convert(o map[string]any, _ schema.GroupVersionKind) (map[string]any, error) {
	return o, nil
}

func evaluateArchive(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	options := Options{
		Kinds: plainKinds{}, Cluster: policy.NewCluster(rendertest.Parse(t, "cluster.yaml", fileOf(a, "cluster.yaml"))...),
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	first, _, _ := strings.Cut(string(a.Comment), "\n")
	options.CLI = strings.Contains(first, "cli")
	engine, err := New(rendertest.Parse(t, "policy.yaml", fileOf(a, "policy.yaml")), options)
	var out bytes.Buffer
	for _, e := range render.Errors(err) {
		fmt.Fprintf(&out, "refused: %s: %v\n", e.Span, e.Err)
	}
	for _, req := range archiveRequests(t, a) {
		if options.CLI {
			respondTo(t, &out, engine, req)
			continue
		}
		evaluateRequest(t, &out, engine, req)
	}
	return out.String()
}

func archiveRequests(t *testing.T, a *txtar.Archive) []*policy.Request {
	t.Helper()
	var reqs []*policy.Request
	old := rendertest.Parse(t, "old.yaml", fileOf(a, "old.yaml"))
	objects := rendertest.Parse(t, "object.yaml", fileOf(a, "object.yaml"))
	for i, o := range objects {
		req := &policy.Request{Operation: policy.Create, Object: o}
		if i < len(old) {
			req.Operation, req.OldObject = policy.Update, old[i]
		}
		reqs = append(reqs, req)
	}
	for _, o := range old[min(len(objects), len(old)):] {
		reqs = append(reqs, &policy.Request{Operation: policy.Delete, OldObject: o})
	}
	for _, r := range reqs {
		admitRequest(t, r)
		r.UserInfo.Username = strings.TrimSpace(fileOf(a, "user"))
	}
	return reqs
}

func admitRequest(t *testing.T, r *policy.Request) {
	t.Helper()
	o := r.Subject()
	r.Kind, r.Name = o.GroupVersionKind(), o.GetName()
	r.Resource = plainKinds{}.Resource(r.Kind)
	if r.Resource.Namespaced {
		r.Namespace = o.GetNamespace()
		if r.Namespace == "" {
			r.Namespace = "default"
		}
	}
	var err error
	if r.Object != nil {
		r.Admitted, err = plainKinds{}.Admit(r.Object, r.Namespace)
	}
	if r.OldObject != nil && err == nil {
		r.OldAdmitted, err = plainKinds{}.Admit(r.OldObject, r.Namespace)
	}
	rendertest.OK(t, err)
}

func evaluateRequest(t *testing.T, out *bytes.Buffer, engine *Engine, req *policy.Request) {
	t.Helper()
	before := asJSON(req.Admitted)
	steps, err := engine.Mutator().Mutate(context.Background(), req)
	rendertest.OK(t, err)
	if asJSON(req.Admitted) != before {
		t.Error("a mutation changed the request's object")
	}
	for _, s := range steps {
		tell(out, req, &s.Result)
		if s.Admitted != nil {
			req.Admitted = s.Admitted
			fmt.Fprintf(out, "  left %s\n", asJSON(s.Admitted))
		}
	}
	before = asJSON(req.Admitted)
	results, err := engine.Validator().Validate(context.Background(), req)
	rendertest.OK(t, err)
	if asJSON(req.Admitted) != before {
		t.Error("a validation changed the request's object")
	}
	for i := range results {
		tell(out, req, &results[i])
	}
}

func tell(out *bytes.Buffer, req *policy.Request, r *policy.Result) {
	fmt.Fprintf(out, "%s %s/%s %s %s/%s: %s\n", req.Subject().GetName(), r.Policy, r.Rule, req.Operation, r.Outcome, r.Action, r.Message)
	for _, f := range r.Fields {
		fmt.Fprintf(out, "  at %s\n", f)
	}
	for _, a := range r.Assumed {
		fmt.Fprintf(out, "  assumed %s\n", a)
	}
}

func respondTo(t *testing.T, out *bytes.Buffer, engine *Engine, req *policy.Request) {
	t.Helper()
	responses, err := engine.Respond(context.Background(), req, nil)
	rendertest.OK(t, err)
	for _, r := range responses {
		fmt.Fprintf(out, "%s %s/%s %s %s: %s\n", req.Subject().GetName(), r.Policy.Name, r.Name, req.Operation, r.Status, r.Message)
		for _, f := range r.Fields {
			fmt.Fprintf(out, "  at %s\n", f)
		}
		if r.Patched != nil {
			fmt.Fprintf(out, "  left %s\n", asJSON(r.Patched))
		}
		for _, g := range r.Generated {
			fmt.Fprintf(out, "  made %s\n", asJSON(g))
		}
	}
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
