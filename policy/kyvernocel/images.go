package kyvernocel

import (
	"fmt"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// imageSources lists the expressions that only an ImageValidatingPolicy has.
func (c *compiled) imageSources() {
	for i, m := range c.spec.MatchImageReferences {
		if m.Expression == "" {
			c.references = append(c.references, nil)
			continue
		}
		c.references = append(c.references, c.add(cel.Expression{
			Rule: fmt.Sprintf("matchImageReferences[%d]", i), Pointer: render.Pointer("spec", "matchImageReferences", i, "expression"),
			Source: m.Expression, Want: boolean,
		}))
	}
	lists := []*celgo.Type{celgo.ListType(celgo.StringType), celgo.ListType(celgo.DynType), celgo.DynType}
	for i, m := range c.spec.Images {
		c.extractors = append(c.extractors, c.add(cel.Expression{
			Name: m.Name, Rule: "images[" + m.Name + "]", Pointer: render.Pointer("spec", "images", i, "expression"), Source: m.Expression, Want: lists,
		}))
	}
}

// podLists lists the fields of a pod that name images.
var podLists = []string{"containers", "initContainers", "ephemeralContainers"}

// podOf returns the spec of a Pod or of a controller's pod template, and its
// pointer in the object.
func podOf(kind string, tree map[string]any) (spec map[string]any, pointer string) {
	path := map[string][]string{
		"Pod": {"spec"}, "CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
		"Deployment": inTemplate, "StatefulSet": inTemplate, "DaemonSet": inTemplate, "ReplicaSet": inTemplate, "Job": inTemplate,
	}[kind]
	for _, key := range path {
		tree, _ = tree[key].(map[string]any)
		pointer += render.Pointer(key)
	}
	if len(path) == 0 {
		return nil, ""
	}
	return tree, pointer
}

var inTemplate = []string{"spec", "template", "spec"}

// A namedImage is an image that the object names: the list and the field that
// name it. An image that an extractor found has no pointer.
type namedImage struct{ list, name, pointer string }

// namedImages returns the images of a pod or of a controller of pods.
func (r *run) namedImages() []namedImage {
	tree := r.objects.Tree
	if tree == nil {
		tree = r.objects.OldTree
	}
	spec, pointer := podOf(r.as.Kind.Kind, tree)
	var all []namedImage
	for _, list := range podLists {
		containers, _ := spec[list].([]any)
		for i, c := range containers {
			container, _ := c.(map[string]any)
			name, _ := container["image"].(string)
			all = append(all, namedImage{list, name, pointer + render.Pointer(list, i, "image")})
		}
	}
	volumes, _ := spec["volumes"].([]any)
	for i, v := range volumes {
		volume, _ := v.(map[string]any)
		if image, ok := volume["image"].(map[string]any); ok {
			name, _ := image["reference"].(string)
			all = append(all, namedImage{"imageVolumes", name, pointer + render.Pointer("volumes", i, "image", "reference")})
		}
	}
	return all
}

// extracted returns the images that the policy's own extractors find.
func (r *run) extracted() ([]namedImage, *cel.Expression, error) {
	var all []namedImage
	for _, e := range r.c.extractors {
		v, err := r.eval(e)
		if err != nil {
			return nil, e, err
		}
		list, ok := v.(traits.Lister)
		if !ok {
			return nil, e, fmt.Errorf("%s gives no list", e.Rule)
		}
		for it := list.Iterator(); it.HasNext() == types.True; {
			s, ok := it.Next().(types.String)
			if !ok {
				return nil, e, fmt.Errorf("%s returns a list with an element that is not a string", e.Rule)
			}
			all = append(all, namedImage{list: e.Name, name: string(s)})
		}
	}
	return all, nil, nil
}

// verifiedImages sets the images that the policy matches, and evaluates the
// checks before its validations. done reports that the validations must not
// run.
func (r *run) verifiedImages() (vs []verdict, done bool) {
	images, culprit, err := r.extracted()
	if err != nil {
		return []verdict{r.broken(culprit, "error: ", err)}, true
	}
	images = append(r.namedImages(), images...)
	matched := 0
	for _, image := range images {
		is, culprit, err := r.concerns(image.name)
		if err != nil {
			return []verdict{r.broken(culprit, "error: ", err)}, true
		}
		if !is {
			continue
		}
		matched++
		if v := r.c.spec.ValidationConfigurations.VerifyDigest; (v == nil || *v) && !hasDigest(image.name) {
			return r.withoutDigest(image), true
		}
	}
	if matched == 0 {
		return r.each(verdict{outcome: policy.Skip, message: "no image is one that matchImageReferences name", assumed: r.assumptions()}), true
	}
	r.images = imagesByList(images, r.c.extractors)
	return nil, false
}

// withoutDigest returns the verdict for an image that is named by its tag.
// Kyverno would ask the registry for the digest and insert it.
func (r *run) withoutDigest(image namedImage) []verdict {
	v := verdict{
		rule: "verifyDigest", origin: r.c.policy.Object.Span("/spec/validationConfigurations"), outcome: policy.Fail,
		message: policy.Shorten(fmt.Sprintf("image %s does not have a digest", image.name), maxText), assumed: r.assumptions(),
	}
	if image.pointer != "" {
		v.fields = []string{image.pointer}
	}
	if m := r.c.spec.ValidationConfigurations.MutateDigest; r.mocks == nil && (m == nil || *m) {
		v.outcome, v.fields = policy.Unknown, nil
		v.message = policy.Shorten(fmt.Sprintf("needs the digest of image %q from its registry", image.name), maxText)
	}
	return []verdict{v}
}

func hasDigest(image string) bool {
	r, err := kyvernolib.ParseReference(image)
	return err == nil && r.Digest != ""
}

// concerns reports whether matchImageReferences match an image. The expression
// is the one that matched or failed.
func (r *run) concerns(image string) (bool, *cel.Expression, error) {
	for i, m := range r.c.spec.MatchImageReferences {
		e := r.c.references[i]
		if e == nil {
			if pattern.Wildcard(m.Glob, image) {
				return true, nil, nil
			}
			continue
		}
		r.reference = types.String(image)
		if is, err := r.holds(e); err != nil || is {
			return is, e, err
		}
	}
	return len(r.c.spec.MatchImageReferences) == 0, nil, nil
}

// imagesByList returns the `images` variable.
func imagesByList(images []namedImage, extractors []*cel.Expression) ref.Val {
	lists := map[string]any{"imageVolumes": []any{}}
	names := slices.Clone(podLists)
	for _, e := range extractors {
		names = append(names, e.Name)
	}
	for _, name := range names {
		lists[name] = []any{}
	}
	for _, image := range images {
		lists[image.list] = append(lists[image.list].([]any), image.name)
	}
	return kyvernolib.Frozen(lists)
}

// signatureFunctions returns the functions of ImageValidatingPolicies. Their
// answers come from registries.
func signatureFunctions() []celgo.EnvOption {
	text, list := celgo.StringType, celgo.ListType(celgo.DynType)
	ask := func(name, question string, args []*celgo.Type, result *celgo.Type) celgo.EnvOption {
		return celgo.Function(name, celgo.Overload(kyvernolib.Overload(name, "image"), args, result, celgo.FunctionBinding(func(args ...ref.Val) ref.Val {
			image, ok := args[0].(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			return ask(question, string(image))
		})))
	}
	return []celgo.EnvOption{
		ask("verifyImageSignatures", "needs the signatures of image %q from its registry", []*celgo.Type{text, list}, celgo.IntType),
		ask("verifyAttestationSignatures", "needs the attestations of image %q from its registry", []*celgo.Type{text, text, list}, celgo.IntType),
		ask("getImageData", "needs the metadata of image %q from its registry", []*celgo.Type{text}, celgo.DynType),
		ask("extractPayload", "needs the attestations of image %q from its registry", []*celgo.Type{text, text}, celgo.DynType),
	}
}
