package yamledit

import (
	"errors"
	"strings"
)

// remove deletes the field at a pointer.
func (t *text) remove(pointer string) error {
	f, ok := t.field(pointer)
	up, above := t.field(parent(pointer))
	if !ok || !above || pointer == "" {
		return errors.New("it is not found")
	}
	if t.aliased(parent(pointer)) || t.aliased(pointer) {
		return errAlias
	}
	from := f.keyFrom
	if f.keyTo == 0 {
		from = f.from
	}
	if up.flow {
		t.removeFlow(from, max(f.to, f.keyTo), up)
		return nil
	}
	if f.keyTo == 0 { // an element of a block list
		from = strings.LastIndexByte(t.text[:f.from], '-')
	}
	line := t.lineOf(from)
	lead := t.text[t.lines[line-1]:from]
	indent := len(lead)
	end := t.after(max(f.lastLine, f.keyLine, line), indent)
	entries, list := size(up.value)
	switch {
	case entries == 1:
		return t.emptied(parent(pointer), up, line, end, lead, list)
	case strings.TrimLeft(lead, " ") == "":
		t.replace(t.lines[line-1], t.endOf(end), "")
	case strings.Trim(lead, " -") == "" && f.keyTo > 0: // the first key of an element of a list
		next := t.endOf(end) + indent
		if next >= len(t.text) || strings.TrimLeft(t.text[t.endOf(end):next], " ") != "" || strings.IndexByte(" #-\r\n", t.text[next]) >= 0 {
			return errors.New("the key below it does not follow at once")
		}
		t.replace(from, next, "")
	default:
		return errors.New("it shares its line with others")
	}
	return nil
}

// emptied removes the only entry of a block, whose key gets {} or [].
func (t *text) emptied(pointer string, up field, line, end int, lead string, list bool) error {
	if pointer == "" || up.keyTo == 0 || line == up.keyLine || strings.TrimLeft(lead, " ") != "" {
		return errors.New("it is the only entry")
	}
	colon := strings.IndexByte(t.text[up.keyTo:], ':')
	if colon < 0 {
		return errors.New("it is the only entry")
	}
	brackets := " {}"
	if list {
		brackets = " []"
	}
	t.replace(t.lines[line-1], t.endOf(end), "")
	t.replace(up.keyTo+colon+1, up.keyTo+colon+1, brackets)
	return nil
}

// removeFlow removes an entry in flow style with one of the commas beside it, and the line if
// nothing else is on it.
func (t *text) removeFlow(from, to int, up field) {
	rest := t.text[to : up.to-1]
	before := strings.TrimRight(t.text[up.from+1:from], " \t\r\n")
	if after := strings.TrimLeft(rest, " \t\r\n"); strings.HasPrefix(after, ",") {
		after = strings.TrimLeft(after[1:], " \t")
		to = up.to - 1 - len(after)
	} else if trimmed, ok := strings.CutSuffix(before, ","); ok {
		from = up.from + 1 + len(trimmed)
	} else if before == "" && after == "" {
		from, to = up.from+1, up.to-1
	}
	line := t.lineOf(from)
	if start, end := t.lines[line-1], t.endOf(line); to <= end && strings.TrimSpace(t.text[start:from]+t.text[to:end]) == "" {
		from, to = start, end
	}
	t.replace(from, to, "")
}

func (t *text) lineOf(offset int) int {
	line := 1
	for line < len(t.lines) && t.lines[line] <= offset {
		line++
	}
	return line
}

// endOf returns the offset behind a line with its line end.
func (t *text) endOf(line int) int {
	if line < len(t.lines) {
		return t.lines[line]
	}
	return len(t.text)
}
