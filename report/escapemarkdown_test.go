package report

import "testing"

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		convert  func(string) string
		in, want string
	}{
		{"text", escapeMarkdown, "a|b `c` *d* [x](http://e)", "a\\|b \\`c\\` \\*d\\* \\[x\\]\\(http://&#8203;e\\)"},
		{"html", escapeMarkdown, "<!-- & -->", `&lt;\!\-\- &amp; \-\-&gt;`},
		{"mention", escapeMarkdown, "@org/team #1", `@&#8203;org/team \#&#8203;1`},
		{"span", codeSpan, "a`b", "`` a`b ``"},
		{"plain-span", codeSpan, "ab", "`ab`"},
		{"fence", fenced, "a\n```\nb", "````\na\n```\nb\n````"},
		{"help", markdown, "Use **bold** and [docs](https://e.com/x).", "Use **bold** and [docs](https://e.com/x)."},
		{"help-html", markdown, "<script>`<b>`</details>", "&lt;script>`<b>`&lt;/details>"},
		{"help-link", markdown, "[x](javascript:alert) [y]( data:x) [z](/etc)", `[x]\(javascript:alert) [y]\( data:x) [z]\(/etc)`},
		{"help-image", markdown, "![x](http://e)", `!\[x](http://e)`},
		{"help-mention", markdown, "@me `@me`", "@&#8203;me `@me`"},
		{"help-code", markdown, "```yaml\na: <b>\n```\n<c>", "```yaml\na: <b>\n```\n&lt;c>"},
		{"help-open-code", markdown, "` <a>", "` &lt;a>"},
	} {
		if got := c.convert(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}
