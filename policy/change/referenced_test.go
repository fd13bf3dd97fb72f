package change

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
)

// manifest returns a unit with the objects of YAML documents.
func manifest(t *testing.T, path, text string) *render.Unit {
	t.Helper()
	u := &render.Unit{Source: render.Source{Path: path, Kind: "manifest"}}
	for document := range strings.SplitSeq(text, "---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o != nil {
			u.Objects = append(u.Objects, &render.Object{Unit: u, Unstructured: &unstructured.Unstructured{Object: o}})
		}
	}
	return u
}

// stillReferenced returns the fields that name deleted objects, each as object, pointer and kind.
func stillReferenced(t *testing.T, base, head *Side) (all []string) {
	t.Helper()
	reqs := policy.Requests(render.Objects(base.Units), render.Objects(head.Units))
	results, err := StillReferenced(reqs, base, head, kustomize.DefaultFieldSpecs(), func(file string) string { return file })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for _, field := range r.Fields {
			kind, _, _ := strings.Cut(r.Message, " ")
			all = append(all, fmt.Sprintf("%s %s %s", r.Object.Name, field, kind))
		}
	}
	return all
}

// TestEveryReference makes an object for each row of the tables, deletes the object that it names, and
// holds that this is found, but not if the object stays, the reference is optional or names another kind
// or namespace, or an operator makes the object.
func TestEveryReference(t *testing.T) {
	t.Parallel()
	var upstream, own nameTable
	for table, text := range map[*nameTable][]byte{&upstream: kustomize.DefaultFieldSpecs(), &own: ownNameTable} {
		if err := yaml.Unmarshal(text, table); err != nil {
			t.Fatal(err)
		}
	}
	tried := 0
	for _, row := range append(upstream.Needs, own.needs()...) {
		group, _, _ := strings.Cut(row.Group, "/")
		apiVersion := strings.TrimPrefix(group+"/v1", "/")
		needed := func(namespace string) *render.Unit {
			return manifest(t, "a/needed.yaml", fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x, namespace: %s}\n", apiVersion, row.Kind, namespace))
		}
		for _, field := range row.Fields {
			if field.Path == "rules/resourceNames" {
				continue
			}
			tried++
			steps := utils.PathSplitter(field.Path, "/")
			leaf := steps[len(steps)-1]
			for name, c := range map[string]struct {
				beside map[string]any
				found  bool
			}{
				"":          {map[string]any{}, !strings.HasPrefix(row.Kind, "Cluster") || leaf != "name"},
				"kind":      {map[string]any{"kind": row.Kind}, true},
				"optional":  {map[string]any{"kind": row.Kind, "optional": true}, false},
				"other":     {map[string]any{"kind": "Other"}, leaf != "name"},
				"elsewhere": {map[string]any{"kind": row.Kind, "namespace": "elsewhere"}, false},
			} {
				if leaf == "service" || leaf == "subjects" { // the field is a map with a name
					c.found = name == "" || name == "kind"
				}
				clustered := policy.NewIdentities().Of(needed("").Objects[0]).Namespace == ""
				if name == "elsewhere" && (clustered || steps[0] == "metadata") {
					continue
				}
				var value any = "x"
				if leaf == "service" || leaf == "subjects" {
					c.beside["name"], value = "x", c.beside
				}
				want := ""
				for i := len(steps) - 1; i >= 0; i-- {
					m := map[string]any{steps[i]: value}
					if i == len(steps)-1 && leaf != "service" && leaf != "subjects" {
						for k, v := range c.beside {
							m[k] = v
						}
					}
					want, value = render.Pointer(steps[i])+want, m
				}
				from := manifest(t, "a/from.yaml", "{}")
				from.Objects[0].Object = value.(map[string]any)
				from.Objects[0].SetAPIVersion(strings.TrimPrefix(field.Group+"/v1", "/"))
				from.Objects[0].SetKind(cmp.Or(field.Kind, "Anything"))
				from.Objects[0].SetName("from")
				from.Objects[0].SetNamespace("shop")
				namespace := "shop"
				if clustered {
					namespace = ""
				}
				got := stillReferenced(t, side(needed(namespace), from), side(from))
				if is := len(got) == 1 && strings.HasPrefix(got[0], "from "+want) && strings.HasSuffix(got[0], " "+row.Kind); is != c.found || !is && len(got) > 0 {
					t.Errorf("%s in %s of %s, %s: %q", row.Kind, field.Path, field.Kind, name, got)
				}
				if got := stillReferenced(t, side(needed(namespace), from), side(from, needed(namespace))); len(got) > 0 {
					t.Errorf("%s in %s of %s stays: %q", row.Kind, field.Path, field.Kind, got)
				}
			}
		}
	}
	if tried < 150 {
		t.Errorf("%d rows", tried)
	}
}

