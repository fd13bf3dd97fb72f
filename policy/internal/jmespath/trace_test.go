package jmespath

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// Where the values of the pod in jmespath_test.go were taken from.
func TestTrace(t *testing.T) {
	t.Parallel()
	const c = "/spec/containers"
	for expression, want := range map[string]string{
		"metadata.name":               "/metadata/name",
		"@":                           "",
		`metadata.labels."a/b"`:       "/metadata/labels/a~1b",
		"spec.containers[-1].name":    c + "/2/name",
		"spec.containers[7].name":     c + "/7/name",
		"spec.replicas":               "/spec/replicas",
		"metadata.annotations.x":      "/metadata/annotations/x",
		"metadata.missing":            "/metadata/missing",
		"metadata.missing.deeper":     "/metadata/missing",
		"missing":                     "/missing",
		"'literal'":                   "-",
		"spec.x || 'default'":         "/spec/x",
		"spec.x.y || 'default'":       "/spec/x",
		"(spec.x || `{}`).y":          "/spec/x/y",
		"spec.replicas || 'default'":  "/spec/replicas",
		"spec.x || spec.replicas":     "/spec/replicas /spec/x",
		"spec.replicas && spec.empty": "/spec/empty /spec/replicas",
		"spec.empty && spec.replicas": "/spec/empty",
		"!(spec.hostNetwork)":         "/spec/hostNetwork",
		"!(spec.hostIPC)":             "/spec/hostIPC",
		"spec.replicas == `1`":        "/spec/replicas",
		"spec.replicas > spec.min":    "/spec/replicas /spec/min",
		"metadata | labels.app":       "/metadata/labels/app",
		"spec.x | y":                  "/spec/x/y",

		"spec.containers[].image":                        c + "/0/image " + c + "/2/image",
		"spec.containers[].image | [1]":                  c + "/2/image",
		"spec.containers[*].ports[].port":                c + "/0/ports/0/port " + c + "/0/ports/1/port",
		"spec.containers[].missing":                      c + "/0/missing " + c + "/1/missing " + c + "/2/missing",
		"spec.containers[?image == 'redis']":             c + "/2",
		"spec.containers[?image == 'redis'].name":        c + "/2/name",
		"spec.containers[?image == 'none']":              c,
		"spec.containers[?securityContext.privileged]":   c + "/1",
		"spec.containers[1:].name":                       c + "/1/name " + c + "/2/name",
		"spec.initContainers[].image":                    "/spec/initContainers",
		"spec.[containers, initContainers][].image":      c + "/0/image " + c + "/2/image",
		"spec.volumes.*.size":                            "/spec/volumes/a/size /spec/volumes/b/size",
		"spec.volumes.*.kind":                            "/spec/volumes/a/kind",
		"spec.nested[]":                                  "/spec/nested/0/0 /spec/nested/0/1 /spec/nested/1/0 /spec/nested/2",
		"[metadata.name, spec.x]":                        "/metadata/name /spec/x",
		"{b: metadata.name, a: spec.replicas}":           "/spec/replicas /metadata/name",
		"{b: metadata.name, a: spec.replicas}.b":         "/metadata/name",
		"{b: metadata.name}.c":                           "/metadata/name",
		"spec.containers[*].{n: name, i: image} | [0].n": c + "/0/name",

		"length(spec.containers)":                         "/spec/containers",
		"length(spec.containers[?image]) > `1`":           c + "/0 " + c + "/2",
		"to_upper(metadata.name)":                         "/metadata/name",
		"to_upper(metadata.missing)":                      "/metadata/missing",
		"join('-', spec.containers[].name)":               c + "/0/name " + c + "/1/name " + c + "/2/name",
		"contains(spec.containers[].name, 'two')":         c + "/1/name",
		"contains(spec.containers[].name, 'four')":        c + "/0/name " + c + "/1/name " + c + "/2/name",
		"contains(`[\"web\"]`, metadata.name)":            "/metadata/name",
		"keys(metadata.labels)":                           "/metadata/labels/a~1b /metadata/labels/app",
		"keys(metadata.labels)[?@ == 'app']":              "/metadata/labels/app",
		"keys(metadata.missing)":                          "/metadata/missing",
		"values(metadata.labels)[0]":                      "/metadata/labels/a~1b",
		"map(&to_string(@), spec.nested[1])":              "/spec/nested/1/0",
		"sort_by(spec.containers, &name)[0].name":         c + "/0/name",
		"max_by(values(spec.volumes), &size)":             "/spec/volumes/b",
		"max(spec.volumes.*.size)":                        "/spec/volumes/b/size",
		"reverse(spec.containers)[0].name":                c + "/2/name",
		"not_null(spec.x, spec.replicas)":                 "/spec/replicas /spec/x",
		"merge(metadata.labels, spec.volumes).a.size":     "/spec/volumes/a/size",
		"merge(metadata.labels, spec.volumes).none":       "/spec/volumes/a /metadata/labels/a~1b /metadata/labels/app /spec/volumes/b",
		"items(metadata.labels, 'k', 'v')[?v == 'web'].k": "/metadata/labels/app",
		"lookup(metadata.labels, 'app')":                  "/metadata/labels/app",
		"lookup(metadata.labels, metadata.name)":          "/metadata/labels/web /metadata/name",
		"lookup(spec.containers, `1`).name":               c + "/1/name",
		"object_from_lists(['x'], [metadata.name]).x":     "/metadata/name",
		"to_array(metadata.name)[0]":                      "/metadata/name",
		"split(metadata.name, 'e')[0]":                    "/metadata/name",
		"parse_json(to_string(spec.volumes)).a.size":      "/spec/volumes",
		"label_match(metadata.labels, spec.volumes)":      "/metadata/labels /spec/volumes",
		"regex_match('^w', metadata.name)":                "/metadata/name",
		"add(spec.replicas, spec.volumes.a.size)":         "/spec/replicas /spec/volumes/a/size",
		"time_now()": "-",
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		data := decode(t, pod)
		value, pointers, err := e.Trace(data, atNoon())
		got := strings.Join(pointers, " ")
		if len(pointers) == 0 {
			got = "-"
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", expression, got, want)
		}
		searched, searchErr := e.Search(data, atNoon())
		if diff := cmp.Diff(searched, value); diff != "" || message(err) != message(searchErr) {
			t.Errorf("%s: %v, %v %s", expression, searchErr, err, diff)
		}
		if diff := cmp.Diff(decode(t, pod), data); diff != "" {
			t.Errorf("%s changed its data: %s", expression, diff)
		}
	}
}

func TestTraceIsBounded(t *testing.T) {
	t.Parallel()
	list := make([]any, 10000)
	for i := range list {
		list[i] = map[string]any{"a": float64(i)}
	}
	for _, expression := range []string{"@[].a", "@[].b", "@ | [@, @, @] | [@, @, @] | [@, @, @]", "[].a | [?@ > `5`] | sort(@)"} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		_, pointers, err := e.Trace(list, nil)
		if err != nil || len(pointers) == 0 || len(pointers) > maxPointers {
			t.Errorf("%s: %d pointers, %v", expression, len(pointers), err)
		}
	}
}
