package helm

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
)

// undecided renders a chart with its variants, and returns what it leaves undecided, or only assumes.
func undecided(t *testing.T, files map[string]string, h render.Helm) (open, assumed []string) {
	t.Helper()
	fsys := fstest.MapFS{"c/Chart.yaml": {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")}}
	for name, text := range files {
		fsys["c/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	units, err := render.Graph{Renderers: []render.Renderer{New(Options{})}}.Render(context.Background(), render.Source{FS: fsys, Path: "c", Kind: "helm", Helm: &h})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range render.Errors(units[0].Err) {
		switch {
		case e.Undecided:
			open = append(open, e.Error())
		case e.Rule == render.AssumedVersion || e.Rule == render.AssumedRelease:
			assumed = append(assumed, e.Error())
		case e.Rule != "duplicate-object" && e.Rule != "variant":
			t.Errorf("%v [%s]", e, e.Rule)
		}
	}
	return open, assumed
}

const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// sources are doubtful texts, each of which a chart may compare with another one.
var doubtfulSources = map[string]string{
	"random": `(randAlphaNum 3)`, "time": `(now | date "2006")`, "lookup": `(lookup "v1" "ConfigMap" "a" "b").x`,
	"address":     `(printf "%p" $.Values)`,
	"suffix":      `($.Capabilities.KubeVersion.Version | replace "+" "x")`,
	"certificate": `(genCA "x" 3).Cert`, "whole map": `((lookup "v1" "ConfigMap" "a" "b").data | toYaml)`,
}

// flows lead a value from SOURCE to a condition, which is whether it is "x".
var flows = map[string]string{
	"directly":     `{{ if eq (SOURCE | default "") "~x" }}WRITE{{ end }}`,
	"variable":     `{{ $a := SOURCE }}{{ $b := $a }}{{ if eq ($b | default "") "~x" }}WRITE{{ end }}`,
	"assigned":     `{{ $a := "" }}{{ if true }}{{ $a = SOURCE }}{{ end }}{{ if eq ($a | default "") "~x" }}WRITE{{ end }}`,
	"implicit":     `{{ $a := false }}{{ if eq (SOURCE | default "") "~x" }}{{ $a = true }}{{ end }}{{ if $a }}WRITE{{ end }}`,
	"set":          `{{ $_ := set .Values "a" SOURCE }}{{ if eq (.Values.a | default "") "~x" }}WRITE{{ end }}`,
	"set by name":  `{{ $_ := set .Values (printf "%s" "a") SOURCE }}{{ if eq (get .Values "a" | default "") "~x" }}WRITE{{ end }}`,
	"may be set":   `{{ if eq (SOURCE | default "") "~x" }}{{ $_ := set .Values "a" true }}{{ end }}{{ if .Values.a }}WRITE{{ end }}`,
	"merge":        `{{ $m := merge (dict "b" 1) (dict "a" SOURCE) }}{{ if eq ($m.a | default "") "~x" }}WRITE{{ end }}`,
	"dict":         `{{ $m := dict "a" SOURCE }}{{ if eq ($m.a | default "") "~x" }}WRITE{{ end }}`,
	"deep":         `{{ $m := dict "b" (dict "a" SOURCE) }}{{ with $m.b }}{{ if eq (.a | default "") "~x" }}WRITE{{ end }}{{ end }}`,
	"copied":       `{{ $m := deepCopy (dict "a" SOURCE) }}{{ if eq ($m.a | default "") "~x" }}WRITE{{ end }}`,
	"list":         `{{ range list "b" SOURCE }}{{ if eq (. | default "") "~x" }}WRITE{{ end }}{{ end }}`,
	"range":        `{{ range $k, $v := dict "a" SOURCE }}{{ if eq ($v | default "") "~x" }}WRITE{{ end }}{{ end }}`,
	"break":        `{{ range list 1 2 }}{{ if ne (SOURCE | default "") "~x" }}{{ break }}{{ end }}WRITE{{ end }}`,
	"with":         `{{ with SOURCE }}{{ if eq . "~x" }}WRITE{{ end }}{{ else }}{{ if eq (SOURCE | default "") "~x" }}WRITE{{ end }}{{ end }}`,
	"include":      `{{ define "p" }}{{ SOURCE }}{{ end }}{{ if eq (include "p" .) "~x" }}WRITE{{ end }}`,
	"argument":     `{{ define "p" }}{{ if eq (. | default "") "~x" }}WRITE{{ end }}{{ end }}{{ include "p" SOURCE }}`,
	"in a dict":    `{{ define "p" }}{{ if eq (.a | default "") "~x" }}WRITE{{ end }}{{ end }}{{ include "p" (dict "a" SOURCE) }}`,
	"template":     `{{ define "p" }}{{ if eq (.a | default "") "~x" }}WRITE{{ end }}{{ end }}{{ template "p" (dict "a" SOURCE) }}`,
	"a condition":  `{{ define "p" }}{{ if eq (SOURCE | default "") "~x" }}1{{ end }}{{ end }}{{ if include "p" . }}WRITE{{ end }}`,
	"two callers":  `{{ define "p" }}{{ if .a }}WRITE{{ end }}{{ end }}{{ include "p" (dict "a" true) }}{{ include "p" (dict "a" (eq (SOURCE | default "") "~x")) }}`,
	"tpl":          `{{ if eq (tpl "{{ .a }}" (dict "a" SOURCE)) "~x" }}WRITE{{ end }}`,
	"YAML":         `{{ $m := dict "a" SOURCE | toYaml | fromYaml }}{{ if eq ($m.a | default "") "~x" }}WRITE{{ end }}`,
	"ternary":      `{{ if ternary true false (eq (SOURCE | default "") "~x") }}WRITE{{ end }}`,
	"default":      `{{ if eq (.Values.none | default SOURCE | default "") "~x" }}WRITE{{ end }}`,
	"and":          `{{ if and .Values.enabled (eq (SOURCE | default "") "~x") }}WRITE{{ end }}`,
	"or":           `{{ if or .Values.none (eq (SOURCE | default "") "~x") }}WRITE{{ end }}`,
	"index":        `{{ if eq (index (dict "a" SOURCE) "a" | default "") "~x" }}WRITE{{ end }}`,
	"key":          `{{ if get (dict "~x" true) (SOURCE | default "") }}WRITE{{ end }}`,
	"printed":      `{{ eq (SOURCE | default "") "~x" }}`,
	"hash":         `{{ if eq (SOURCE | default "" | toString | sha256sum | trunc 1) "0" }}WRITE{{ end }}`,
	"number":       `{{ if gt (SOURCE | default "" | toString | atoi) 5000 }}WRITE{{ end }}`,
	"else":         `{{ if ne (SOURCE | default "") "~x" }}a{{ else }}WRITE{{ end }}`,
	"else if":      `{{ if .Values.none }}a{{ else if eq (SOURCE | default "") "~x" }}WRITE{{ end }}`,
	"split":        `{{ if has "~x" (SOURCE | default "" | splitList "") }}WRITE{{ end }}`,
	"join":         `{{ if contains "~x" (list "a" SOURCE | join ",") }}WRITE{{ end }}`,
	"pluck":        `{{ if eq (pluck "a" (dict "a" SOURCE) | first | default "") "~x" }}WRITE{{ end }}`,
	"other ranges": `{{ range until (SOURCE | default "" | toString | len) }}WRITE{{ end }}{{ if eq (SOURCE | default "") "~x" }}WRITE{{ end }}`,
}

// TestNoDoubtIsLost leads each doubtful value along each flow to a condition.
func TestNoDoubtIsLost(t *testing.T) {
	t.Parallel()
	for source, expr := range doubtfulSources {
		for flow, text := range flows {
			body := strings.NewReplacer("SOURCE", expr, "WRITE", "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n").Replace(text)
			if open, _ := undecided(t, map[string]string{"values.yaml": "enabled: true\n", "templates/a.yaml": object + "data:\n  x: |\n    " + body}, render.Helm{}); len(open) == 0 {
				t.Errorf("%s, %s: decided: %s", source, flow, body)
			}
		}
	}
}

// TestNoFalseDoubt holds that what doesn't depend on doubtful values is decided.
func TestNoFalseDoubt(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"not taken":     `{{ if .Values.none }}{{ $x := merge $ (dict "ca" (randAlphaNum 5)) }}a: {{ $x.ca }}{{ end }}{{ if .ca }}b{{ end }}`,
		"a copy":        `{{ $_ := set (deepCopy $) "enabled" (randAlphaNum 5) }}{{ if not .Values.enabled }}b{{ end }}`,
		"a password":    `{{ $p := .Values.none | default (randAlphaNum 10) }}{{ if $p }}p: {{ $p | b64enc | quote }}{{ end }}`,
		"included":      `{{ $p := include "password" (dict "given" .Values.none) }}{{ if $p }}p: {{ $p }}{{ end }}`,
		"a given one":   `{{ $p := .Values.word | default (randAlphaNum 10) }}{{ if eq $p "y1" }}p: {{ $p }}{{ end }}`,
		"lookup first":  `{{ $s := (lookup "v1" "Secret" "a" "b").data }}{{ $p := get ($s | default dict) "p" | default (randAlphaNum 9) }}{{ if $p }}p: {{ $p }}{{ end }}`,
		"certificates":  `{{ $ca := genCA "x" 3 }}{{ with $ca }}c: {{ .Cert | b64enc }}{{ end }}`,
		"checksum":      `sum: {{ include (print $.Template.BasePath "/a.yaml") (dict "stop" true "Template" .Template "Values" .Values) | sha256sum }}`,
		"full name":     `{{ $n := .Release.Name }}{{ if contains .Chart.Name $n }}n: {{ $n | trunc 63 | trimSuffix "-" }}{{ else }}n: {{ printf "%s-x" $n }}{{ end }}`,
		"minor version": `{{ if semverCompare ">=1.25-0" .Capabilities.KubeVersion.Version }}{{ else }}b{{ end }}`,
		"stated":        `{{ if semverCompare "<1.20-0" (.Values.none | default .Capabilities.KubeVersion.GitVersion) }}b{{ end }}`,
		"Helm":          `{{ if regexMatch "{(v[0-9])*[^}]*}}$" (.Capabilities | toString) }}b{{ end }}`,
		"all keys":      `{{ range $k := keys .Values | sortAlpha }}{{ $k }}{{ end }}{{ if has "enabled" (keys .Values) }}b{{ end }}`,
	} {
		if open, assumed := undecided(t, map[string]string{"values.yaml": "enabled: true\nword: y1\n", "templates/_p.tpl": `{{ define "password" }}{{ if .given }}{{ .given }}{{ else }}{{ randAlphaNum 10 | b64enc }}{{ end }}{{ end }}`, "templates/a.yaml": object + "{{ if not .stop }}data:\n  x: |\n    " + body + "{{ end }}"}, render.Helm{KubeVersion: "1.34"}); len(open)+len(assumed) > 0 {
			t.Errorf("%s: %s: %v %v", name, body, open, assumed)
		}
	}
}
