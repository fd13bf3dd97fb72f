package argocd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/pkg/util"

	"github.com/preadmit/preadmit/render"
)

// kustomize builds a kustomization with the changes that `kustomize edit` would
// make for the options of the source.
func (d *deployment) kustomize(l *located) ([]*render.Object, error) {
	overlay := render.NewOverlay(l.repo.FS, nil)
	if k := l.Kustomize; k != nil && !emptyOptions(k) {
		e, err := newEdit(l)
		if err != nil {
			return nil, err
		}
		e.env = newEnvironment(d.object.GetName(), d.spec, &l.source)
		if err := e.apply(k); err != nil {
			return nil, err
		}
		if err := overlay.WriteFrom(e.file, e.tree, e); err != nil {
			return nil, err
		}
	}
	src := render.Source{Kind: kindKustomize, Kustomize: d.buildOptions(), Helm: &render.Helm{Version: d.helmVersion(), KubeVersion: d.target.KubeVersion, APIVersions: d.target.APIVersions}}
	if k := l.Kustomize; k != nil {
		src.Helm.KubeVersion = cmp.Or(k.KubeVersion, src.Helm.KubeVersion)
		if len(k.APIVersions) > 0 {
			src.Helm.APIVersions = k.APIVersions
		}
	}
	return d.rendered(l, overlay, src)
}

// buildOptions reads `kustomize.buildOptions` of argocd-cm.
func (d *deployment) buildOptions() *render.Kustomize {
	flags := strings.FieldsFunc(d.setting("kustomize.buildOptions"), func(r rune) bool { return r == ' ' || r == '=' })
	return &render.Kustomize{
		AnyFile: slices.Contains(flags, "LoadRestrictionsNone"),
		NoHelm:  !slices.Contains(flags, "--enable-helm"),
	}
}

// An edit changes a kustomization file, and records the places of the values it
// sets.
type edit struct {
	*located
	env       environment
	file      string
	tree      map[string]any
	positions *render.Positions
	set       map[string]string // fields of the options, by the pointers of the fields that they set
	options   map[string]any
}

func newEdit(l *located) (*edit, error) {
	e := &edit{located: l, tree: map[string]any{}, set: make(map[string]string)}
	for _, name := range kustomizationFiles {
		e.file = path.Join(l.root(), name)
		data, err := render.ReadFile(l.repo.FS, e.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		docs, err := render.Documents(e.file, data, render.YAML12)
		if len(docs) > 0 {
			e.positions = docs[0].Positions
			tree, ok := docs[0].Value.(map[string]any)
			if !ok {
				return nil, &render.Error{Span: render.Span{File: e.file}, Rule: "argocd-application", Err: errors.New("kustomization is no map, so the Application's options can't be set in it")}
			}
			e.tree = clone(tree)
		} else if err != nil {
			return nil, err
		}
		return e, nil
	}
	return nil, l.errorAt("/path", fmt.Errorf("there is no kustomization in %s", l.dir))
}

// from returns the field of the options from which a field of the edited file
// was set.
func (e *edit) from(pointer string) (string, bool) {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		option, ok := e.set[p]
		if !ok {
			continue
		}
		if _, ok := render.Lookup(e.options, option+strings.TrimPrefix(pointer, p)); ok {
			option += strings.TrimPrefix(pointer, p)
		}
		return "/kustomize" + option, true
	}
	return "/kustomize", e.positions == nil
}

// At implements render.Provenance.
func (e *edit) At(pointer string) []render.Origin {
	option, ok := e.from(pointer)
	if !ok {
		return e.positions.At(pointer)
	}
	return render.WithRole(e.located.at(option), render.Patch)
}

// Line is called by [render.Object.Line].
func (e *edit) Line(pointer string, n int) []render.Origin {
	option, ok := e.from(pointer)
	if !ok {
		return e.positions.Line(pointer, n)
	}
	return e.located.line(option, n, render.Patch)
}

