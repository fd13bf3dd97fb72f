package helm

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
	"unsafe"

	yamlv3 "go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/preadmit/preadmit/render"
)

// A valueIndex finds the values that the output of a rendered release was made from. It is safe for
// concurrent use.
type valueIndex struct {
	x      *execution
	root   *chartValues
	charts map[*chart.Chart]*chartValues
	data   []chartText

	mu      sync.Mutex
	regions []region // by address; nil until first asked for
	boxes   map[unsafe.Pointer]*node
	numbers map[unsafe.Pointer]*record
	parsed  map[unsafe.Pointer]*yamlv3.Node
	read    int // bytes of parsed text
}

// A chartText is a file of a chart that is no template.
type chartText struct {
	at   place
	data []byte
}

// A region is a piece of memory with a known text. One of the fields is set.
type region struct {
	text   string
	node   *node // the text is its value or, with key, its key
	key    bool
	file   *chartText
	trace  *trace
	record *record
}

func newValueIndex(x *execution, rel *release) *valueIndex {
	s := &valueIndex{x: x, charts: map[*chart.Chart]*chartValues{}}
	s.root = newChartValues(rel.reader, rel.chart, nil, s.charts)
	s.root.given = given(rel.src, rel.layers)
	return s
}

func (s *valueIndex) files(r *reader, list []*chart.File) {
	for _, f := range list {
		if len(f.Data) > 0 {
			s.data = append(s.data, chartText{r.places[f], f.Data})
		}
	}
}

// index sorts the known texts by address.
func (s *valueIndex) index() {
	if s.boxes != nil {
		return
	}
	s.boxes, s.numbers, s.parsed = map[unsafe.Pointer]*node{}, map[unsafe.Pointer]*record{}, map[unsafe.Pointer]*yamlv3.Node{}
	for i := range s.data {
		f := &s.data[i]
		s.add(region{text: unsafe.String(&f.data[0], len(f.data)), file: f})
	}
	for _, n := range s.x.nodes {
		if n.val != nil {
			s.boxes[word(n.val)] = n
		}
		if text, ok := n.val.(string); ok {
			s.add(region{text: text, node: n})
		}
		if !n.item && n.tree.chart == nil {
			s.add(region{text: n.key, node: n, key: true})
		}
	}
	for _, t := range s.x.traces {
		s.add(region{text: t.text, trace: t})
	}
	for i := range s.x.records {
		rec := &s.x.records[i]
		if text, ok := rec.out.(string); ok {
			s.add(region{text: text, record: rec})
		} else {
			s.numbers[word(rec.out)] = rec
		}
	}
	slices.SortStableFunc(s.regions, func(a, b region) int { return cmp.Compare(start(a.text), start(b.text)) })
}

func (s *valueIndex) add(r region) {
	if r.text != "" {
		s.regions = append(s.regions, r)
	}
}

func start(text string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(text))) }

// region finds the known text in whose memory another text lies, and the offset
// there.
func (s *valueIndex) region(text string) (r *region, off int) {
	if text == "" {
		return nil, 0
	}
	at := start(text)
	i := sort.Search(len(s.regions), func(i int) bool { return start(s.regions[i].text) > at }) - 1
	if i < 0 {
		return nil, 0
	}
	r = &s.regions[i]
	if off = int(at - start(r.text)); off+len(text) > len(r.text) {
		return nil, 0
	}
	return r, off
}

// place returns where a hit is written, if that is a line of the tree.
func (s *valueIndex) place(h hit, want any) (render.Origin, bool) {
	if h.file != nil {
		return filePlace(h.file, h.off, len(h.text))
	}
	n := h.node
	at := wanted{key: h.key, off: h.off, val: n.val}
	if c := n.tree.chart; c != nil {
		if c.manifest == nil {
			return render.Origin{}, false
		}
		if v, ok := c.manifest.lookup(n.path()); !ok || !sameScalar(v, n.val) {
			return render.Origin{}, false
		}
		return c.manifest.origin(n.path(), at)
	}
	if n.above == nil {
		return render.Origin{}, false
	}
	return s.root.find(n.path(), want, at)
}

func filePlace(f *chartText, off, n int) (render.Origin, bool) {
	if f.at.entry != "" {
		return render.Origin{}, false
	}
	rest := f.data[off:min(off+n, len(f.data))]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	line, column := position(f.data, off)
	span := render.Span{File: f.at.file, Line: line, Column: column, EndLine: line, EndColumn: column + utf8.RuneCount(rest)}
	return render.Origin{Span: span, Role: render.Value}, true
}

// proves reports whether a field visibly contains the text of a hit.
func (h hit) proves(field, token string) bool {
	text := strings.TrimSpace(h.text)
	switch {
	case text == "" || h.template:
		return h.template
	case strings.Contains(field, text):
		return h.sure || len(text) > 2 || field == text
	case h.sure && strings.Contains(token, text):
		return true
	case strings.EqualFold(field, text), flat(field) == flat(text):
		return true
	}
	if n := h.integer(); n != "" && strings.Contains(field, n) {
		return true
	}
	if core := plainText(text); len(core) > 2 && strings.Contains(plainText(field), core) {
		return true // lower, replace "_" "-" and similar functions
	}
	return field == base64.StdEncoding.EncodeToString([]byte(h.text))
}

// integer returns a number as int64 and similar functions write it, if that is not how templates
// print it: Helm reads 1000650000 as 1.00065e+09.
func (h hit) integer() string {
	if h.node == nil || h.key {
		return ""
	}
	return wholeNumber(h.node.val)
}

func wholeNumber(v any) string {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) < 1e6 || math.Abs(f) >= 1<<63 {
		return ""
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// plainText returns the letters and digits of a text in lower case. Functions that make names of
// texts keep these.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
