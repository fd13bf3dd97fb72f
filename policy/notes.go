package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// Notes are annotations that document a policy. If several maps have a text, the first map's is
// used. Among the annotations for one text, that of preadmit comes first:
//
//	preadmit.dev/title        one line
//	preadmit.dev/severity     critical, high, medium, low or info
//	preadmit.dev/description  what it is about, and why
//	preadmit.dev/help         how to fix a failure, Markdown
//	preadmit.dev/url          where there is more to read
type Notes []map[string]string

// maxNote limits how much of an annotation is kept.
const maxNote = 16 << 10

// Title returns the title, in one line.
func (n Notes) Title() string {
	return FirstLine(n.Text("preadmit.dev/title", "policies.kyverno.io/title"))
}

// Description returns what the policy is about. others are further annotations
// that may contain it.
func (n Notes) Description(others ...string) string {
	return n.Text(append([]string{"preadmit.dev/description", "policies.kyverno.io/description"}, others...)...)
}

// Help returns how to fix a failure.
func (n Notes) Help() string { return n.Text("preadmit.dev/help") }

// URL returns the address of further documentation.
func (n Notes) URL() string { return n.Text("preadmit.dev/url") }

// Severity returns the severity of the first annotation that has one.
func (n Notes) Severity() Severity {
	for _, annotations := range n {
		for _, key := range []string{"preadmit.dev/severity", "policies.kyverno.io/severity"} {
			if s := SeverityOf(annotations[key]); s != "" {
				return s
			}
		}
	}
	return ""
}

// Text returns the first text among the annotations with these keys.
func (n Notes) Text(keys ...string) string {
	for _, annotations := range n {
		for _, key := range keys {
			if s := strings.TrimSpace(annotations[key]); s != "" {
				return Shorten(s, maxNote)
			}
		}
	}
	return ""
}

// SeverityOf returns the severity of that name, or "".
func SeverityOf(name string) Severity {
	if s := Severity(name); slices.Contains(Severities, s) {
		return s
	}
	return ""
}

// FirstLine returns the first line of the first text that is not empty.
func FirstLine(texts ...string) string {
	for _, text := range texts {
		if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" {
			return line
		}
	}
	return ""
}

// Shorten cuts a text to at most limit bytes, between characters.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = " … (shortened)"
	return strings.ToValidUTF8(s[:max(0, limit-len(mark))], "") + mark
}

// Few joins the first of many names.
func Few(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Instead returns what to suggest for a wrong name, as [render.Instead] does. Of a long list it
// names the first few.
func Instead(name string, names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if meant := render.DidYouMean(name, names); meant != "" {
		return meant
	}
	if len(names) == 1 {
		return "there is only " + names[0]
	}
	return "there are " + Few(names)
}

// Plural returns a count with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func objectText(k render.Key) string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}
