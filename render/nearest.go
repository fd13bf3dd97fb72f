package render

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Nearest returns the name that a person who wrote another one most likely
// meant, or "": one that differs in letter case, separators or number, that
// begins so, or that is a slip or two of the finger away.
func Nearest(name string, names []string) string {
	names = slices.Sorted(slices.Values(names))
	plain := plainName(name)
	best, bestDistance := "", slips(plain)+1
	for _, n := range names {
		if d := distance(plain, plainName(n), bestDistance); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	if best != "" || len(plain) < 3 {
		return best
	}
	begun := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(plainName(n), plain) })
	if len(begun) == 1 {
		return begun[0]
	}
	return ""
}

// DidYouMean is a question after the nearest of the names, "" if none is near.
func DidYouMean(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// Instead says what could stand in place of a name: the one that is nearly the
// same, else all that there are.
func Instead(name string, names []string) string {
	if s := DidYouMean(name, names); s != "" {
		return s
	}
	return "there are " + strings.Join(names, ", ")
}

// Alike reports whether two names differ in letter case, separators or number
// alone, or if they are long by one slip of the finger.
func Alike(a, b string) bool {
	const long = 8
	a, b = plainName(a), plainName(b)
	return a == b || min(len(a), len(b)) >= long && distance(a, b, 2) < 2
}

// NearFile is "; did you mean NAME?" after the file or directory of a tree that
// a name may have been meant for: one beside it, of a similar name. It is ""
// where there is none. shown is the name as the user wrote it.
func NearFile(tree fs.FS, name, shown string) string {
	entries, err := fs.ReadDir(tree, path.Dir(name))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	meant := Nearest(path.Base(name), names)
	if meant == "" {
		return ""
	}
	return "; did you mean " + shown[:len(shown)-len(path.Base(shown))] + meant + "?"
}

// plainName is a name without separators, letter case and plural.
func plainName(s string) string {
	s = strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	if y, ok := strings.CutSuffix(s, "ies"); ok {
		return y + "y"
	}
	return strings.TrimSuffix(s, "s")
}

// slips is how many letters of a name may be wrong.
func slips(name string) int {
	switch n := len(name); {
	case n < 3:
		return 0
	case n < 5:
		return 1
	default:
		return 2
	}
}

// distance is how many letters have to be put in, left out, changed or swapped
// with the next to make b of a, up to limit.
func distance(a, b string, limit int) int {
	if len(a) > 100 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
