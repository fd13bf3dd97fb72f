package schema

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A manifest that is applied again changes the fields that it or the one before sets.
func TestMerge(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	for name, c := range map[string]struct{ kind, was, is, live, want string }{
		"a default stays": {
			"v1 Pod", `{spec: {containers: [{name: a, image: "x:latest"}]}}`, `{spec: {containers: [{name: a, image: "x:2"}]}}`,
			`{spec: {containers: [{name: a, image: "x:latest", imagePullPolicy: Always}]}}`, `{spec: {containers: [{name: a, image: "x:2", imagePullPolicy: Always}]}}`,
		},
		"what it says no more goes": {"v1 ConfigMap", `{data: {a: "1", b: "2"}}`, `{data: {a: "3"}}`, `{data: {a: "1", b: "2", c: x}}`, `{data: {a: "3", c: x}}`},
		"an element that a policy has added": {
			"v1 Pod", `{spec: {containers: [{name: a}]}}`, `{spec: {containers: [{name: a}, {name: b}]}}`,
			`{spec: {containers: [{name: a}, {name: sidecar}]}}`, `{spec: {containers: [{name: a}, {name: b}, {name: sidecar}]}}`,
		},
		"elements go by key": {
			"v1 Service", `{spec: {ports: [{port: 1}, {port: 2}]}}`, `{spec: {ports: [{port: 2}, {port: 3}]}}`,
			`{spec: {ports: [{port: 1, nodePort: 31}, {port: 2, nodePort: 32}]}}`, `{spec: {ports: [{port: 2, nodePort: 32}, {port: 3}]}}`,
		},
		"the only fields of a strategy": {
			"apps/v1 Deployment", `{spec: {strategy: {type: RollingUpdate}}}`, `{spec: {strategy: {type: Recreate}}}`,
			`{spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}}`, `{spec: {strategy: {type: Recreate}}}`,
		},
		"a custom resource's lists are whole": {
			"example.com/v1 Any", `{spec: {list: [{name: a}]}}`, `{spec: {list: [{name: b}]}}`, `{spec: {list: [{name: a, x: 1}], y: 1}}`, `{spec: {list: [{name: b}], y: 1}}`,
		},
		"two elements with one key": {
			"v1 Pod", `{}`, `{spec: {containers: [{name: a, env: [{name: E, value: "1"}, {name: E, value: "2"}]}]}}`, `{spec: {containers: [{name: a, env: [{name: E}]}], dnsPolicy: Default}}`,
			`{spec: {containers: [{name: a, env: [{name: E, value: "1"}, {name: E, value: "2"}]}], dnsPolicy: Default}}`,
		},
		"directives": {
			"v1 Pod", `{}`, `{spec: {containers: [{name: a, $patch: delete}]}}`, `{spec: {containers: [{name: a}, {name: b}]}}`,
			`{spec: {containers: [{name: a, $patch: delete}]}}`,
		},
		"no object": {"v1 Pod", `{}`, `{spec: {$patch: [1]}}`, `{spec: {a: {}}}`, `{spec: {$patch: [1], a: {}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged, err := kinds.Merge(policy.Apply, gvk(c.kind), parse(t, c.was).Object, parse(t, c.is).Object, parse(t, c.live).Object)
			rendertest.OK(t, err)
			rendertest.Equal(t, asJSON(parse(t, c.want).Object), asJSON(merged))
		})
	}
}

const anyDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: anies.example.com}
spec:
  group: example.com
  names: {kind: Any, listKind: AnyList, plural: anies, singular: any}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              atomic: {type: array, items: {type: string}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              texts: {type: object, additionalProperties: {type: string}}
              absent: {type: object, nullable: true, additionalProperties: {type: string}}
              default: {type: object, default: {a: z}, properties: {a: {type: string}}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              map:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, x: {type: integer}}}
`

// Server-side apply merges by the schema, where a client merges by the tags of Go types, and lists of custom resources
// not at all.
func TestMergeServerSide(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "", anyDefinition)
	for name, c := range map[string]struct{ kind, was, is, live, want string }{
		"a map goes by key": {
			"example.com/v1 Any", `{spec: {map: [{name: a}, {name: b}]}}`, `{spec: {map: [{name: a, x: 1}]}}`,
			`{spec: {map: [{name: a}, {name: b}, {name: added}]}}`, `{spec: {map: [{name: a, x: 1}, {name: added}]}}`,
		},
		"a set":                      {"example.com/v1 Any", `{spec: {set: [a, b]}}`, `{spec: {set: [b, c]}}`, `{spec: {set: [a, b, added]}}`, `{spec: {set: [b, added, c]}}`},
		"what is atomic":             {"example.com/v1 Any", `{spec: {atomic: [a], whole: {a: x}}}`, `{spec: {atomic: [b], whole: {b: x}}}`, `{spec: {atomic: [a, c], whole: {a: x, c: x}}}`, `{spec: {atomic: [b], whole: {b: x}}}`},
		"another version":            {"example.com/v1 Any", `{apiVersion: example.com/v0, spec: {set: [a]}}`, `{spec: {set: [c]}}`, `{spec: {set: [a, b]}}`, `{spec: {set: [b, c]}}`},
		"an unknown kind":            {"example.com/v1 Other", `{spec: {a: 1, b: 2}}`, `{spec: {a: 3}}`, `{spec: {a: 1, b: 2, c: 4}}`, `{spec: {a: 3, c: 4}}`},
		"a default of a union":       {"apps/v1 Deployment", `{spec: {replicas: 1}}`, `{spec: {strategy: {type: Recreate}}}`, `{spec: {replicas: 1, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}}`, `{spec: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}}`},
		"two equal keys":             {"v1 Pod", `{}`, `{spec: {containers: [{name: a, env: [{name: E}, {name: E}]}]}}`, `{spec: {}}`, `/spec/containers/0/env/1`},
		"two equal elements":         {"example.com/v1 Any", `{}`, `{spec: {set: [a, a]}}`, `{spec: {}}`, `/spec/set/1`},
		"an emptied map":             {"example.com/v1 Any", `{spec: {texts: {a: x}}}`, `{spec: {texts: {}}}`, `{spec: {texts: {a: x}}}`, `/spec/texts`},
		"emptied, but for another's": {"example.com/v1 Any", `{spec: {set: [a], texts: {a: x}}}`, `{spec: {set: [], texts: {}}}`, `{spec: {set: [a], texts: {a: x, b: added}}}`, `{spec: {texts: {b: added}}}`},
		"all of a map goes":          {"example.com/v1 Any", `{spec: {texts: {a: x}, set: [a]}}`, `{spec: {set: [a]}}`, `{spec: {texts: {a: x}, set: [a]}}`, `{spec: {set: [a]}}`},
		"an empty map stays":         {"example.com/v1 Any", `{spec: {texts: {}}}`, `{spec: {texts: {}, set: [a]}}`, `{spec: {texts: {}}}`, `{spec: {texts: {}, set: [a]}}`},
		"a nullable map":             {"example.com/v1 Any", `{spec: {absent: {a: x}}}`, `{spec: {absent: {}}}`, `{spec: {absent: {a: x}}}`, `{spec: {absent: null}}`},
		"a map with a default":       {"example.com/v1 Any", `{spec: {default: {a: x}}}`, `{spec: {default: {}}}`, `{spec: {default: {a: x}}}`, `{spec: {default: null}}`},
		"a field of no schema":       {"example.com/v1 Any", `{}`, `{spec: {unknown: 1}}`, `{spec: {set: [a]}}`, `{spec: {unknown: 1, set: [a]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(text string) map[string]any {
				o := parse(t, text)
				if o.GetAPIVersion() == "" {
					o.SetAPIVersion(gvk(c.kind).GroupVersion().String())
				}
				o.SetKind(gvk(c.kind).Kind)
				return o.Object
			}
			merged, err := kinds.Merge(policy.ApplyServerSide, gvk(c.kind), of(c.was), of(c.is), of(c.live))
			if refused := (*policy.FieldError)(nil); errors.As(err, &refused) {
				rendertest.Equal(t, c.want, strings.Join(refused.Fields, " "))
				return
			}
			rendertest.OK(t, err)
			rendertest.Equal(t, asJSON(of(c.want)), asJSON(merged))
		})
	}
}

// Flux moves stringData of a Secret to data before it applies it, so that a text that it drops goes.
func TestMergeAsData(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	was, is, live := parse(t, `{stringData: {a: x, b: x}}`).Object, parse(t, `{data: {c: eQ==}, stringData: {a: z}}`).Object, parse(t, `{data: {a: eA==, b: eA==, added: eA==}}`).Object
	for method, want := range map[policy.Method]string{
		policy.ApplyAsData: `{"data":{"a":"eg==","added":"eA==","c":"eQ=="}}`, policy.ApplyServerSide: `{"data":{"a":"eA==","added":"eA==","b":"eA==","c":"eQ=="},"stringData":{"a":"z"}}`,
	} {
		merged, err := kinds.Merge(method, gvk("v1 Secret"), was, is, live)
		rendertest.OK(t, err)
		rendertest.Equal(t, want, asJSON(merged))
	}
}

// A merge that the server refuses is a failure of the request, at the place of the value.
func TestRefusedMerge(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "", anyDefinition)
	for name, c := range map[string]struct {
		method           policy.Method
		was, is, refused string
	}{
		"an emptied map":         {policy.ApplyServerSide, `{apiVersion: example.com/v1, kind: Any, metadata: {name: a}, spec: {texts: {a: x}}}`, `{apiVersion: example.com/v1, kind: Any, metadata: {name: a}, spec: {texts: {}}}`, "/spec/texts"},
		"by a client":            {policy.Apply, `{apiVersion: example.com/v1, kind: Any, metadata: {name: a}, spec: {texts: {a: x}}}`, `{apiVersion: example.com/v1, kind: Any, metadata: {name: a}, spec: {texts: {}}}`, ""},
		"null":                   {policy.ApplyServerSide, "", `{apiVersion: example.com/v1, kind: Any, metadata: {name: a}, spec: {texts: null}}`, "/spec/texts"},
		"an immutable text less": {policy.ApplyAsData, `{apiVersion: v1, kind: Secret, metadata: {name: a}, immutable: true, stringData: {a: x, b: x}}`, `{apiVersion: v1, kind: Secret, metadata: {name: a}, immutable: true, stringData: {a: x}}`, "/data/b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reqs := []policy.Request{{Operation: policy.Create, Method: c.method, Object: parse(t, c.is)}}
			if c.was != "" {
				reqs[0].Operation, reqs[0].OldObject = policy.Update, parse(t, c.was)
			}
			chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{NewValidator(kinds, nil)}}
			rendertest.OK(t, chain.StoreOld(t.Context(), reqs))
			results, err := chain.Review(t.Context(), reqs)
			rendertest.OK(t, err)
			refused := ""
			for _, r := range results {
				if r.Outcome == policy.Fail {
					refused += strings.Join(r.Fields, " ")
				}
			}
			rendertest.Equal(t, c.refused, refused)
		})
	}
}

// Helm changes a custom resource by the difference between two manifests.
func TestMergeDifference(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	was, is, live := parse(t, `{spec: {a: 1, b: 1}}`).Object, parse(t, `{spec: {a: 1, b: 2}}`).Object, parse(t, `{spec: {a: 3, b: 1}}`).Object
	for method, want := range map[policy.Method]string{policy.ApplyDifference: `{"spec":{"a":3,"b":2}}`, policy.Apply: `{"spec":{"a":1,"b":2}}`} {
		merged, err := kinds.Merge(method, gvk("example.com/v1 Any"), was, is, live)
		rendertest.OK(t, err)
		rendertest.Equal(t, want, asJSON(merged))
	}
}

// A manifest that replaces an object drops what only the server has set, and is refused where that can't change.
func TestReplace(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "").On(policy.NewCluster())
	const pods = `template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}`
	for name, c := range map[string]struct{ manifest, refused string }{
		"a Service keeps its address": {`{apiVersion: v1, kind: Service, metadata: {name: s%}, spec: {selector: {a: b}, ports: [{port: 80}]}}`, ""},
		"a Job loses its selector":    {`{apiVersion: batch/v1, kind: Job, metadata: {name: j%}, spec: {` + pods + `}}`, "/spec/selector /spec/template/metadata/labels/batch.kubernetes.io~1controller-uid /spec/template/metadata/labels/batch.kubernetes.io~1job-name /spec/template/metadata/labels/controller-uid /spec/template/metadata/labels/job-name"},
		"a claim loses its volume":    {`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c%}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, "/spec"},
		"a claim keeps its volume":    {`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c%}, spec: {volumeName: v, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, ""},
		"a Pod loses its token":       {`{apiVersion: v1, kind: Pod, metadata: {name: p%}, spec: {containers: [{name: c, image: i}]}}`, "/spec/containers/0/volumeMounts /spec/serviceAccount /spec/serviceAccountName /spec/volumes"},
		"a Pod keeps its tolerations": {`{apiVersion: v1, kind: Pod, metadata: {name: p%}, spec: {serviceAccountName: default, automountServiceAccountToken: false, containers: [{name: c, image: i}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for method, want := range map[policy.Method]string{policy.Apply: "", policy.ApplyServerSide: "", policy.Replace: c.refused} {
				reqs := []policy.Request{{
					Operation: policy.Update, Method: method, OldObject: parse(t, strings.Replace(c.manifest, "%", "", 1)),
					Object: parse(t, strings.Replace(c.manifest, "%", ", annotations: {a: b}", 1)),
				}}
				chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{NewValidator(kinds, nil)}}
				rendertest.OK(t, chain.StoreOld(t.Context(), reqs))
				results, err := chain.Review(t.Context(), reqs)
				rendertest.OK(t, err)
				var fields []string
				for _, r := range results {
					if r.Outcome == policy.Fail {
						fields = append(fields, r.Fields...)
					}
				}
				slices.Sort(fields)
				rendertest.Equal(t, want, strings.Join(slices.Compact(fields), " "))
			}
		})
	}
}

// An update keeps what the server has set in the old object: it is refused only for what the manifest changes.
func TestReapply(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {container.apparmor.security.beta.kubernetes.io/c: %}}, spec: {containers: [{name: c, image: i}]}}`
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 1, % template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`
	const claim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {% accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`
	const source = "dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: monday},"
	const service = `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {% type: NodePort, selector: {a: b}, ports: [{port: 80}]}}`
	for name, c := range map[string]struct{ manifest, was, is, want string }{
		"a profile in an annotation":     {pod, "runtime/default", "runtime/default", ""},
		"another profile":                {pod, "runtime/default", "unconfined", "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1c"},
		"a source, which its twin keeps": {claim, source, "", ""},
		"the selector of a Job":          {job, "", "suspend: true,", ""},
		"another selector":               {job, "", "selector: {matchLabels: {a: b}},", "/spec/selector /spec/selector/matchLabels/a /spec/template/metadata/labels"},
		"the address of a Service":       {service, "", "publishNotReadyAddresses: true,", ""},
		"an address that is chosen":      {service, "", "clusterIP: None,", "/spec/clusterIP/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, object := parse(t, strings.Replace(c.manifest, "%", c.was, 1)), parse(t, strings.Replace(c.manifest, "%", c.is, 1))
			req, err := requestOf(kinds, object.Object, old.Object)
			rendertest.OK(t, err)
			results, err := NewValidator(kinds, nil).Validate(t.Context(), req)
			rendertest.OK(t, err)
			var fields []string
			for _, r := range results {
				if r.Outcome == policy.Fail {
					fields = append(fields, r.Fields...)
				}
			}
			slices.Sort(fields)
			if got := strings.Join(slices.Compact(fields), " "); got != c.want {
				t.Errorf("refused at %q, want %q: %+v", got, c.want, results)
			}
		})
	}
}

// TestPointerTo finds the values at paths of the merging library.
func TestPointerTo(t *testing.T) {
	t.Parallel()
	object := parse(t, `{metadata: {labels: {a.b/c: x}}, spec: {containers: [{name: b}, {name: c, env: [{name: E}, {name: F}, {name: E, value: v}], ports: [{containerPort: 80}]}], set: [a, b, a]}}`).Object
	for path, want := range map[string]string{
		`.spec.containers[name="c"].env[name="E"]`:                          "/spec/containers/1/env/2",
		`.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]`: "/spec/containers/1/ports/0",
		`.spec.set[="a"]`:                    "/spec/set/2",
		`.spec.containers[0]`:                "/spec/containers/0",
		`.spec.containers[7]`:                "/spec/containers",
		`.spec.containers[-1]`:               "/spec/containers",
		`.spec.containers[name="x"].env`:     "/spec/containers",
		`.spec.containers[name="b"].nothing`: "/spec/containers/0",
		`.metadata.labels.a.b/c`:             "/metadata/labels/a.b~1c",
		`.spec.set expected list, got map`:   "/spec",
		`.spec[`:                             "/spec",
	} {
		rendertest.Equal(t, path+" "+want, path+" "+pointerTo(object, path))
	}
}
