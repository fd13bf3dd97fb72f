package report

import (
	"io/fs"
	"strings"
)

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
