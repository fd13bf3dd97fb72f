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
