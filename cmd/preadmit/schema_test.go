package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

const schemaDir = "../../.github/schema"

type jsonSchema = map[string]any

// TestSchemas makes the JSON Schemas of the files that people and programs
// write and read, of the Go types and flags, and holds those in .github/schema
// against them. UPDATE_GOLDEN=1 rewrites them.
func TestSchemas(t *testing.T) {
	types := newTypeSchemas(t, "../../report", "../../policy", "../../render", "../../render/store", "../../policy/policytest")
	for name, schema := range map[string]jsonSchema{
		"report":       types.root(reflect.TypeFor[report.Report](), "A JSON report of preadmit (-o json)"),
		"policies":     types.root(reflect.TypeFor[report.Policies](), "A JSON report of preadmit policies"),
		"mutation":     types.root(reflect.TypeFor[report.Mutation](), "A JSON report of preadmit test --mutate"),
		"test":         types.root(reflect.TypeFor[policytest.Report](), "A JSON report of preadmit test"),
		"suppressions": suppressionsSchema(types),
		"lock":         lockSchema(types),
		"config":       configSchema(t),
	} {
		schema["$id"] = evaluate.SchemaURL(name)
		schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		rendertest.OK(t, e.Encode(schema))
		file := filepath.Join(schemaDir, name+".json")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			put(t, file, b.String())
		}
		data, _ := os.ReadFile(file)
		if diff := cmp.Diff(b.String(), string(data)); diff != "" {
			t.Errorf("%s: -want +got (UPDATE_GOLDEN=1 go test ./cmd/preadmit -run TestSchemas rewrites it):\n%s", file, diff)
		}
	}
}

// TestSchemasAccept holds real files, and wrong ones, against the schemas.
func TestSchemasAccept(t *testing.T) {
	var stdout bytes.Buffer
	stdout.WriteString(printed(t, "../../testdata/repos/shop", []string{"check", "apps", "charts", "-p", "policies", "--with", "infra", "-o", "json"}))
	suppressions := policy.WriteSuppressions([]policy.Suppression{{Rule: "a/b", Object: "/Pod/x/y", Reason: "r", Expires: "2027-01-31"}})
	for _, test := range []struct{ schema, file, wrong string }{
		{"report", stdout.String(), ""},
		{"report", strings.Replace(stdout.String(), `"outcome":"pass"`, `"outcome":"fine"`, 1), "outcome"},
		{"report", `{"schema": "preadmit.report/v1"}`, "missing"},
		{"suppressions", evaluate.SchemaLine("suppressions") + string(suppressions), ""},
		{"suppressions", strings.Replace(string(suppressions), "reason", "why", 1), "why"},
		{"suppressions", strings.Replace(string(suppressions), "2027-01-31", "soon", 1), "pattern"},
		{"config", "policy: [policies]\npack: pod-security-restricted\nkube-version: \"1.33\"\nfail-on: warn\ntimeout: 5m\ncombine: true\n", ""},
		{"config", "clusters:\n- {name: one, kube-version: \"1.34\", entry: [clusters/one]}\ndeployments:\n- {path: charts/web, set: {a.b: 1}}\n", ""},
		{"config", "clusters:\n- {name: one, servr: x}\n", "servr"},
		{"config", "fetch: {hosts: [ghcr.io], verify: [{url: oci://ghcr.io/example, key: cosign.pub}]}\n", ""},
		{"lock", readFileText(t, "../../render/store/testdata", "lock.yaml"), ""},
		{"lock", strings.Replace(readFileText(t, "../../render/store/testdata", "lock.yaml"), "sha256:", "md5:", 1), "digest"},
		{"config", "polices: x\n", "polices"},
		{"config", "fail-on: always\n", "fail-on"},
		{"config", "jobs: many\n", "jobs"},
	} {
		err := validateBySchema(t, test.schema, test.file)
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %.200q: want an error with %q: %v", test.schema, test.file, test.wrong, err)
		}
	}
}

func validateBySchema(t *testing.T, name, text string) error {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(schemaDir, name+".json"))
	rendertest.OK(t, err)
	var doc yaml.Node
	rendertest.OK(t, yaml.Unmarshal([]byte(text), &doc))
	datesAsText(&doc)
	var v any
	rendertest.OK(t, doc.Decode(&v))
	plain, err := json.Marshal(v)
	rendertest.OK(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	rendertest.OK(t, err)
	return schema.Validate(instance)
}

// datesAsText makes dates strings, as YAML 1.2 and editors have them.
func datesAsText(n *yaml.Node) {
	if n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		datesAsText(c)
	}
}

// suppressionsSchema is that of the file, in which an entry has no origin or line and
// an unknown key is an error.
func suppressionsSchema(types *typeSchemas) jsonSchema {
	entry := types.of(reflect.TypeFor[policy.Suppression]())
	properties := entry["properties"].(jsonSchema)
	delete(properties, "origin")
	delete(properties, "line")
	properties["expires"].(jsonSchema)["pattern"] = `^\d{4}-\d{2}-\d{2}$`
	entry["additionalProperties"] = false
	return jsonSchema{
		"title": "The results that a repository accepts (.preadmit/suppressions.yaml)", "type": "object", "additionalProperties": false,
		"properties": jsonSchema{"suppressions": jsonSchema{"type": []string{"array", "null"}, "items": entry}},
	}
}

func lockSchema(types *typeSchemas) jsonSchema {
	entry := types.of(reflect.TypeFor[store.Entry]())
	entry["additionalProperties"] = false
	entry["properties"].(jsonSchema)["digest"].(jsonSchema)["pattern"] = `^sha256:[0-9a-f]{64}$`
	return jsonSchema{
		"title": "What preadmit fetch brought (.preadmit/lock.yaml)", "type": "object", "additionalProperties": false,
		"required": []string{"version", "entries"},
		"properties": jsonSchema{
			"version": jsonSchema{"const": 1}, "entries": jsonSchema{"type": "array", "items": entry},
		},
	}
}

