package kyvernocel

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const corpora = "../../../shared/corpora"

// A suite is a kyverno-test.yaml, as far as it is read here: the whole of it is
// policytest's matter.
type suite struct {
	Policies, Resources, TargetResources, Exceptions, ClusterResources []string
	JSONPayload                                                        string `json:"jsonPayload"`
	JSONPayloads                                                       []string
	Variables, Context                                                 string
	UserInfo                                                           string `json:"userinfo"`
	APICallResponses                                                   []struct {
		URL, URLPath, Method string
		Response             struct {
			StatusCode int
			Body       any
		}
	}
	GlobalContextEntries []struct {
		Name          string
		Data          any
		ResourceFiles []string
		Resources     []any
		Projections   []struct{ Name, Path string }
	}
	Results []struct {
		Policy, Kind, Result, Operation, PatchedResources, GeneratedResource, CloneSourceResource string
		Resources                                                                                 []string
	}
}

// TestPublished runs the published tests of Kyverno's CEL policies: each result
// has the status that it should, and so have patched and generated objects.
func TestPublished(t *testing.T) {
	t.Parallel()
	root := filepath.Join(corpora, "upstream")
	rendertest.SkipWithout(t, root)
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "kyverno-test.yaml" {
			files = append(files, path)
		}
		return err
	})
	rendertest.OK(t, err)
	rows, right := 0, 0
	messages := recorded(t)
	for _, file := range files {
		p := &published{T: t, file: strings.TrimPrefix(file, root+"/"), dir: filepath.Dir(file), messages: messages}
		p.run()
		rows, right = rows+p.rows, right+p.right
	}
	t.Logf("%d of %d rows of CEL policies are as published", right, rows)
	if rows < 900 {
		t.Errorf("%d rows only", rows)
	}
}

// recorded are the messages of Kyverno's own run, by test, policy and object,
// without white space.
func recorded(t *testing.T) map[string]string {
	data := rendertest.ReadFile(t, filepath.Join(corpora, "kyverno-rows.tsv"))
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) == 7 && f[5] == "Ok" {
			all[f[0]+" "+f[1]+" "+f[3]] = strings.Join(strings.Fields(f[6]), "")
		}
	}
	return all
}

// published is a suite under test.
type published struct {
	messages map[string]string
	*testing.T
	file, dir   string
	suite       suite
	rows, right int
	resources   []*render.Object
	mocks       Mocks
	engine      *Engine
	operations  map[string]string // from the values, by policy and resource
}

func (p *published) run() {
	data := rendertest.ReadFile(p, filepath.Join(p.dir, "kyverno-test.yaml"))
	if err := yaml.Unmarshal(data, &p.suite); err != nil {
		return
	}
	policies := p.objects(p.suite.Policies)
	if !slices.ContainsFunc(policies, func(o *render.Object) bool { return kindOf(o) != "" }) {
		return
	}
	if err := p.load(policies); err != nil {
		p.Errorf("%s: %v", p.file, err)
		return
	}
	for _, r := range p.suite.Results {
		short := r.Policy[strings.LastIndexByte(r.Policy, '/')+1:]
		i := slices.IndexFunc(p.engine.policies, func(q *Policy) bool { return q.Name == short })
		if i < 0 {
			continue
		}
		for _, o := range p.named(r.Resources, p.engine.policies[i]) {
			p.row(p.engine.policies[i], o, r.Result, r.Operation, r.PatchedResources, r.GeneratedResource)
		}
	}
}

func (p *published) objects(files []string) []*render.Object {
	var all []*render.Object
	for _, f := range files {
		path := filepath.Join(p.dir, f)
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			more, _ := filepath.Glob(filepath.Join(path, "*.yaml"))
			for _, m := range more {
				rel, _ := filepath.Rel(p.dir, m)
				all = append(all, p.objects([]string{rel})...)
			}
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		objects, _ := render.Parse(f, data)
		all = append(all, objects...)
	}
	return all
}

// trees are the documents of files, which may be of kinds that are no objects.
func (p *published) trees(files []string) []map[string]any {
	var all []map[string]any
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(p.dir, f))
		var tree map[string]any
		if err == nil && yaml.Unmarshal(data, &tree) == nil {
			all = append(all, tree)
		}
	}
	return all
}

