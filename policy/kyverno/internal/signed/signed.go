// Package signed verifies objects that carry their signed manifest in annotations, as
// Kyverno's validate.manifests does with the library k8s-manifest-sigstore: the
// manifest must have a valid signature, and the object may differ from it in ignored
// fields only.
package signed

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/preadmit/preadmit/render"
)

// DefaultDomain is the default prefix of the annotations.
const DefaultDomain = "cosign.sigstore.dev"

// maxSize bounds an unpacked message: annotations are short, but compressed twice.
const maxSize = 16 << 20

// Errors that Kyverno reports as a failure.
var (
	ErrNoMessage   = errors.New("message not found")
	ErrNoSignature = errors.New("signature not found")
)

// An UndecidedError reports that the signature can't be verified offline.
type UndecidedError struct{ Reason string }

func (u *UndecidedError) Error() string { return u.Reason }

// A Message is the signed text that an object carries.
type Message struct {
	raw        []byte
	manifests  []any // that may be the object's
	signatures []signature
}

type signature struct {
	raw        []byte
	logged     bool // with a certificate or a bundle of a transparency log
	annotation string
}

// Read reads the message and its signatures from the object's annotations.
func Read(object map[string]any, domain string) (*Message, error) {
	notes := annotations(object)
	if notes[domain+"/resourceBundleRef"] != "" {
		return nil, &UndecidedError{"the signed manifest is in a registry: " + notes[domain+"/resourceBundleRef"]}
	}
	text, ok := notes[domain+"/message"]
	if !ok {
		return nil, ErrNoMessage
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("failed to decode the message: %w", err)
	}
	m := &Message{}
	if m.raw, err = unpack(packed); err != nil {
		return nil, err
	}
	manifests, err := m.read()
	if err != nil {
		return nil, err
	}
	m.manifests = candidates(manifests, object)
	if len(m.manifests) == 0 {
		return nil, fmt.Errorf("%w: the signed text has no manifest of this kind", ErrNoMessage)
	}
	m.signatures = signatures(notes, domain)
	if len(m.signatures) == 0 {
		return nil, ErrNoSignature
	}
	return m, nil
}

func annotations(object map[string]any) map[string]string {
	meta, _ := object["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	notes := make(map[string]string, len(all))
	for key, value := range all {
		notes[key], _ = value.(string)
	}
	return notes
}

// signatures returns those of signature, signature_1 and so on, up to the first
// that is missing.
func signatures(notes map[string]string, domain string) []signature {
	var all []signature
	for i := 0; ; i++ {
		suffix := ""
		if i > 0 {
			suffix = fmt.Sprintf("_%d", i)
		}
		text, ok := notes[domain+"/signature"+suffix]
		if !ok {
			return all
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			raw = []byte(text)
		}
		logged := notes[domain+"/certificate"+suffix] + notes[domain+"/bundle"+suffix]
		all = append(all, signature{raw: raw, logged: logged != "", annotation: domain + "/signature" + suffix})
	}
}

// unpack decompresses data. It returns data that is not compressed unchanged.
func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data, nil
	}
	return readAll(r, data)
}

func readAll(r io.Reader, otherwise []byte) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case len(out) > maxSize:
		return nil, &UndecidedError{fmt.Sprintf("the signed message is larger than %d MiB", maxSize>>20)}
	case err != nil:
		return otherwise, nil
	}
	return out, nil
}

// read returns the documents of the message: YAML, or a compressed archive of it.
func (m *Message) read() ([]any, error) {
	if all := documents(m.raw); len(all) > 0 {
		return all, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(m.raw))
	if err != nil {
		return nil, fmt.Errorf("failed to read YAMLs in the gzipped message: %w", err)
	}
	files, left := map[string][]byte{}, int64(maxSize)
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return documentsOf(files), nil
		}
		if err != nil {
			return nil, fmt.Errorf("failed to read YAMLs in the gzipped message: %w", err)
		}
		if left -= header.Size; left < 0 {
			return nil, &UndecidedError{fmt.Sprintf("the signed message is larger than %d MiB", maxSize>>20)}
		}
		if ext := path.Ext(header.Name); header.Typeflag != tar.TypeReg || strings.HasPrefix(header.Name, "..") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		if files[path.Clean("/"+header.Name)], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("failed to read YAMLs in the gzipped message: %w", err)
		}
	}
}

func documentsOf(files map[string][]byte) []any {
	var all []any
	for _, name := range sortedKeys(files) {
		all = append(all, documents(files[name])...)
	}
	return all
}

// documents returns the documents before the first one that can't be parsed.
func documents(data []byte) []any {
	var all []any
	for d := yaml.NewYAMLToJSONDecoder(bytes.NewReader(data)); ; {
		var v any
		if d.Decode(&v) != nil {
			return all
		}
		all = append(all, v)
	}
}

