package git

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/preadmit/preadmit/render"
)

// A Commit holds a commit's hash and its relevant parts.
type Commit struct {
	Hash    string // 40 hexadecimal digits
	tree    plumbing.Hash
	parents []plumbing.Hash
}

// Resolve returns the commit of a revision in the syntax of gitrevisions(7): a hash or its
// abbreviation, a branch, a tag, HEAD or @, or a full reference, followed by any of ~N, ^, ^N, ^0
// and ^{commit}. Forms that need a reflog, a search or a range are errors that say so.
func (r *Repository) Resolve(revision string) (*Commit, error) {
	c, err := r.resolve(revision)
	if err != nil {
		return nil, fmt.Errorf("revision %q: %w", revision, err)
	}
	return c, nil
}

func (r *Repository) resolve(revision string) (*Commit, error) {
	if err := refused(revision); err != nil {
		return nil, err
	}
	name, steps := revision, ""
	if i := strings.IndexAny(revision, "~^"); i >= 0 {
		name, steps = revision[:i], revision[i:]
	}
	h, err := r.named(name)
	if err != nil {
		return nil, err
	}
	c, err := r.commit(h)
	switch {
	case errors.Is(err, errAbsent) && strings.EqualFold(name, h.String()):
		return nil, r.nowhere("no such commit here")
	case err != nil:
		return nil, err
	}
	return r.walk(c, steps)
}

func refused(revision string) error {
	switch {
	case revision == "":
		return errors.New("is empty")
	case strings.HasPrefix(revision, "-"):
		return errors.New("begins with a dash")
	case strings.Contains(revision, ".."):
		return errors.New("is a range, not one revision")
	case strings.Contains(revision, "@{"):
		return errors.New("names an entry of the log of references, which is not read; name a branch, tag or commit")
	case strings.ContainsAny(revision, ":?*[\\ \t\n\x7f") || strings.ContainsFunc(revision, func(c rune) bool { return c < ' ' }):
		return errors.New("is not the name of a commit")
	}
	return nil
}

// named resolves the name before the steps, in git's order.
func (r *Repository) named(name string) (plumbing.Hash, error) {
	if name == "@" {
		name = "HEAD"
	}
	if len(name) == 40 && isHex(name) {
		return plumbing.NewHash(name), nil
	}
	for _, rule := range plumbing.RefRevParseRules {
		if h, ok, err := r.reference(plumbing.ReferenceName(fmt.Sprintf(rule, name))); ok || err != nil {
			return h, err
		}
	}
	if len(name) >= 4 && isHex(name) {
		return r.abbreviated(name)
	}
	why := "no such branch, tag or commit here"
	if meant := render.DidYouMean(name, r.Names()); meant != "" {
		why += "; " + meant
	}
	return plumbing.ZeroHash, r.nowhere(why)
}

// nowhere returns an error about a revision that is not in the repository.
func (r *Repository) nowhere(why string) error {
	if len(r.shallow) > 0 {
		why += "; the clone is shallow, it may not have been fetched"
	}
	return errors.New(why)
}

