package rego

import "slices"

// A read is a place of the input that an expression's outcome depends on.
type read struct {
	path    []string
	missing bool
	derived bool // the value was computed from the place's value
	weak    bool // it was passed to a helper; whether that used it is unknown
	rank    rank
}

// A rank is how likely a person would change a place, by how it was read.
type rank int8

const (
	rankUsed     rank = iota // for a value, such as a message
	rankIterated             // as the element that the rule checks
	rankAssigned             // compared in a helper that returns a value
	rankCompared             // in a test
	rankRefused  rank = 6    // in a negation
)

// maxReads bounds the reads of one expression or body.
const maxReads = 64

// tested returns the reads of tests.
func tested(reads []read) []read {
	var out []read
	for _, r := range reads {
		if r.rank >= rankAssigned {
			out = append(out, r)
		}
	}
	return out
}

// ranked sets the rank of all reads.
func ranked(reads []read, r rank) []read {
	for i := range reads {
		reads[i].rank = r
	}
	return reads
}

// atLeast raises ranks, demoted lowers them.
func atLeast(reads []read, r rank) []read {
	for i := range reads {
		reads[i].rank = max(reads[i].rank, r)
	}
	return reads
}

func demoted(reads []read, r rank) []read {
	for i := range reads {
		reads[i].rank = min(reads[i].rank, r)
	}
	return reads
}

// weak marks reads that may not be the reason, if yes.
func weak(reads []read, yes bool) []read {
	for i := range reads {
		reads[i].weak = reads[i].weak || yes
	}
	return reads
}

// derived marks reads from which a value was computed.
func derived(reads []read) []read {
	for i := range reads {
		reads[i].derived = true
	}
	return reads
}

// merge drops reads of the same place, keeping the highest rank, and those beyond
// the limit. It changes the given slice.
func merge(reads []read) []read {
	out := reads[:0]
	for _, r := range reads {
		i := slices.IndexFunc(out, func(o read) bool { return slices.Equal(o.path, r.path) })
		switch {
		case i >= 0:
			out[i].rank = max(out[i].rank, r.rank)
			out[i].weak = out[i].weak && r.weak
		case len(out) < maxReads:
			out = append(out, r)
		}
	}
	return out
}

// within reports whether a path is at or below another one.
func within(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// common replaces reads of several elements by one of their collection: if no element
// will do, none of them is the reason.
func common(reads []read) []read {
	var out []read
	for _, r := range reads {
		i := slices.IndexFunc(out, func(o read) bool { return alike(o.path, r.path) })
		if i < 0 {
			out = append(out, r)
			continue
		}
		n := 0
		for n < min(len(out[i].path), len(r.path)) && out[i].path[n] == r.path[n] {
			n++
		}
		if n < len(r.path) {
			out[i].path, out[i].missing = out[i].path[:n:n], false
		}
	}
	return out
}

// alike reports whether two paths differ in indices only, or one is the collection
// that contains the other.
func alike(a, b []string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	differ := false
	for i := range b {
		if a[i] != b[i] {
			if !isIndex(a[i]) || !isIndex(b[i]) {
				return false
			}
			differ = true
		}
	}
	return len(a) == len(b) || !differ && isIndex(a[len(b)])
}

func isIndex(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
