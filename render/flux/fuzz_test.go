package flux

import (
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzSubstitute holds that a text without a dollar sign stays as it is, that a
// variable whose value is unknown stays, and that a text is bounded.
func FuzzSubstitute(f *testing.F) {
	for _, text := range []string{"a${b}c", "${a:=b}", "$$a", "${a//b/c}", "${#a}", "${a:1:2}", "${", "}", "${a^^}${b,,}", "\x00", "a\x00${a}"} {
		f.Add(text, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		v := variables{"a": {value: value}, "b": {unknown: "it is on the cluster"}}
		for _, strict := range []bool{false, true} {
			result, err := v.eval(text, strict)
			switch {
			case err != nil:
			case !strings.Contains(text, "$") && result != text:
				t.Errorf("%q becomes %q", text, result)
			case text == "${a}" && result != value, text == "${b}" && result != text:
				t.Errorf("%q becomes %q", text, result)
			case len(result) > v.size(text)+len(text)*(len(value)+4):
				t.Errorf("%q becomes %d bytes", text, len(result))
			}
			again, _ := v.eval(text, strict)
			if err == nil && again != result {
				t.Errorf("%q becomes %q, then %q", text, result, again)
			}
		}
	})
}

// FuzzIgnore holds that what a source ignores is a matter of the file alone: a
// file is hidden with the directory that it lies in, and a pattern's comments and
// blank lines change nothing.
func FuzzIgnore(f *testing.F) {
	for _, text := range []string{"apps\n", "/apps/*\n!/apps/a.yaml\n", "**/a.yaml", "*.yaml\n!a.yaml", "#x\n\\#a\n", "a[b", "apps/**/b", "  a  \n"} {
		f.Add(text)
	}
	tree := fstest.MapFS{"apps/a.yaml": {}, "apps/b/c.yaml": {}, "a.yaml": {}}
	f.Fuzz(func(t *testing.T, text string) {
		plain := newFilter(tree, ".", &text)
		more := "# comment\n\n" + text + "\n\n# comment\n"
		padded := newFilter(tree, ".", &more)
		for _, name := range []string{"a.yaml", "apps", "apps/a.yaml", "apps/b", "apps/b/c.yaml"} {
			hidden := plain.hides(name)
			if strings.TrimSpace(text) != "" && !strings.HasPrefix(strings.TrimSpace(text), "#") && hidden != padded.hides(name) {
				t.Errorf("%q: %s hidden: %v, with comments %v", text, name, hidden, !hidden)
			}
			if dir, _, ok := strings.Cut(name, "/"); ok && plain.hides(dir) && !hidden {
				t.Errorf("%q: %s is not hidden, the directory above is", text, name)
			}
		}
	})
}
