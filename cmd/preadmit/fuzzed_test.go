package main

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// decoders are the functions of libraries that parse bytes. A package that calls one has
// a fuzz target, or is named in fuzzedBy. Most others read through render.Parse.
var decoders = []string{
	"encoding/json.Unmarshal", "encoding/json.NewDecoder", "encoding/xml.Unmarshal", "encoding/xml.NewDecoder", "encoding/pem.Decode", "encoding/binary.Read",
	"sigs.k8s.io/yaml.Unmarshal", "sigs.k8s.io/yaml.UnmarshalStrict", "sigs.k8s.io/yaml.YAMLToJSON", "go.yaml.in/yaml/v3.Unmarshal", "go.yaml.in/yaml/v3.NewDecoder",
	"k8s.io/apimachinery/pkg/util/json.Unmarshal", "archive/tar.NewReader", "compress/gzip.NewReader", "text/template/parse.Parse",
	"github.com/open-policy-agent/opa/v1/ast.ParseModuleWithOpts", "github.com/BurntSushi/toml.Decode", "github.com/BurntSushi/toml.Unmarshal",
}

// fuzzedBy are packages whose parsing a target of another package reaches.
var fuzzedBy = map[string]string{
	"cmd/preadmit/download":            "cmd/preadmit FuzzGraph", // whose JSON it reads
	"policy/gatekeeper":                "cmd/preadmit FuzzBeside",
	"policy/kyverno/internal/document": "cmd/preadmit FuzzBeside",
	"render/fetch":                     "render/internal/artifact FuzzFiles",
	"render/internal/gotemplate":       "render/argocd FuzzTemplate",
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// TestParsersAreFuzzed holds that every package that parses bytes of users has a fuzz
// target.
func TestParsersAreFuzzed(t *testing.T) {
	t.Parallel()
	parses, targets := map[string]string{}, map[string]bool{}
	for _, room := range rooms {
		err := fs.WalkDir(os.DirFS("../.."), room, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || isTool(file) {
				return err
			}
			dir := path.Dir(file)
			if strings.HasSuffix(file, "_test.go") {
				data, err := os.ReadFile(path.Join("../..", file))
				for _, m := range fuzzTarget.FindAllStringSubmatch(string(data), -1) {
					targets[dir], targets[dir+" "+m[1]] = true, true
				}
				return err
			}
			for name, place := range calls(t, file) {
				if slices.Contains(decoders, name) {
					parses[dir] = place + " calls " + name
				}
			}
			return nil
		})
		rendertest.OK(t, err)
	}
	for dir, place := range parses {
		if dir == "policy/change" {
			continue // it parses kustomize's table of references and its own, which are parts of the program
		}
		if by, ok := fuzzedBy[dir]; !targets[dir] && !ok {
			t.Errorf("%s: %s has no fuzz target", place, dir)
		} else if ok && !targets[by] {
			t.Errorf("%s: there is no fuzz target %s", dir, by)
		}
	}
	for dir := range fuzzedBy {
		if parses[dir] == "" || targets[dir] {
			t.Errorf("%s: remove it from fuzzedBy", dir)
		}
	}
}
