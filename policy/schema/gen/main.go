// Command gen writes kinds.tsv and openapi.json.gz: the kinds that each
// Kubernetes version serves, and their schemas. Its sources are the OpenAPI
// documents in the k8s.io/kubernetes modules, taken as data, and for the
// newest version, whose module has none, the types in k8s.io/api.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// newest is the version of the k8s.io/api that this module requires.
const newest = 37

// A kind is one row of kinds.tsv.
type kind struct {
	group, version, kind, resource string
	namespaced                     bool
}

// A tables is what gen gathers: who serves what, by bits that count from 1.29.
type tables struct {
	served       map[kind]uint32
	subresources map[kind]map[string]bool
	schemas      map[string][]*variant
}

// A variant is the schema of a component in some versions.
type variant struct {
	In     uint32          `json:"in"`
	Schema json.RawMessage `json:"schema"`
}

func main() {
	log.SetFlags(0)
	t := &tables{map[kind]uint32{}, map[kind]map[string]bool{}, map[string][]*variant{}}
	for i, release := range releases {
		dir, err := dirOf(release)
		if err != nil {
			log.Fatal(err)
		}
		if err := t.readRelease(filepath.Join(dir, "api/openapi-spec/v3"), i); err != nil {
			log.Fatal(err)
		}
	}
	if err := t.addNewest(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("kinds.tsv", t.kinds(), 0o644); err != nil {
		log.Fatal(err)
	}
	bundle, err := t.bundle()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("openapi.json.gz", bundle, 0o644); err != nil {
		log.Fatal(err)
	}
}

func (t *tables) readRelease(dir string, bit int) error {
	files, err := filepath.Glob(filepath.Join(dir, "*_openapi.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s: no OpenAPI documents: %w", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := t.readDocument(data, bit); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// A document is the part of an OpenAPI document that matters here.
type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]any }
}

func (t *tables) readDocument(data []byte, bit int) error {
	var doc document
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return err
	}
	collections := map[string]kind{}
	for path, ops := range doc.Paths {
		if k, ok := collection(path, ops); ok {
			collections[path] = k
			t.served[k] |= 1 << bit
		}
	}
	for path := range doc.Paths {
		if parent, sub, ok := strings.Cut(path, "/{name}/"); ok && !strings.Contains(sub, "{") {
			t.addSubresource(collections[parent], sub)
		}
	}
	for name, schema := range doc.Components.Schemas {
		strip(schema)
		text, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		t.addSchema(name, text, bit)
	}
	return nil
}

func (t *tables) addSubresource(k kind, sub string) {
	if k.kind == "" {
		return
	}
	if t.subresources[k] == nil {
		t.subresources[k] = map[string]bool{}
	}
	t.subresources[k][sub] = true
}

// collection tells the kind whose objects are listed or created at a path
// such as /apis/apps/v1/namespaces/{namespace}/deployments.
func collection(path string, ops map[string]json.RawMessage) (kind, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	parts = parts[min(len(parts), 2):] // api/v1 or apis/GROUP
	if strings.HasPrefix(path, "/apis/") {
		parts = parts[min(len(parts), 1):]
	}
	namespaced := len(parts) == 3 && parts[0] == "namespaces" && parts[1] == "{namespace}"
	if namespaced {
		parts = parts[2:]
	}
	if len(parts) != 1 {
		return kind{}, false
	}
	gvk := operationKind(ops["post"])
	if gvk.Kind == "" {
		return kind{}, false
	}
	return kind{gvk.Group, gvk.Version, gvk.Kind, parts[0], namespaced}, true
}

type gvk struct{ Group, Version, Kind string }

func operationKind(op json.RawMessage) gvk {
	var o struct {
		GVK gvk `json:"x-kubernetes-group-version-kind"`
	}
	if op != nil && json.Unmarshal(op, &o) != nil {
		return gvk{}
	}
	return o.GVK
}

// strip removes what no program reads, and gives quantities a type: their
// oneOf without one makes a schema reader drop the field.
func strip(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, text := s["description"].(string); text {
			delete(s, "description")
		}
		if _, ok := s["oneOf"]; ok && s["type"] == nil {
			s["x-kubernetes-int-or-string"] = true
		}
		for _, v := range s {
			strip(v)
		}
	case []any:
		for _, v := range s {
			strip(v)
		}
	}
}

func (t *tables) addSchema(name string, text []byte, bit int) {
	for _, v := range t.schemas[name] {
		if bytes.Equal(v.Schema, text) {
			v.In |= 1 << bit
			return
		}
	}
	t.schemas[name] = append(t.schemas[name], &variant{1 << bit, text})
}

func (t *tables) kinds() []byte {
	rows := slices.SortedFunc(maps.Keys(t.served), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.version, b.version), cmp.Compare(a.kind, b.kind))
	})
	var b bytes.Buffer
	b.WriteString("# Written by gen. group, version, kind, resource, namespaced, served by Kubernetes 1.N, subresources\n")
	for _, k := range rows {
		subs := slices.Sorted(maps.Keys(t.subresources[k]))
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%t\t%s\t%s\n",
			k.group, k.version, k.kind, k.resource, k.namespaced, ranges(t.served[k]), strings.Join(subs, ","))
	}
	return b.Bytes()
}

// ranges writes bits as minor versions: "29-31,33".
func ranges(bits uint32) string {
	var parts []string
	for i := 0; i < 32; i++ {
		if bits>>i&1 == 0 {
			continue
		}
		first := i
		for bits>>(i+1)&1 == 1 {
			i++
		}
		part := fmt.Sprint(29 + first)
		if i > first {
			part += fmt.Sprint("-", 29+i)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

func (t *tables) bundle() ([]byte, error) {
	text, err := json.Marshal(t.schemas)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}