// Names returns the short names of the branches and tags, sorted: main,
// origin/main, v1.0.
func (r *Repository) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	refs, err := r.store.IterReferences()
	if err != nil {
		return nil
	}
	var names []string
	refs.ForEach(func(ref *plumbing.Reference) error {
		if n := ref.Name(); n.IsBranch() || n.IsTag() || n.IsRemote() {
			names = append(names, n.Short())
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// reference follows a reference to a hash.
func (r *Repository) reference(name plumbing.ReferenceName) (plumbing.Hash, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const depth = 5 // the same as git's
	for range depth {
		ref, err := r.store.Reference(name)
		switch {
		case errors.Is(err, plumbing.ErrReferenceNotFound):
			return plumbing.ZeroHash, false, nil
		case err != nil:
			return plumbing.ZeroHash, false, nil // the name is not valid for a file
		case ref.Type() == plumbing.HashReference:
			return ref.Hash(), true, nil
		}
		name = ref.Target()
	}
	return plumbing.ZeroHash, false, fmt.Errorf("%s leads through more than %d references", name, depth)
}

func isHex(s string) bool {
	return strings.Trim(strings.ToLower(s), "0123456789abcdef") == ""
}

// abbreviated finds the one commit whose hash begins with prefix.
func (r *Repository) abbreviated(prefix string) (plumbing.Hash, error) {
	prefix = strings.ToLower(prefix)
	even, _ := hex.DecodeString(prefix[:len(prefix)&^1])
	r.mu.Lock()
	hashes, err := r.objects.withPrefix(even)
	r.mu.Unlock()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	var found []plumbing.Hash
	for _, h := range hashes {
		if !strings.HasPrefix(h.String(), prefix) {
			continue
		}
		if _, err := r.commit(h); err == nil {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return plumbing.ZeroHash, errors.New("no such branch, tag or commit here")
	case 1:
		return found[0], nil
	default:
		return plumbing.ZeroHash, fmt.Errorf("is the beginning of %d commits' names", len(found))
	}
}

// commit reads a commit, or the commit of an annotated tag.
func (r *Repository) commit(h plumbing.Hash) (*Commit, error) {
	const depth = 10 // tags of tags
	for range depth {
		data, err := r.object(plumbing.CommitObject, h)
		if err == nil {
			return parseCommit(h, data)
		}
		tag, tagErr := r.object(plumbing.TagObject, h)
		switch {
		case errors.Is(tagErr, errMismatch):
			return nil, tagErr
		case tagErr != nil:
			return nil, err
		}
		if h, err = parseTag(tag); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("is a tag of a tag, more than %d deep", depth)
}

// parseCommit parses a commit as Git does: the tree is on the first line, and the parents are on
// the lines directly below. Later headers with these names are ignored.
func parseCommit(h plumbing.Hash, data []byte) (*Commit, error) {
	c := &Commit{Hash: h.String()}
	tree, rest, ok := hashLine(data, "tree ")
	if !ok {
		return nil, fmt.Errorf("commit %s has no tree", h)
	}
	c.tree = tree
	for {
		parent, more, ok := hashLine(rest, "parent ")
		if !ok {
			return c, nil
		}
		c.parents, rest = append(c.parents, parent), more
	}
}

// hashLine returns the hash on the first line, which must begin with name, and the remaining lines.
func hashLine(data []byte, name string) (h plumbing.Hash, rest []byte, ok bool) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	text, ok := strings.CutPrefix(string(line), name)
	if !ok || len(text) != 40 || !isHex(text) {
		return h, nil, false
	}
	return plumbing.NewHash(text), rest, true
}

func parseTag(data []byte) (plumbing.Hash, error) {
	h, _, ok := hashLine(data, "object ")
	if !ok {
		return plumbing.ZeroHash, errors.New("is a tag that names no object")
	}
	return h, nil
}

// walk follows the steps ~N and ^N from a commit.
func (r *Repository) walk(c *Commit, steps string) (*Commit, error) {
	for steps != "" {
		step := steps[0]
		steps = steps[1:]
		if rest, ok := strings.CutPrefix(steps, "{commit}"); ok && step == '^' {
			steps = rest
			continue
		}
		if strings.HasPrefix(steps, "{") {
			return nil, errors.New("only ^{commit} is supported of the forms ^{…}")
		}
		digits := steps[:len(steps)-len(strings.TrimLeft(steps, "0123456789"))]
		steps = steps[len(digits):]
		if steps != "" && steps[0] != '~' && steps[0] != '^' {
			return nil, errors.New("is not the name of a commit")
		}
		n := 1
		if digits != "" {
			var err error
			if n, err = strconv.Atoi(digits); err != nil || n > maxSteps {
				return nil, fmt.Errorf("goes back more than %d commits", maxSteps)
			}
		}
		var err error
		if step == '^' {
			c, err = r.parent(c, n)
		} else {
			for ; n > 0 && err == nil; n-- {
				c, err = r.parent(c, 1)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

const maxSteps = 100_000

func parentCount(n int) string {
	switch n {
	case 0:
		return "no parent"
	case 1:
		return "one parent"
	}
	return fmt.Sprintf("%d parents", n)
}

// parent returns the nth parent of a commit, counted from 1, or for 0 the
// commit.
func (r *Repository) parent(c *Commit, n int) (*Commit, error) {
	switch {
	case n == 0:
		return c, nil
	case r.shallow[plumbing.NewHash(c.Hash)]:
		return nil, fmt.Errorf("commit %s is where this shallow clone ends: fetch more of its history", c.Hash)
	case n > len(c.parents):
		return nil, fmt.Errorf("commit %s has %s", c.Hash, parentCount(len(c.parents)))
	}
	return r.commit(c.parents[n-1])
}

// A Clone describes where a repository was cloned from. Unknown fields are "".
type Clone struct {
	Origin  string // the URL of the remote "origin"
	Branch  string // the branch checked out
	Default string // the default branch of the remote
}

// Clone returns where the repository was cloned from.
func (r *Repository) Clone() Clone {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c Clone
	if config, err := r.store.Config(); err == nil {
		if origin := config.Remotes["origin"]; origin != nil && len(origin.URLs) > 0 {
			c.Origin = origin.URLs[0]
		}
	}
	if head, err := r.store.Reference(plumbing.HEAD); err == nil && head.Type() == plumbing.SymbolicReference {
		c.Branch = head.Target().Short()
	}
	if head, err := r.store.Reference("refs/remotes/origin/HEAD"); err == nil && head.Type() == plumbing.SymbolicReference {
		c.Default = strings.TrimPrefix(head.Target().String(), "refs/remotes/origin/")
	}
	return c
}
