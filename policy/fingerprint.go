package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// Fingerprinted returns the result with its fingerprints. The chain sets them for
// results of engines; the maker of any other result must call this.
func (r Result) Fingerprinted() Result {
	r.setFingerprint(nil)
	return r
}

// setFingerprint sets both fingerprints. UnitlessPrint is computed from the rule, the
// object and the first field, so that it survives moved lines and reordered lists.
// Fingerprint adds the unit, but not the path of a plain manifest, so that it survives
// a renamed file. A result without an object is identified by its file and message. o
// may be nil.
func (r *Result) setFingerprint(o *render.Object) {
	r.UnitlessPrint = r.unitlessPrint(o)
	r.Fingerprint = fingerprint(r.UnitlessPrint, unitInPrint(r.Object.Unit, o))
}

func (r *Result) unitlessPrint(o *render.Object) string {
	var room [11]string
	parts := append(room[:0], r.Engine, r.Policy, r.Rule, group(r.Object.APIVersion), r.Object.Kind, r.Object.Namespace, r.Object.Name)
	if len(r.Fields) > 0 {
		parts = append(parts, stablePointer(o, r.Fields[0]))
	}
	if r.Object.Kind == "" {
		parts = append(parts, r.PolicyOrigin.File, lines.ReplaceAllString(r.Message, "line"))
		if len(r.Origins) > 0 {
			parts = append(parts, r.Origins[0].File)
		}
	}
	return digest(parts...)
}

func fingerprint(unitless, unit string) string { return digest(unitless, unit) }

// unitInPrint returns the unit as fingerprints of its objects have it.
func unitInPrint(unit string, o *render.Object) string {
	if o != nil && o.Unit != nil && o.Unit.Kind == "manifest" {
		return ""
	}
	return unit
}

// fingerprintSize is the number of a fingerprint's bytes, before they are written as digits.
const fingerprintSize = 16

// lines matches line numbers in messages, which change.
var lines = regexp.MustCompile(`\blines? [0-9]+`)

func digest(parts ...string) string {
	text := make([]byte, 0, 512) // most fit, and take no memory of their own
	for i, p := range parts {
		if i > 0 {
			text = append(text, 0)
		}
		text = append(text, p...)
	}
	sum := sha256.Sum256(text)
	var digits [2 * fingerprintSize]byte
	hex.Encode(digits[:], sum[:fingerprintSize])
	return string(digits[:])
}

func group(apiVersion string) string {
	g, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return g
}

// stablePointer returns a pointer that names list elements by their keys
// instead of indexes, where they have keys, so that reordering the list does
// not change it.
func stablePointer(o *render.Object, pointer string) string {
	if o == nil || o.Unstructured == nil {
		return pointer
	}
	var b strings.Builder
	var at any = o.Object
	for _, element := range render.Path(pointer) {
		b.WriteByte('/')
		switch v := at.(type) {
		case map[string]any:
			b.WriteString(element)
			at = v[element]
		case []any:
			i, err := strconv.Atoi(element)
			if err != nil || i < 0 || i >= len(v) {
				b.WriteString(element)
				at = nil
				continue
			}
			b.WriteString(called(v, i))
			at = v[i]
		default:
			b.WriteString(element)
			at = nil
		}
	}
	return b.String()
}

// elementKeys are the fields that identify elements of the API's lists
// (x-kubernetes-list-map-keys), the likeliest first. Fingerprints depend on the
// order.
var elementKeys = []string{"name", "id", "key", "mountPath", "devicePath", "containerPort", "port", "topologyKey", "ip", "uid", "type"}

// called returns a name for element i of a list: its key, or the element itself
// if it is a scalar, or else its index. Repeated names get a number.
func called(list []any, i int) string {
	name, ok := nameOf(list[i])
	if !ok {
		return strconv.Itoa(i)
	}
	before := 0
	for _, e := range list[:i] {
		if other, ok := nameOf(e); ok && other == name {
			before++
		}
	}
	if before > 0 {
		return fmt.Sprintf("[%s]%d", name, before)
	}
	return "[" + name + "]"
}

func nameOf(element any) (string, bool) {
	switch v := element.(type) {
	case map[string]any:
		for _, key := range elementKeys {
			switch x := v[key].(type) {
			case string, int64, float64:
				return fmt.Sprintf("%s=%v", key, x), true
			}
		}
		return "", false
	case string, int64, float64, bool:
		return fmt.Sprint(v), true
	}
	return "", false
}
