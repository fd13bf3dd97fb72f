package podsecurity

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

// maxKey bounds the length of a key.
const maxKey = 16 << 10

// Key returns a key that is equal for objects whose pods get the same result from all
// checks: it holds all that [Read] reads except images, for which see [ImageKey]. It is
// "" if there is no pod, or if the pod is larger than maxKey or not JSON.
func Key(object map[string]any, at string) string {
	v, _ := render.Lookup(object, at)
	template, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	metadata := at + "/metadata"
	if at == cronJobPod {
		metadata = cronJobMetadata
	}
	meta, _ := render.Lookup(object, metadata)
	k := key{bytes: make([]byte, 0, 512)}
	k.text(at)
	found := annotations(meta)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		k.text(name)
		k.text(found[name])
	}
	k.bytes = append(k.bytes, 'e')
	k.value(template["spec"], false, maxDepth)
	if k.unfit || len(k.bytes) > maxKey {
		return ""
	}
	return string(k.bytes)
}

// ImageKey returns a key that is equal for lists of images of which the excludes select
// the same ones. The images are those of a pod's containers ([Images]).
func ImageKey(excludes []Exclude, images []string) string {
	var b []byte
	for i := range excludes {
		if len(excludes[i].Images) == 0 {
			continue
		}
		for _, image := range images {
			if pattern.AnyWildcard(excludes[i].Images, image) {
				b = append(b, '+')
			} else {
				b = append(b, '-')
			}
		}
	}
	return string(b)
}

// Images returns the images of the containers of the pod at a pointer of an object.
func Images(object map[string]any, at string) (images []string) {
	for _, name := range containerLists {
		list, _ := render.Lookup(object, at+"/spec/"+name)
		containers, _ := list.([]any)
		for _, c := range containers {
			m, _ := c.(map[string]any)
			image, _ := m["image"].(string)
			images = append(images, image)
		}
	}
	return images
}

// A key is written with types and lengths, so that different values have different
// keys.
type key struct {
	bytes []byte
	unfit bool
}

func (k *key) text(s string) {
	k.bytes = append(binary.AppendUvarint(append(k.bytes, 's'), uint64(len(s))), s...)
}

// value writes a value as withoutQuantities would return it.
func (k *key) value(v any, container bool, depth int) {
	if depth == 0 || len(k.bytes) > maxKey {
		k.unfit = true
		return
	}
	switch v := v.(type) {
	case nil:
		k.bytes = append(k.bytes, '0')
	case bool:
		k.bytes = append(k.bytes, 'f')
		if v {
			k.bytes[len(k.bytes)-1] = 't'
		}
	case int64:
		k.bytes = binary.AppendVarint(append(k.bytes, 'i'), v)
	case float64:
		k.bytes = binary.BigEndian.AppendUint64(append(k.bytes, 'd'), math.Float64bits(v))
	case string:
		k.text(v)
	case []any:
		k.bytes = binary.AppendUvarint(append(k.bytes, 'l'), uint64(len(v)))
		for _, e := range v {
			k.value(e, container, depth-1)
		}
	case map[string]any:
		k.object(v, container, depth)
	default:
		k.unfit = true
	}
}

func (k *key) object(m map[string]any, container bool, depth int) {
	k.bytes = append(k.bytes, 'm')
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch _, isText := m[name].(string); {
		case isQuantity(name), container && name == "image" && isText:
			continue
		}
		k.text(name)
		k.value(m[name], !container && slices.Contains(containerLists, name), depth-1)
	}
	k.bytes = append(k.bytes, 'e')
}

var containerLists = []string{"initContainers", "containers", "ephemeralContainers"}
