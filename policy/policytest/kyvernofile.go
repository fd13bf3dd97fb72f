package policytest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// remote matches paths that Kyverno would fetch.
var remote = regexp.MustCompile(`^([a-z+]+://|git@|github\.com/)`)

// file returns the name in the tree of a path in the suite, or "".
func (k *kyvernoTest) file(item node) string {
	ref := item.text()
	switch {
	case remote.MatchString(ref):
		item.fail("%s is not read: nothing is fetched", ref)
		return ""
	case ref == "" || path.IsAbs(ref):
		item.fail("%q is not a path relative to the suite", ref)
		return ""
	}
	return path.Join(path.Dir(k.name), ref)
}

// read returns the content of a file that the suite names, nil with an error.
func (k *kyvernoTest) read(item node) (name string, data []byte) {
	if name = k.file(item); name == "" {
		return "", nil
	}
	data, err := render.ReadFile(k.opts.FS, name)
	if err != nil {
		item.fail("%s: %w", item.text(), bare(err))
		return "", nil
	}
	return name, data
}

// readObjects reads the files and directories that a list names.
func (k *kyvernoTest) readObjects(list node) []*render.Object {
	var all []*render.Object
	for _, item := range list.items() {
		name := k.file(item)
		if name == "" {
			continue
		}
		files := []string{name}
		if info, err := fs.Stat(k.opts.FS, name); err == nil && info.IsDir() {
			files = k.below(item, name)
		}
		for _, f := range files {
			all = append(all, k.readFile(item, f, len(files) == 1)...)
		}
	}
	return all
}

// below returns the YAML and JSON files of a directory, except tests.
func (k *kyvernoTest) below(item node, dir string) []string {
	var files []string
	for name, err := range walk(k.opts.FS, dir) {
		switch {
		case err != nil:
			k.fail(err)
		case !isKyverno(path.Base(name), nil):
			files = append(files, name)
		}
	}
	slices.Sort(files)
	if len(files) == 0 {
		item.fail("%s contains no YAML or JSON files", item.text())
	}
	return files
}

func (k *kyvernoTest) readFile(item node, name string, mustHold bool) []*render.Object {
	data, err := render.ReadFile(k.opts.FS, name)
	if err != nil {
		item.fail("%s: %w", item.text(), bare(err))
		return nil
	}
	objects, err := k.opts.files.parse(name, data)
	k.warn(err)
	if len(objects) == 0 && mustHold && err == nil {
		item.fail("%s contains no Kubernetes object", item.text())
	}
	return objects
}

// normalise changes objects as Kyverno's command line does: an object without a
// namespace is in default, and some nulls become {}.
func (k *kyvernoTest) normalise(objects []*render.Object) []*render.Object {
	all := make([]*render.Object, len(objects))
	for i, o := range objects {
		c := *o
		c.Unstructured = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(o.Object)}
		if c.GetNamespace() == "" && k.setup.Kinds.Resource(c.GroupVersionKind()).Namespaced {
			c.SetNamespace("default")
		}
		withoutNulls(c.Object)
		all[i] = &c
	}
	return all
}

// nullable lists the mappings that may be written as null.
var nullable = []string{"annotations", "labels", "matchLabels", "nodeSelector", "data", "stringData"}

func withoutNulls(v any) {
	for _, v := range render.Values(v) {
		m, _ := v.(map[string]any)
		for _, k := range nullable {
			if x, ok := m[k]; ok && x == nil {
				m[k] = map[string]any{}
			}
		}
	}
}

// unique removes duplicates and adds a note about each.
func (k *kyvernoTest) unique(objects []*render.Object) []*render.Object {
	seen := make(map[string]*render.Object)
	var all []*render.Object
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		key := strings.Join([]string{gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName(), o.GetGenerateName()}, "\x00")
		if was := seen[key]; was != nil {
			k.note("%s: %s %s is at %s already, and is left out", k.shown(o.Span("")), gvk.Kind, name(o), k.shown(was.Span("")))
			continue
		}
		seen[key] = o
		all = append(all, o)
	}
	return all
}

