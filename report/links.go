package report

import (
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// links makes the web addresses that places lead to. The zero value makes none.
type links struct {
	head   string // address of the tree's files, see Options.Links
	others string // with a commit behind it, address of that commit's files; "" if it can't be made
	base   string // commit that the tree was compared with
}

// newLinks returns the addresses for a report's places. Files of another commit
// are where the tree's are, with the commit exchanged.
func newLinks(o Options, r *Report) links {
	l := links{head: strings.TrimSuffix(o.Links, "/")}
	if r.Base != nil {
		l.base = r.Base.Commit
	}
	if dir, commit := path.Split(l.head); fullCommit.MatchString(commit) {
		l.others = dir
	}
	return l
}

var (
	fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	ofCommit   = regexp.MustCompile(`^[0-9a-f]{12}:`) // begins the name of a file of another commit
)

// to returns the address of a place, or "" if it has none.
func (l links) to(s render.Span) string {
	commit, file, _ := strings.Cut(s.File, ":")
	if !ofCommit.MatchString(s.File) {
		return linkTo(l.head, s)
	}
	s.File = file
	return l.at(commit, s)
}

// at returns the address of a place at another commit, or "" if it has none.
func (l links) at(commit string, s render.Span) string {
	if strings.HasPrefix(l.base, commit) {
		commit = l.base
	}
	if l.others == "" || commit == "" {
		return ""
	}
	return linkTo(l.others+commit, s)
}

// of returns the address of the place where a change is written; for a deletion, at the base.
func (l links) of(c *Change) string {
	switch {
	case c.Origin == nil:
		return ""
	case c.happens() == "deleted":
		return l.at(l.base, *c.Origin)
	default:
		return l.to(*c.Origin)
	}
}

// linkTo returns the address of a line, in the form of GitHub and GitLab. Files outside of the
// repository, standard input and flags have none.
func linkTo(prefix string, s render.Span) string {
	if prefix == "" || strings.HasPrefix(s.File, "-") || !fs.ValidPath(s.File) {
		return ""
	}
	u := url.URL{Path: "/" + s.File}
	link := prefix + strings.NewReplacer("(", "%28", ")", "%29").Replace(u.EscapedPath())
	if s.Line > 0 {
		link += "#L" + strconv.Itoa(s.Line)
	}
	return link
}

// placeLink formats a place as code, with a link if there is one.
func placeLink(s render.Span, link string) string {
	shown := code(visible(inFetched(s.String()), maxMessage))
	if link == "" {
		return shown
	}
	return "[" + shown + "](" + link + ")"
}

// uri returns the relative URI of a file of the tree. It returns "" for an invalid path: absolute,
// empty, or with "." or ".." in it. Bytes that RFC 3986 does not allow in a path segment are
// percent-encoded, and so is the colon, which the first segment of a relative reference can't
// contain.
func uri(p string) string {
	if p == "." || !validTreePath(p) {
		return ""
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(p) {
		if c := p[i]; c == '/' || pchar(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// validTreePath is fs.ValidPath for names that need not be UTF-8, as Git has them.
func validTreePath(p string) bool {
	return fs.ValidPath(strings.ToValidUTF8(p, "_")) && !strings.Contains(p, "\x00")
}

// pchar reports whether a path segment may contain a character other than the colon (RFC 3986,
// 3.3).
func pchar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=@", c) >= 0
}
