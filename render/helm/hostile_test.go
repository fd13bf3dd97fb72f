package helm

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const (
	chartYAML = "apiVersion: v2\nname: c\nversion: 1.0.0\n"
	podYAML   = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
)

// chartOf is a chart with one template and what else is given, by path below it.
func chartOf(template string, more ...string) fstest.MapFS {
	tree := fstest.MapFS{
		"c/Chart.yaml":          {Data: []byte(chartYAML)},
		"c/templates/pod.yaml":  {Data: []byte(template)},
		"c/templates/_none.tpl": {Data: []byte("{{/* nothing */}}")},
	}
	for i := 0; i+1 < len(more); i += 2 {
		tree["c/"+more[i]] = &fstest.MapFile{Data: []byte(more[i+1])}
	}
	return tree
}

func mutual(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{{define "m%d"}}{{include "m%d" .}}{{end}}`, i, (i+1)%n)
	}
	return b.String() + `{{include "m0" .}}`
}

func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{{define "m%d"}}{{include "m%d" .}}{{include "m%d" .}}{{end}}`, i, i+1, i+1)
	}
	return b.String() + fmt.Sprintf(`{{define "m%d"}}x{{end}}{{include "m0" .}}`, n)
}

func aliasBomb() string {
	return "a: &a " + strings.Repeat("x", 50_000) + "\nb: [" + strings.Repeat("*a,", 16_000) + "]\n"
}

// aliasTree is a chart with a dependency under n aliases, and so on, depth times.
func aliasTree(depth, n int) fstest.MapFS {
	tree := fstest.MapFS{}
	for i, dir := 0, "c"; i <= depth; i, dir = i+1, fmt.Sprintf("%s/charts/c%d", dir, i+1) {
		manifest := fmt.Sprintf("apiVersion: v2\nname: c%d\nversion: 1.0.0\n", i)
		if i < depth {
			manifest += "dependencies:\n"
			for a := range n {
				manifest += fmt.Sprintf("- {name: c%d, version: 1.0.0, alias: a%d}\n", i+1, a)
			}
		}
		tree[dir+"/Chart.yaml"] = &fstest.MapFile{Data: []byte(manifest)}
		tree[dir+"/templates/pod.yaml"] = &fstest.MapFile{Data: []byte(podYAML)}
	}
	return tree
}

