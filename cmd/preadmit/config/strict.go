package config

import (
	"cmp"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// decodeStrictly decodes a node. Keys that the type does not have and values of another type are
// errors. at is the field's name in errors.
func decodeStrictly(n *yaml.Node, to reflect.Value, at string) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch to.Kind() {
	case reflect.Struct:
		return decodeStruct(n, to, at)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
				return Errorf(n.Line, "%s: want a list, such as [%s]", at, n.Value)
			}
			return Errorf(n.Line, "%s: want a list", at)
		}
		for _, item := range n.Content {
			v := reflect.New(to.Type().Elem()).Elem()
			if err := decodeStrictly(item, v, at); err != nil {
				return err
			}
			to.Set(reflect.Append(to, v))
		}
		return nil
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			return Errorf(n.Line, "%s: want a mapping", at)
		}
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return Errorf(n.Line, "%s: want a text", at)
		}
		to.SetString(n.Value)
		return nil
	}
	if err := n.Decode(to.Addr().Interface()); err != nil {
		return Errorf(n.Line, "%s: %s", at, strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	return nil
}

func decodeStruct(n *yaml.Node, to reflect.Value, at string) error {
	if n.Kind != yaml.MappingNode {
		return Errorf(n.Line, "%s: want a mapping", at)
	}
	if line := to.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field, ok := to.Type().FieldByNameFunc(func(name string) bool {
			f, _ := to.Type().FieldByName(name)
			return f.Tag.Get("yaml") == key.Value
		})
		name := strings.TrimPrefix(at+"."+key.Value, ".")
		switch {
		case !ok || key.Value == "" || key.Value == "-":
			return Errorf(key.Line, "unknown key %q; %s", name, render.Instead(key.Value, keysOf(to.Type())))
		case seen[key.Value]:
			return Errorf(key.Line, "%s is set twice", name)
		}
		seen[key.Value] = true
		if err := decodeStrictly(n.Content[i+1], to.FieldByIndex(field.Index), name); err != nil {
			return err
		}
		if at := to.FieldByName(field.Name + "At"); at.IsValid() {
			at.Set(reflect.ValueOf(valueSpans(n.Content[i+1])))
		}
	}
	return nil
}

// valueSpans returns the positions of the values of a mapping.
func valueSpans(n *yaml.Node) map[string]render.Span {
	spans := make(map[string]render.Span)
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := n.Content[i+1]
		spans[n.Content[i].Value] = render.Span{Line: v.Line, Column: v.Column, EndLine: v.Line, EndColumn: v.Column + utf8.RuneCountInString(v.Value)}
	}
	return spans
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" && key != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// check returns an error if an entry is incomplete or inconsistent.
func (f *File) check() error {
	names := make(map[string]bool)
	for _, c := range f.Clusters {
		switch {
		case c.Name == "":
			return Errorf(c.Line, "clusters: name is missing")
		case strings.ContainsAny(c.Name, ":/"):
			return Errorf(c.Line, "clusters: name %q has a colon or slash in it", c.Name)
		case names[c.Name]:
			return Errorf(c.Line, "clusters: there are two with the name %q", c.Name)
		}
		names[c.Name] = true
		for _, p := range slices.Concat(c.Entry, c.With) {
			if err := inRepository(c.Line, p); err != nil {
				return err
			}
		}
	}
	for _, d := range f.Deployments {
		if d.Path == "" {
			return Errorf(d.Line, "deployments: path is missing")
		}
		if d.Cluster != "" && !names[d.Cluster] {
			return Errorf(d.Line, "deployments: no cluster %q is declared under clusters", d.Cluster)
		}
		for _, p := range append([]string{d.Path, path.Join(d.Path, d.ValuesEach)}, d.Values...) {
			if err := inRepository(d.Line, p); err != nil {
				return err
			}
		}
	}
	return f.checkSources()
}

func (f *File) checkSources() error {
	for _, x := range f.Sources {
		switch {
		case x.Path == "":
			return Errorf(x.Line, "sources: path is missing")
		case (x.URL == "") == (x.Object == ""):
			return Errorf(x.Line, "sources: want either url or object")
		case x.Object != "" && strings.Count(x.Object, "/") != 2:
			return Errorf(x.Line, "sources: object %q: want KIND/NAMESPACE/NAME", x.Object)
		}
	}
	for _, g := range f.Generators {
		if strings.Count(g.ApplicationSet, "/") != 1 {
			return Errorf(g.Line, "generators: applicationset %q: want NAMESPACE/NAME", g.ApplicationSet)
		}
	}
	for _, host := range f.Fetch.Hosts {
		if host == "" || strings.ContainsAny(host, "/ @") {
			return Errorf(f.Fetch.Line, "fetch: hosts: %q is no host name, such as charts.example.org", host)
		}
	}
	for _, catalogue := range f.Fetch.CRDs {
		if strings.HasPrefix(catalogue, "https://") || strings.HasPrefix(catalogue, "http://") {
			continue
		}
		if err := inRepository(f.Fetch.Line, catalogue); err != nil || catalogue == "" {
			return cmp.Or(err, Errorf(f.Fetch.Line, "fetch: crds: want URLs or directories"))
		}
	}
	for _, v := range f.Fetch.Verify {
		if v.URL == "" || v.Key == "" {
			return Errorf(v.Line, "fetch: verify: want url and key")
		}
		if err := inRepository(v.Line, v.Key); err != nil {
			return err
		}
	}
	return nil
}

func inRepository(line int, p string) error {
	if p != "" && !filepath.IsLocal(filepath.FromSlash(p)) && path.Clean(p) != "." {
		return Errorf(line, "%q leads out of the repository", p)
	}
	return nil
}
