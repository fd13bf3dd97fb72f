package kyverno

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// corpora is other people's data, beside the project where it is there at all.
const corpora = "../../../shared/corpora"

// A published is what Kyverno's own command line said in a published test.
type published struct{ test, policy, rule, resource, reason, message string }

func publishedRows(t *testing.T) []published {
	t.Helper()
	data := rendertest.ReadOrSkip(t, filepath.Join(corpora, "kyverno-rows.tsv"))
	var rows []published
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		c := strings.Split(line, "\t")
		for len(c) < 7 {
			c = append(c, "")
		}
		rows = append(rows, published{c[0], c[1], c[2], c[3], c[5], c[6]})
	}
	return rows
}

// A publishedTest is as much of a kyverno-test.yaml as the engine is asked.
type publishedTest struct {
	Policies, Resources, TargetResources, Exceptions []string
	Variables, Userinfo                              string
	Results                                          []struct {
		Policy, Rule, Result, Operation, CloneSourceResource string
	}
	APICallResponses []struct {
		URL, URLPath, Method string
		Response             struct {
			StatusCode int
			Body       any
		}
	}
	GlobalContextEntries []struct {
		Name string
		Data any
	}
	ClusterResources []string
}

type publishedValues struct {
	GlobalValues map[string]any
	Policies     []struct {
		Name      string
		Resources []struct {
			Name   string
			Values map[string]any
		}
		Rules []struct {
			Name          string
			Values        map[string]any
			ForeachValues map[string][]any
		}
	}
	NamespaceSelector []struct {
		Name   string
		Labels map[string]string
	}
	Namespaces   []map[string]any
	Subresources []struct {
		Subresource, ParentResource struct{ Name, Kind, Version, Group string }
	}
}

func decodeFile(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	rendertest.OK(t, err)
}

func objectsOf(t *testing.T, dir string, files []string) []*render.Object {
	t.Helper()
	var all []*render.Object
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil { // what stood beside the tests is in the corpus's other form
			data, err = os.ReadFile(elsewhere(dir, f))
		}
		if err != nil {
			continue // of the other half
		}
		objects, err := render.Parse(f, data)
		if err != nil {
			t.Logf("%s: %v", f, err)
		}
		all = append(all, objects...)
	}
	return all
}

func elsewhere(dir, file string) string {
	_, name, _ := strings.Cut(filepath.Dir(dir), "upstream/kyverno-policies/")
	return filepath.Join(corpora, "kyverno-policies", strings.ReplaceAll(name, "/", "__"), "resources", filepath.Base(file))
}

// TestPublishedRows asks the engine what Kyverno's command line answered in
// the published tests of its own kinds of policies, messages and all.
func TestPublishedRows(t *testing.T) {
	t.Parallel()
	byTest := map[string][]published{}
	for _, r := range publishedRows(t) {
		byTest[r.test] = append(byTest[r.test], r)
	}
	right, all := 0, 0
	for _, name := range slices.Sorted(maps.Keys(byTest)) {
		r, n := runPublished(t, name, byTest[name])
		right, all = right+r, all+n
	}
	t.Logf("%d of %d rows", right, all)
}

func runPublished(t *testing.T, name string, rows []published) (right, all int) {
	file := ""
	for _, source := range []string{"kyverno-policies", "kyverno-cli"} {
		f := filepath.Join(corpora, "upstream", source, name)
		if _, err := os.Stat(f); err == nil {
			file = f
		}
	}
	if file == "" {
		return 0, 0
	}
	x := newPublishedRun(t, file)
	for _, row := range rows {
		if row.reason != "Ok" || !x.ours(row.policy) {
			continue
		}
		all++
		if err := x.hold(row); err != nil {
			t.Errorf("%s: %s/%s on %s: %v", name, row.policy, row.rule, row.resource, err)
			continue
		}
		right++
	}
	return right, all
}

type publishedRun struct {
	t         *testing.T
	test      publishedTest
	values    publishedValues
	mocks     Mocks
	engine    *Engine
	resources []*render.Object
	said      map[string][]Response
}

