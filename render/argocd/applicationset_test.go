package argocd

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// canonical writes a value as the recorded outcomes do: keys sorted, numbers as Go
// prints them, nothing escaped for HTML.
func canonical(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	rendertest.OK(t, err)
	var plain any
	rendertest.OK(t, json.Unmarshal(data, &plain))
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	rendertest.OK(t, enc.Encode(plain))
	return strings.TrimSuffix(b.String(), "\n")
}

// compareDigests holds that objects are those with the digests. The recorded ones
// have no namespace where it is that of the ApplicationSet.
func compareDigests(t *testing.T, objects []*render.Object, want map[string]bool) {
	t.Helper()
	if len(objects) != len(want) {
		t.Errorf("%d Applications, want %d", len(objects), len(want))
	}
	for _, o := range objects {
		without := o.DeepCopy()
		without.SetNamespace("")
		if !want[digest(canonical(t, without.Object))] && !want[digest(canonical(t, o.Object))] {
			t.Errorf("%s differs", o.GetName())
		}
	}
}

// newGeneration makes the generation of an ApplicationSet with the fields of
// spec, in a world of files and Secrets.
func newGeneration(t *testing.T, spec map[string]any, files fstest.MapFS, secrets []map[string]any) *generation {
	t.Helper()
	f := &fakeWorld{tree: files, params: map[string][]map[string]any{}}
	for _, s := range secrets {
		s["apiVersion"], s["kind"] = "v1", "Secret"
		f.objects = append(f.objects, &render.Object{Unstructured: &unstructured.Unstructured{Object: s}})
	}
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "set"}, "spec": spec}}}
	var typed struct {
		Spec applicationSetSpec `json:"spec"`
	}
	rendertest.OK(t, decode(o.Object, &typed))
	g := &generation{set: o, world: f.world(), spec: &typed.Spec, namespace: "argocd"}
	g.lister.ctx = t.Context()
	g.engine = *newTestEngine(t, typed.Spec.GoTemplate, typed.Spec.GoTemplateOptions)
	return g
}

// TestDirectories holds that only directories count that Git has: those with files.
func TestDirectories(t *testing.T) {
	t.Parallel()
	l := lister{ctx: t.Context()}
	tree := fstest.MapFS{"teams/a/x.yaml": {}, "teams/b": {Mode: fs.ModeDir}, "teams/.c/x.yaml": {}}
	names, err := l.list(render.Repository{FS: tree, Root: "."}, listing{kind: directories})
	if rendertest.OK(t, err); !slices.Equal(names, []string{"teams", "teams/a"}) {
		t.Errorf("%q", names)
	}
}

type generatorRow struct {
	ApplicationSet map[string]any
	Generator      map[string]any
	GenParams      map[string]any
	Template       map[string]any
	Params         []map[string]any
	Secrets        []map[string]any
	Repo           []struct {
		Directories []string
		Pattern     string
		Files       map[string]string
		Error       *string
	}
	Results []struct {
		Params   []map[string]any
		Template map[string]any
	}
	Error *string
}

// asGit reports whether the recorded repository matches patterns as git does: it
// is a mock.
func (r *generatorRow) asGit(t *testing.T, g *generation) bool {
	t.Helper()
	for _, call := range r.Repo {
		if call.Pattern == "" {
			continue
		}
		match, err := g.fileGlob(render.Repository{}, call.Pattern)
		rendertest.OK(t, err)
		for _, other := range r.Repo {
			for name := range other.Files {
				if _, found := call.Files[name]; found != match(name) {
					return false
				}
			}
		}
	}
	return true
}

