package helm

import (
	"context"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// password is a helper as charts have it: a password that exists is kept, else one is made.
const password = `{{- define "password" -}}
{{- $p := "" -}}
{{- $data := (lookup "v1" "Secret" "default" .secret).data -}}
{{- if $data -}}
  {{- if hasKey $data .key -}}{{- $p = index $data .key | b64dec -}}{{- else -}}{{- fail "no such key" -}}{{- end -}}
{{- end -}}
{{- if not $p -}}{{- include "checked" (dict "p" $p) -}}{{- $p = randAlphaNum 10 -}}{{- end -}}
{{- printf "%s" $p | b64enc | quote -}}
{{- end -}}
{{- define "checked" -}}{{- if .wrong -}}{{- fail "wrong" -}}{{- end -}}{{- end -}}
`

const hidden = "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: hidden}\n"

// setsCA is a helper that sets a field of what it is given.
const setsCA = `{{ define "h" }}{{ $_ := set . "ca" (randNumeric 3) }}{{ end }}`

// TestDoubt holds that a chart is undecided if the cluster, the time or chance may change what its
// template writes, and decided otherwise.
func TestDoubt(t *testing.T) {
	t.Parallel()
	const written = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: "
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
	for name, c := range map[string]struct {
		template  string
		undecided bool
	}{
		"a password that is kept or made":          {password + secret + `data: {p: {{ include "password" (dict "secret" "s" "key" "computed") }}}`, false},
		"a branch not taken makes a key":           {`{{ if .Values.tls }}{{ $_ := set .Values "ca" (genCA "a" 1).Cert }}{{ end }}{{ if eq (.Values.ca | default "") "x" }}` + hidden + `{{ end }}`, false},
		"a branch taken makes a key":               {`{{ $_ := set .Values "ca" (genCA "a" 1).Cert }}{{ if eq .Values.ca "x" }}` + hidden + `{{ end }}`, true},
		"a variable set by chance":                 {`{{ $x := "" }}{{ if eq (randNumeric 3) "777" }}{{ $x = "y" }}{{ end }}{{ if $x }}` + hidden + `{{ end }}`, true},
		"a variable set by chance, printed":        {`{{ $x := "" }}{{ if eq (randNumeric 3) "777" }}{{ $x = .Values.manifest }}{{ end }}{{ $x }}`, true},
		"a variable set by the time, in else":      {`{{ $x := "" }}{{ if ne (now | date "2006") "2031" }}{{ else }}{{ $x = .Values.manifest }}{{ end }}{{ $x }}`, true},
		"a variable set in a loop by chance":       {`{{ $x := "" }}{{ range until (randInt 0 1) }}{{ $x = "y" }}{{ end }}{{ if $x }}` + hidden + `{{ end }}`, true},
		"a choice that is printed":                 {`{{ ternary .Values.manifest "" (eq (randNumeric 3) "777") }}`, true},
		"a choice in a variable, printed":          {`{{ $x := ternary .Values.manifest "" (eq (randNumeric 3) "777") }}{{ $x }}`, true},
		"a helper that compares":                   {`{{ define "h" }}{{ if eq (randNumeric 3) "777" }}x{{ end }}{{ end }}{{ if include "h" . }}` + hidden + `{{ end }}`, true},
		"an address":                               {`{{ if eq (printf "%p" .Values | sha256sum | trunc 1) "0" }}` + hidden + `{{ end }}`, true},
		"an address in the chart's data":           {`{{ if eq (.Chart.Maintainers | toString | sha256sum | trunc 1) "1" }}` + hidden + `{{ end }}`, true},
		"a list that is joined":                    {`{{ if contains "0xc1" (join "," .Chart.Maintainers) }}` + hidden + `{{ end }}`, false},
		"an address in all data of the chart":      {`{{ $c := .Chart }}{{ if contains "0xc1" (printf "%v" $c) }}` + hidden + `{{ end }}`, true},
		"an address in a helper":                   {`{{ define "h" }}{{ print .Chart }}{{ end }}{{ if contains "0xc1" (include "h" .) }}` + hidden + `{{ end }}`, true},
		"a name of the chart's data":               {`{{ $x := randAlpha 3 }}{{ range .Chart.Maintainers }}{{ if eq .Name "x" }}` + hidden + `{{ end }}{{ end }}`, false},
		"an address by a computed format":          {`{{ if eq (printf (print "%-20" "p") (list 1) | sha256sum | trunc 1) "0" }}` + hidden + `{{ end }}`, true},
		"an address in a variable":                 {`{{ $f := "%#p" }}{{ $x := $f | printf | printf "%s" }}{{ $x = printf $f .Values }}{{ if contains "7" $x }}` + hidden + `{{ end }}`, true},
		"a computed format without one":            {`{{ if eq (printf .Values.manifest) "0" }}` + hidden + `{{ end }}`, false},
		"a certificate that lookup finds":          {written + `{{ with lookup "v1" "Secret" "a" "b" }}{{ (buildCustomCert (index .data "c") (index .data "k")).Cert | quote }}{{ else }}{{ (genCA "a" 1).Cert | quote }}{{ end }}` + "}", false},
		"a computed key of what is found":          {`{{ define "d" }}{{ $d := (lookup "v1" "Secret" "a" "b").data }}{{ if $d }}{{ index $d .key | b64dec }}{{ else }}new{{ end }}{{ end }}` + written + `{{ include "d" (dict "key" "a") }}` + "}", false},
		"a key that is made of others":             {`{{ $d := (lookup "v1" "Secret" "a" "b").data }}` + written + `{{ if $d }}{{ get $d (print "a" (print "b")) | b64dec | quote }}{{ else }}new{{ end }}` + "}", false},
		"a variable of the same name, in a block":  {`{{ $x := "" }}{{ if .Values.manifest }}{{ $x := randAlpha 3 }}{{ $x = randAlpha 4 }}{{ end }}{{ if $x }}` + hidden + `{{ end }}`, false},
		"a variable set again after a block":       {`{{ $x := "" }}{{ with .Values }}{{ $x := "" }}{{ end }}{{ $x = randNumeric 3 }}{{ if eq $x "777" }}` + hidden + `{{ end }}`, true},
		"a variable of the same name, in a helper": {`{{ define "h" }}{{ $x := randAlpha 3 }}{{ $x }}{{ end }}{{ $r := include "h" . }}{{ $x := .Values.x }}{{ if $x }}` + hidden + `{{ end }}`, false},
		"a choice by chance, in a pipeline":        {`{{ eq (randNumeric 3) "777" | ternary .Values.manifest "" }}`, true},
		"that field":                               {`{{ $_ := set (set . "ca" (randNumeric 3)) "b" "c" }}{{ if eq .ca "777" }}` + hidden + `{{ end }}`, true},
		"that field, by its key":                   {`{{ $_ := set $ "ca" (randNumeric 3) }}{{ if eq (get . "ca") "777" }}` + hidden + `{{ end }}`, true},
		"a field of the dot within with":           {`{{ with .Values }}{{ $_ := set . "ca" (randNumeric 3) }}{{ end }}{{ if eq .Values.ca "777" }}` + hidden + `{{ end }}`, true},
		"a field of what a helper is given":        {setsCA + `{{ include "h" .Values }}{{ if eq .Values.ca "777" }}` + hidden + `{{ end }}`, true},
		"a field of what a template is given":      {setsCA + `{{ template "h" .Values }}{{ if eq .Values.ca "777" }}` + hidden + `{{ end }}`, true},
		"a field of what a helper passes on":       {setsCA + `{{ define "g" }}{{ include "h" $ }}{{ end }}{{ include "g" .Values }}{{ if eq .Values.ca "777" }}` + hidden + `{{ end }}`, true},
		"a field set by a helper with any name":    {setsCA + `{{ include (print "h") .Values }}{{ if eq .Values.ca "777" }}` + hidden + `{{ end }}`, true},
		"what lookup finds lacks a key":            {`{{ $d := (lookup "v1" "Secret" "a" "b").data }}{{ if and $d (not (hasKey $d (print "a" "b"))) }}` + hidden + `{{ end }}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{
				"c/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\nmaintainers: [{name: a}]\n")},
				"c/values.yaml":      {Data: []byte("manifest: |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: hidden}\n")},
				"c/templates/a.yaml": {Data: []byte(c.template)},
			}
			units, err := render.Graph{Renderers: []render.Renderer{New(Options{})}}.Render(context.Background(), render.Source{FS: fsys, Path: "c", Kind: "helm"})
			rendertest.OK(t, err)
			undecided := false
			for _, e := range render.Errors(units[0].Err) {
				undecided = undecided || e.Undecided
			}
			if undecided != c.undecided {
				t.Errorf("undecided %v\n%v", undecided, units[0].Err)
			}
		})
	}
}

// TestPartsOfTheVersion holds that a chart whose conditions depend on the patch version of Kubernetes, or
// on the suffix of a distribution, is rendered for other ones, too, unless the whole version is given.
func TestPartsOfTheVersion(t *testing.T) {
	t.Parallel()
	for condition, varies := range map[string]bool{
		`gt (index (splitList "." $v) 2 | int) 3`:               true,
		`gt ((semver $v).Patch | int) 3`:                        true,
		`(semver $v).Metadata`:                                  true,
		`gt (len (splitList "+" $v)) 1`:                         true,
		`$v | trimPrefix "v" | regexFind "[a-z].*"`:             true,
		`gt ((split "." (tpl "{{ . }}" $v))._2 | int) 3`:        true,
		`eq $v "v1.37.2"`:                                       true,
		`eq "1.37.2-gke.100" (trimPrefix "v" $v)`:               true,
		`contains "+k3s" $v`:                                    true,
		`hasSuffix "rke2r1" $v`:                                 true,
		`hasPrefix "v1.37.6" $v`:                                true,
		`regexMatch "-eks-" $v`:                                 true,
		`regexMatch "^v1\\.37\\.[0-9]+\\+k0s" $v`:               true,
		`semverCompare ">1.37.2" $v`:                            true,
		`semverCompare "~1.37.4 <1.37.6" $v`:                    true,
		`ne $v "v1.37.0"`:                                       true,
		`not (eq "1.37.0" (trimPrefix "v" $v))`:                 true,
		`and (contains "+k3s" $v) (semverCompare "=1.37.5" $v)`: true,
		`and .Release.IsUpgrade (contains "+k3s" $v)`:           true,
		`and (contains "+k3s" $v) .Release.IsUpgrade`:           true,
		`semverCompare "<1.30-0" $v`:                            false,
		`semverCompare "<1.30.5" $v`:                            false,
		`eq $v "v1.36.2"`:                                       false,
		`gt (index (splitList "." $v) 1 | int) 99`:              false,
		`gt ((semver $v).Minor | int) 99`:                       false,
		`regexMatch "^v1\\.2[0-9]" $v`:                          false,
	} {
		for given, varies := range map[string]bool{"": varies, "1.37.0": false} {
			fsys := fstest.MapFS{
				"c/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
				"c/templates/a.yaml": {Data: []byte("{{ $v := .Capabilities.KubeVersion.Version }}{{ if " + condition + " }}" + hidden + "{{ end }}")},
			}
			src := render.Source{FS: fsys, Path: "c", Kind: "helm", Helm: &render.Helm{KubeVersion: given}}
			units, err := render.Graph{Renderers: []render.Renderer{New(Options{})}}.Render(context.Background(), src)
			rendertest.OK(t, err)
			if got := len(units[0].Variants) > 0; got != varies {
				t.Errorf("%s, version %q: other objects %v, want %v\n%v", condition, given, got, varies, units[0].Err)
			}
		}
	}
}

// TestManyEndsOfTheVersion holds that a chart is undecided if it asks for more ends of the version than it
// is rendered for, or if it can't be rendered for one.
func TestManyEndsOfTheVersion(t *testing.T) {
	t.Parallel()
	for text, undecided := range map[string]bool{
		`{{ range until 8 }}{{ $x := eq $v (printf "v1.37.%d" (add . 1)) }}{{ end }}`:  false,
		`{{ range until 20 }}{{ $x := eq $v (printf "v1.37.%d" (add . 1)) }}{{ end }}`: true,
		`{{ if contains "+k3s" $v }}{{ fail "no k3s" }}{{ end }}`:                      true,
	} {
		fsys := fstest.MapFS{
			"c/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
			"c/templates/a.yaml": {Data: []byte("{{ $v := .Capabilities.KubeVersion.Version }}" + text)},
		}
		units, err := render.Graph{Renderers: []render.Renderer{New(Options{})}}.Render(context.Background(), render.Source{FS: fsys, Path: "c", Kind: "helm"})
		rendertest.OK(t, err)
		if got := slices.ContainsFunc(render.Errors(units[0].Err), func(e *render.Error) bool { return e.Undecided }); got != undecided {
			t.Errorf("%s: undecided %v, want %v\n%v", text, got, undecided, units[0].Err)
		}
	}
}