func (p *published) load(policies []*render.Object) error {
	p.resources = p.objects(p.suite.Resources)
	p.mocks.Targets = p.objects(p.suite.TargetResources)
	if p.suite.Context != "" {
		for _, tree := range p.trees([]string{p.suite.Context}) {
			spec, _ := tree["spec"].(map[string]any)
			resources, _ := spec["resources"].([]any)
			for _, r := range resources {
				p.mocks.Resources = append(p.mocks.Resources, &render.Object{Unstructured: &unstructured.Unstructured{Object: r.(map[string]any)}})
			}
			images, _ := spec["images"].([]any)
			for _, i := range images {
				p.mocks.Images = append(p.mocks.Images, i.(map[string]any))
			}
		}
	}
	for _, tree := range p.trees(p.suite.ClusterResources) {
		p.mocks.HasCluster = true
		for _, key := range []string{"crds", "resources"} {
			files, _, _ := unstructured.NestedStringSlice(tree, "spec", key)
			if len(files) == 0 {
				files, _, _ = unstructured.NestedStringSlice(tree, key)
			}
			p.mocks.Cluster = append(p.mocks.Cluster, p.objects(files)...)
			list, _, _ := unstructured.NestedSlice(tree, "spec", key)
			for _, entry := range list {
				if m, ok := entry.(map[string]any); ok {
					p.mocks.Cluster = append(p.mocks.Cluster, &render.Object{Unstructured: &unstructured.Unstructured{Object: m}})
				}
			}
		}
	}
	p.values()
	for _, c := range p.suite.APICallResponses {
		url := c.URL
		if url == "" {
			url = c.URLPath
		}
		p.mocks.HTTP = append(p.mocks.HTTP, HTTPCall{Method: c.Method, URL: url, Body: c.Response.Body, Status: c.Response.StatusCode})
	}
	p.mocks.Global = map[string]any{}
	for _, g := range p.suite.GlobalContextEntries {
		p.mocks.Global[g.Name] = g.Data
		data, _ := g.Data.(map[string]any)
		for _, projection := range g.Projections {
			p.mocks.Global[g.Name+"."+projection.Name] = data[projection.Path]
		}
		if g.Data == nil {
			list := slices.Clone(g.Resources)
			for _, o := range p.objects(g.ResourceFiles) {
				list = append(list, o.Object)
			}
			p.mocks.Global[g.Name] = list
		}
	}
	for _, f := range append(slices.Clone(p.suite.JSONPayloads), p.suite.JSONPayload) {
		if data, err := os.ReadFile(filepath.Join(p.dir, f)); f != "" && err == nil {
			var tree map[string]any
			if yaml.Unmarshal(data, &tree) == nil {
				p.mocks.JSON = true
				p.resources = append(p.resources, &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}})
			}
		}
	}
	p.mocks.Cluster = append(p.mocks.Cluster, p.resources...)
	var err error
	p.engine, err = New(append(policies, p.objects(p.suite.Exceptions)...), Options{CLI: true, Kinds: kindsOf(p.T, append(policies, p.mocks.Cluster...)...)})
	for _, e := range render.Errors(err) {
		if !errors.Is(e, errProxy) {
			return err
		}
	}
	return nil
}

func (p *published) values() {
	p.operations, p.mocks.Namespaces, p.mocks.Labels = map[string]string{}, map[string]*render.Object{}, map[string]map[string]string{}
	if p.suite.Variables == "" {
		return
	}
	var file struct {
		GlobalValues map[string]any
		Policies     []struct {
			Name      string
			Resources []struct {
				Name   string
				Values map[string]any
			}
		}
		NamespaceSelector []struct {
			Name   string
			Labels map[string]string
		}
		Namespaces []map[string]any
	}
	data, err := os.ReadFile(filepath.Join(p.dir, p.suite.Variables))
	if err != nil || yaml.Unmarshal(data, &file) != nil {
		return
	}
	for _, n := range file.Namespaces {
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: n}}
		p.mocks.Namespaces[o.GetName()] = o
	}
	for _, n := range file.NamespaceSelector {
		p.mocks.Labels[n.Name] = n.Labels
	}
	for _, q := range file.Policies {
		for _, r := range q.Resources {
			if op, ok := r.Values["request.operation"].(string); ok {
				p.operations[q.Name+"/"+r.Name] = op
			}
		}
	}
}

// named are the resources of a result: those of its names, or all.
func (p *published) named(names []string, q *Policy) []*render.Object {
	from := p.resources
	if q.main.targets != nil {
		from = p.mocks.Targets
	}
	var all []*render.Object
	for _, name := range names {
		for _, o := range from {
			ns := o.GetNamespace()
			if ns == "" {
				ns = "default"
			}
			if o.GetName() == name || ns+"/"+o.GetName() == name {
				all = append(all, o)
			}
		}
	}
	if len(all) == 0 {
		return from
	}
	return all
}