func newPublishedRun(t *testing.T, file string) *publishedRun {
	t.Helper()
	dir := filepath.Dir(file)
	x := &publishedRun{t: t, said: map[string][]Response{}}
	decodeFile(t, file, &x.test)
	if x.test.Variables != "" {
		decodeFile(t, filepath.Join(dir, x.test.Variables), &x.values)
	}
	x.mocks = Mocks{Rules: map[string]map[string]any{}, Foreach: map[string]map[string]any{}, Namespaces: map[string]map[string]string{}}
	x.user(dir)
	for _, n := range x.values.NamespaceSelector {
		x.mocks.Namespaces[n.Name] = n.Labels
	}
	for _, s := range x.values.Subresources {
		x.mocks.Subresources = append(x.mocks.Subresources, Subresource{
			Kind: s.Subresource.Kind, Version: s.Subresource.Version, Group: s.Subresource.Group,
			Name: s.Subresource.Name, ParentKind: s.ParentResource.Kind,
		})
	}
	x.answers(dir)
	engine, err := New(append(objectsOf(t, dir, x.test.Policies), objectsOf(t, dir, x.test.Exceptions)...), Options{CLI: true})
	if err != nil {
		t.Logf("%s: %v", file, err)
	}
	x.engine = engine
	x.resources = objectsOf(t, dir, x.test.Resources)
	x.mocks.Targets = prepared(objectsOf(t, dir, x.test.TargetResources))
	return x
}

func (p *publishedRun) user(dir string) {
	if p.test.Userinfo == "" {
		return
	}
	var u struct {
		Roles, ClusterRoles []string
		UserInfo            policy.UserInfo
	}
	decodeFile(p.t, filepath.Join(dir, p.test.Userinfo), &u)
	p.mocks.UserInfo, p.mocks.Roles, p.mocks.ClusterRoles = &u.UserInfo, u.Roles, u.ClusterRoles
}

func (p *publishedRun) answers(dir string) {
	for _, c := range p.test.APICallResponses {
		p.mocks.APICalls = append(p.mocks.APICalls, APICall{
			Method: c.Method, URL: c.URL + c.URLPath, Body: c.Response.Body, Status: c.Response.StatusCode,
		})
	}
	for _, g := range p.test.GlobalContextEntries {
		if p.mocks.Global == nil {
			p.mocks.Global = map[string]any{}
		}
		p.mocks.Global[g.Name] = g.Data
	}
	var files []string
	for _, f := range p.test.ClusterResources {
		var c struct{ Resources []string }
		decodeFile(p.t, filepath.Join(dir, f), &c)
		p.mocks.Simulate = true
		files = append(files, c.Resources...)
	}
	for _, r := range p.test.Results {
		if r.CloneSourceResource != "" {
			files = append(files, r.CloneSourceResource)
		}
	}
	p.mocks.Resources = prepared(objectsOf(p.t, dir, files))
}

// clusterScoped are the kinds without a namespace that the tests have.
var clusterScoped = []string{"Namespace", "Node", "PersistentVolume", "StorageClass", "ClusterRole", "ClusterRoleBinding", "ClusterPolicy", "Profile", "CustomResourceDefinition", "PriorityClass", "IngressClass", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "Tenant"}

// prepared gives objects the namespace that the command line gives them.
func prepared(objects []*render.Object) []*render.Object {
	for _, o := range objects {
		if o.GetNamespace() == "" && !slices.Contains(clusterScoped, o.GetKind()) {
			o.Unstructured = o.DeepCopy()
			o.SetNamespace("default")
		}
	}
	return objects
}

func (p *publishedRun) ours(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	return slices.ContainsFunc(p.engine.Policies(), func(pol *Policy) bool { return pol.Name == name })
}