func (r *generatorRow) run(t *testing.T) ([]batch, error) {
	t.Helper()
	tree := fstest.MapFS{}
	for _, call := range r.Repo {
		if call.Error != nil {
			t.Skip("the recorded repository fails")
		}
		for _, dir := range call.Directories {
			tree[dir+"/x"] = &fstest.MapFile{}
		}
		for name, text := range call.Files {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	if r.ApplicationSet == nil {
		r.ApplicationSet = map[string]any{}
	}
	if r.Template != nil {
		r.ApplicationSet["template"] = r.Template
	}
	g := newGeneration(t, r.ApplicationSet, tree, r.Secrets)
	for _, call := range r.Repo {
		if call.Directories != nil { // without those above them
			g.known = map[listing][]string{{"RepoURL", "Revision", directories}: call.Directories}
		}
	}
	if !r.asGit(t, g) {
		t.Skip("the recorded repository matches patterns otherwise than git")
	}
	if r.Generator["git"] != nil {
		g.spec.Template.Spec.Project = "default" // the recorded world has it
	}
	var under *paramSet
	if len(r.GenParams) > 0 {
		under = &paramSet{values: r.GenParams}
	}
	return g.transform(entry{r.Generator, "/spec/generators/0"}, under)
}

// skipMocks skips what asks more than the row holds.
func skipMocks(t *testing.T, generator map[string]any) {
	t.Helper()
	text := canonical(t, generator)
	for _, kind := range []string{"git", "clusters", "scmProvider", "clusterDecisionResource", "pullRequest", "plugin"} {
		if strings.Contains(text, `"`+kind+`":`) {
			t.Skip("what its generators get is not in the record")
		}
	}
}

func sorted(t *testing.T, params []*paramSet) []string {
	texts := []string{}
	for _, p := range params {
		texts = append(texts, canonical(t, p.values))
	}
	slices.Sort(texts)
	return texts
}

func TestGeneratorsAsArgoCD(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"generator-list", "generator-clusters", "generator-git", "generator-matrix", "generator-merge"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rows(t, kind, func(t *testing.T, row generatorRow) {
				if row.Error != nil && (strings.Contains(*row.Error, "could not list") || strings.Contains(*row.Error, "appprojects")) {
					t.Skip("the recorded cluster fails, or lacks an AppProject")
				}
				if m := row.Generator; m["matrix"] != nil || m["merge"] != nil {
					skipMocks(t, m)
				}
				delete(row.Generator, "selector") // comes after what is recorded
				batches, err := row.run(t)
				if (err != nil) != (row.Error != nil) {
					t.Fatalf("error %v, want %v", err, row.Error)
				}
				if err != nil {
					return
				}
				want := []string{}
				for _, p := range row.Params {
					want = append(want, canonical(t, p))
				}
				slices.Sort(want)
				rendertest.Equal(t, want, sorted(t, batches[0].params))
			})
		})
	}
}

func TestTransformAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "transform", func(t *testing.T, row generatorRow) {
		skipMocks(t, row.Generator)
		batches, err := row.run(t)
		if (err != nil) != (row.Error != nil) {
			t.Fatalf("error %v, want %v", err, row.Error)
		}
		for i, b := range batches {
			want := []string{}
			for _, p := range row.Results[i].Params {
				want = append(want, canonical(t, p))
			}
			slices.Sort(want)
			rendertest.Equal(t, want, sorted(t, b.params))
			if d := cmp.Diff(canonical(t, row.Results[i].Template), canonical(t, b.template)); d != "" {
				t.Errorf("template: -want +got:\n%s", d)
			}
		}
	})
}

func TestApplicationsAsArgoCD(t *testing.T) {
	t.Parallel()
	rows(t, "render-application", func(t *testing.T, row struct {
		Template, Application, Params map[string]any
		SyncPolicy                    map[string]any
		GoTemplate                    bool
		GoTemplateOptions             []string
		Error                         *string
	},
	) {
		if row.Error != nil && strings.Contains(*row.Error, "unsupported type: func") {
			t.Skip("its parameter is a function, which the record can't hold")
		}
		spec := map[string]any{"goTemplate": row.GoTemplate, "goTemplateOptions": row.GoTemplateOptions, "template": row.Template}
		if row.SyncPolicy != nil {
			spec["syncPolicy"] = row.SyncPolicy
		}
		g := newGeneration(t, spec, nil, nil)
		template, err := encode(g.spec.Template)
		rendertest.OK(t, err)
		if row.Template["spec"].(map[string]any)["project"] == "" {
			template["spec"].(map[string]any)["project"] = ""
		}
		o, err := g.application(batch{template: template, pointers: []string{"/spec/template"}}, &paramSet{values: row.Params})
		if (err != nil) != (row.Error != nil) {
			t.Fatalf("error %v, want %v", err, row.Error)
		}
		if err != nil {
			return
		}
		rendertest.Equal(t, comparable(t, row.Application), comparable(t, o.Object))
	})
}

// comparable leaves out of an Application what templates can't set.
func comparable(t *testing.T, app map[string]any) string {
	t.Helper()
	app = clone(app)
	for _, key := range []string{"status", "apiVersion", "kind"} {
		delete(app, key)
	}
	meta, _ := app["metadata"].(map[string]any)
	for _, key := range []string{"creationTimestamp", "deletionTimestamp", "uid", "resourceVersion", "generation", "namespace"} {
		delete(meta, key)
	}
	return canonical(t, app)
}

type outcome struct {
	ApplicationSets []struct {
		Name, Namespace, Status string
		DuplicateNames          []string
		Error                   string
		Generators              []string
		GoTemplate              bool
		Applications            []struct {
			APIVersion, Kind, Name, SHA256 string
			Metadata, Spec                 map[string]any
		}
	}
}

