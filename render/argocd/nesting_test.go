package argocd

import (
	"strings"
	"testing"

	"github.com/google/go-jsonnet"
)

func TestNesting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		deep bool
	}{
		"brackets":      {strings.Repeat("[", 3000), true},
		"closed":        {strings.Repeat("[],", 3000), false},
		"objects":       {strings.Repeat("{a:", 3000), true},
		"statements":    {strings.Repeat("local a=1;", 3000), true},
		"operators":     {strings.Repeat("!", 3000), true},
		"calls":         {"f" + strings.Repeat("(1)", 3000), true},
		"comments":      {strings.Repeat("[ // ]\n", 3000), true},
		"block comment": {strings.Repeat("[ /* ] */", 3000), true},
		"strings":       {strings.Repeat(`["]"`+"\n", 3000), true},
		"verbatim":      {strings.Repeat(`[@"]""]"`+"\n", 3000), true},
		"texts":         {strings.Repeat("[ |||\n  ]\n\n  ]\n|||\n", 3000), true},
		"in strings":    {"[" + strings.Repeat(`"[",`, 3000) + "]", false},
		"escaped":       {strings.Repeat(`["\"]"`+"\n", 3000), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := checkNesting(c.text); (err != nil) != c.deep {
				t.Errorf("got %v, want an error: %v", err, c.deep)
			}
		})
	}
}

// FuzzNesting holds that what is not too deep for us is not for Jsonnet's library,
// and that nothing panics.
func FuzzNesting(f *testing.F) {
	f.Add("local a = 1; { b: [a, |||\n  x\n|||, @'it''s'] }")
	f.Add("/* x */ # y\n\"z\\\"\" + 'a'")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 1000 && checkNesting(text) == nil {
			vm := jsonnet.MakeVM()
			vm.Importer(&repositoryImporter{})
			_, _ = jsonnet.SnippetToAST("x", text)
		}
	})
}