// hold says how the row differs from what the engine said.
func (p *publishedRun) hold(row published) error {
	var near []string
	for _, o := range prepared(p.resources) {
		for _, op := range []policy.Operation{policy.Create, policy.Update, policy.Delete} {
			if !p.wants(op) {
				continue
			}
			for _, r := range p.respond(o, op) {
				if !concernsRow(row, o, &r) || r.Name != row.rule || r.Policy.Name != row.policy[strings.LastIndexByte(row.policy, '/')+1:] {
					continue
				}
				if spaceless(r.Message) == spaceless(row.message) {
					return nil
				}
				near = append(near, fmt.Sprintf("%s: %s", r.Status, r.Message))
			}
		}
	}
	return fmt.Errorf("\n\twant %s\n\tgot  %s", row.message, strings.Join(near, "\n\t     "))
}

func (p *publishedRun) wants(op policy.Operation) bool {
	if op == policy.Create {
		return true
	}
	return slices.ContainsFunc(p.test.Results, func(r struct {
		Policy, Rule, Result, Operation, CloneSourceResource string
	},
	) bool {
		return r.Operation == string(op)
	}) || strings.Contains(fmt.Sprint(p.values), string(op))
}

func spaceless(s string) string { return strings.Join(strings.Fields(s), "") }

// concernsRow reports whether the row is about the object, or what was made of it.
func concernsRow(row published, o *render.Object, r *Response) bool {
	about := []map[string]any{o.Object, r.Target}
	about = append(about, r.Generated...)
	for _, m := range about {
		if m == nil {
			continue
		}
		kind, ns, name := nameOf(m)
		if row.resource == strings.Join(slices.DeleteFunc([]string{kind[0], kind[1], ns, name}, func(s string) bool { return s == "" }), "/") {
			return true
		}
		if strings.HasSuffix(row.resource, "/"+name) && (strings.HasPrefix(row.resource, kind[0]+"/"+kind[1]+"/") || strings.HasPrefix(row.resource, "/")) {
			return true
		}
	}
	return false
}

func (p *publishedRun) respond(o *render.Object, op policy.Operation) []Response {
	key := fmt.Sprintf("%p %s", o, op)
	if rs, ok := p.said[key]; ok {
		return rs
	}
	var all []Response
	for _, pol := range p.engine.Policies() {
		mocks := p.mocksFor(pol, o)
		op := op
		if v, ok := mocks.Variables["request.operation"].(string); ok {
			op = policy.Operation(v)
		}
		rs, err := p.engine.Respond(context.Background(), requestFor(o, op), mocks)
		if err != nil {
			p.t.Error(err)
		}
		for _, r := range rs {
			if r.Policy == pol {
				all = append(all, r)
			}
		}
	}
	p.said[key] = all
	return all
}

func (p *publishedRun) mocksFor(pol *Policy, o *render.Object) *Mocks {
	m := p.mocks
	m.Variables, m.Rules, m.Foreach = map[string]any{}, map[string]map[string]any{}, map[string]map[string]any{}
	maps.Copy(m.Variables, p.values.GlobalValues)
	for _, v := range p.values.Policies {
		if v.Name != pol.Name {
			continue
		}
		for _, r := range v.Resources {
			if r.Name == o.GetName() {
				maps.Copy(m.Variables, r.Values)
			}
		}
		for _, r := range v.Rules {
			m.Rules[r.Name] = r.Values
			m.Foreach[r.Name] = map[string]any{}
			for k, v := range r.ForeachValues {
				m.Foreach[r.Name][k] = v[0]
			}
		}
	}
	return &m
}

// requestFor is a request as Kyverno's command line makes it of a manifest.
func requestFor(o *render.Object, op policy.Operation) *policy.Request {
	gvk := o.GroupVersionKind()
	req := &policy.Request{Operation: op, Kind: gvk, Namespace: o.GetNamespace(), Name: o.GetName()}
	req.Resource.GroupVersionResource = schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
	if op != policy.Delete {
		req.Object, req.Admitted = o, o.Object
	}
	if op != policy.Create {
		req.OldObject, req.OldAdmitted = o, o.Object
	}
	return req
}
