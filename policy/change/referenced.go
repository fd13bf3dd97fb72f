package change

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

//go:embed references.yaml
var ownNameTable []byte

// A nameTable lists fields that hold names of objects: of those that an object needs, and of those
// that its operator makes.
type nameTable struct {
	Needs []nameFields `json:"nameReference"`
	Pods  []nameFields `json:"pods"` // as Needs, below the spec of pods
	Makes []nameFields `json:"makes"`
}

// needs returns Needs with the fields of pods and of the templates of pods.
func (t *nameTable) needs() []nameFields {
	all := t.Needs
	for _, row := range t.Pods {
		fields := row.Fields
		row.Fields = nil
		for _, of := range [][2]string{{"spec/", "Pod"}, {"template/spec/", "PodTemplate"}, {"spec/template/spec/"}, {"spec/jobTemplate/spec/template/spec/"}} {
			for _, f := range fields {
				f.Path, f.Kind = of[0]+f.Path, of[1]
				row.Fields = append(row.Fields, f)
			}
		}
		all = append(all, row)
	}
	return all
}

// nameFields are the fields that hold names of objects of one kind.
type nameFields struct {
	resid.Gvk `json:",inline"`
	Fields    types.FsSlice `json:"fieldSpecs"`
}

// is reports whether the fields name objects of a kind. In kustomize's table a kind with neither group
// nor version is in any group, and one group has a version.
func (n *nameFields) is(gk schema.GroupKind) bool {
	group, _, _ := strings.Cut(n.Group, "/")
	return n.Kind == gk.Kind && (group == gk.Group || n.Group == "" && n.Version == "")
}

// StillReferenced returns a warning for each object of the head that names an object which the
// requests delete, or a Secret that only a deleted object of an operator makes, and for each deleted Namespace or
// definition of a kind that objects of the head need. defaults is kustomize's
// table of fields; name renames files of the base. It leaves out optional references, names with
// variables, and objects that another unit, --with or an operator still provides. Objects without a
// namespace share one if they are of one unit or directory.
func StillReferenced(reqs []policy.Request, base, head *Side, defaults []byte, name func(file string) string) ([]policy.Result, error) {
	f := &references{ids: policy.NewIdentities(render.Objects(base.Units), render.Objects(head.Units)), gone: make(map[policy.Identity]*render.Object), made: make(map[policy.Identity]bool), pointers: make(map[reference][]string)}
	var upstream, own nameTable
	for _, r := range reqs {
		o := r.OldObject
		if r.Operation != policy.Delete || render.HasVariable(o.GetName()) || render.HasPlaceholder(o.GetName()) || providedByCluster(o) {
			continue
		}
		if upstream.Needs == nil {
			if err := cmp.Or(yaml.Unmarshal(defaults, &upstream), yaml.Unmarshal(ownNameTable, &own)); err != nil {
				return nil, err
			}
		}
		for _, row := range own.Makes {
			if id, ok := row.madeBy(o); ok {
				f.gone[id] = o
			}
		}
		f.gone[f.identity(o)] = o
	}
	outside := make(map[policy.Identity]bool)
	for _, o := range render.Objects(base.Context) {
		outside[f.identity(o)] = true
	}
	for _, o := range slices.Concat(render.Objects(head.Units), render.Objects(head.Anywhere), render.Objects(head.Context)) {
		if id := f.identity(o); !outside[id] {
			delete(f.gone, id)
		}
	}
	if len(f.gone) == 0 {
		return nil, nil
	}
	f.find(head, append(upstream.Needs, own.needs()...), func(o *render.Object, gone policy.Identity, pointer string, in map[string]any) {
		if is := (reference{o, gone}); in["optional"] != true {
			f.pointers[is] = append(f.pointers[is], pointer)
		}
		for _, key := range []string{"cert-manager.io/issuer", "cert-manager.io/cluster-issuer", "kubernetes.io/tls-acme"} {
			if o.GetAnnotations()[key] != "" && gone.Kind == "Secret" {
				f.made[gone] = true // by cert-manager, for the Ingress or Gateway
			}
		}
	})
	f.find(head, own.Makes, func(_ *render.Object, gone policy.Identity, _ string, _ map[string]any) { f.made[gone] = true })
	f.mayMake(reqs)
	var results []policy.Result
	for is, pointers := range f.pointers {
		if !f.made[is.to] {
			slices.Sort(pointers)
			results = append(results, is.result(f.gone[is.to], slices.Compact(pointers), name))
		}
	}
	results = append(results, f.needed(head, name)...)
	policy.Sort(results)
	return results, nil
}

