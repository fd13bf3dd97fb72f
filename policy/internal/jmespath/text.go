package jmespath

import (
	"path"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/preadmit/preadmit/policy/internal/image"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// newText counts a text that a function made and that can't be much longer than its
// arguments.
func (s *search) newText(made string) (val, error) {
	return val{v: made}, s.grow(len(made))
}

// compare returns an int64, which comparisons don't accept as a number.
func compare(_ *search, a []val) (val, error) {
	return val{v: int64(strings.Compare(a[0].v.(string), a[1].v.(string)))}, nil
}

func equalFold(_ *search, a []val) (val, error) {
	return val{v: strings.EqualFold(a[0].v.(string), a[1].v.(string))}, nil
}

func replace(s *search, a []val) (val, error) {
	return s.replace(a, int(max(min(a[3].v.(float64), 1<<31), -1)))
}

func replaceAll(s *search, a []val) (val, error) { return s.replace(a, -1) }

func (s *search) replace(a []val, most int) (val, error) {
	in, old, with := a[0].v.(string), a[1].v.(string), a[2].v.(string)
	count := strings.Count(in, old)
	if most >= 0 {
		count = min(count, most)
	}
	if err := s.grow(len(in) + count*len(with)); err != nil {
		return val{}, err
	}
	return val{v: strings.Replace(in, old, with, count)}, nil
}

func toUpper(s *search, a []val) (val, error) { return s.newText(strings.ToUpper(a[0].v.(string))) }
func toLower(s *search, a []val) (val, error) { return s.newText(strings.ToLower(a[0].v.(string))) }

func trim(s *search, a []val) (val, error) {
	in, cutset := a[0].v.(string), a[1].v.(string)
	if err := s.spend(len(in) / 64 * (1 + len(cutset)/8)); err != nil {
		return val{}, err
	}
	return val{v: strings.Trim(in, cutset)}, nil
}

func trimPrefix(_ *search, a []val) (val, error) {
	return val{v: strings.TrimPrefix(a[0].v.(string), a[1].v.(string))}, nil
}

func split(s *search, a []val) (val, error) {
	in, separator := a[0].v.(string), a[1].v.(string)
	if err := s.spend(4 * (1 + strings.Count(in, separator))); err != nil {
		return val{}, err
	}
	words := strings.Split(in, separator)
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return val{v: out}, nil
}

// truncate keeps the first runes.
func truncate(s *search, a []val) (val, error) {
	in, left := a[0].v.(string), int(max(min(a[1].v.(float64), 1<<31), 0))
	for i := range in {
		if left--; left < 0 {
			return val{v: in[:i]}, nil
		}
	}
	return val{v: in}, s.spend(len(in) / 64)
}

func canonicalPath(s *search, a []val) (val, error) { return s.newText(path.Join(a[0].v.(string))) }

func toBoolean(s *search, a []val) (val, error) {
	switch strings.ToLower(a[0].v.(string)) {
	case "true":
		return val{v: true}, nil
	case "false":
		return val{v: false}, nil
	}
	return val{}, errorf("to_boolean", "lowercase argument must be 'true' or 'false' (provided: '%s')", s.calling.show(s, 0, a[0].v))
}

// asText returns a text, or a number with the 32 bits of precision that Kyverno gives
// it.
func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 32), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func patternMatch(s *search, a []val) (val, error) {
	glob := a[0].v.(string)
	text, _ := asText(a[1].v)
	if err := s.spend(1 + len(glob)*len(text)/64); err != nil {
		return val{}, err
	}
	return val{v: pattern.Wildcard(glob, text)}, nil
}

// labelMatch reports whether the second map contains the first.
func labelMatch(s *search, a []val) (val, error) {
	labels := a[1].v.(map[string]any)
	for key, want := range a[0].v.(map[string]any) {
		have, found := labels[key]
		same, err := s.equal(want, have)
		if err != nil {
			return val{}, err
		}
		if !found || !same {
			return val{v: false}, nil
		}
	}
	return val{v: true}, nil
}

// semverCompare reads an invalid version as 0.0.0, as Kyverno does.
func semverCompare(s *search, a []val) (val, error) {
	if err := s.grow(len(a[0].v.(string)) + 16*len(a[1].v.(string))); err != nil {
		return val{}, err
	}
	version, _ := semver.Parse(a[0].v.(string))
	within, err := semver.ParseRange(a[1].v.(string))
	if err != nil {
		return val{}, plain("semver_compare", err)
	}
	return val{v: within(version)}, nil
}

func imageNormalize(s *search, a []val) (val, error) {
	r, err := image.Parse(a[0].v.(string))
	if err != nil {
		return val{}, errorf("image_normalize", "%s", err)
	}
	return s.newText(r.String())
}