// TestStillReferenced holds what is a reference to a deleted object, beside the rows of the tables.
func TestStillReferenced(t *testing.T) {
	t.Parallel()
	const (
		secret   = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\n"
		issuer   = "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: ca}\n"
		pod      = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{envFrom: [{secretRef: {name: db}}]}]}\n"
		external = "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata: {name: es}\nspec: {target: {name: db}}\n"
		found    = "web /spec/containers/0/envFrom/0/secretRef/name Secret"
	)
	in := func(namespace, text string) string {
		return strings.Replace(text, "{name: ", "{namespace: "+namespace+", name: ", 1)
	}
	for name, c := range map[string]struct {
		file, deleted string            // of the base
		head          map[string]string // the base has these files as well, but for new.yaml
		context       string
		want          string
	}{
		"same directory":            {"a/db.yaml", secret, map[string]string{"a/web.yaml": pod}, "", found},
		"another directory":         {"b/db.yaml", secret, map[string]string{"a/web.yaml": pod}, "", ""},
		"the same namespace":        {"b/db.yaml", in("shop", secret), map[string]string{"a/web.yaml": in("shop", pod)}, "", found},
		"another namespace":         {"b/db.yaml", in("shop", secret), map[string]string{"a/web.yaml": in("bank", pod)}, "", ""},
		"another one elsewhere":     {"b/db.yaml", in("shop", secret), map[string]string{"a/web.yaml": in("shop", pod), "c/db.yaml": in("bank", secret)}, "", found},
		"renamed":                   {"a/db.yaml", secret, map[string]string{"a/web.yaml": pod, "a/db.yaml": strings.Replace(secret, "db", "database", 1)}, "", found},
		"on the cluster":            {"a/db.yaml", in("shop", secret), map[string]string{"a/web.yaml": in("shop", pod)}, in("shop", secret), ""},
		"permission":                {"a/db.yaml", secret, map[string]string{"a/r.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules: [{resourceNames: [db]}]\n"}, "", ""},
		"account of each namespace": {"a/sa.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n", map[string]string{"a/p.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {serviceAccountName: default}\n"}, "", ""},
		"variable":                  {"a/db.yaml", strings.Replace(secret, "db", `"${DB}"`, 1), map[string]string{"a/web.yaml": strings.Replace(pod, "db", `"${DB}"`, 1)}, "", ""},
		"ExternalSecret":            {"a/db.yaml", secret, map[string]string{"a/web.yaml": pod, "a/es.yaml": "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata: {name: es}\nspec: {target: {name: db}}\n"}, "", ""},
		"new operator":              {"a/db.yaml", secret, map[string]string{"a/web.yaml": pod, "a/new.yaml": "apiVersion: db.example.org/v1\nkind: Postgres\nmetadata: {name: pg}\nspec: {credentials: db}\n"}, "", ""},
		"old operator":              {"a/db.yaml", secret, map[string]string{"a/web.yaml": pod, "a/old.yaml": "apiVersion: db.example.org/v1\nkind: Postgres\nmetadata: {name: pg}\nspec: {credentials: db}\n"}, "", found},
		"deleted ExternalSecret":    {"a/es.yaml", external, map[string]string{"a/web.yaml": pod}, "", found},
		"its own name":              {"a/es.yaml", strings.Replace(external, "target: {name: db}", "target: {}", 1), map[string]string{"a/web.yaml": strings.Replace(pod, "name: db", "name: es", 1)}, "", found},
		"not its own name":          {"a/es.yaml", external, map[string]string{"a/web.yaml": strings.Replace(pod, "name: db", "name: es", 1)}, "", ""},
		"it only adds":              {"a/es.yaml", strings.Replace(external, "{name: db}", "{name: db, creationPolicy: Merge}", 1), map[string]string{"a/web.yaml": pod}, "", ""},
		"its Secret comes instead":  {"a/es.yaml", external, map[string]string{"a/web.yaml": pod, "a/new.yaml": secret}, "", ""},
		"another operator instead":  {"a/es.yaml", external, map[string]string{"a/web.yaml": pod, "a/new.yaml": "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: db}\n"}, "", ""},
		"deleted Certificate":       {"a/c.yaml", "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c}\nspec: {secretName: db}\n", map[string]string{"a/i.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec: {tls: [{secretName: db}]}\n"}, "", "i /spec/tls/0/secretName Secret"},
		"Ingress of cert-manager":   {"a/db.yaml", secret, map[string]string{"a/web.yaml": pod, "a/i.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, annotations: {cert-manager.io/issuer: x}}\nspec: {tls: [{secretName: db}]}\n"}, "", ""},
		"Ingress":                   {"a/db.yaml", secret, map[string]string{"a/i.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec: {tls: [{secretName: db}]}\n"}, "", "i /spec/tls/0/secretName Secret"},
		"annotation of an Ingress":  {"a/ca.yaml", issuer, map[string]string{"b/i.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, annotations: {cert-manager.io/cluster-issuer: ca}}\n"}, "", "i /metadata/annotations/cert-manager.io~1cluster-issuer ClusterIssuer"},
		"cluster-scoped":            {"a/ca.yaml", issuer, map[string]string{"b/c.yaml": "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c, namespace: bank}\nspec: {issuerRef: {name: ca, kind: ClusterIssuer}}\n"}, "", "c /spec/issuerRef/name ClusterIssuer"},
		"new Rollout":               {"a/db.yaml", in("shop", secret), map[string]string{"a/new.yaml": "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web, namespace: shop}\nspec: {template: {spec: {imagePullSecrets: [{name: db}]}}}\n"}, "", "web /spec/template/spec/imagePullSecrets/0/name Secret"},
	} {
		base, head := side(manifest(t, c.file, c.deleted)), side()
		for file, text := range c.head {
			u := manifest(t, file, text)
			if head.Units = append(head.Units, u); path.Base(file) != "new.yaml" {
				base.Units = append(base.Units, u)
			}
		}
		if c.context != "" {
			head.Context = []*render.Unit{manifest(t, "with.yaml", c.context)}
		}
		if got := strings.Join(stillReferenced(t, base, head), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestEveryNameOfPods fills each field of a Pod, also in templates, and holds that the Secrets and ConfigMaps that
// Kubernetes finds in it are found, and the claims and the service account.
func TestEveryNameOfPods(t *testing.T) {
	t.Parallel()
	var pod corev1.Pod
	fill(reflect.ValueOf(&pod.Spec).Elem(), "x")
	pod.Spec.EphemeralContainers = nil // no manifest has them
	want := map[string]string{pod.Spec.ServiceAccountName: "ServiceAccount", pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName: "PersistentVolumeClaim"}
	pod.Spec.Volumes = apart(pod.Spec.Volumes[0], func(v *corev1.Volume) any { return &v.VolumeSource })
	for i, v := range pod.Spec.Volumes {
		if v.Projected != nil {
			pod.Spec.Volumes[i].Projected.Sources = apart(v.Projected.Sources[0], func(p *corev1.VolumeProjection) any { return p })
		}
	}
	visit := func(kind string) podutil.Visitor {
		return func(name string) bool { want[name] = kind; return true }
	}
	podutil.VisitPodSecretNames(&pod, visit("Secret"))
	podutil.VisitPodConfigmapNames(&pod, visit("ConfigMap"))
	if len(want) < 20 {
		t.Errorf("%d names in a Pod", len(want))
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for kind, o := range map[string]map[string]any{
		"v1 Pod":             {"spec": spec},
		"apps/v1 Deployment": {"spec": map[string]any{"template": map[string]any{"spec": spec}}},
		"batch/v1 CronJob":   {"spec": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}},
	} {
		version, kind, _ := strings.Cut(kind, " ")
		maps.Copy(o, map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "o", "namespace": "shop"}})
		user := manifest(t, "a/user.yaml", "")
		user.Objects = []*render.Object{{Unit: user, Unstructured: &unstructured.Unstructured{Object: o}}}
		for name, of := range want {
			gone := manifest(t, "a/gone.yaml", fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: shop}\n", of, name))
			if len(stillReferenced(t, &Side{Units: []*render.Unit{user, gone}}, &Side{Units: []*render.Unit{user}})) == 0 {
				t.Errorf("%s does not need %s %s", kind, of, name)
			}
		}
	}
}

// apart returns a copy of v for each pointer of a union in it, with that pointer alone.
func apart[T any](v T, union func(*T) any) (all []T) {
	for i := range reflect.TypeOf(union(&v)).Elem().NumField() {
		one := v
		fields := reflect.ValueOf(union(&one)).Elem()
		for k := range fields.NumField() {
			if k != i {
				fields.Field(k).SetZero()
			}
		}
		all = append(all, one)
	}
	return all
}

// fill sets each text in a value to a name of its own, and makes one element of each list.
func fill(v reflect.Value, name string) {
	switch _, own := v.Addr().Interface().(json.Marshaler); v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !own && v.Type().Field(i).IsExported() {
				fill(v.Field(i), name+"-"+strings.ToLower(v.Type().Field(i).Name))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.String:
		v.SetString(name)
	}
}
