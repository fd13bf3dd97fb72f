package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// said lists objects by name and errors by place and rule, in order.
func said(objects []*Object, err error) []string {
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetName())
	}
	for _, e := range Errors(err) {
		s := fmt.Sprintf("%d:%d %s", e.Span.Line, e.Span.Column, e.Rule)
		if e.Warning {
			s += " (warning)"
		}
		got = append(got, s)
	}
	return got
}

func nested(open, close string, n int) string {
	return strings.Repeat(open, n) + strings.Repeat(close, n)
}

func laughs() string {
	b := "a: &a [" + strings.Repeat("web,", 9) + "]\n"
	for c := 'b'; c <= 'i'; c++ {
		b += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9))
	}
	return b
}

func mergeLaughs() string {
	b := "a0: &a0 {k0: v}\n"
	for i := 1; i <= 40; i++ {
		b += fmt.Sprintf("a%d: &a%d\n  <<: [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	return b
}

func utf16le(s string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

// The rows of table 3.1 of the security study: each must come to exactly this.
func TestHostileYAML(t *testing.T) {
	t.Parallel()
	const a, b = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n"
	ja, jb := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`
	nl := func(s, by string) string { return strings.ReplaceAll(s, "\n", by) }
	for _, test := range []struct {
		row, in string
		want    []string
	}{
		{"Y1 billion laughs", a + laughs() + "---\n" + b, []string{"Pod b", "10:11 alias-expansion"}},
		{"Y2 merges of merges", a + mergeLaughs() + "---\n" + b, []string{"Pod b", "35:8 alias-expansion"}},
		{"Y3 one long scalar", a + "a: &a " + strings.Repeat("x", 50_000) + "\nb: [" + strings.Repeat("*a,", 16_000) + "]\n---\n" + b, []string{"Pod b", "6:191 alias-expansion"}},
		{"Y4 anchor in itself", a + "a: &a\n  b: *a\n---\n" + b, []string{"Pod b", "6:6 alias-loop"}},
		{"Y5 flow lists", a + "x: " + nested("[", "]", 100_000) + "\n---\n" + b, []string{"Pod b", "5:1 yaml-syntax"}},
		{"Y5 flow maps", a + "x: " + strings.Repeat("{a: ", 100_000) + "\n---\n" + b, []string{"Pod b", "5:1 yaml-syntax"}},
		{"Y5 dashes", a + "x:\n" + strings.Repeat("- ", 100_000) + "\n---\n" + b, []string{"Pod b", "6:1 yaml-syntax"}},
		{"Y6 deeper than we go", a + "x: " + nested("[", "]", 9_000) + "\n---\n" + b, []string{"Pod b", "5:503 too-deep"}},
		{"Y7 too large", a + strings.Repeat(" ", Limit), []string{"0:0 file-too-large"}},
		{"Y9 a million documents", a + strings.Repeat("---\n", 1_000_000), []string{"100004:1 too-many-documents"}},
		{"Y9 empty documents", a + strings.Repeat("---\n", 2_000) + b, []string{"Pod a", "Pod b", "0:0 empty-documents (warning)"}},
		{"Y10 carriage returns", nl(a+"---\n"+b, "\r"), []string{"1:15 line-break"}},
		{"Y11 next line", a + nl("x: y\n---\n"+b, "\u0085"), []string{"5:5 line-break"}},
		{"Y11 line separator", a + nl("x: y\n---\n"+b, "\u2028"), []string{"5:5 line-break"}},
		{"Y12 UTF-16", utf16le(a + "---\n" + b), []string{"1:1 encoding"}},
		{"Y13 BOM at the start", "\ufeff" + a + "---\n" + b, []string{"Pod a", "Pod b"}},
		{"Y13 BOM in the second", a + "---\n\ufeff" + b, []string{"Pod a", "Pod b"}},
		{"Y13 BOM before the first separator", "\ufeff---\n" + a + "---\n" + b, []string{"Pod a", "Pod b"}},
		{"Y13 BOM before a separator", a + "\ufeff---\n" + b, []string{"5:1 document-separator"}},
		{"Y14 end marker", a + "...\n" + b, []string{"Pod a", "6:1 trailing-content"}},
		{"Y14 end marker at the end", a + "...\n---\n" + b + "...\n# end\n", []string{"Pod a", "Pod b"}},
		{"Y15 content behind the separator", a + "--- {apiVersion: v1, kind: B}\n---\n" + b, []string{"Pod a", "Pod b", "5:4 document-separator"}},
		{"Y16 no separator", a + "---foo: bar\n" + b, []string{"Pod a", "5:4 document-separator"}},
		{"Y16 comment behind the separator", a + "--- # b\n" + b + "---\t\n---  \r\n", []string{"Pod a", "Pod b"}},
		{"Y17 separator in a block", a + "x: |\n  y\n---\n z\n---\n" + b, []string{"Pod a", "Pod b", "8:2 not-an-object"}},
		{"Y18 directive", "%YAML 1.2\n---\n" + a + "---\n" + b, []string{"Pod a", "Pod b"}},
		{"Y18 tag directive", "%TAG ! tag:x,2000:\n---\n" + a + "---\n" + b, []string{"Pod a", "Pod b", "2:1 yaml-syntax"}},
		{"Y19 two JSON values", ja + jb, []string{"Pod a", "1:1 trailing-content"}},
		{"Y19 two JSON values on two lines", ja + "\n" + jb, []string{"Pod a", "2:1 trailing-content"}},
		{"Y20 JSON, then YAML", ja + " # x\n---\n" + b, []string{"Pod a", "Pod b"}},
		{"Y21 key twice", a + "spec:\n  hostNetwork: true\n  hostNetwork: false\n---\n" + b, []string{"Pod a", "Pod b", "7:3 duplicate-key"}},
		{"Y21 key twice in JSON", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","name":"a"}}`, []string{"Pod a", "1:56 duplicate-key"}},
		{"Y22 merge after the key", a + "spec:\n  priv: false\n  <<: {priv: true}\n", []string{"Pod a", "7:7 ambiguous-merge"}},
		{"Y22 merge of the same", a + "spec:\n  priv: true\n  <<: {priv: true}\n", []string{"Pod a"}},
		{"Y22 merge before the key", a + "spec:\n  <<: {priv: true}\n  priv: false\n", []string{"Pod a"}},
		{"Y23 two merges", a + "spec:\n  <<: {a: 1}\n  <<: {a: 2}\n", []string{"Pod a", "7:3 duplicate-key"}},
		{"Y24 yes", a + "spec: {p: yes, q: on, r: 'y', s: !!bool \"yes\"}\n", []string{"Pod a", "5:11 ambiguous-scalar (warning)", "5:19 ambiguous-scalar (warning)", "5:41 ambiguous-scalar (warning)"}},
		{"Y24 a key", a + "data:\n  on: x\n", []string{"Pod a", "6:3 ambiguous-scalar (warning)"}},
		{"Y27 large numbers", a + "x: [18446744073709551615, 99999999999999999999, 1e400, 9007199254740993]\n", []string{"Pod a", "5:5 imprecise-number", "5:27 imprecise-number", "5:49 imprecise-number"}},
		{"Y27 infinity", a + "x: .inf\n---\n" + b, []string{"Pod b", "5:4 invalid-value"}},
		{"Y27 no number", a + "x: .nan\n---\n" + b, []string{"Pod b", "5:4 invalid-value"}},
		{"Y28 list as a key", a + "? [a, b]\n: v\n---\n" + b, []string{"Pod b", "5:3 invalid-key"}},
		{"Y29 keys that are equal as strings", a + "x: {1: a, '1': b, yes: c, true: d}\n", []string{"Pod a", "5:11 duplicate-key", "5:19 ambiguous-scalar (warning)", "5:27 duplicate-key"}},
		{"Y30 null as a key", a + "~: x\n---\n" + b, []string{"Pod b", "5:1 invalid-key"}},
		{"Y31 anchor of another document", a + "x: &x 1\n---\n" + b + "x: *x\n---\n" + b, []string{"Pod a", "Pod b", "11:4 yaml-syntax"}},
		{"Y32 NUL", a + "x: \x00\n---\n" + b, []string{"Pod b", "5:4 invalid-character"}},
		{"Y32 escape in a comment", a + "# é \x1b[2J\n---\n" + b, []string{"Pod b", "5:5 invalid-character"}},
		{"Y32 no UTF-8", a + "# \xff\n---\n" + b, []string{"Pod b", "5:3 invalid-character"}},
		{"Y32 C1", a + "x: \u0090\n---\n" + b, []string{"Pod b", "5:4 invalid-character"}},
		{"Y32 DEL", a + "x: \x7f\n---\n" + b, []string{"Pod b", "5:4 invalid-character"}},
		{"Y33 escaped control characters", a + `x: "a\0b\x1b[2J"` + "\n", []string{"Pod a"}},
		{"Y34 tab as indentation", a + "spec:\n\tx: y\n---\n" + b, []string{"Pod b", "6:1 yaml-syntax"}},
		{"Y34 tab as blank", "apiVersion:\tv1\nkind:\tPod\nmetadata: {name: a}\n", []string{"Pod a"}},
		{"Y36 nothing", "", nil},
		{"Y36 comments", "# x\n---\n# y\n", nil},
		{"Y36 a BOM", "\ufeff", nil},
		{"Y36 a separator", "---", nil},
		{"Y37 CRLF", nl(a+"x: w\nx: z\n---\n"+b, "\r\n"), []string{"Pod a", "Pod b", "6:1 duplicate-key"}},
		{"K1 lists in lists", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + ja + `]},` + jb + `]}`, []string{"Pod a", "Pod b"}},
		{"K1 too many lists", strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 11) + strings.Repeat("]}", 11), []string{"1:447 too-deep"}},
		{"K1 an item that is none", "apiVersion: v1\nkind: List\nitems:\n- 5\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n-\n", []string{"Pod a", "4:3 not-an-object", "8:2 not-an-object"}},
		{"K2 a list of its kind", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- kind: Pod\n  metadata: {name: b}\n", []string{"Pod a", "6:20 not-an-object"}},
		{"K3 a kind that ends in List", "apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [x]\n", []string{"AllowList a"}},
		{"K5 no kind", "apiVersion: v1\nmetadata: {name: a}\n---\n" + b, []string{"Pod b", "1:1 not-an-object"}},
		{"K5 no version", "kind: Pod\nmetadata: {name: a}\n", []string{"1:1 not-an-object"}},
		{"K5 a number for a kind", "apiVersion: v1\nkind: 1\nmetadata: {name: a}\n", []string{"2:7 not-an-object"}},
		{"K5 an empty kind", "apiVersion: v1\nkind: ''\n", []string{"2:7 not-an-object"}},
		{"K5 a list of objects", "- apiVersion: v1\n  kind: Pod\n", []string{"1:1 not-an-object"}},
		{"K5 a scalar beside an object", a + "---\nhello\n---\n- x\n", []string{"Pod a", "6:1 not-an-object", "8:1 not-an-object"}},
		{"K5 nothing like an object", "hello\n---\n- x\n---\nkind: x\n", nil},
		{"null beside an object", a + "---\n~\n", []string{"Pod a"}},
		{"broken, but no manifest", "a: [\n", nil},
		{"broken JSON", `{"apiVersion":"v1","kind":"Pod",`, []string{"1:1 yaml-syntax"}},
		{"two objects without a separator", a + b, []string{"Pod b", "5:1 duplicate-key", "6:1 duplicate-key", "7:1 duplicate-key"}},
	} {
		t.Run(test.row, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			objects, err := Parse("x.yaml", []byte(test.in))
			if d := cmp.Diff(test.want, said(objects, err)); d != "" {
				t.Errorf("-want +got:\n%s\n%.2000v", d, err)
			}
			if len(fmt.Sprint(err)) > 4096 && len(Errors(err)) == 1 {
				t.Errorf("error has %d bytes", len(fmt.Sprint(err)))
			}
			t.Logf("%d bytes, %v", len(test.in), time.Since(start))
		})
	}
}

