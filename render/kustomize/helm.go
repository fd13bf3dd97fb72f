package kustomize

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

const (
	helmKind = "HelmChartInflationGenerator"

	// chartDir is a component that exists only in the snapshot, beside the
	// kustomization. It holds the objects of the kustomization's charts. As a
	// component it adds them where kustomize's own chart generator would: after
	// the resources and the generated objects, before the transformers.
	chartDir  = ".preadmit-charts"
	chartFile = "objects.yaml"
)

// A chart is an entry of helmCharts, or a chart generator.
type chart struct {
	types.HelmGlobals `json:",inline"`
	types.HelmChart   `json:",inline"`
	at                func(field ...any) render.Span
	owner             *render.Object // of its values, when they are merged
}

// An inflated is the result of rendering a chart.
type inflated struct {
	owner   *node
	file    string // in the snapshot
	objects []*render.Object
}

// inflateAll renders the charts of a kustomization and puts their objects in
// the place of the charts.
func (w *walk) inflateAll(n *node) {
	requests := slices.Concat(n.charts(), n.generators)
	if len(requests) == 0 {
		return
	}
	if w.options.NoHelm {
		w.fail(&render.Error{
			Span: requests[0].at(), Rule: "helm-not-enabled",
			Err:  fmt.Errorf("chart %s is not rendered: this kustomization is built without --enable-helm where it is deployed", show(requests[0].Name)),
			Hint: "if Argo CD builds with --enable-helm, list the file of its ConfigMap argocd-cm, which has kustomize.buildOptions, under clusters[].with in .preadmit/config.yaml",
		})
		return
	}
	var objects []*render.Object
	for _, c := range requests {
		objects = append(objects, w.inflate(n, c)...)
	}
	n.rewritten = true
	n.build.HelmCharts, n.build.HelmGlobals = nil, nil
	n.build.Components = append([]string{chartDir}, n.build.Components...)
	w.publishCharts(n, objects)
}

// charts returns the entries of helmCharts and of the deprecated
// helmChartInflationGenerator, with the namespace that kustomize gives them.
func (n *node) charts() []*chart {
	var all []*chart
	for i, c := range n.build.HelmCharts {
		request := &chart{HelmChart: c, at: n.chartPlace(i)}
		if n.build.HelmGlobals != nil {
			request.HelmGlobals = *n.build.HelmGlobals
		}
		if request.Namespace == "" {
			request.Namespace = n.passes()
			n.helm = n.helm || n.spec.Namespace == ""
		}
		all = append(all, request)
	}
	return all
}

func (n *node) chartPlace(i int) func(...any) render.Span {
	field := "helmCharts"
	if j := i - len(n.spec.HelmCharts); j >= 0 {
		field, i = "helmChartInflationGenerator", j
	}
	return func(at ...any) render.Span { return n.at(append([]any{field, i}, at...)...) }
}

// generatorChart takes a chart out of the generators.
func (w *walk) generatorChart(n *node, r ref, doc render.Document) {
	c := &chart{at: func(at ...any) render.Span { return placed(r, doc, n, at...) }}
	data, err := json.Marshal(doc.Value)
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	if err != nil {
		w.reject(n, r, "wrong-type", "the configuration of the chart has a field of the wrong type")
		return
	}
	n.generators = append(n.generators, c)
}

// inflate renders a chart, or records an error.
func (w *walk) inflate(n *node, c *chart) []*render.Object {
	src, err := w.chartSource(n, c)
	if err != nil {
		w.fail(err)
		if render.OnlyMissing(err) {
			w.absent = append(w.absent, err)
		}
		return nil
	}
	objects, err := w.helm.Render(w.ctx, src)
	w.fail(err)
	return c.keep(objects)
}

// keep returns the objects that the request includes (CRDs, hooks, tests) and
// records the assumptions.
func (c *chart) keep(objects []*render.Object) []*render.Object {
	var kept []*render.Object
	options := render.Helm{SkipHooks: c.SkipHooks, SkipTests: c.SkipTests}
	for _, o := range objects {
		if options.SkipsHook(o.GetAnnotations()["helm.sh/hook"]) {
			continue
		}
		if c.ReleaseName == "" && c.NameTemplate == "" {
			copied := *o
			copied.Assumed = append(slices.Clip(o.Assumed), "release name: "+path.Base(c.Name)+", Helm would make one up")
			o = &copied
		}
		kept = append(kept, o)
	}
	return kept
}

// error makes an error at a field of the request.
func (c *chart) error(rule, sentence string, field ...any) *render.Error {
	return &render.Error{Span: c.at(field...), Rule: rule, Err: errors.New(sentence)}
}

