package report

import (
	"regexp"
	"strings"
)

// Escaping for the formats that write Markdown.

// escapeMarkdown escapes one line of visible text for GitHub's Markdown: it
// becomes no markup, HTML, link, or mention of a person or an issue.
func escapeMarkdown(s string) string {
	s = markup.ReplaceAllString(s, `\$0`)
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	return mention.ReplaceAllString(s, "$0&#8203;")
}

var (
	markup  = regexp.MustCompile("[\\\\`*_{}\\[\\]()#+.!|~-]")
	mention = regexp.MustCompile(`@|\\?#|://|www`)
)

// plainText does what escapeMarkdown does, and also escapes formulas.
func plainText(s string) string {
	return strings.ReplaceAll(escapeMarkdown(s), "$", "<span>$</span>")
}

// code formats visible text as code. It returns "" for "", because empty
// backticks would begin a span.
func code(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(none)"
	}
	return codeSpan(s)
}

// codeSpan shows s as code, in as many backticks as it needs.
func codeSpan(s string) string {
	ticks := strings.Repeat("`", longestRun(s, '`')+1)
	if len(ticks) == 1 {
		return ticks + s + ticks
	}
	return ticks + " " + s + " " + ticks
}

// fenced shows s as a block of code.
func fenced(s string) string {
	fence := strings.Repeat("`", max(3, longestRun(s, '`')+1))
	return fence + "\n" + s + "\n" + fence
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if run++; s[i] != c {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// markdown removes from somebody's Markdown everything that GitHub would act on
// or hide: HTML, images, mentions, and links to anything but the web. Code
// stays unchanged.
func markdown(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '`')
		if i < 0 {
			break
		}
		ticks := s[i : i+len(s[i:])-len(strings.TrimLeft(s[i:], "`"))]
		end := strings.Index(s[i+len(ticks):], ticks)
		if end < 0 {
			break
		}
		end += i + 2*len(ticks)
		b.WriteString(disarm(s[:i]))
		b.WriteString(s[i:end])
		s = s[end:]
	}
	b.WriteString(disarm(s))
	return b.String()
}

var (
	linkTarget = regexp.MustCompile(`\]\(\s*[^)\s]*`)
	webTarget  = regexp.MustCompile(`^\]\(https?://`)
)

func disarm(s string) string {
	s = strings.NewReplacer("<", "&lt;", "![", `!\[`, "@", "@&#8203;").Replace(s)
	return linkTarget.ReplaceAllStringFunc(s, func(t string) string {
		if webTarget.MatchString(t) {
			return t
		}
		return `]\(` + t[2:]
	})
}