// Time goes with the size of a file, whatever is in it. The limit is far above
// what it takes, and far below what a quadratic step would.
func TestHostileSizes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads files of many megabytes")
	}
	keys := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	head := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
	chain := head + "a0: &a0 " + nested("[", "]", 400) + "\n"
	for i := 1; i < 100; i++ {
		chain += fmt.Sprintf("a%d: &a%d %s*a%d%s\n", i, i, strings.Repeat("[", 400), i-1, strings.Repeat("]", 400))
	}
	for name, test := range map[string]struct{ in, want string }{
		"many keys":             {head + "x:\n" + keys(500_000, "  k%d: v\n"), ""},
		"the same keys":         {head + "x:\n" + keys(100_000, "  k%d: v\n") + keys(100_000, "  k%d: w\n"), "duplicate-key"},
		"one long line":         {head + "x: {é: " + "!t a" + keys(200_000, ", k%d: v, y: yes") + "}\n", "ambiguous-scalar"},
		"one long line of JSON": {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"é"},"y":1` + keys(200_000, `,"k%d":1,"y":1`) + "}", "duplicate-key"},
		"merges":                {head + "a: &a {" + keys(2_000, "k%d: v, ") + "}\n" + keys(1_000, "b%d: {<<: *a, k1: w}\n"), "alias-expansion"},
		"deep by aliases":       {chain, "too-deep"},
		"quotes without end":    {head + keys(100_000, "k%d: 'it''s\n"), "yaml-syntax"},
		"comments":              {head + keys(400_000, "# %d é\n"), ""},
		"block scalar":          {head + "x: |\n" + keys(400_000, "  line %d é\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			objects, err := Parse("x.yaml", []byte(test.in))
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("%d bytes took %v", len(test.in), took)
			} else {
				t.Logf("%d bytes took %v", len(test.in), took)
			}
			if errs := Errors(err); test.want == "" && (err != nil || len(objects) != 1) || test.want != "" && (len(errs) == 0 || errs[0].Rule != test.want || len(errs) > maxReports) {
				t.Errorf("%d objects, %.500v", len(objects), err)
			}
		})
	}
}

// No error says what is in a file, which may be a Secret.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, s := range []string{
		"x: !!int " + secret, "x: *" + secret, "x: !" + secret + "!y z", "? {" + secret + ": a}\n: b", "x: \"\\" + secret, "x: [" + secret,
		"x: {" + secret + "]", secret + ": 1\n" + secret + ": 2", secret + "\n" + secret + ": :", "%" + secret, "x: |" + secret, "--- " + secret, "&" + secret + " a: *" + secret + "\n<<: " + secret,
		"x: '" + secret, "\t" + secret, "x: !!binary " + secret, "x: !<" + secret, "x: &" + secret + " *" + secret, "x: y: " + secret, "@" + secret, "...\n" + secret,
	} {
		_, err := Documents("x.yaml", []byte(s), YAML11)
		if err == nil && !strings.Contains(s, "<<") {
			t.Errorf("%q: no error", s)
		}
		if strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// Text beside a document takes nothing away from it.
func TestTextBesideDocuments(t *testing.T) {
	t.Parallel()
	doc := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    x\n"
	for _, around := range [][2]string{
		{"# c\n", ""}, {"\n\n", ""}, {"---\n", ""}, {"---\n---\n", "---\n"}, {"", "# c"}, {"", "\n---\n# c\n---"}, {"# c\n---\n", "...\n"}, {"\ufeff", ""}, {"", "---\n\n\n"},
	} {
		objects, err := Parse("x.yaml", []byte(around[0]+doc+around[1]))
		if err != nil || len(objects) != 1 {
			t.Errorf("%q: %v, %v", around, objects, err)
			continue
		}
		lines := bytes.Count([]byte(around[0]), []byte("\n"))
		if got := objects[0].At("/data/k")[0]; got.Line != 6+lines || got.Column != 6 {
			t.Errorf("%q: /data/k is at %v", around, got)
		}
	}
}
