package argocd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-jsonnet"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/render"
)

// Limits of a Jsonnet file. The library can't be stopped: an evaluation that
// takes too long continues in the background until the process ends.
const (
	maxJsonnetTime  = 10 * time.Second
	maxJsonnetStack = 500
)

// jsonnet evaluates a file, whose value must be an object or a list of objects.
func (d *deployment) jsonnet(l *located, options *jsonnetOptions, name string, data []byte) ([]*render.Object, error) {
	if err := nested(options, data); err != nil {
		return nil, jsonnetError(name, err)
	}
	vm := jsonnet.MakeVM()
	vm.MaxStack = maxJsonnetStack
	vm.SetTraceOut(io.Discard)
	importer := &repositoryImporter{fsys: l.repo.FS, root: l.repo.Root, dirs: []string{l.root()}, known: make(map[string]jsonnet.Contents)}
	for i, lib := range options.Libs {
		clean := path.Join(".", lib)
		if !fs.ValidPath(clean) {
			return nil, l.errorAt(render.Pointer("directory", "jsonnet", "libs", i), errors.New("library lies outside of the repository"))
		}
		importer.dirs = append(importer.dirs, l.repo.Path(clean))
	}
	vm.Importer(importer)
	env := newEnvironment(d.object.GetName(), d.spec, &l.source)
	for _, v := range options.ExtVars {
		if v.Code {
			vm.ExtCode(v.Name, env.expand(v.Value))
		} else {
			vm.ExtVar(v.Name, env.expand(v.Value))
		}
	}
	for _, v := range options.TLAs {
		if v.Code {
			vm.TLACode(v.Name, env.expand(v.Value))
		} else {
			vm.TLAVar(v.Name, env.expand(v.Value))
		}
	}
	text, err := d.evaluate(vm, name, data)
	if err != nil {
		return nil, jsonnetError(name, err)
	}
	objects, err := jsonnetObjects(name, text)
	for _, v := range slices.Concat(options.ExtVars, options.TLAs) {
		if namesCommit(v.Value) {
			e := l.errorAt(render.Pointer("directory", "jsonnet"), fmt.Errorf("variable %s holds the commit that Argo CD deploys, which is not known before the merge", v.Name))
			e.Warning, e.Undecided = true, true
			err = errors.Join(err, e)
		}
	}
	return objects, err
}

// nested refuses code that is nested too deep, in the file and in variables
// that are code.
func nested(options *jsonnetOptions, data []byte) error {
	if err := checkNesting(string(data)); err != nil {
		return err
	}
	for _, v := range slices.Concat(options.ExtVars, options.TLAs) {
		if err := checkNesting(v.Value); v.Code && err != nil {
			return fmt.Errorf("variable %s %w", v.Name, err)
		}
	}
	return nil
}

// evaluate evaluates a file, and stops waiting for it after some time.
func (d *deployment) evaluate(vm *jsonnet.VM, name string, data []byte) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := vm.EvaluateAnonymousSnippet(name, string(data))
		done <- result{text, err}
	}()
	timer := time.NewTimer(maxJsonnetTime)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.text, r.err
	case <-d.ctx.Done():
		return "", d.ctx.Err()
	case <-timer.C:
		return "", fmt.Errorf("takes more than %s", maxJsonnetTime)
	}
}

func jsonnetObjects(name, text string) ([]*render.Object, error) {
	if len(text) > maxManifests {
		return nil, jsonnetError(name, fmt.Errorf("makes more than %d MiB", maxManifests>>20))
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &value); err != nil {
		return nil, jsonnetError(name, errors.New("makes no JSON"))
	}
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	var all []*render.Object
	for _, item := range items {
		m, ok := item.(map[string]any)
		if item == nil {
			continue
		}
		if !ok || m["kind"] == nil {
			return nil, jsonnetError(name, errors.New("makes something that is no Kubernetes object"))
		}
		objects := []any{m}
		if list, ok := m["items"].([]any); ok {
			objects = list
		}
		for _, o := range objects {
			m, _ := o.(map[string]any)
			if m["kind"] == nil {
				return nil, jsonnetError(name, errors.New("makes a list with something that is no Kubernetes object"))
			}
			all = append(all, &render.Object{
				Unstructured: &unstructured.Unstructured{Object: m},
				Provenance:   render.File{Span: render.Span{File: name}, Role: render.Template},
			})
		}
	}
	return all, nil
}

var jsonnetPlace = regexp.MustCompile(`(?:^|\s)([^\s:()]+):(?:\()?(\d+):(\d+)`)

// jsonnetError places an error of the library, which has the place in its text:
// in the evaluated file, or in one that it imports.
func jsonnetError(name string, err error) *render.Error {
	e := &render.Error{Span: render.Span{File: name}, Rule: "jsonnet", Err: err}
	text := err.Error()
	if m := jsonnetPlace.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		e.Span = render.Span{File: m[1], Line: line, Column: column, EndLine: line, EndColumn: column}
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(text, "RUNTIME ERROR: "), "\n")
	e.Err = errors.New("Jsonnet: " + first)
	return e
}

// A repositoryImporter finds imports of Jsonnet files within the repository:
// first beside the importing file, then in the library directories, the last
// first.
type repositoryImporter struct {
	fsys  fs.FS
	root  string
	dirs  []string
	known map[string]jsonnet.Contents
}

// Import implements jsonnet.Importer.
func (r *repositoryImporter) Import(from, name string) (jsonnet.Contents, string, error) {
	tried := []string{path.Join(path.Dir(from), name)}
	for i := len(r.dirs) - 1; i >= 0; i-- {
		tried = append(tried, path.Join(r.dirs[i], name))
	}
	if path.IsAbs(name) {
		return jsonnet.Contents{}, "", errors.New("import leads out of the repository")
	}
	for _, file := range tried {
		if !fs.ValidPath(file) || r.root != "." && file != r.root && !strings.HasPrefix(file, r.root+"/") {
			continue
		}
		if contents, ok := r.known[file]; ok {
			return contents, file, nil
		}
		data, err := render.ReadFile(r.fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return jsonnet.Contents{}, "", err
		}
		if err := checkNesting(string(data)); err != nil {
			return jsonnet.Contents{}, "", fmt.Errorf("%s %w", file, err)
		}
		r.known[file] = jsonnet.MakeContentsRaw(bytes.Clone(data))
		return r.known[file], file, nil
	}
	return jsonnet.Contents{}, "", fmt.Errorf("there is no file %s in the repository", name)
}
