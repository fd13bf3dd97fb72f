package jmespath

import (
	"cmp"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
)

// parseTimes parses arguments as times.
func parseTimes(function string, a ...val) ([]time.Time, error) {
	out := make([]time.Time, len(a))
	for i, text := range a {
		t, err := time.Parse(time.RFC3339, text.v.(string))
		if err != nil {
			return nil, plain(function, err)
		}
		out[i] = t
	}
	return out, nil
}

func timeSince(s *search, a []val) (val, error) {
	layout := cmp.Or(a[0].v.(string), time.RFC3339)
	since, err := time.Parse(layout, a[1].v.(string))
	if err != nil {
		return val{}, plain("time_since", err)
	}
	if a[2].v == "" {
		now, err := s.now("time_since")
		return val{v: now.Sub(since).String()}, err
	}
	until, err := time.Parse(layout, a[2].v.(string))
	if err != nil {
		return val{}, plain("time_since", err)
	}
	return val{v: until.Sub(since).String()}, nil
}

func timeNow(s *search, _ []val) (val, error) {
	now, err := s.now("time_now")
	return val{v: now.Format(time.RFC3339)}, err
}

func timeNowUTC(s *search, _ []val) (val, error) {
	now, err := s.now("time_now_utc")
	return val{v: now.UTC().Format(time.RFC3339)}, err
}

func timeAdd(_ *search, a []val) (val, error) {
	return changeTime("time_add", a, time.Time.Add)
}

func timeTruncate(_ *search, a []val) (val, error) {
	return changeTime("time_truncate", a, time.Time.Truncate)
}

func changeTime(function string, a []val, move func(time.Time, time.Duration) time.Time) (val, error) {
	t, err := parseTimes(function, a[0])
	if err != nil {
		return val{}, err
	}
	by, err := time.ParseDuration(a[1].v.(string))
	if err != nil {
		return val{}, plain(function, err)
	}
	return val{v: move(t[0], by).Format(time.RFC3339)}, nil
}

// timeParse treats an integer as the layout for seconds since 1970.
func timeParse(_ *search, a []val) (val, error) {
	layout, text := a[0].v.(string), a[1].v.(string)
	if _, err := strconv.ParseInt(layout, 10, 64); err == nil {
		epoch, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return val{}, plain("time_parse", err)
		}
		return val{v: time.Unix(epoch, 0).UTC().Format(time.RFC3339)}, nil
	}
	t, err := time.Parse(layout, text)
	if err != nil {
		return val{}, plain("time_parse", err)
	}
	return val{v: t.Format(time.RFC3339)}, nil
}

func timeToCron(_ *search, a []val) (val, error) {
	t, err := parseTimes("time_to_cron", a[0])
	if err != nil {
		return val{}, err
	}
	at := t[0]
	return val{v: fmt.Sprint(at.Minute(), at.Hour(), at.Day(), int(at.Month()), int(at.Weekday()))}, nil
}

func timeUTC(_ *search, a []val) (val, error) {
	t, err := parseTimes("time_utc", a[0])
	if err != nil {
		return val{}, err
	}
	return val{v: t[0].UTC().Format(time.RFC3339)}, nil
}

func timeDiff(_ *search, a []val) (val, error) {
	t, err := parseTimes("time_diff", a...)
	if err != nil {
		return val{}, err
	}
	return val{v: t[1].Sub(t[0]).String()}, nil
}

func timeBefore(_ *search, a []val) (val, error) {
	t, err := parseTimes("time_before", a...)
	return val{v: err == nil && t[0].Before(t[1])}, err
}

func timeAfter(_ *search, a []val) (val, error) {
	t, err := parseTimes("time_after", a...)
	return val{v: err == nil && t[0].After(t[1])}, err
}

func timeBetween(_ *search, a []val) (val, error) {
	t, err := parseTimes("time_between", a...)
	return val{v: err == nil && t[0].After(t[1]) && t[0].Before(t[2])}, err
}

// maxRandom bounds the text that replaces a random one.
const maxRandom = 64 << 10

func random(s *search, a []val) (val, error) {
	source := a[0].v.(string)
	if source == "" {
		return val{}, plainf("random", "no pattern provided")
	}
	tree, err := parseRegex(source)
	if err != nil {
		return val{}, regexError("random", err, false)
	}
	var b strings.Builder
	if !example(tree, &b) {
		return val{}, errLongRandom
	}
	if s.options != nil && s.options.Decides {
		return val{}, &UndecidedError{Function: "random", Reason: "its text is another one each time"}
	}
	s.assume("random(%s) gives %q", clip(source, 128), clip(b.String(), 128))
	return s.newText(b.String())
}

var errLongRandom = &LimitError{Message: "a random text is longer than a search may make"}

// Example returns a short text that matches a regular expression, always the same one.
func Example(source string) (string, error) {
	tree, err := parseRegex(source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if !example(tree, &b) {
		return "", errLongRandom
	}
	return b.String(), nil
}

// example writes the shortest text that matches a regular expression, of the first
// characters of its classes. It returns false if the text is too long.
func example(r *syntax.Regexp, b *strings.Builder) bool {
	switch r.Op {
	case syntax.OpLiteral:
		b.WriteString(string(r.Rune))
	case syntax.OpCharClass:
		b.WriteRune(plainRune(r.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpCapture, syntax.OpPlus:
		return example(r.Sub[0], b)
	case syntax.OpAlternate:
		return example(r.Sub[0], b)
	case syntax.OpConcat:
		for _, sub := range r.Sub {
			if !example(sub, b) {
				return false
			}
		}
	case syntax.OpRepeat:
		for range r.Min {
			if !example(r.Sub[0], b) {
				return false
			}
		}
	}
	return b.Len() <= maxRandom
}

// plainRune returns a character of a class, a letter or a digit if possible.
func plainRune(class []rune) rune {
	for _, c := range "a0A" {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= c && c <= class[i+1] {
				return c
			}
		}
	}
	if len(class) == 0 {
		return 'a'
	}
	return class[0]
}
