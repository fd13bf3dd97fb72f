package helm

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestEveryField holds what is said about each field of other people's charts
// against the files: there is a place, it is in the file, and where it is text
// of a template that text is the field's value.
func TestEveryField(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	root := filepath.Join("..", "..", "..", "shared", "repos")
	rendertest.SkipWithout(t, root)
	fsys := &remembering{FS: os.DirFS(root), files: map[string][]byte{}}
	var all, keys, values, literal, actions, whole int
	r := New(Options{})
	for _, dir := range charts(t, root) {
		rel, err := filepath.Rel(root, dir)
		rendertest.OK(t, err)
		objects, _ := r.Render(context.Background(), render.Source{FS: fsys, Path: filepath.ToSlash(rel)})
		for _, o := range objects {
			eachLeaf(o.Object, "", func(pointer string, v any) {
				all++
				origins := o.At(pointer)
				if len(origins) == 0 {
					t.Fatalf("%s %s%s: no place", rel, o.GetName(), pointer)
				}
				switch key := o.At(render.KeyOf(pointer))[0]; {
				case strings.Trim(spanText(t, fsys, key.Span), `"'`) == lastOf(pointer):
					keys++
				case key != origins[0]:
					t.Errorf("%s: the key of %s is said to be %q", key.Span, pointer, spanText(t, fsys, key.Span))
				}
				if origins[0].Role == render.Value {
					values++
				}
				for len(origins) > 1 && origins[0].Role == render.Value {
					if text := spanText(t, fsys, origins[0].Span); text == "" || strings.HasPrefix(text, "{{") {
						t.Errorf("%s: %s is supplied by %q", origins[0].Span, pointer, text)
					}
					origins = origins[1:]
				}
				at := origins[0]
				text := spanText(t, fsys, at.Span)
				switch {
				case at.Line == 0:
					whole++
				case strings.HasPrefix(text, "{{"):
					actions++
					if !strings.HasSuffix(text, "}}") && !strings.Contains(lineText(t, fsys, at.Span), "{{") {
						t.Errorf("%s: action %q does not end", at.Span, text)
					}
				default:
					literal++
					checkLiteral(t, at, text, pointer, v)
				}
			})
		}
	}
	t.Logf("%d keys of %d fields: %d in literal text, %d by actions, %d files as a whole; %d of values", keys, all, literal, actions, whole, values)
	if keys < all*3/4 {
		t.Errorf("of %d fields %d keys are known", all, keys)
	}
	if whole > 0 || all < 1000 {
		t.Errorf("%d of %d fields have no line", whole, all)
	}
}

// remembering is a tree of which files are read once.
type remembering struct {
	fs.FS
	files map[string][]byte
}

// lastOf returns the last segment of a pointer.
func lastOf(pointer string) string {
	path := render.Path(pointer)
	return path[len(path)-1]
}

func (r *remembering) ReadFile(name string) (data []byte, err error) {
	data, ok := r.files[name]
	if !ok {
		data, err = fs.ReadFile(r.FS, name)
		r.files[name] = data
	}
	return data, err
}