// document reads a file of one document and checks its kind.
func (k *kyvernoTest) document(item node, kinds ...string) node {
	if item.value == nil {
		return node{}
	}
	name, data := k.read(item)
	if name == "" {
		return node{}
	}
	docs, err := k.opts.files.documents(name, data, render.YAML11)
	k.warn(err)
	if len(docs) != 1 {
		if err == nil {
			item.fail("%s contains %d documents, not one", item.text(), len(docs))
		}
		return node{}
	}
	root := node{s: k.suite, doc: &docs[0], value: docs[0].Value}
	fields, ok := root.value.(map[string]any)
	if kind, _ := fields["kind"].(string); !ok || !slices.Contains(kinds, kind) {
		root.fail("%s must be a %s: kind says %.63q", item.text(), strings.Join(kinds, " or "), kind)
		return node{}
	}
	if _, ok := fields["apiVersion"].(string); !ok {
		root.fail("apiVersion of %s is missing", item.text())
	}
	return root
}

// spec returns the fields of a document, which may be inside spec.
func (n node) spec(known ...string) map[string]node {
	f := n.folded(append(slices.Clone(known), "apiVersion", "kind", "metadata", "spec", "status")...)
	if f["spec"].value != nil {
		return f["spec"].folded(known...)
	}
	return f
}

func (k *kyvernoTest) readContext(item node) {
	root := k.document(item, "Context")
	if root.doc == nil {
		return
	}
	f := root.spec("resources", "images", "globalReference")
	k.setup.Context = append(k.setup.Context, f["resources"].objects()...)
	for _, i := range f["images"].items() {
		if m, ok := i.value.(map[string]any); ok {
			k.setup.Images = append(k.setup.Images, m)
		} else {
			i.fail("%s must be a mapping", i.name())
		}
	}
}

// objects returns the Kubernetes objects in a list.
func (n node) objects() []*render.Object {
	var all []*render.Object
	for _, item := range n.items() {
		m, ok := item.value.(map[string]any)
		if !ok {
			item.fail("%s must be an object", item.name())
			continue
		}
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: m}, Provenance: item.doc.Positions.Sub(item.pointer)}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			item.fail("%s has no apiVersion or no kind", item.name())
			continue
		}
		all = append(all, o)
	}
	return all
}

func (k *kyvernoTest) readUser(item node) {
	root := k.document(item, "UserInfo")
	if root.doc == nil {
		return
	}
	f := root.spec("roles", "clusterRoles", "userInfo")
	u := f["userInfo"].folded("username", "uid", "groups", "extra")
	k.setup.User = &policy.UserInfo{Username: u["username"].text(), UID: u["uid"].text(), Groups: u["groups"].texts(), Extra: u["extra"].extra()}
	k.setup.Roles, k.setup.ClusterRoles = f["roles"].texts(), f["clusterRoles"].texts()
}

func (k *kyvernoTest) readClusterResources(list node) {
	k.setup.HasCluster = len(list.items()) > 0
	for _, item := range list.items() {
		root := k.document(item, "ClusterResource")
		if root.doc == nil {
			continue
		}
		f := root.spec("crds", "resources")
		k.setup.Cluster = append(k.setup.Cluster, k.readObjects(f["crds"])...)
		k.setup.Cluster = append(k.setup.Cluster, f["resources"].objects()...)
	}
}

// readPayloads reads files of JSON, in a list or one alone, for policies of
// evaluation mode JSON.
func (k *kyvernoTest) readPayloads(list node) {
	items := []node{list}
	if _, one := list.value.(string); !one {
		items = list.items()
	}
	for _, item := range items {
		if item.value == nil {
			continue
		}
		name, data := k.read(item)
		if name == "" {
			continue
		}
		docs, err := k.opts.files.documents(name, data, render.YAML11)
		k.warn(err)
		for i := range docs {
			m, ok := docs[i].Value.(map[string]any)
			if !ok {
				item.fail("%s: a payload must be a mapping", item.text())
				continue
			}
			o := &render.Object{Unstructured: &unstructured.Unstructured{Object: m}, Provenance: docs[i].Positions}
			k.payloads = append(k.payloads, payload{file: item.text(), object: o})
		}
	}
}

