package main

import (
	"bytes"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/render"
)

// breaks are what YAML 1.1 ends lines with.
var breaks = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

var placed = regexp.MustCompile(`^c\.yaml(?::([0-9]+))?[: ]`)

// FuzzConfig holds of a configuration file that errors stand at a line which it
// has, that what is accepted has known keys alone, once each, and that entries
// which are written and read again are the same.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"fail-on: warn\npack: [best-practices]\n", "gitops: only\nclusters:\n- {name: a, entry: [x, y], labels: {a: b}, substitute: {a/b: {C: d}}}\n",
		"deployments:\n- path: 'x/*'\n  values-each: ci/*.yaml\n  set: {a.b: 1, c: [true, ~]}\n  cluster: a\nclusters: [{name: a}]\n",
		"sources: [{url: https://a/b, path: ../c}, {object: A/b/c, path: .}]\n", "generators: [{applicationset: a/b, params: [{a: {b: 1}}]}]\n",
		"fetch: {hosts: [a, b]}\nrepository: [<A>]\n", "a: b\n", "- x\n", "", "# x\n", "exclude: &a ['**']\npolicy: *a\n", "x: [\n", "timeout: 1ns\n---\njobs: 1\n",
		"<<: {fail-on: never}\n", "fail-on: deny\nfail-on: never\n", "clusters: [{name: a, name: b}]\n", "deployments: [{path: /etc}]\n", "\xff\xfef\x00", "\r\r x\n",
	} {
		f.Add([]byte(text))
	}
	flags := newCheckCommand(new(int)).Flags()
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := 1 + len(breaks.FindAllIndex(data, -1))
		node, err := config.Parse("c.yaml", data)
		if err != nil {
			holdPlace(t, err, lines)
			return
		}
		if node == nil {
			return
		}
		s := new(config.File)
		if err := config.InFile("c.yaml", s.Decode(node)); err != nil {
			holdPlace(t, err, lines)
			return
		}
		holdSame(t, s)
		if err := configureFrom(flags, t.TempDir(), "c.yaml", node); err != nil {
			if !bytes.Contains([]byte(err.Error()), []byte("only the configuration at --base")) {
				holdPlace(t, err, lines)
			}
			return
		}
		seen := map[string]bool{}
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if seen[key] || !slices.Contains(configurable, key) && !slices.Contains(config.Keys(), key) {
				t.Errorf("%q: key %q is accepted", data, key)
			}
			seen[key] = true
		}
	})
}

func holdPlace(t *testing.T, err error, lines int) {
	t.Helper()
	line := 0
	var at *render.Error
	if errors.As(err, &at) {
		line = at.Span.Line
	} else if m := placed.FindStringSubmatch(err.Error()); m == nil {
		t.Errorf("no place: %v", err)
	} else {
		line, _ = strconv.Atoi(m[1])
	}
	if line > lines {
		t.Errorf("line %d of %d: %v", line, lines, err)
	}
}

// holdSame writes a configuration and reads them again.
func holdSame(t *testing.T, s *config.File) {
	t.Helper()
	text, err := yaml.Marshal(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	node, err := config.Parse("c.yaml", text)
	again := new(config.File)
	if err == nil {
		err = again.Decode(node)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	second, err := yaml.Marshal(again)
	if err != nil || !reflect.DeepEqual(text, second) {
		t.Errorf("read again it is another: %v\n%s\n%s", err, text, second)
	}
}