// configSchema is made of the flags that a configuration file may set, and of
// what else it holds.
func configSchema(t *testing.T) jsonSchema {
	t.Helper()
	types := newTypeSchemas(t, "config")
	types.tag = "yaml"
	var code int
	root := newRootCommand(&code)
	properties := jsonSchema{}
	for _, name := range configurable {
		flag := flagOf(root, name)
		if flag == nil {
			t.Fatalf("no command has the flag %s", name)
		}
		_, usage := pflag.UnquoteUsage(flag)
		one := scalar()
		switch flag.Value.Type() {
		case "bool":
			one = jsonSchema{"type": "boolean"}
		case "int":
			one = jsonSchema{"type": "integer"}
		case "duration":
			one = jsonSchema{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`}
		case "ACTION":
			one = jsonSchema{"enum": []string{"deny", "warn", "audit", "never"}}
		}
		schema := one
		if strings.Contains(flag.Value.Type(), "Array") || strings.Contains(flag.Value.Type(), "Slice") {
			schema = jsonSchema{"anyOf": []any{one, jsonSchema{"type": "array", "items": one}}}
		}
		schema["description"] = usage
		properties[name] = schema
	}
	schema := types.root(reflect.TypeFor[config.File](), "Defaults for the flags of preadmit, and what is deployed (.preadmit/config.yaml)")
	maps.Copy(schema["properties"].(jsonSchema), properties)
	return schema
}

// scalar is what a person may write for a text.
func scalar() jsonSchema { return jsonSchema{"type": []string{"string", "number", "boolean"}} }

func flagOf(root *cobra.Command, name string) *pflag.Flag {
	for _, c := range root.Commands() {
		if f := c.Flags().Lookup(name); f != nil {
			return f
		}
	}
	return nil
}

// typeSchemas makes schemas of Go types, whose comments and constants it reads
// in their source.
type typeSchemas struct {
	comments map[string]string   // by package.Type.Field
	values   map[string][]string // constants by package.Type
	tag      string              // that names fields: "json", or "yaml" where a person writes the file
}

func newTypeSchemas(t *testing.T, dirs ...string) *typeSchemas {
	t.Helper()
	s := &typeSchemas{map[string]string{}, map[string][]string{}, "json"}
	for _, dir := range dirs {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no Go in %s", dir)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			rendertest.OK(t, err)
			for _, decl := range f.Decls {
				if g, ok := decl.(*ast.GenDecl); ok {
					s.read(f.Name.Name, g)
				}
			}
		}
	}
	return s
}

func (s *typeSchemas) read(pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					for _, n := range field.Names {
						s.comments[pkg+"."+spec.Name.Name+"."+n.Name] = strings.TrimSpace(strings.ReplaceAll(field.Comment.Text(), "\n", " "))
					}
				}
			}
		case *ast.ValueSpec:
			id, ok := spec.Type.(*ast.Ident)
			for i, v := range spec.Values {
				if lit, isLit := v.(*ast.BasicLit); ok && isLit && lit.Kind == token.STRING && i < len(spec.Names) {
					value, _ := strconv.Unquote(lit.Value)
					s.values[pkg+"."+id.Name] = append(s.values[pkg+"."+id.Name], value)
				}
			}
		}
	}
}

func (s *typeSchemas) root(t reflect.Type, title string) jsonSchema {
	schema := s.of(t)
	schema["title"] = title
	return schema
}

func (s *typeSchemas) of(t reflect.Type) jsonSchema {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonSchema{"anyOf": []any{s.of(t.Elem()), jsonSchema{"type": "null"}}}
	case reflect.Bool:
		return jsonSchema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return jsonSchema{"type": "integer"}
	case reflect.Float64:
		return jsonSchema{"type": "number"}
	case reflect.String:
		return s.text(t)
	case reflect.Slice:
		return jsonSchema{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return jsonSchema{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Interface:
		return jsonSchema{}
	case reflect.Struct:
		schema := jsonSchema{"type": "object", "properties": jsonSchema{}}
		s.fields(t, schema)
		if s.tag == "yaml" {
			schema["additionalProperties"] = false
			delete(schema, "required")
		}
		return schema
	}
	panic(fmt.Sprintf("no schema for %s", t))
}

// text is a string, or one of the constants of its type. Only an outcome and an
// operation are never empty.
func (s *typeSchemas) text(t reflect.Type) jsonSchema {
	name := t.String()
	values := slices.Clone(s.values[name])
	if s.tag == "yaml" {
		return scalar()
	}
	if len(values) == 0 {
		return jsonSchema{"type": "string"}
	}
	if name != "policy.Outcome" && name != "policy.Operation" && !slices.Contains(values, "") {
		values = append(values, "")
	}
	return jsonSchema{"enum": values}
}

// fields adds a struct's fields, and those of its embedded structs.
func (s *typeSchemas) fields(t reflect.Type, schema jsonSchema) {
	for f := range fieldsOf(t) {
		name, options, _ := strings.Cut(f.Tag.Get(s.tag), ",")
		if f.Anonymous && name == "" {
			s.fields(f.Type, schema)
			continue
		}
		if name == "-" || name == "" {
			continue
		}
		property := s.of(f.Type)
		if comment := s.comments[t.String()+"."+f.Name]; comment != "" {
			property["description"] = comment
		}
		schema["properties"].(jsonSchema)[name] = property
		if !strings.Contains(options, "omit") {
			required, _ := schema["required"].([]string)
			schema["required"] = append(required, name)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}