func (k *kyvernoTest) readCalls(list node) {
	for _, item := range list.items() {
		f := item.folded("url", "urlPath", "method", "response")
		r := f["response"].folded("statusCode", "body", "headers")
		c := KyvernoCall{Method: f["method"].text(), URL: f["url"].text(), Body: r["body"].value, Status: int(r["statusCode"].number())}
		if f["url"].value == nil {
			c.URL = f["urlPath"].text()
		}
		if c.URL == "" {
			item.fail("%s names neither url nor urlPath", item.name())
		}
		k.setup.APICalls = append(k.setup.APICalls, c)
	}
}

// readGlobal reads GlobalContextEntries: their data, given literally or as
// objects, optionally with a path applied, and their projections by name.
func (k *kyvernoTest) readGlobal(list node) {
	for _, item := range list.items() {
		f := item.folded("name", "data", "resources", "resourceFiles", "fieldPath", "projections")
		name := f["name"].text()
		if name == "" {
			item.fail("%s has no name", item.name())
			continue
		}
		data := k.globalData(f)
		if p := f["fieldPath"].text(); p != "" {
			data = k.at(f["fieldPath"], p, data)
		}
		if k.setup.Global == nil {
			k.setup.Global = map[string]any{}
		}
		projected, _ := data.(map[string]any)
		for _, p := range f["projections"].items() {
			g := p.folded("name", "path", "jmesPath")
			value := k.at(p, g["path"].text()+g["jmesPath"].text(), data)
			k.setup.Global[name+"."+g["name"].text()] = value
			if projected != nil {
				projected = withKey(projected, g["name"].text(), value)
			}
		}
		if projected != nil {
			data = projected
		}
		k.setup.Global[name] = data
	}
}

// withKey returns a copy of a mapping with one more key.
func withKey(m map[string]any, key string, value any) map[string]any {
	c := make(map[string]any, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	c[key] = value
	return c
}

func (k *kyvernoTest) globalData(f map[string]node) any {
	if f["data"].value != nil {
		return f["data"].value
	}
	var items []any
	for _, o := range slices.Concat(f["resources"].objects(), k.readObjects(f["resourceFiles"])) {
		items = append(items, o.Object)
	}
	return items
}

// at returns the value that a JMESPath finds in a value.
func (k *kyvernoTest) at(n node, expression string, value any) any {
	found, err := search(expression, value)
	if err != nil {
		n.fail("%s: %w", n.name(), err)
	}
	return found
}

// number returns a number, 0 where there is none.
func (n node) number() int64 {
	i, ok := n.value.(int64)
	if n.value != nil && !ok {
		n.fail("%s must be a whole number", n.name())
	}
	return i
}

// errNoDocument is the error if no expected object has the identity of a result.
var errNoDocument = errors.New("no such document")

// expected reads the documents of patchedResources or generatedResource.
func (k *kyvernoTest) expected(item node) []*render.Object {
	if item.value == nil {
		return nil
	}
	name, data := k.read(item)
	if name == "" {
		return nil
	}
	objects, err := k.opts.files.parse(name, data)
	k.warn(err)
	if len(objects) == 0 && err == nil {
		item.fail("%s contains no Kubernetes object", item.text())
	}
	return k.normalise(objects)
}

// pick returns the document with an identity, or the only one.
func pick(objects []*render.Object, o map[string]any) (*render.Object, error) {
	if len(objects) == 1 {
		return objects[0], nil
	}
	u := &unstructured.Unstructured{Object: o}
	for _, x := range objects {
		if x.GetAPIVersion() == u.GetAPIVersion() && x.GetKind() == u.GetKind() && x.GetName() == u.GetName() && x.GetNamespace() == u.GetNamespace() {
			return x, nil
		}
	}
	return nil, fmt.Errorf("%w for %s %s/%s", errNoDocument, u.GetKind(), u.GetNamespace(), u.GetName())
}
