// Package gittest makes Git repositories for tests, without Git: loose objects
// and references, as a checkout has them.
package gittest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Repository is one being made, whose git directory is Dir.
type Repository struct{ Dir string }

// Init makes an empty repository whose work tree is dir.
func Init(dir string) (*Repository, error) {
	r := &Repository{Dir: filepath.Join(dir, ".git")}
	for _, d := range []string{"objects", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(r.Dir, d), 0o777); err != nil {
			return nil, err
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	if err := r.write("config", config); err != nil {
		return nil, err
	}
	return r, r.write("HEAD", "ref: refs/heads/main\n")
}

func (r *Repository) write(name, content string) error {
	file := filepath.Join(r.Dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o666)
}

// SetRef lets a reference such as refs/heads/main name an object.
func (r *Repository) SetRef(name, hash string) error { return r.write(name, hash+"\n") }

// Object writes a loose object and returns its name.
func (r *Repository) Object(kind string, content []byte) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %d\x00", kind, len(content))
	b.Write(content)
	sum := sha1.Sum(b.Bytes())
	hash := hex.EncodeToString(sum[:])
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	if _, err := w.Write(b.Bytes()); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return hash, r.write(filepath.Join("objects", hash[:2], hash[2:]), packed.String())
}

// An Entry is an entry of a tree object.
type Entry struct{ Mode, Name, Hash string }

// Tree writes a tree object of the entries, as they are.
func (r *Repository) Tree(entries ...Entry) (string, error) {
	var b bytes.Buffer
	for _, e := range entries {
		raw, err := hex.DecodeString(e.Hash)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %s\x00%s", e.Mode, e.Name, raw)
	}
	return r.Object("tree", b.Bytes())
}

// Commit writes a commit object and returns its name.
func (r *Repository) Commit(tree, message string, parents ...string) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	const who = "A U Thor <author@example.com> 1700000000 +0000"
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n", who, who, message)
	return r.Object("commit", b.Bytes())
}

// TreeOf writes the objects of a directory's files and links, without .git.
func (r *Repository) TreeOf(dir string) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var entries []Entry
	for _, d := range list {
		if d.Name() == ".git" {
			continue
		}
		e, err := r.entry(filepath.Join(dir, d.Name()), d)
		if err != nil {
			return "", err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	return r.Tree(entries...)
}

// sortName is by what git sorts: directories as if their names ended in "/".
func (e Entry) sortName() string {
	if e.Mode == "40000" {
		return e.Name + "/"
	}
	return e.Name
}

func (r *Repository) entry(file string, d fs.DirEntry) (e Entry, err error) {
	e.Name = d.Name()
	switch {
	case d.IsDir():
		e.Mode = "40000"
		e.Hash, err = r.TreeOf(file)
		return e, err
	case d.Type() == fs.ModeSymlink:
		e.Mode = "120000"
		target, err := os.Readlink(file)
		if err != nil {
			return e, err
		}
		e.Hash, err = r.Object("blob", []byte(target))
		return e, err
	}
	e.Mode = "100644"
	data, err := os.ReadFile(file)
	if err != nil {
		return e, err
	}
	e.Hash, err = r.Object("blob", data)
	return e, err
}

// CommitAll commits the files of the work tree to refs/heads/main, on top of
// what that names, and returns the commit's name.
func (r *Repository) CommitAll(message string) (string, error) {
	tree, err := r.TreeOf(filepath.Dir(r.Dir))
	if err != nil {
		return "", err
	}
	var parents []string
	if was, err := os.ReadFile(filepath.Join(r.Dir, "refs/heads/main")); err == nil {
		parents = []string{strings.TrimSpace(string(was))}
	}
	commit, err := r.Commit(tree, message, parents...)
	if err != nil {
		return "", err
	}
	return commit, r.SetRef("refs/heads/main", commit)
}
