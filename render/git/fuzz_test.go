package git

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

func encoded(kind plumbing.ObjectType, data []byte) plumbing.EncodedObject {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(data)
	return o
}

// FuzzTree holds that a tree object has the files that another implementation finds in
// it, but for names that lead elsewhere.
func FuzzTree(f *testing.F) {
	hash := strings.Repeat("\x01", 20)
	for _, s := range []string{"100644 a\x00" + hash, "40000 ..\x00" + hash + "120000 b\x00" + hash, "100644 a/b\x00" + hash, "100644 a\x00" + hash + "100755 a\x00" + hash, "160000 .GIT\x00" + hash, "0100664 x\x00" + hash, "x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := parseTree(data)
		if err != nil {
			return
		}
		var other object.Tree
		if err := other.Decode(encoded(plumbing.TreeObject, data)); err != nil {
			t.Skip(err)
		}
		for i, n := range nodes {
			if !isName(n.name) || i > 0 && nodes[i-1].name >= n.name {
				t.Errorf("%q: a name %q at %d", data, n.name, i)
			}
			at := slices.IndexFunc(other.Entries, func(e object.TreeEntry) bool { return e.Name == n.name })
			if at < 0 || other.Entries[at].Hash != n.hash || other.Entries[at].Mode.IsFile() == n.mode.IsDir() {
				t.Errorf("%q: %q is %v, and for the other %v", data, n.name, n, other.Entries)
			}
		}
		for _, e := range other.Entries {
			found := slices.ContainsFunc(nodes, func(n *node) bool { return n.name == e.Name })
			if found != isName(e.Name) {
				t.Errorf("%q: %q is found: %v", data, e.Name, found)
			}
		}
	})
}

// isName reports whether a name is that of a file in its directory. It may be no UTF-8.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/") && !strings.EqualFold(name, ".git")
}

// FuzzCommit holds that a commit object has the tree and the parents that another
// implementation finds in it.
func FuzzCommit(f *testing.F) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	for _, s := range []string{"tree " + a + "\nparent " + b + "\nauthor A <a> 1 +0000\n\nm", "tree " + a + "\ntree " + b + "\n\n", "tree " + a + "\n\nparent " + b, "parent " + a + "\ntree " + b + "\n", "tree " + a + "\nauthor x\nparent " + b + "\n\n", "tree " + a + "\ngpgsig x\n tree " + b + "\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCommit(plumbing.ZeroHash, data)
		if err != nil {
			return
		}
		lines := strings.Split(string(data), "\n")
		if !strings.EqualFold(lines[0], "tree "+c.tree.String()) {
			t.Fatalf("%q: the tree is %s", data, c.tree)
		}
		var parents []plumbing.Hash // git reads those right behind the tree
		for _, line := range lines[1:] {
			name, ok := strings.CutPrefix(line, "parent ")
			if !ok || len(name) != 40 || strings.Trim(name, "0123456789abcdefABCDEF") != "" {
				break
			}
			parents = append(parents, plumbing.NewHash(name))
		}
		if !slices.Equal(parents, c.parents) {
			t.Errorf("%q: parents %v, want %v", data, c.parents, parents)
		}
	})
}