// needed returns a warning for each deleted Namespace that objects of the head are in, and for each deleted
// definition of their kind. It is at the first of these objects.
func (f *references) needed(head *Side, name func(file string) string) (results []policy.Result) {
	defined := make(map[schema.GroupKind]policy.Identity)
	for id, o := range f.gone {
		if gk, ok := render.Defines(o); ok {
			defined[gk] = id
		}
	}
	users, first := make(map[policy.Identity]int), make(map[policy.Identity]*render.Object)
	for _, o := range render.Objects(head.Units) {
		own := f.identity(o)
		for _, id := range []policy.Identity{{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: own.Namespace}, defined[own.GroupKind]} {
			if gone := f.gone[id]; gone != nil && o.Unit.State != render.Unreached && f.ids.Of(o).Cluster == f.ids.Of(gone).Cluster && !policy.Undeletable(gone) {
				if users[id]++; users[id] == 1 {
					first[id] = o
				}
			}
		}
	}
	for id, o := range first {
		message := fmt.Sprintf("the change deletes %s %s, which this %s needs", id.Kind, id.Name, o.GetKind())
		switch others := users[id] - 1; {
		case others == 1:
			message += ", and so does another object"
		case others > 1:
			message += fmt.Sprintf(", and so do %d other objects", others)
		}
		results = append(results, reference{o, id}.warning(nil, message, "keep it, or remove the objects that need it", f.gone[id], name))
	}
	return results
}

// providedByCluster reports whether Kubernetes makes an object in each namespace.
func providedByCluster(o *render.Object) bool {
	return o.GetKind() == "ServiceAccount" && o.GetName() == "default" || o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt"
}

// references finds the objects of the head that name deleted ones.
type references struct {
	ids      policy.Identities
	gone     map[policy.Identity]*render.Object // the deleted objects, and what only they make
	made     map[policy.Identity]bool           // of gone: those that an operator makes, or may make
	pointers map[reference][]string
}

// madeBy returns the object of the row's kind that an operator makes for o: the last field of the row
// that o has names it. Objects that the operator only adds to are not made.
func (n *nameFields) madeBy(o *render.Object) (id policy.Identity, ok bool) {
	if how, _ := render.Lookup(o.Object, "/spec/target/creationPolicy"); how == "Merge" || how == "None" {
		return id, false
	}
	gk := o.GroupVersionKind().GroupKind()
	for _, x := range n.Fields {
		if x.Group == gk.Group && (x.Kind == "" || x.Kind == gk.Kind) {
			eachName(o.Object, utils.PathSplitter(x.Path, "/"), "", nil, func(_, name string, _ map[string]any) {
				id, ok = policy.Identity{GroupKind: schema.GroupKind{Group: n.Group, Kind: n.Kind}, Namespace: namespaceOf(o), Name: name}, true
			})
		}
	}
	return id, ok
}

// A reference is an object of the head and a deleted one that it names.
type reference struct {
	from *render.Object
	to   policy.Identity
}

func (is reference) result(gone *render.Object, pointers []string, name func(file string) string) policy.Result {
	message := fmt.Sprintf("%s %s is named here, but the change deletes it", is.to.Kind, is.to.Name)
	if gone.GetKind() != is.to.Kind {
		message = fmt.Sprintf("%s %s is named here, but the change deletes %s %s, which makes it", is.to.Kind, is.to.Name, gone.GetKind(), gone.GetName())
	}
	return is.warning(pointers, message, "name an object that stays, or keep this one", gone, name)
}

// warning returns a result at fields of the object, the first of which is the place. Its message ends with the place
// of the deleted object.
func (is reference) warning(fields []string, message, hint string, gone *render.Object, name func(file string) string) policy.Result {
	if at := gone.At("/metadata/name"); len(at) > 0 {
		message += fmt.Sprintf("; at the base it is at %s:%d", name(at[0].File), at[0].Line)
	}
	return policy.Result{
		Engine: policy.EngineRender, Policy: "references", Rule: policy.RuleStillReferenced, Operation: policy.Update, Object: is.from.Key(),
		Outcome: policy.Fail, Action: policy.Warn, Baseline: policy.New, Fields: fields, Origins: is.from.At(slices.Concat(fields, []string{""})[0]),
		Message: message, Hint: hint,
	}.Fingerprinted()
}