// candidates returns the manifests that may be the object's: those of its group, kind
// and name, and of its namespace if there are several; otherwise all of its kind.
func candidates(manifests []any, object map[string]any) []any {
	var named, placed, alike []any
	want := identityOf(object)
	for _, v := range manifests {
		manifest, _ := v.(map[string]any)
		is := identityOf(manifest)
		if manifest == nil || is.kind != want.kind {
			continue
		}
		alike = append(alike, manifest)
		if is.group != want.group || is.name != want.name {
			continue
		}
		named = append(named, manifest)
		if is.namespace == want.namespace {
			placed = append(placed, manifest)
		}
	}
	if len(named) > 1 && len(placed) > 0 {
		named = placed
	}
	if len(named) > 0 {
		return named[:1]
	}
	return alike
}

type identity struct{ group, kind, namespace, name string }

func identityOf(object map[string]any) identity {
	var id identity
	version, _ := object["apiVersion"].(string)
	if gv, err := schema.ParseGroupVersion(version); err == nil {
		id.group = gv.Group
	}
	id.kind, _ = object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	id.namespace, _ = meta["namespace"].(string)
	id.name, _ = meta["name"].(string)
	return id
}

// A Difference is a field whose value is not the manifest's.
type Difference struct {
	Key     string `json:"key"` // with dots, as ignored fields are written
	Values  Values `json:"values"`
	Pointer string `json:"-"`
}

// Values are those of the manifest and of the object; nil is a missing one.
type Values struct {
	After  any `json:"after"`
	Before any `json:"before"`
}

// Differences returns the differences between the object, whose numbers are float64,
// and the manifest, except ignored ones.
func (m *Message) Differences(object map[string]any, ignored Ignored) []Difference {
	ignores := ignored.of(object)
	now := leavesOf(object)
	var first []Difference
	for i, manifest := range m.manifests {
		left := slices.DeleteFunc(differences(leavesOf(manifest), now), func(d Difference) bool {
			return canonicalized(d) || ignores(d.Key)
		})
		if len(left) == 0 {
			return nil
		}
		if i == 0 {
			first = left
		}
	}
	return first
}

type leaf struct {
	pointer string
	value   any
}

// leavesOf returns the values in a value by their keys; null, and empty lists and
// maps, are not there.
func leavesOf(v any) map[string]leaf {
	all := map[string]leaf{}
	var walk func(v any, key, pointer string)
	walk = func(v any, key, pointer string) {
		below := func(name string, v any) {
			k := name
			if key != "" {
				k = key + "." + name
			}
			walk(v, k, pointer+render.Pointer(name))
		}
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for _, name := range sortedKeys(v) {
				below(name, v[name])
			}
		case []any:
			for i, item := range v {
				below(fmt.Sprint(i), item)
			}
		default:
			all[key] = leaf{pointer, v}
		}
	}
	walk(v, "", "")
	return all
}

// differences returns those between leaves in the order of their keys. A value
// that moved to another place of a list is not different, nor is an empty string
// different from none.
func differences(before, after map[string]leaf) []Difference {
	var all []Difference
	for key, b := range before {
		if a, ok := after[key]; !ok {
			all = append(all, Difference{key, Values{Before: b.value}, b.pointer})
		} else if a.value != b.value {
			all = append(all, Difference{key, Values{Before: b.value, After: a.value}, a.pointer})
		}
	}
	for key, a := range after {
		if _, ok := before[key]; !ok {
			all = append(all, Difference{key, Values{After: a.value}, a.pointer})
		}
	}
	all = slices.DeleteFunc(withoutMoves(all), func(d Difference) bool {
		return d.Values == Values{Before: ""} || d.Values == Values{After: ""}
	})
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// withoutMoves drops values that only moved within a list.
func withoutMoves(all []Difference) []Difference {
	type move struct {
		key    string
		values Values
	}
	seen := map[move]bool{}
	for _, d := range all {
		seen[move{anyIndex(d.Key), d.Values}] = true
	}
	return slices.DeleteFunc(all, func(d Difference) bool {
		key, back := anyIndex(d.Key), Values{Before: d.Values.After, After: d.Values.Before}
		return key != d.Key && (d.Values.Before == nil || d.Values.After == nil) && seen[move{key, back}]
	})
}

// canonicalized reports whether a container runtime made the difference: it writes
// out the registry or the tag of an image.
func canonicalized(d Difference) bool {
	before, ok := d.Values.Before.(string)
	after, is := d.Values.After.(string)
	return ok && is && strings.HasSuffix(d.Key, "image") && ("docker.io/"+before == after || before+":latest" == after)
}