// TestHostileTemplates are the rows H1 to H11 of the security study and their
// like: what hangs Helm's engine or kills its process is an error here, short
// and at the template.
func TestHostileTemplates(t *testing.T) {
	t.Parallel()
	cyclic := `{{ $d := dict "a" 1 }}{{ $_ := set $d "self" $d }}`
	shared := `{{ $x := list "x" }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}`
	cases := []struct{ name, template, values, want string }{
		{"tpl within itself", `{{ tpl .Values.x . }}`, `x: '{{ tpl .Values.x . }}'`, "tpl calls itself more than 100 deep"},
		{"include within itself", `{{define "a"}}{{include "a" .}}{{end}}{{include "a" .}}`, "", "deep"},
		{"template within itself", `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, "", "more than 1000 deep"},
		{"include and template in turn", `{{define "a"}}{{template "b" .}}{{end}}{{define "b"}}{{include "a" .}}{{end}}{{template "a" .}}`, "", "more than 1000 deep"},
		{"800 templates in a ring", mutual(800), "", "more than 1000 deep"},
		{"doubling includes", doubling(40), "", "more than 4000000 steps"},
		{"until", `{{range until 2000000000}}{{end}}`, "", "list of more than"},
		{"untilStep", `{{range untilStep 0 2000000000 1}}{{end}}`, "", "list of more than"},
		{"untilStep without end", `{{range untilStep 0 9223372036854775807 9223372036854775800}}x{{end}}`, "", "list of more than"},
		{"seq", `{{ seq 2000000000 }}`, "", "list of more than"},
		{"range over a number", `{{range 2000000000}}{{end}}`, "", "steps"},
		{"range over ranges", `{{range until 100000}}{{range until 100000}}{{end}}{{end}}`, "", "steps"},
		{"range over ranges on another line", "é\n{{range until 100000}}\n\té{{range until 100000}}{{end}}{{end}}", "", "pod.yaml:3:11: templates take more than"},
		{"repeat", `{{ repeat 2000000000 "x" }}`, "", "string of more than"},
		{"repeat of nothing", `{{ repeat 2000000000 "" }}`, "", ""},
		{"repeat below zero", `{{ repeat -1 "x" }}`, "", "not negative"},
		{"indent", `{{ indent 2000000000 "x" }}`, "", "string of more than"},
		{"nindent lines", `{{ nindent 100000 (repeat 1000 "x\n") }}`, "", "string of more than"},
		{"randAlphaNum", `{{ randAlphaNum 2000000000 }}`, "", "string of more than"},
		{"print doubles", `{{ $x := "x" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}`, "", "string of more than"},
		{"cat doubles", `{{ $x := "x" }}{{ range until 60 }}{{ $x = cat $x $x }}{{ end }}`, "", "string of more than"},
		{"js doubles", `{{ $x := "\\" }}{{ range until 60 }}{{ $x = js $x }}{{ end }}`, "", "string of more than"},
		{"quote doubles", `{{ $x := "\"" }}{{ range until 60 }}{{ $x = quote $x }}{{ end }}`, "", "string of more than"},
		{"toJson doubles", `{{ $x := "\"" }}{{ range until 60 }}{{ $x = toJson $x }}{{ end }}`, "", "string of more than"},
		{"b64enc grows", `{{ $x := "x" }}{{ range until 200 }}{{ $x = b64enc $x }}{{ end }}`, "", "string of more than"},
		{"regexQuoteMeta doubles", `{{ $x := "." }}{{ range until 60 }}{{ $x = regexQuoteMeta $x }}{{ end }}`, "", "string of more than"},
		{"replace grows", `{{ $x := "x" }}{{ range until 60 }}{{ $x = replace "x" "xx" $x }}{{ end }}`, "", "string of more than"},
		{"regexReplaceAll grows", `{{ $x := "x" }}{{ range until 60 }}{{ $x = regexReplaceAll "x" $x "xx" }}{{ end }}`, "", "more than"},
		{"regexReplaceAll by groups", `{{ regexReplaceAll "(.*)" (repeat 1000000 "x") (repeat 1000 "${1}") }}`, "", "string of more than"},
		{"join", `{{ join (repeat 100000 "x") (until 10000) }}`, "", "string of more than"},
		{"wrapWith", `{{ wrapWith 1 (repeat 10000 "x") (repeat 10000 "y") }}`, "", "string of more than"},
		{"printf width", `{{ printf "%1000000000d" 1 }}`, "", "string of more than"},
		{"printf star", `{{ printf "%*d" 1000000000 1 }}`, "", "string of more than"},
		{"printf widths", `{{ printf (repeat 2000 "%1000000d") 1 }}`, "", "string of more than"},
		{"concat doubles", `{{ $x := list 1 }}{{ range until 60 }}{{ $x = concat $x $x }}{{ end }}`, "", "list of more than"},
		{"splitList", `{{ range until 100 }}{{ $x := splitList "" (repeat 16000000 "x") }}{{ end }}`, "", "list of more than"},
		{"regexSplit", `{{ $x := regexSplit "" (repeat 16000000 "x") -1 }}`, "", "list of more than"},
		{"uniq of many", `{{ $x := uniq (until 1000000) }}`, "", "steps"},
		{"output", `{{ $x := repeat 16000000 "x" }}{{ range until 100 }}{{ $x }}{{ end }}`, "", "write more than"},
		{"made in a loop", `{{ range until 1000 }}{{ $x := repeat 16000000 "x" }}{{ end }}`, "", "functions make more than"},
		{"cyclic toYaml", cyclic + `{{ toYaml $d }}`, "", "contains itself"},
		{"cyclic toYamlPretty", cyclic + `{{ toYamlPretty $d }}`, "", "contains itself"},
		{"cyclic toJson", cyclic + `{{ toJson $d }}`, "", "contains itself"},
		{"cyclic toPrettyJson", cyclic + `{{ toPrettyJson $d }}`, "", "contains itself"},
		{"cyclic toRawJson", cyclic + `{{ mustToRawJson $d }}`, "", "contains itself"},
		{"cyclic toToml", cyclic + `{{ toToml $d }}`, "", "contains itself"},
		{"cyclic toString", cyclic + `{{ toString $d }}`, "", "contains itself"},
		{"cyclic print", cyclic + `{{ print $d }}`, "", "contains itself"},
		{"cyclic printf", cyclic + `{{ printf "%v" $d }}`, "", "contains itself"},
		{"cyclic quote", cyclic + `{{ quote $d }}`, "", "contains itself"},
		{"cyclic squote", cyclic + `{{ squote $d }}`, "", "contains itself"},
		{"cyclic cat", cyclic + `{{ cat $d }}`, "", "contains itself"},
		{"cyclic html", cyclic + `{{ html $d }}`, "", "contains itself"},
		{"cyclic join", cyclic + `{{ join "," (list $d) }}`, "", "contains itself"},
		{"cyclic toStrings", cyclic + `{{ toStrings (list $d) }}`, "", "contains itself"},
		{"cyclic sortAlpha", cyclic + `{{ sortAlpha (list $d) }}`, "", "contains itself"},
		{"cyclic in arithmetic", cyclic + `{{ add 1 $d }}`, "", "contains itself"},
		{"cyclic int", cyclic + `{{ int $d }}`, "", "contains itself"},
		{"cyclic round", cyclic + `{{ round $d 2 }}`, "", "contains itself"},
		{"cyclic toDecimal", cyclic + `{{ toDecimal $d }}`, "", "contains itself"},
		{"cyclic key", cyclic + `{{ $x := dict $d 1 }}`, "", "contains itself"},
		{"cyclic eq", cyclic + `{{ eq $d $d }}`, "", "non-comparable type"},
		{"cyclic eq and string", cyclic + `{{ eq $d "x" }}`, "", "incompatible types for comparison"},
		{"cyclic YAML method", `{{ $_ := set .Values "self" .Values }}{{ .Values.YAML }}`, "", "contains itself"},
		{"shared YAML method", shared + `{{ $_ := set .Values "x" $x }}{{ .Values.YAML }}`, "", "too many parts"},
		{"deepCopy of nothing", `{{ deepCopy .Values.x }}`, "", "not nil"},
		{"cyclic deepCopy", cyclic + `{{ $x := deepCopy $d }}`, "", "contains itself"},
		{"cyclic merge", cyclic + `{{ $x := merge (dict) $d }}`, "", "contains itself"},
		{"cyclic mergeOverwrite", cyclic + `{{ $x := mustMergeOverwrite (dict) $d }}`, "", "contains itself"},
		{"cyclic printed", cyclic + `{{ $d }}`, "", "contains itself"},
		{"cyclic values printed", `{{ $_ := set .Values "self" .Values }}{{ .Values }}`, "", "contains itself"},
		{"cyclic values and dot", `{{ $_ := set .Values "self" . }}{{ . }}`, "", "value "},
		{"cyclic list printed", `{{ $l := list 1 }}{{ $d := dict "l" $l }}{{ $_ := set $d "l" (list $d) }}{{ index $d "l" }}`, "", "contains itself"},
		{"cyclic dict of dict", cyclic + `{{ dict "x" $d | toYaml }}`, "", "contains itself"},
		{"cyclic deepEqual", cyclic + `{{ $e := dict "a" 1 }}{{ $_ := set $e "self" $e }}{{ $x := deepEqual $d $e }}`, "", ""},
		{"shared toYaml", shared + `{{ toYaml $x }}`, "", "too many parts"},
		{"shared printed", shared + `{{ $x }}`, "", "too many parts"},
		{"shared joined", shared + `{{ join "," $x }}`, "", "too many parts"},
		{"aliases in fromYaml", `{{ (fromYaml .Values.bomb).b }}`, "bomb: |\n  " + strings.ReplaceAll(aliasBomb(), "\n", "\n  "), "aliases expand"},
		{"aliases in a file", `{{ (fromYaml (.Files.Get "bomb.yaml")).b }}`, "", "aliases expand"},
		{"TOML of a long key", `{{ toJson (fromToml (print "a" (repeat 100000 ".a") " = 1")) }}`, "", "TOML is nested"},
		{"TOML of a long key with blanks", `{{ toJson (fromToml (print "a" (repeat 100000 " . a") " = 1")) }}`, "", "TOML is nested"},
		{"TOML of arrays", `{{ toJson (fromToml (print "a = " (repeat 100000 "[") (repeat 100000 "]"))) }}`, "", "TOML is nested"},
		{"TOML of many tables", `{{ if ne 5000 (len (fromToml (repeat 5000 "[[a]]\nb = [1.5, 2.5]\n")).a) }}{{ fail "no" }}{{ end }}`, "", ""},
		{"blocks within one another", strings.Repeat("{{if 1}}", 20_000) + strings.Repeat("{{end}}", 20_000), "", "within one another"},
		{"parentheses", "{{ " + strings.Repeat("(", 5_000) + "1" + strings.Repeat(")", 5_000) + " }}", "", "within one another"},
		{"environment", `{{ env "PATH" }}`, "", "there is no function"},
		{"secret in a message", `{{ range .Values.secret }}{{ end }}`, "secret: 7.5", "range can't iterate over a value of this kind"},
		{"secret parsed", `{{ mustRegexMatch .Values.secret "x" }}`, "secret: '('", "error parsing regexp"},
		{"commands in a message", `{{ fail "::error file=x::pwn\n\u001b[2J##[error]\u202e" }}`, "", "::error file=x::pwn �[2J##[error]�"},
		{"long message", `{{ fail (repeat 100000 "x") }}`, "", "…"},
		{"date that is none", `{{ toDate "x" "y" }}`, "", "not-an-object"},
		{"break out of a helper", `{{define "a"}}{{break}}{{end}}{{range until 3}}{{template "a"}}{{end}}`, "", "{{break}} outside {{range}}"},
		{"certificates", `{{ range until 300 }}{{ $x := genCA "x" 1 }}{{ end }}`, "", ""},
		{"password hashes", `{{ range until 300 }}{{ $x := bcrypt "x" }}{{ $x := derivePassword 1 "long" "a" "b" "c" }}{{ end }}`, "", ""},
		{"certificate of nothing", `{{ (genSignedCert "x" nil nil 1 (dict)).Cert }}`, "", "expected a certificate"},
		{"files outside", `{{ .Files.Get "../../../../etc/passwd" }}{{ .Files.Get "/etc/passwd" }}`, "", ""},
		{"glob", `{{ .Files.Glob "[" | len | print | b64enc | trunc 0 }}`, "", ""},
	}
	r := New(Options{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tree := chartOf(c.template, "values.yaml", c.values, "bomb.yaml", aliasBomb())
			objects, err := r.Render(context.Background(), render.Source{FS: tree, Path: "c"})
			checkHostile(t, objects, err, c.want)
		})
	}
}

// checkHostile wants an error that says or is called what is given, at a place,
// in bounds and clean; or none.
func checkHostile(t *testing.T, objects []*render.Object, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("unexpected error: %v", err)
	case want == "":
		return
	case err == nil:
		t.Fatalf("no error, want %q", want)
	case len(objects) > 0:
		t.Errorf("%d objects of a release that fails", len(objects))
	}
	for _, e := range render.Errors(err) {
		if !strings.Contains(e.Error(), want) && e.Rule != want {
			t.Errorf("error %.300q [%s], want %q", e, e.Rule, want)
		}
		if len(e.Err.Error()) > maxMessage+200 || strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || r == 0x202e }) {
			t.Errorf("error is long or has control characters: %.300q", e)
		}
		if !strings.HasPrefix(e.Span.File, "c/") && !strings.HasPrefix(e.Span.File, "c.tgz") {
			t.Errorf("error is at %q", e.Span.File)
		}
		if e.Rule == "internal" {
			t.Errorf("error without a place: %v", e)
		}
	}
}

// TestHostileTrees are the rows H8 and H12 to H28.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	file := func(data string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(data)} }
	with := func(name string, f *fstest.MapFile) fstest.MapFS {
		tree := chartOf(podYAML)
		tree[name] = f
		return tree
	}
	sub := func(entries ...entry) fstest.MapFS { return with("c/charts/s.tgz", file(string(tgz(t, entries...)))) }
	chart := entry{name: "s/Chart.yaml", data: []byte("apiVersion: v2\nname: s\nversion: 1.0.0\n")}
	many := []entry{chart}
	for i := range maxEntries {
		many = append(many, entry{name: fmt.Sprintf("s/f%d", i)})
	}
	cases := []struct {
		name string
		tree fs.FS
		helm render.Helm
		want string
	}{
		{"template of 6 MiB", chartOf(strings.Repeat("#\n", 3<<20)), render.Helm{}, "larger than 5 MiB"},
		{"file of 6 MiB", with("c/big", file(strings.Repeat("x", 6<<20))), render.Helm{}, "larger than 5 MiB"},
		{"archives within archives", with("c/charts/s.tgz", file(string(nested(t, 6, 1, 10)))), render.Helm{}, "archives are nested more than 4 deep"},
		{"archives of one large file", with("c/charts/s.tgz", file(string(nested(t, 3, 4, 4<<20)))), render.Helm{}, "larger than 100 MiB"},
		{"archive of many entries", sub(many...), render.Helm{}, "more than 10000 files"},
		{"aliases of aliases", aliasTree(5, 20), render.Helm{Version: "v4.3.1"}, "charts/c4/Chart.yaml:5: with a copy for each alias, the chart and its dependencies have more than 10000 files"},
		{"archive entry of 6 MiB", sub(chart, entry{name: "s/big", data: make([]byte, 6<<20)}), render.Helm{}, "larger than 5 MiB"},
		{"archive with ..", sub(chart, entry{name: "s/../../x"}), render.Helm{}, "leads out of it"},
		{"archive with an absolute path", sub(chart, entry{name: "/abs"}), render.Helm{}, "absolute path"},
		{"archive with a drive", sub(chart, entry{name: `s\c:\x`}), render.Helm{}, "outside of the chart"},
		{"archive with a symbolic link", sub(chart, entry{name: "s/l", data: []byte("/etc/passwd"), kind: tar.TypeSymlink}), render.Helm{}, "neither file nor directory"},
		{"archive with a hard link", sub(chart, entry{name: "s/l", data: []byte("s/Chart.yaml"), kind: tar.TypeLink}), render.Helm{}, "neither file nor directory"},
		{"archive with a device", sub(chart, entry{name: "s/l", kind: tar.TypeChar}), render.Helm{}, "neither file nor directory"},
		{"archive with a file twice", sub(chart, chart), render.Helm{}, "twice"},
		{"archive with a chart outside", sub(entry{name: "Chart.yaml", data: chart.data}), render.Helm{}, "outside of the chart's directory"},
		{"archive that is none", with("c/charts/s.tgz", file("text")), render.Helm{}, "not a chart archive"},
		{"archive that ends early", with("c/charts/s.tgz", file(string(tgz(t, chart)[:60]))), render.Helm{}, "damaged"},
		{"empty archive", sub(), render.Helm{}, "archive is empty"},
		{"stray file among subcharts", with("c/charts/README.md", file("x")), render.Helm{}, "Chart.yaml is missing"},
		{"values with aliases", chartOf(podYAML, "values.yaml", aliasBomb()), render.Helm{}, "aliases expand"},
		{"values that are a list", chartOf(podYAML, "values.yaml", "[1]"), render.Helm{}, "helm-chart"},
		{"values that don't parse", chartOf(podYAML, "values.yaml", "a: b\n  c: d: e\n"), render.Helm{}, "a colon with a blank behind it in a value: put the value in quotes"},
		{"values by Git LFS", chartOf(podYAML, "values.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), render.Helm{}, "lfs-pointer"},
		{"chart name that leads out", with("c/Chart.yaml", file("apiVersion: v2\nname: ../../evil\nversion: 1.0.0\n")), render.Helm{}, "is invalid"},
		{"chart without a version", with("c/Chart.yaml", file("apiVersion: v2\nname: c\n")), render.Helm{}, "version is missing"},
		{"chart that is no map", with("c/Chart.yaml", file("[]")), render.Helm{}, "helm-chart"},
		{"ignore file that doesn't parse", chartOf(podYAML, ".helmignore", "**/x"), render.Helm{}, "double-star"},
		{"values file above", chartOf(podYAML), render.Helm{ValueFiles: []string{"../../../etc/passwd"}}, "outside of the tree"},
		{"values file, absolute", chartOf(podYAML), render.Helm{ValueFiles: []string{"/etc/passwd"}}, "outside of the tree"},
		{"values file, remote", chartOf(podYAML), render.Helm{ValueFiles: []string{"https://example.com/v.yaml"}}, "not in the tree"},
		{"values file by a plugin", chartOf(podYAML), render.Helm{ValueFiles: []string{"secrets://v.yaml"}}, "not in the tree"},
		{"values file by git", chartOf(podYAML), render.Helm{ValueFiles: []string{"git::https://example.com/x"}}, "not in the tree"},
		{"values file that is missing", chartOf(podYAML), render.Helm{ValueFiles: []string{"none.yaml"}}, "there is no values file none.yaml"},
		{"set with a secret", chartOf(podYAML), render.Helm{Set: []string{"a[hunter2]=x"}}, "--set has a value that Helm can't parse"},
		{"set of a long list", chartOf(podYAML), render.Helm{Set: []string{"a[100000000]=x"}}, "--set has a value"},
		{"set-file above", chartOf(podYAML), render.Helm{SetFile: []string{"a=../x"}}, "outside of the tree"},
		{"Kubernetes version", chartOf(podYAML), render.Helm{KubeVersion: "new"}, "no version of Kubernetes"},
		{"release name", chartOf(podYAML), render.Helm{ReleaseName: "A_b"}, "no name for a release"},
		{"schema that is deep", chartOf(podYAML, "values.schema.json", strings.Repeat(`{"not":`, 9000)+"{}"+strings.Repeat("}", 9000)), render.Helm{}, "nested more than 100 deep"},
		{"schema that is no JSON", chartOf(podYAML, "values.schema.json", "{"), render.Helm{}, "not valid JSON"},
		{"schema that is no schema", chartOf(podYAML, "values.schema.json", `{"type": "thing"}`), render.Helm{}, "not a valid JSON schema"},
		{"schema that doubles", chartOf(podYAML, "values.schema.json", doublingSchema("allOf", "object")), render.Helm{}, "more than 500000 subschemas"},
		{"schema that doubles and fails", chartOf(podYAML, "values.schema.json", doublingSchema("anyOf", "string")), render.Helm{}, "more than 500000 subschemas"},
		{"schema with a costly pattern", chartOf(podYAML, "values.yaml", "a: "+strings.Repeat("x", 3_000_000)+"y\n", "values.schema.json", `{"properties": {"a": {"pattern": "`+strings.Repeat("x*", 400)+`$"}}}`), render.Helm{}, "patterns"},
		{"dependency that is null", with("c/Chart.yaml", file(chartYAML+"dependencies: [null]\n")), render.Helm{}, "dependencies must not contain"},
		{"dependency on itself", with("c/Chart.yaml", file(chartYAML+"dependencies:\n- {name: c, version: 1.0.0, repository: 'file://.'}\n")), render.Helm{}, "depends on this one"},
		{"dependency above the tree", with("c/Chart.yaml", file(chartYAML+"dependencies:\n- {name: x, version: 1.0.0, repository: 'file://../../..'}\n")), render.Helm{}, "outside of the tree"},
		{"fake separator and source", chartOf("# Source: other.yaml\n---\n# Source: c/templates/z.yaml\n[]\n"), render.Helm{}, "not-an-object"},
	}
	r := New(Options{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			objects, err := r.Render(context.Background(), render.Source{FS: c.tree, Path: "c", Helm: &c.helm})
			checkHostile(t, objects, err, c.want)
		})
	}
}

// doublingSchema is a schema whose every definition asks for the next one twice.
func doublingSchema(keyword, kind string) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/d0", "$defs": {`)
	for i := range 30 {
		fmt.Fprintf(&b, `"d%d": {"%s": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}, `, i, keyword, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d30": {"type": "%s"}}}`, kind)
	return b.String()
}

// nested makes archives within archives: n in each, depth levels, one file at
// the bottom.
func nested(t testing.TB, depth, n, size int) []byte {
	t.Helper()
	entries := []entry{{name: "s/Chart.yaml", data: []byte("apiVersion: v2\nname: s\nversion: 1.0.0\n")}}
	if depth == 0 {
		return tgz(t, append(entries, entry{name: "s/zero", data: make([]byte, size)})...)
	}
	inner := nested(t, depth-1, n, size)
	for i := range n {
		entries = append(entries, entry{name: fmt.Sprintf("s/charts/c%d.tgz", i), data: inner})
	}
	return tgz(t, entries...)
}

// TestRemoteSchema is rows H16 and H17: nothing is fetched, and that is said.
func TestRemoteSchema(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"http://127.0.0.1:9/x.json", "file:///etc/passwd", "file:///dev/zero", "other.json", "urn:x:y"} {
		tree := chartOf(podYAML, "values.yaml", "a: 1\n", "values.schema.json", `{"properties": {"a": {"$ref": "`+ref+`"}}}`)
		for range 2 { // the second time from the cache
			objects, err := New(Options{}).Render(context.Background(), render.Source{FS: tree, Path: "c"})
			errs := render.Errors(err)
			if len(objects) != 1 || len(errs) != 1 || !errs[0].Warning || errs[0].Span.File != "c/values.schema.json" {
				t.Errorf("%s: %d objects, %v", ref, len(objects), err)
			}
		}
	}
}

// TestLinks is row H12 on a real disk: links out of the tree are refused, those
// within it are followed.
func TestLinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	rendertest.OK(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("kind: Secret"), 0o600))
	cases := []struct{ name, link, target, want string }{
		{"to a file outside", "c/templates/p.yaml", filepath.Join(outside, "secret"), "leads out of the tree"},
		{"to a process", "c/leak", "/proc/self/environ", "leads out of the tree"},
		{"to a directory outside", "c/up", "../..", "leads out of the tree"},
		{"to a device", "c/.helmignore", "/dev/zero", "leads out of the tree"},
		{"to nothing", "c/LICENSE", "../LICENSE", "leads nowhere"},
		{"to itself", "c/loop", "loop", "unreadable"},
		{"to a directory above", "c/up", "..", "too many levels of symbolic links"},
		{"within the tree", "c/templates/ok.yaml", "../../shared.yaml", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tree := chartOf(podYAML)
			tree["shared.yaml"] = &fstest.MapFile{Data: []byte(podYAML)}
			rendertest.OK(t, os.CopyFS(dir, tree))
			if err := os.Symlink(c.target, filepath.Join(dir, c.link)); err != nil {
				t.Skip(err)
			}
			root, err := os.OpenRoot(dir)
			rendertest.OK(t, err)
			defer root.Close()
			objects, err := New(Options{}).Render(context.Background(), render.Source{FS: root.FS(), Path: "c"})
			checkHostile(t, objects, err, c.want)
			if c.want == "" && len(objects) != 2 {
				t.Errorf("%d objects", len(objects))
			}
		})
	}
}

// TestCancel ends a rendering that has lost its caller.
func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := New(Options{}).Render(ctx, render.Source{FS: chartOf(`{{ range 100000 }}{{ end }}`), Path: "c"})
	if err == nil || !strings.Contains(err.Error(), errStopped.Error()) {
		t.Errorf("error %v", err)
	}
}

