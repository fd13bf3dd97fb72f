package helm

import (
	"context"
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// unlike are functions whose results are not those of Helm's engine: random ones,
// those of time, in the order of maps or by other libraries; and those of which
// a short text makes much work for that engine.
var unlike = regexp.MustCompile(`rand|uuid|gen|now|ago|[dD]ate|htpasswd|bcrypt|derive|shuffle|encrypt|decrypt|Host|keys|values|tpl|include|template|define|block|until|repeat|seq|print|html|js|Zone|duration|regex|semver|sort|dict|Files|fromYaml|Toml|Pretty|[0-9]{4}`)

// asking are words of templates that variants may answer differently.
var asking = regexp.MustCompile(`Release|Cap|lookup|\{\{-? *[.$]`)

// FuzzTemplate holds that the hooks which note what a template asks, and where
// its output comes from, change nothing of what it writes: Helm's own engine
// writes the same.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		`{{ if .Release.IsUpgrade }}a{{ else }}b{{ end }}`,
		`{{ with .Capabilities.APIVersions }}{{ if "e.com/v9" | .Has }}a{{ end }}{{ .Has "v1" }}{{ end }}`,
		`{{ $x := lookup "v1" "ConfigMap" "a" "b" }}{{ if eq (dig "a" "b" $x) "c" }}d{{ end }}{{ $x | toYaml }}`,
		`{{ range $k, $v := .Values }}{{ $k }}: {{ $v | quote }}{{ else }}none{{ end }}`,
		`{{ get .Release "IsUpgrade" | ternary "a" "b" }}{{ index .Values.list 1 }}{{- .Values.map.key -}} x`,
		`{{ . }}`,
		`{{ if not (has "e.com/v9" .Capabilities.APIVersions) }}{{ break }}{{ end }}`,
		`{{ range .Values.list }}{{ if eq . "a" }}{{ continue }}{{ end }}{{ . }}{{ end }}`,
	} {
		f.Add(text)
	}
	r := New(Options{})
	files := []*loader.BufferedFile{
		{Name: "Chart.yaml", Data: []byte("apiVersion: v2\nname: c\nversion: 0.1.0\n")},
		{Name: "values.yaml", Data: []byte("list: [a, b]\nmap: {key: value}\n")},
		{Name: "templates/a.yaml"},
	}
	stock, err := loader.LoadFiles(files)
	rendertest.OK(f, err)
	tree := fstest.MapFS{}
	for _, file := range files {
		tree["c/"+file.Name] = &fstest.MapFile{Data: file.Data}
	}
	variants := []render.Variant{{}, {Upgrade: true, APIVersions: []string{"e.com/v9"}}}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 500 || unlike.MatchString(text) {
			return
		}
		tree["c/templates/a.yaml"].Data, stock.Templates[0].Data = []byte(text), []byte(text)
		asked := variants
		if len(text)%8 > 0 && !asking.MatchString(text) {
			asked = variants[:1] // the other writes the same
		}
		for _, v := range asked {
			ours, err := written(r, tree, v)
			want, stockErr := stockText(stock, v)
			if (err != nil) != (stockErr != nil) || err == nil && render.WithoutAddresses(ours) != render.WithoutAddresses(want) {
				t.Errorf("%s\nwrites %q, %v\nHelm   %q, %v", v, ours, err, want, stockErr)
			}
		}
	})
}

// written is what the template of the chart c writes.
func written(r *Renderer, tree fstest.MapFS, v render.Variant) (string, error) {
	rel, err := r.caches.prepare(render.Source{FS: tree, Path: "c", Kind: "helm", Variant: v, Inputs: new(render.Inputs)})
	if err != nil {
		return "", err
	}
	outputs, err := rel.execute(context.Background())
	if err != nil {
		return "", err
	}
	return outputs[0].text, nil
}

// stockText is what Helm's own engine writes for the only template of a chart.
func stockText(c *chart.Chart, v render.Variant) (string, error) {
	caps, err := Options{}.capabilities(render.Helm{})
	if err != nil {
		return "", err
	}
	caps.APIVersions = append(caps.APIVersions, v.APIVersions...)
	opts := chartutil.ReleaseOptions{Name: "c", Namespace: "default", Revision: 1, IsInstall: true}
	if v.Upgrade {
		opts.Revision, opts.IsInstall, opts.IsUpgrade = 2, false, true
	}
	c.Values = map[string]any{"list": []any{"a", "b"}, "map": map[string]any{"key": "value"}} // a template may change them
	values, err := chartutil.ToRenderValues(c, nil, opts, caps)
	if err != nil {
		return "", err
	}
	out, err := engine.Render(c, values)
	return out["c/templates/a.yaml"], err
}

// FuzzCuts holds that an output is cut into documents where Helm cuts it.
func FuzzCuts(f *testing.F) {
	for _, text := range []string{"a\n---\nb", "---\n---\n\n--- c", "a\n \t---b---\n", "\n\n---", "a --- b", "---\n---\v\n--- c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var ours []string
		for _, cut := range cuts(text, false) {
			ours = append(ours, text[cut[0]:cut[1]])
		}
		theirs := releaseutil.SplitManifests(text)
		maps.DeleteFunc(theirs, func(_, doc string) bool { return doc == "" }) // as of "\v", which is no \s of Helm's separator
		if len(ours) != len(theirs) {
			t.Fatalf("%q: %d documents, Helm has %d", text, len(ours), len(theirs))
		}
		for i, doc := range ours {
			found := false
			for _, other := range theirs {
				found = found || strings.TrimSpace(other) == strings.TrimSpace(doc)
			}
			if !found {
				t.Errorf("%q: document %d is %q", text, i, doc)
			}
		}
	})
}