func (p *published) row(q *Policy, o *render.Object, want, operation, patched, generated string) {
	p.rows++
	if operation == "" {
		operation = p.operations[q.Name+"/"+o.GetName()]
	}
	subject := o
	if q.main.targets != nil {
		subject = p.resources[0]
	}
	req := requestOf(p.engine.options.Kinds, subject, policy.Operation(operation))
	responses, err := p.engine.Respond(context.Background(), req, &p.mocks)
	rendertest.OK(p, err)
	responses = slices.DeleteFunc(responses, func(r Response) bool { return r.Policy != q || r.Target != nil && r.Target != o })
	if len(responses) == 0 {
		p.Errorf("%s: %s on %s: nothing is said, want %s", p.file, q, o.GetName(), want)
		return
	}
	r := responses[0]
	switch {
	case r.Matched && string(r.Status) != want:
		p.Errorf("%s: %s on %s %s: %s (%s), want %s", p.file, q, o.GetKind(), o.GetName(), r.Status, r.Message, want)
	case patched != "" && r.Status == StatusPass && !p.same(patched, r.Patched, o):
	case generated != "" && r.Status == StatusPass && !p.made(generated, r.Generated):
	default:
		p.right++
	}
	ns := req.Namespace
	key := strings.TrimPrefix(p.file, "kyverno-policies/") + " " + q.Name + " " + o.GetAPIVersion() + "/" + o.GetKind() + "/" + ns + "/" + o.GetName()
	if want, ok := p.messages[key]; ok && r.Matched && want != strings.Join(strings.Fields(r.Message), "") {
		p.Errorf("%s: %s on %s: %q, want %q", p.file, q, o.GetName(), r.Message, want)
	}
}

// same holds a patched object against the one of its name in a file.
func (p *published) same(file string, got map[string]any, o *render.Object) bool {
	if got == nil {
		got = o.Object
	}
	for _, want := range p.objects([]string{file}) {
		if want.GetName() != o.GetName() || want.GetKind() != o.GetKind() {
			continue
		}
		if d := cmp.Diff(tidy(want.Object), tidy(got)); d != "" {
			p.Errorf("%s: %s: %s", p.file, o.GetName(), d)
			return false
		}
		return true
	}
	return true
}

// made holds generated objects against those of a file, which may name some.
func (p *published) made(file string, got []map[string]any) bool {
	for _, want := range p.objects([]string{file}) {
		is := func(m map[string]any) bool { return cmp.Equal(tidy(want.Object), tidy(m)) }
		if !slices.ContainsFunc(got, is) {
			p.Errorf("%s: not generated: %s among %d", p.file, want.GetName(), len(got))
			return false
		}
	}
	return true
}

// tidy drops what is empty, and the default namespace, as Kyverno does before
// it compares.
func tidy(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	if m, ok := tree.(map[string]any); ok {
		if metadata, ok := m["metadata"].(map[string]any); ok && metadata["namespace"] == "default" {
			delete(metadata, "namespace")
		}
	}
	return tidied(tree)
}

func tidied(v any) any {
	switch t := v.(type) {
	case map[string]any:
		m := maps.Clone(t)
		for k, child := range t {
			if m[k] = tidied(child); m[k] == nil {
				delete(m, k)
			}
		}
		if len(m) == 0 {
			return nil
		}
		return m
	case []any:
		if len(t) == 0 {
			return nil
		}
		for i := range t {
			t[i] = tidied(t[i])
		}
	}
	return v
}

// kindsOf are the kinds that there are with those of definitions among the
// objects.
func kindsOf(t testing.TB, objects ...*render.Object) policy.Kinds {
	t.Helper()
	kinds, err := schema.New(objects, schema.Options{})
	if kinds == nil {
		t.Fatal(err)
	}
	return asGiven{kinds}
}

// asGiven holds objects to be as they are written.
type asGiven struct{ *schema.Kinds }

// Admit implements policy.Kinds.
func (asGiven) Admit(o *render.Object, namespace string) (map[string]any, error) {
	return (&unstructured.Unstructured{Object: asWritten(o, namespace)}).DeepCopy().Object, nil
}

// requestOf is the request that a chain would make.
func requestOf(kinds policy.Kinds, o *render.Object, op policy.Operation) *policy.Request {
	req := &policy.Request{Operation: op, Object: o, Kind: o.GroupVersionKind(), Name: o.GetName()}
	if op == "" {
		req.Operation = policy.Create
	}
	req.Resource = kinds.Resource(req.Kind)
	if req.Resource.Namespaced {
		if req.Namespace = o.GetNamespace(); req.Namespace == "" {
			req.Namespace = "default"
		}
	}
	tree, _ := kinds.Admit(o, req.Namespace)
	switch req.Operation {
	case policy.Delete:
		req.Object, req.OldObject, req.OldAdmitted = nil, o, tree
	case policy.Update:
		req.OldObject, req.OldAdmitted, req.Admitted = o, tree, tree
	default:
		req.Admitted = tree
	}
	return req
}