// TestSameBytes renders charts in many ways at once: nothing of one release,
// nor the order of maps, shows in another.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	tree := chartOf(`apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  keys: {{ keys .Values.m | join "," }}
  values: {{ values .Values.m | join "," }}
  random: {{ randAlphaNum 8 }}
  before: {{ .Values.m.set | toJson | quote }}
  {{- $_ := set .Values.m "set" "x" }}
  after: {{ .Values.m.set | quote }}
`, "values.yaml", "m: {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7}\n")
	r := New(Options{})
	shared := map[string]any{"m": map[string]any{"h": "8"}}
	first := ""
	results := make(chan string, 32)
	for range cap(results) {
		go func() {
			objects, err := r.Render(context.Background(), render.Source{FS: tree, Path: "c", Helm: &render.Helm{Values: shared}})
			results <- printed("c", objects, err)
		}()
	}
	for range cap(results) {
		got := <-results
		if first == "" {
			first = got
		}
		if got != first {
			t.Fatalf("renderings differ:\n%s\n%s", first, got)
		}
	}
	if !strings.Contains(first, `"a,b,c,d,e,f,g,h"`) || !strings.Contains(first, `/data/before "null"`) {
		t.Errorf("rendered to\n%s", first)
	}
}

// TestMemory is row H13 and H19 by their cost.
func TestMemory(t *testing.T) {
	tree := chartOf(podYAML, "values.yaml", aliasBomb())
	tree["c/charts/s.tgz"] = &fstest.MapFile{Data: nested(t, 4, 4, 4<<20)}
	if n := len(tree["c/charts/s.tgz"].Data); n > 10_000 {
		t.Fatalf("archive has %d bytes, which proves nothing", n)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := New(Options{}).Render(context.Background(), render.Source{FS: tree, Path: "c"})
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("no error")
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 600<<20 {
		t.Errorf("allocated %d MiB", grown>>20)
	}
}

// TestHostileOrigins asks for the places of a field whose text went through
// more than anybody would follow.
func TestHostileOrigins(t *testing.T) {
	t.Parallel()
	fsys := chartOf(`
{{- $x := .Values.a }}
{{- range until 8 }}{{ $x = printf "%s%s" $x $x | quote }}{{ end }}
{{- $list := list }}
{{- range until 100 }}{{ $list = append $list $.Values.a }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  x: {{ printf "%s%s" $x $x | sha256sum }}
  y: {{ list $list $list $list | toJson | b64enc }}
  z: {{ toYaml (dict "a" (toYaml (dict "a" (toYaml $list)))) | quote }}
`, "values.yaml", `a: "`+strings.Repeat("ab ", 1000)+`"`)
	objects, err := New(Options{}).Render(context.Background(), render.Source{FS: fsys, Path: "c"})
	if err != nil || len(objects) != 1 {
		t.Fatal(len(objects), err)
	}
	for _, pointer := range []string{"/data/x", "/data/y", "/data/z", "/data"} {
		if len(objects[0].At(pointer)) == 0 {
			t.Errorf("%s has no place", pointer)
		}
	}
}