// Part is called by [render.Object.Part].
func (e *edit) Part(pointer, part string) []render.Origin {
	option, ok := e.from(pointer)
	if !ok {
		return nil
	}
	return render.WithRole(e.located.part(option, part), render.Patch)
}

// apply makes the changes, in Argo CD's order.
func (e *edit) apply(k *kustomize) error {
	options, err := encode(k)
	if err != nil {
		return e.errorAt("/kustomize", err)
	}
	e.options = options
	for key, value := range map[string]string{"namePrefix": k.NamePrefix, "nameSuffix": k.NameSuffix, "namespace": k.Namespace} {
		if value != "" {
			e.tree[key] = value
			e.set[render.Pointer(key)] = render.Pointer(key)
		}
	}
	err = errors.Join(
		e.replace("images", len(k.Images), func(i int) (map[string]any, error) { return parseImage(e.env.expand(k.Images[i])) }),
		e.replace("replicas", len(k.Replicas), func(i int) (map[string]any, error) {
			count, err := strconv.Atoi(k.Replicas[i].Count.String())
			return map[string]any{"name": k.Replicas[i].Name, "count": int64(count)}, err
		}),
		e.labels(k),
		e.annotations(k),
		e.components(k),
	)
	for i, p := range k.Patches {
		tree, encodeErr := encode(p)
		err = errors.Join(err, encodeErr)
		e.append("patches", tree, render.Pointer("patches", i))
	}
	return err
}

// append adds an item to a list of the file. option is the field that it was
// made from.
func (e *edit) append(key string, item any, option string) {
	list, _ := e.tree[key].([]any)
	e.set[render.Pointer(key, len(list))] = option
	e.tree[key] = append(list, item)
}

// replace adds items to a list, replacing those of the same name. Of several items with the same
// name the last counts.
func (e *edit) replace(key string, n int, item func(i int) (map[string]any, error)) error {
	items := make([]map[string]any, n)
	for i := range n {
		var err error
		if items[i], err = item(i); err != nil {
			return e.errorAt(render.Pointer("kustomize", key, i), err)
		}
	}
	for i, made := range items {
		named := func(m map[string]any) bool { return m["name"] == made["name"] }
		if slices.ContainsFunc(items[i+1:], named) {
			continue
		}
		list, _ := e.tree[key].([]any)
		at := slices.IndexFunc(list, func(v any) bool {
			m, _ := v.(map[string]any)
			return named(m)
		})
		if at < 0 {
			keep(made, nil)
			e.append(key, made, render.Pointer(key, i))
			continue
		}
		old, _ := list[at].(map[string]any)
		keep(made, old)
		list[at] = made
		e.set[render.Pointer(key, at)] = render.Pointer(key, i)
	}
	return nil
}

// keep keeps the name, tag or digest that an image had, if the new one is an asterisk.
func keep(image, old map[string]any) {
	for _, key := range []string{"newName", "newTag", "digest"} {
		if image[key] != "*" {
			continue
		}
		delete(image, key)
		if old[key] != nil {
			image[key] = old[key]
		}
	}
}

// parseImage parses an image as `kustomize edit set image` does:
// name=newName:tag@digest, where a tag or digest must be given if there is no =.
func parseImage(text string) (map[string]any, error) {
	key, value, renamed := strings.Cut(text, "=")
	if !renamed {
		key, value = "", text
	}
	name, tag, digest := util.SplitImageName(value)
	if name == text {
		return nil, errors.New("image has neither a new name nor a tag or digest, such as name=new:tag")
	}
	image := map[string]any{"name": cmp.Or(key, name), "newTag": tag, "digest": digest}
	if key != "" {
		image["newName"] = name
	}
	maps.DeleteFunc(image, func(_ string, v any) bool { return v == "" })
	return image, nil
}

