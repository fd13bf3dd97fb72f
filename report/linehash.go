package report

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// lineHashes returns what GitHub calls primaryLocationLineHash for each line
// of a file: a polynomial hash of the first hundred UTF-16 code units from the
// start of the line that are neither space nor tab, the units of the lines
// after it included, and how many times that hash was seen in the file so far.
// CR and CRLF count as LF; the end of the file is the unit 0xFFFF, after which
// zeros follow. A BOM is a unit like others.
//
// It gives the values of fingerprints.ts in github/codeql-action, which
// recomputes them on upload and warns of each that differs.
func lineHashes(data []byte) []string {
	units, starts := hashUnits(data)
	seen := make(map[uint64]int, len(starts))
	hashes := make([]string, len(starts))
	buf := make([]byte, 0, 24)
	for i, s := range starts {
		h := lineHash(units[s:])
		seen[h]++
		buf = strconv.AppendUint(buf[:0], h, 16)
		buf = append(buf, ':')
		hashes[i] = string(strconv.AppendInt(buf, int64(seen[h]), 10))
	}
	return hashes
}

const (
	hashBlock = 100
	hashBase  = 37
	endOfFile = 0xFFFF
)

func lineHash(units []uint16) uint64 {
	var h uint64
	n := min(len(units), hashBlock)
	for _, u := range units[:n] {
		h = h*hashBase + uint64(u)
	}
	for range hashBlock - n { // the zeros after the end
		h *= hashBase
	}
	return h
}

// hashUnits returns the units that count, and where in them each line starts. Of a
// long line it returns only as many as a hash covers.
func hashUnits(data []byte) (units []uint16, starts []int) {
	units = make([]uint16, 0, min(len(data), 1<<20)+1)
	starts = append(starts, 0)
	for i := 0; i < len(data); {
		if len(units)-starts[len(starts)-1] >= hashBlock {
			end := bytes.IndexAny(data[i:], "\r\n")
			if end < 0 {
				break
			}
			i += end
		}
		r, n := decode(data[i:])
		switch {
		case r == ' ' || r == '\t':
		case r == '\n' && i > 0 && data[i-1] == '\r':
		case r == '\n' || r == '\r':
			units = append(units, '\n')
			starts = append(starts, len(units))
		default:
			units = appendUTF16(units, r)
		}
		i += n
	}
	return append(units, endOfFile), starts
}

func appendUTF16(units []uint16, r rune) []uint16 {
	if r <= 0xFFFF {
		return append(units, uint16(r))
	}
	return utf16.AppendRune(units, r)
}

// decode is utf8.DecodeRune, but as JavaScript's decoder does it takes as much
// of a broken sequence as could have begun a character for one error, not each
// byte for one (WHATWG Encoding, "utf-8 decoder").
func decode(b []byte) (rune, int) {
	r, n := utf8.DecodeRune(b)
	if r != utf8.RuneError || n != 1 {
		return r, n
	}
	for n < min(len(b), 4) && !utf8.FullRune(b[:n]) {
		n++
	}
	if n > 1 && utf8.FullRune(b[:n]) {
		n--
	}
	return r, n
}
