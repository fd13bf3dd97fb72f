package jmespath

import (
	"encoding/json"
	"testing"
)

func BenchmarkSearch(b *testing.B) {
	var data any
	if err := json.Unmarshal([]byte(`{"request": {"object": `+pod+`}}`), &data); err != nil {
		b.Fatal(err)
	}
	for _, expression := range []string{
		"request.object.metadata.name",
		"request.object.spec.containers[].image",
		"request.object.spec.containers[?securityContext.privileged].name",
		"request.object.spec.missing || ''",
		"length(request.object.spec.containers)",
		"regex_match('^ng', request.object.spec.containers[0].image)",
	} {
		e, err := Compile(expression)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(expression, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Search(data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTrace(b *testing.B) {
	var data any
	if err := json.Unmarshal([]byte(pod), &data); err != nil {
		b.Fatal(err)
	}
	e, err := Compile("spec.containers[].image")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := e.Trace(data, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile("request.object.spec.[initContainers, containers][] | [?image != 'x'].name"); err != nil {
			b.Fatal(err)
		}
	}
}