// labels adds labels, usually also to selectors.
func (e *edit) labels(k *kustomize) error {
	if len(k.CommonLabels) == 0 {
		return nil
	}
	if !k.LabelWithoutSelector {
		if k.LabelIncludeTemplates {
			return e.errorAt("/kustomize/labelIncludeTemplates", errors.New("labelIncludeTemplates needs labelWithoutSelector"))
		}
		return e.pairs(e.child("commonLabels"), "/commonLabels", "commonLabels", k.CommonLabels, k.ForceCommonLabels)
	}
	list, _ := e.tree["labels"].([]any)
	at := slices.IndexFunc(list, func(v any) bool {
		m, _ := v.(map[string]any)
		templates, _ := m["includeTemplates"].(bool)
		return m["includeSelectors"] != true && templates == k.LabelIncludeTemplates
	})
	if at < 0 {
		at = len(list)
		entry := map[string]any{"pairs": map[string]any{}}
		if k.LabelIncludeTemplates {
			entry["includeTemplates"] = true
		}
		e.append("labels", entry, "/commonLabels")
		list, _ = e.tree["labels"].([]any)
	}
	entry := list[at].(map[string]any)
	pairs, _ := entry["pairs"].(map[string]any)
	if pairs == nil {
		pairs = map[string]any{}
		entry["pairs"] = pairs
	}
	return e.pairs(pairs, render.Pointer("labels", at, "pairs"), "commonLabels", k.CommonLabels, k.ForceCommonLabels)
}

func (e *edit) annotations(k *kustomize) error {
	if len(k.CommonAnnotations) == 0 {
		return nil
	}
	env := e.env
	if !k.CommonAnnotationsEnvsubst {
		e.env = nil
	}
	defer func() { e.env = env }()
	return e.pairs(e.child("commonAnnotations"), "/commonAnnotations", "commonAnnotations", k.CommonAnnotations, k.ForceCommonAnnotations)
}

// child returns the map of the file under a key.
func (e *edit) child(key string) map[string]any {
	m, ok := e.tree[key].(map[string]any)
	if !ok {
		m = make(map[string]any)
		e.tree[key] = m
	}
	return m
}

// pairs sets pairs in a map of the file. An existing value must be equal,
// unless force is set.
func (e *edit) pairs(into map[string]any, pointer, field string, pairs map[string]string, force bool) error {
	for _, key := range sortedKeys(pairs) {
		if _, has := into[key]; has && !force {
			return e.errorAt(render.Pointer("kustomize", field, key), fmt.Errorf("kustomization sets %s already; Argo CD changes that only with the option to force it", key))
		}
		value := pairs[key]
		if e.env != nil {
			value = e.env.expand(value)
		}
		if len(value) > 1 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) {
			value = value[1 : len(value)-1]
		}
		into[key] = value
		e.set[pointer+render.Pointer(key)] = render.Pointer(field, key)
	}
	return nil
}

// components adds the components. With ignoreMissingComponents, Argo CD adds only the first one
// that exists.
func (e *edit) components(k *kustomize) error {
	for i, name := range k.Components {
		dir := path.Join(e.dir, name)
		exists := fs.ValidPath(dir)
		if k.IgnoreMissingComponents {
			exists = exists && slices.ContainsFunc(kustomizationFiles, func(name string) bool {
				info, err := fs.Stat(e.repo.FS, e.repo.Path(path.Join(dir, name)))
				return err == nil && info.Mode().IsRegular()
			})
		} else if _, err := fs.Stat(e.repo.FS, e.repo.Path(dir)); err != nil {
			exists = false
		}
		if !exists {
			if k.IgnoreMissingComponents {
				continue
			}
			return e.errorAt(render.Pointer("kustomize", "components", i), fmt.Errorf("there is no component %s", name))
		}
		list, _ := e.tree["components"].([]any)
		if !slices.Contains(list, any(name)) {
			e.append("components", name, render.Pointer("components", i))
		}
		if k.IgnoreMissingComponents {
			break
		}
	}
	return nil
}