// checkLiteral wants the text at a place to be the value, or to begin it where
// an action goes on, or to be the key of an empty one.
func checkLiteral(t *testing.T, at render.Origin, text, pointer string, v any) {
	t.Helper()
	s, ok := v.(string)
	if !ok {
		data, _ := json.Marshal(v)
		s = string(data)
	}
	path := render.Path(pointer)
	key := path[len(path)-1]
	plain := strings.Trim(text, `"'`)
	block := strings.HasPrefix(text, "|") || strings.HasPrefix(text, ">")
	switch {
	case block, strings.Contains(s, plain), strings.HasPrefix(plain, s), strings.Trim(plain, ": ") == key:
	case strings.ContainsAny(text, `\`), strings.Contains(text, "''"): // escapes
	case v == nil, v == true, v == false, strings.ContainsAny(s, "{}[]"):
	default:
		if _, isString := v.(string); isString {
			t.Errorf("%s: %s is %q and the text is %q", at.Span, pointer, s, text)
		}
	}
}

func lineText(t *testing.T, fsys fs.FS, s render.Span) string {
	t.Helper()
	data, err := fs.ReadFile(fsys, s.File)
	rendertest.OK(t, err)
	lines := strings.Split(string(data), "\n")
	if s.Line > len(lines) {
		t.Fatalf("%s: the file has %d lines", s, len(lines))
	}
	if s.Line == 0 {
		return ""
	}
	return lines[s.Line-1]
}

func spanText(t *testing.T, fsys fs.FS, s render.Span) string {
	t.Helper()
	line := []rune(lineText(t, fsys, s))
	if s.Line == 0 {
		return ""
	}
	if s.Column < 1 || s.EndColumn < s.Column || s.EndColumn > len(line)+1 {
		t.Fatalf("%s-%d: the line has %d characters", s, s.EndColumn, len(line))
	}
	return string(line[s.Column-1 : s.EndColumn-1])
}

// TestPerturbation edits the place that is said to have written a field, and
// wants the field to change: of what is said, enough is put to the test.
func TestPerturbation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	root := filepath.Join("..", "..", "..", "shared", "repos")
	rendertest.SkipWithout(t, root)
	r := New(Options{})
	var tried, same, broken int
	for _, dir := range charts(t, root) {
		rel, err := filepath.Rel(root, dir)
		rendertest.OK(t, err)
		fsys := os.DirFS(root)
		src := render.Source{FS: fsys, Path: filepath.ToSlash(rel)}
		objects, _ := r.Render(context.Background(), src)
		fields, n := 0, 0
		for _, o := range objects {
			eachLeaf(o.Object, "", func(string, any) { fields++ })
		}
		step := 1 + fields/8 // some of them, spread out
		for i, o := range objects {
			eachLeaf(o.Object, "", func(pointer string, v any) {
				if n++; n%step != 0 || pointer == "/kind" { // by which objects are sorted
					return
				}
				origins := o.At(pointer)
				at := origins[(n/step)%len(origins)] // inner and outer ones
				src.FS = edited{fsys, at.Span}
				again, err := r.Render(context.Background(), src)
				if hard(err) != nil || len(again) != len(objects) {
					broken++
					return
				}
				tried++
				if got, ok := render.Lookup(again[i].Object, pointer); ok && jsonText(got) == jsonText(v) {
					same++
					t.Logf("%s: %s %s %s stays %s", at.Span, o.GetKind(), o.GetName(), pointer, jsonText(v))
				}
			})
		}
	}
	t.Logf("%d places edited: %d changed the field, %d did not; %d edits more broke the rendering", tried, tried-same, same, broken)
	if same > 0 || tried < 100 {
		t.Errorf("%d of %d edits left the field as it was", same, tried)
	}
}

// edited is a tree in which the text at one place is changed: a character in
// literal text, and the whole of an action.
type edited struct {
	fs.FS
	at render.Span
}

func (e edited) Open(name string) (fs.File, error) {
	if name != e.at.File {
		return e.FS.Open(name)
	}
	data, err := fs.ReadFile(e.FS, name)
	if err != nil {
		return nil, err
	}
	return chartOf("", "x", string(e.edit(data))).Open("c/x")
}

func (e edited) Stat(name string) (fs.FileInfo, error) {
	f, err := e.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

func (e edited) edit(data []byte) []byte {
	lines := strings.SplitAfter(string(data), "\n")
	line := []rune(lines[e.at.Line-1])
	from, to := e.at.Column-1, e.at.EndColumn-1
	text := string(line[from:to])
	switch {
	case strings.HasPrefix(text, "{{"):
		to = len(line)
		if i := strings.Index(string(line[from:]), "}}"); i >= 0 {
			to = from + utf8.RuneCountInString(string(line[from:])[:i+2])
		}
		text = "perturbed"
	case text == "":
		text = " perturbed"
	case text == "true", text == "false":
		text = map[string]string{"true": "false", "false": "true"}[text]
	case text[0] >= '0' && text[0] <= '9':
		text = "9" + text
	case strings.HasSuffix(text, `"`), strings.HasSuffix(text, `'`):
		text = text[:len(text)-1] + "zz" + text[len(text)-1:]
	default:
		text += "zz"
	}
	lines[e.at.Line-1] = string(line[:from]) + text + string(line[to:])
	return []byte(strings.Join(lines, ""))
}