// mayMake adds deleted objects that an operator of the change may make from now on: a custom
// resource names them that did not at the base, in a field that is no reference.
func (f *references) mayMake(reqs []policy.Request) {
	named := make(map[string][]policy.Identity)
	for id := range f.gone {
		if id.Group == "" {
			named[id.Name] = append(named[id.Name], id)
		}
	}
	for _, r := range reqs {
		if r.Object == nil || !strings.Contains(r.Object.GroupVersionKind().Group, ".") || strings.HasSuffix(r.Object.GroupVersionKind().Group, ".k8s.io") {
			continue
		}
		was := make(map[string]bool)
		if old := cmp.Or(r.OldObject, r.Instead); old != nil {
			for _, text := range render.Texts(old.Object, "") {
				was[text] = true
			}
		}
		for _, text := range render.Texts(r.Object.Object, "") {
			for _, id := range named[text] {
				f.made[id] = f.made[id] || !was[text] && f.pointers[reference{r.Object, id}] == nil
			}
		}
	}
}

// identity returns the identity of an object on its cluster.
func (f *references) identity(o *render.Object) policy.Identity {
	id := f.ids.Of(o).Anywhere()
	if id.Namespace != "" {
		id.Namespace = namespaceOf(o)
	}
	return id
}

// namespaceOf returns the namespace of an object. If that is unknown, it returns a text that is equal for
// objects which are deployed together.
func namespaceOf(o *render.Object) string {
	switch {
	case o.GetNamespace() != "" || o.Unit == nil:
		return o.GetNamespace()
	case o.Unit.Namespace != "":
		return o.Unit.Namespace
	case o.Unit.Kind == "manifest":
		return "/" + path.Dir(o.Unit.Path)
	}
	return "/" + o.Unit.Identity()
}

// find calls found for each field of the table in which an object that the head deploys names a deleted
// one: with both, the pointer of the field, and the map that has it.
func (f *references) find(head *Side, table []nameFields, found func(o *render.Object, gone policy.Identity, pointer string, in map[string]any)) {
	type field struct {
		types.FieldSpec
		of    schema.GroupKind
		steps []string
	}
	kinds, fields := make(map[schema.GroupKind]bool), []field(nil)
	for id := range f.gone {
		kinds[id.GroupKind] = true
	}
	for gk := range kinds {
		for _, row := range table {
			for _, x := range row.Fields {
				if strings.HasPrefix(x.Path, "spec/template/") {
					x.Kind = "" // kinds that kustomize does not know have such fields, too, such as Rollout
				}
				if row.is(gk) && x.Path != "rules/resourceNames" { // a permission needs no object
					fields = append(fields, field{x, gk, utils.PathSplitter(x.Path, "/")})
				}
			}
		}
	}
	for _, o := range render.Objects(head.Units) {
		gvk := o.GroupVersionKind()
		for _, x := range fields {
			if o.Unit.State == render.Unreached || x.Kind != "" && x.Kind != gvk.Kind || x.Group != "" && x.Group != gvk.Group {
				continue
			}
			eachName(o.Object, x.steps, "", nil, func(pointer, name string, in map[string]any) {
				if gone := f.named(o, x.of, pointer, name, in); f.gone[gone] != nil {
					found(o, gone, pointer, in)
				}
			})
		}
	}
}

// eachName calls found with each text at a path of kustomize below v, its pointer and the map that has
// it. If a path ends at a map, the name in it counts.
func eachName(v any, path []string, pointer string, in map[string]any, found func(pointer, name string, in map[string]any)) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			eachName(e, path, pointer+render.Pointer(i), in, found)
		}
	case map[string]any:
		if len(path) == 0 {
			path = []string{"name"}
		}
		eachName(v[path[0]], path[1:], pointer+render.Pointer(path[0]), v, found)
	case string:
		if len(path) == 0 {
			found(pointer, v, in)
		}
	}
}

// named returns the identity of the object of a kind that a field of o names, or none. in is the map with the
// field, which may also have the kind, group and namespace. Without a kind it is the namespaced one.
func (f *references) named(o *render.Object, gk schema.GroupKind, pointer, name string, in map[string]any) policy.Identity {
	if strings.HasSuffix(pointer, "/name") {
		kind, typed := in["kind"].(string)
		if typed && kind != gk.Kind || !typed && strings.HasPrefix(gk.Kind, "Cluster") {
			return policy.Identity{}
		}
		if version, ok := in["apiVersion"].(string); ok && policy.ParseGroupVersion(version).Group != gk.Group {
			return policy.Identity{}
		}
		if group, ok := cmp.Or(in["group"], in["apiGroup"]).(string); ok && group != gk.Group {
			return policy.Identity{}
		}
	}
	namespace, _ := in["namespace"].(string)
	if before, after, ok := strings.Cut(name, "/"); ok { // in an annotation
		namespace, name = before, after
	}
	id := policy.Identity{GroupKind: gk, Namespace: cmp.Or(namespace, namespaceOf(o)), Name: name}
	if f.gone[id] == nil {
		id.Namespace = ""
	}
	return id
}
