package flux

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/sourceignore"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestIgnoreFiles holds that files match as with the patterns that source-controller's library loads
// from all .sourceignore files of a repository.
func TestIgnoreFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(49, 1))
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	for range 200 {
		dir := t.TempDir()
		var names []string
		for range 12 {
			name := strings.Repeat(pick("a/", "b/", ".github/", ".git/"), random.IntN(3)) + pick("", "c/", "a/") + pick("a.yaml", "b.png", ".sops.yaml", ".gitignore", "c")
			if os.MkdirAll(dir+"/"+name[:strings.LastIndex("/"+name, "/")], 0o755) == nil && os.WriteFile(dir+"/"+name, nil, 0o644) == nil {
				names = append(names, name)
			}
		}
		for range random.IntN(3) {
			at := names[random.IntN(len(names))]
			text := pick("# none\n", "*.png\n", "!*.png\n", "/a\n", "a/\n!a/a.yaml\n", "c\n", "!.gitignore\n", "**/a.yaml\n")
			rendertest.OK(t, os.WriteFile(dir+"/"+at[:strings.LastIndex("/"+at, "/")]+"/.sourceignore", []byte(text), 0o644))
		}
		loaded, err := sourceignore.LoadIgnorePatterns(dir, nil)
		rendertest.OK(t, err)
		var ignore *string
		if text := pick("", "b.png\n", "# none\n"); text != "" {
			ignore = &text
			loaded = append(loaded, sourceignore.ReadPatterns(strings.NewReader(text), nil)...)
		}
		want := sourceignore.NewDefaultMatcher(nil, nil)
		if len(loaded) > 0 {
			want = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), loaded...))
		}
		f := newFilter(os.DirFS(dir), ".", ignore)
		var was, is []string
		for _, name := range names {
			was = append(was, fmt.Sprint(name, want.Match(strings.Split(name, "/"), false)))
			is = append(is, fmt.Sprint(name, f.matches(name, false)))
		}
		if strings.Join(was, " ") != strings.Join(is, " ") {
			t.Errorf("%v, not %v", is, was)
		}
	}
}
