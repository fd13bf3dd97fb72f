package argocd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf16"

	"github.com/gobwas/glob"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// maxManifests is the largest size of all files of a directory together, Argo
// CD's own default.
const maxManifests = 10 << 20

var manifestFile = regexp.MustCompile(`^.*\.(yaml|yml|json|jsonnet)$`)

// skipMarker in a file makes Argo CD skip it.
var skipMarker = []byte("# +argocd:skip-file-rendering")

// directory renders the files of a directory: YAML, JSON and Jsonnet.
func (d *deployment) directory(l *located) ([]*render.Object, error) {
	options := l.Directory
	if options == nil {
		options = &directory{}
	}
	names, err := d.manifests(l, options)
	if err != nil {
		return nil, err
	}
	var all []*render.Object
	var errs []error
	size := 0
	for _, name := range names {
		data, err := render.ReadFile(l.repo.FS, name)
		if dangling(err) {
			continue
		}
		if size += len(data); size > maxManifests {
			return nil, l.errorAt("/path", fmt.Errorf("files of the directory are larger than %d MiB together", maxManifests>>20))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if bytes.Contains(data, skipMarker) {
			d.world.SkipsFile(l.repo.FS, name, "not applied by Argo CD, because of the comment "+string(skipMarker[2:])+" in its file")
			continue
		}
		var objects []*render.Object
		switch {
		case !strings.HasSuffix(name, ".jsonnet"):
			objects, err = manifest(name, data)
			d.world.Reads(l.repo.FS, name)
		case d.enabled("jsonnet"):
			objects, err = d.jsonnet(l, &options.Jsonnet, name, data)
		}
		all = append(all, objects...)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// dangling reports whether a file is a dangling link, which Argo CD skips.
func dangling(err error) bool {
	var e *render.Error
	return errors.As(err, &e) && e.Rule == "dangling-link"
}

// manifests returns the files of a directory that may hold objects, in order.
func (d *deployment) manifests(l *located, options *directory) ([]string, error) {
	var names []string
	seen := 0
	err := fs.WalkDir(l.repo.FS, l.root(), func(name string, e fs.DirEntry, err error) error {
		if seen++; seen > maxFiles {
			return fmt.Errorf("directory has more than %d files", maxFiles)
		}
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != l.root() && !options.Recurse:
			return fs.SkipDir
		case e.IsDir() || !manifestFile.MatchString(path.Base(name)):
			return d.ctx.Err()
		}
		rel := strings.TrimPrefix(name, l.root()+"/")
		if options.Exclude != "" && matches(options.Exclude, rel) || options.Include != "" && !matches(options.Include, rel) {
			return nil
		}
		names = append(names, name)
		return d.ctx.Err()
	})
	if err != nil {
		return nil, l.errorAt("/path", err)
	}
	return names, nil
}

// matches reports whether a text matches one of Argo CD's patterns, in which *
// matches anything but the separators. An invalid pattern matches nothing.
func matches(pattern, text string, separators ...rune) bool {
	if len(pattern) > 4096 {
		return false
	}
	g, err := glob.Compile(pattern, separators...)
	return err == nil && g.Match(text)
}

// manifest returns the objects of a file. A file that can't be decoded is an
// error if it looks like a manifest, and is skipped otherwise.
func manifest(name string, data []byte) ([]*render.Object, error) {
	data = utf8(data)
	objects, err := render.Parse(name, data)
	if strings.HasSuffix(name, ".json") {
		docs, _ := render.Documents(name, data, render.YAML11)
		if len(docs) > 1 {
			return nil, &render.Error{Span: render.Span{File: name}, Rule: "argocd-application", Err: errors.New("JSON file holds several objects; Argo CD allows only one")}
		}
		var object struct{ Kind string }
		if err := json.Unmarshal(data, &object); err != nil || object.Kind == "" {
			return nil, &render.Error{Span: render.Span{File: name}, Rule: "argocd-application", Err: errors.New("JSON file holds no Kubernetes object, at which Argo CD fails")}
		}
		return objects, tolerated(err, true)
	}
	if len(objects) == 0 && !looksLikeManifest(data) {
		if !hasKind(name, data) {
			return nil, nil
		}
		if err == nil {
			err = &render.Error{Span: render.Span{File: name}, Rule: "argocd-application", Err: errors.New("file has a kind and no apiVersion, at which Argo CD fails")}
		}
	}
	return objects, tolerated(err, isJSON(data))
}

// isNullList reports whether Argo CD treats an object as an empty list.
func isNullList(o *render.Object) bool {
	items, ok := o.Object["items"]
	return ok && items == nil && o.Object["spec"] == nil && o.Object["status"] == nil
}

// itemsOf returns the items of an object that has any, whatever its kind, as Argo CD does, else the
// object.
func itemsOf(o *render.Object) ([]*render.Object, error) {
	if o.HeldObjects() == nil {
		return []*render.Object{o}, nil
	}
	var all []*render.Object
	for i, v := range o.Object["items"].([]any) {
		pointer := render.Pointer("items", i)
		m, _ := v.(map[string]any)
		if kind, _ := m["kind"].(string); kind == "" {
			return nil, placed(o, pointer, errors.New("item is no Kubernetes object, at which Argo CD fails"))
		}
		all = append(all, &render.Object{Unstructured: &unstructured.Unstructured{Object: m}, Provenance: item{o.Provenance, pointer}, Assumed: o.Assumed})
	}
	return all, nil
}

// An item is the Provenance of an item of an object.
type item struct {
	of      render.Provenance
	pointer string
}

// At implements render.Provenance.
func (i item) At(pointer string) []render.Origin { return i.of.At(i.pointer + pointer) }

// isJSON reports whether Argo CD reads a file as a stream of JSON values.
func isJSON(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) }

// tolerated turns errors that Argo CD ignores into warnings, and drops those
// about Lists without items. What follows the end of a document in YAML is lost.
func tolerated(err error, json bool) error {
	var errs []error
	for _, e := range render.Errors(err) {
		switch {
		case e.Rule == "not-an-object" && strings.HasPrefix(e.Err.Error(), "a List without items"):
			continue
		case e.Rule == "duplicate-key" || e.Rule == "ambiguous-merge" || e.Rule == "imprecise-number":
			read := *e
			read.Warning = true
			e = &read
		case e.Rule == "trailing-content" && !json:
			read := *e
			read.Warning, read.Undecided, read.Err = true, true, errors.New("content follows the end of the document: Argo CD drops it")
			e = &read
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// hasKind reports whether the first document of a file has a kind, which is all that Argo CD needs
// to apply it.
func hasKind(name string, data []byte) bool {
	docs, _ := render.Documents(name, data, render.YAML11)
	if len(docs) == 0 {
		return false
	}
	kind, _ := render.Lookup(docs[0].Value, "/kind")
	text, _ := kind.(string)
	return text != ""
}

func looksLikeManifest(data []byte) bool {
	return bytes.Contains(data, []byte("apiVersion:")) && bytes.Contains(data, []byte("kind:")) && bytes.Contains(data, []byte("metadata:"))
}

// utf8 returns a text as UTF-8. It may be in UTF-16 with a byte order mark.
func utf8(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return data
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, order.Uint16(data[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}