// chartSource returns the chart to render, found by the rules of kustomize's
// HelmChartInflationGenerator (api/internal/builtins).
func (w *walk) chartSource(n *node, c *chart) (render.Source, error) {
	if err := c.check(); err != nil {
		return render.Source{}, err
	}
	dir, err := w.chartDir(n, c)
	if err != nil {
		return render.Source{}, err
	}
	if w.helm == nil {
		return render.Source{}, c.error("unsupported", "charts are not rendered here")
	}
	helm, err := w.chartValues(n, c, dir)
	if err != nil {
		return render.Source{}, err
	}
	if helm.ReleaseName, err = c.release(); err != nil {
		return render.Source{}, err
	}
	helm.SkipCRDs = !c.IncludeCRDs
	helm.KubeVersion, helm.APIVersions = c.KubeVersion, c.ApiVersions
	if d := w.src.Helm; d != nil {
		helm.Version, helm.SkipSchema = d.Version, d.SkipSchema
		helm.KubeVersion = cmp.Or(helm.KubeVersion, d.KubeVersion)
		if len(helm.APIVersions) == 0 {
			helm.APIVersions = d.APIVersions
		}
	}
	return render.Source{FS: w.src.FS, Path: dir, Kind: "helm", Namespace: c.Namespace, Helm: helm, Owner: cmp.Or(c.owner, w.src.Owner), Store: w.src.Store, Inputs: w.src.Inputs, Variant: w.src.Variant}, nil
}

func (c *chart) check() error {
	merges := []string{"", "override", "merge", "replace"}
	switch {
	case c.Name == "":
		return c.error("wrong-value", "chart has no name")
	case strings.HasPrefix(c.Name, "-"):
		return c.error("wrong-value", "name of a chart must not start with '-'", "name")
	case strings.HasPrefix(c.ReleaseName, "-"):
		return c.error("wrong-value", "releaseName must not start with '-'", "releaseName")
	case !slices.Contains(merges, c.ValuesMerge):
		return c.error("wrong-value", "valuesMerge must be override, merge or replace", "valuesMerge")
	}
	return nil
}

// release returns the release's name. Without a name, Helm would generate one
// from the chart's name and the time, so that is an error.
func (c *chart) release() (string, error) {
	switch {
	case c.ReleaseName != "":
		return c.ReleaseName, nil
	case strings.Contains(c.NameTemplate, "{{"):
		return "", c.error("unsupported", "nameTemplate with template actions is not evaluated: give a releaseName", "nameTemplate")
	case c.NameTemplate != "":
		return c.NameTemplate, nil
	}
	return path.Base(c.Name), nil
}

// home returns the directory in which a chart is searched.
func (c *chart) home() string {
	home := cmp.Or(c.ChartHome, types.HelmDefaultHome)
	if c.Version != "" && c.Repo != "" {
		home = path.Join(home, c.Name+"-"+c.Version)
	}
	return home
}

func (w *walk) chartDir(n *node, c *chart) (string, error) {
	if remote(c.ChartHome) {
		return "", c.error("remote-base", "chartHome is not in the tree, and nothing is fetched")
	}
	name, ok := inside(n.dir, path.Join(c.home(), c.Name))
	if !ok || path.IsAbs(c.home()) {
		return "", c.error("outside-tree", "chart "+show(path.Join(c.home(), c.Name))+" leads out of the tree")
	}
	if p := w.tree.resolve(name); p.err == nil && p.dir {
		return p.real, nil
	}
	if c.Repo == "" {
		return "", c.error("missing-chart", fmt.Sprintf("chart %s not found at %s", show(c.Name), show(name)), "name")
	}
	fetched := render.NewChart(c.Repo, c.Name, c.Version)
	repo, err := w.src.Fetched(fetched)
	if err == nil {
		w.show(repo, c.at("name"))
		return repo.Root, nil
	}
	e := c.error("remote-chart", fmt.Sprintf("chart %s is not in the tree at %s, and nothing is fetched from %s", show(c.Name), show(name), show(withoutSecrets(c.Repo))), "name")
	e.Source = strings.Join(strings.Fields("chart "+c.Name+" "+c.Version+" of "+withoutSecrets(c.Repo)), " ")
	return "", e.Needs(fetched, err, "vendor it: `helm pull --untar --untardir "+path.Dir(name)+"`")
}

// publishCharts adds the objects of charts to the snapshot, as a component. An
// annotation keeps kustomize from setting their namespace, which Helm has set;
// kustomize removes the annotation.
func (w *walk) publishCharts(n *node, objects []*render.Object) {
	var data bytes.Buffer
	to := json.NewEncoder(&data)
	for i, o := range objects {
		if i > 0 {
			data.WriteString("---\n")
		}
		if err := to.Encode(marked(o)); err != nil {
			w.fail(n.error("internal", fmt.Errorf("object %d of a chart is not representable in JSON", i)))
			return
		}
	}
	dir := path.Join(n.dir, chartDir)
	name := path.Join(dir, chartFile)
	w.snap.addFile(name, name, data.Bytes())
	kustomization := path.Join(dir, konfig.DefaultKustomizationFileName())
	w.snap.addFile(kustomization, kustomization,
		fmt.Appendf(nil, "{apiVersion: %s, kind: %s, resources: [%s]}\n", types.ComponentVersion, types.ComponentKind, chartFile))
	w.inflated = append(w.inflated, inflated{n, name, objects})
	n.objects += len(objects)
}

// marked returns the object with kustomize's annotation for objects of charts. The two
// share all but their metadata.
func marked(o *render.Object) map[string]any {
	c := unstructured.Unstructured{Object: maps.Clone(o.Object)}
	meta, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		return c.Object
	}
	c.Object["metadata"] = maps.Clone(meta)
	annotations := c.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[konfig.HelmGeneratedAnnotation] = "true"
	c.SetAnnotations(annotations)
	return c.Object
}