func TestExamplesOfArgoCD(t *testing.T) {
	t.Parallel()
	wants := rendertest.GlobOrSkip(t, filepath.Join(corpus, "argo-cd-examples/*/want.json"))
	clusters := parseFile(t, filepath.Join(corpus, "argo-cd-examples/clusters.yaml"))
	stubs := stubsOf(t, filepath.Join(corpus, "argo-cd-examples/stubs.yaml"))
	for _, want := range wants {
		dir := filepath.Dir(want)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			f := &fakeWorld{tree: os.DirFS(filepath.Join(corpus, "argo-cd-examples/_tree")), objects: clusters, params: map[string][]map[string]any{}}
			compareSets(t, f, parseFile(t, filepath.Join(dir, "in/appset.yaml")), readOutcome(t, want), stubs)
		})
	}
}

func readOutcome(t *testing.T, file string) outcome {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	var o outcome
	rendertest.OK(t, json.Unmarshal(data, &o))
	return o
}

func stubsOf(t *testing.T, file string) []map[string]any {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	var stubs struct{ PullRequest []map[string]any }
	rendertest.OK(t, yaml.Unmarshal(data, &stubs))
	return stubs.PullRequest
}

// compareSets holds that each ApplicationSet of an outcome makes the wanted
// Applications.
func compareSets(t *testing.T, f *fakeWorld, objects []*render.Object, want outcome, stubs []map[string]any) {
	t.Helper()
	for _, set := range want.ApplicationSets {
		i := slices.IndexFunc(objects, func(o *render.Object) bool {
			return o.GetKind() == "ApplicationSet" && o.GetName() == set.Name
		})
		if i < 0 {
			t.Errorf("no ApplicationSet %s", set.Name)
			continue
		}
		if slices.Contains(set.Generators, "pullRequest") {
			f.params[namespaceOf(objects[i])+"/"+set.Name] = stubs
		}
		u := New().Resolve(t.Context(), objects[i], f.world())
		if status := u.Status(); (status == "rendered") != (set.Status == "ok") {
			t.Errorf("%s is %s, want %s (%s): %v", set.Name, status, set.Status, set.Error, u.Err)
			continue
		}
		var texts, names []string
		digests := make(map[string]bool)
		for _, a := range set.Applications {
			names = append(names, a.Name)
			digests[a.SHA256] = true
			if a.Spec != nil && set.Status == "ok" {
				texts = append(texts, comparable(t, map[string]any{"metadata": a.Metadata, "spec": a.Spec}))
			}
		}
		var got []string
		for _, o := range u.Objects {
			got = append(got, comparable(t, o.Object))
			if places := o.At("/metadata/name"); len(places) == 0 || places[0].Line == 0 {
				t.Errorf("%s: name of %s has no place", set.Name, o.GetName())
			}
		}
		slices.Sort(texts)
		slices.Sort(got)
		if set.Status == "ok" && len(texts) == 0 && len(names) > 0 { // recorded by digest alone
			compareDigests(t, u.Objects, digests)
			continue
		}
		if d := cmp.Diff(texts, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", set.Name, d)
		}
	}
}

// TestSetsOfRepositories holds what the ApplicationSets in kustomizations of a
// whole repository make.
func TestSetsOfRepositories(t *testing.T) {
	t.Parallel()
	wants, _ := filepath.Glob(filepath.Join(corpus, "*/argo-appset-*/want.json"))
	if len(wants) == 0 {
		t.Skip("no recorded repositories")
	}
	for _, want := range wants {
		dir := filepath.Dir(want)
		repo := filepath.Join("../../../shared/repos", filepath.Base(filepath.Dir(dir)))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			list, err := os.ReadFile(filepath.Join(dir, "kustomization.txt"))
			if err != nil || testing.Short() {
				t.Skip("takes a while, or has no kustomization")
			}
			f := &fakeWorld{tree: os.DirFS(repo), params: map[string][]map[string]any{}, objects: parseFile(t, filepath.Join(dir, "clusters.yaml"))}
			var objects []*render.Object
			for _, k := range strings.Fields(string(list)) {
				made, err := f.Render(t.Context(), render.Source{FS: f.tree, Path: k, Kind: "kustomize"})
				if len(made) == 0 {
					t.Fatal(err)
				}
				objects = append(objects, made...)
			}
			compareSets(t, f, objects, readOutcome(t, want), stubsOf(t, filepath.Join(dir, "stubs.yaml")))
		})
	}
}
