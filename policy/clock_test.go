package policy

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// timeLimits are the files that measure how long something takes, to end it:
// the only ones here that may read the clock.
var timeLimits = []string{"gatekeeper/judge.go", "internal/rego/bound.go", "internal/rego/compile.go", "rego/compile.go", "rego/judge.go"}

var surroundings = regexp.MustCompile(`\b(time\.Now|os\.Getenv|os\.LookupEnv|os\.Getwd)\(`)

// TestSurroundings holds that no engine reads the clock, the environment or the
// working directory: results must be the same everywhere.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	here := os.DirFS(".")
	err := fs.WalkDir(here, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || tool(path) {
			return err
		}
		source, err := fs.ReadFile(here, path)
		found := slices.Compact(surroundings.FindAllString(string(source), -1))
		limits := slices.Contains(timeLimits, path)
		if limits && !slices.Contains(found, "time.Now(") {
			t.Errorf("%s no longer reads the clock: take it off the list", path)
		}
		for _, f := range found {
			if !limits || f != "time.Now(" {
				t.Errorf("%s: %s…) may be called in cmd only", path, f)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tool says whether a file belongs to a program that makes data or compares
// with the original, and not to preadmit.
func tool(path string) bool {
	return strings.Contains(path, "/gen/") || strings.Contains(path, "/oracle/")
}
