package policytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// tidied returns a tree as Kyverno compares it: without empty values and the marks of
// generated objects, and with all numbers of one type.
func tidied(tree map[string]any) map[string]any {
	t, _ := tidy(tree).(map[string]any)
	meta, _ := t["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	for k, v := range labels {
		if strings.HasPrefix(k, "generate.kyverno.io/") || k == "app.kubernetes.io/managed-by" && v == "kyverno" {
			delete(labels, k)
		}
	}
	if labels != nil && len(labels) == 0 {
		delete(meta, "labels")
	}
	return t
}

// tidy returns a copy without nulls and empty maps and lists, or nil if nothing
// is left.
func tidy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			if x = tidy(x); x != nil {
				m[k] = x
			}
		}
		if len(m) > 0 {
			return m
		}
	case []any:
		var list []any
		for _, x := range v {
			if x = tidy(x); x != nil {
				list = append(list, x)
			}
		}
		if len(list) > 0 {
			return list
		}
	case int64:
		return float64(v)
	case int:
		return float64(v)
	default:
		return v
	}
	return nil
}

// difference describes the first difference between want and got, in the order of keys; ""
// if there is none. It does not show values of Secrets.
func difference(want, got map[string]any) string {
	secret := want["kind"] == "Secret" || got["kind"] == "Secret"
	return (&differ{hide: secret}).at("", want, got)
}

type differ struct{ hide bool }

func (d *differ) at(pointer string, want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	if w, ok := want.(map[string]any); ok {
		if g, ok := got.(map[string]any); ok {
			return d.maps(pointer, w, g)
		}
	}
	if w, ok := want.([]any); ok {
		if g, ok := got.([]any); ok {
			return d.lists(pointer, w, g)
		}
	}
	return fmt.Sprintf("%s: want %s, got %s", cmp.Or(pointer, "/"), d.text(pointer, want), d.text(pointer, got))
}

func (d *differ) maps(pointer string, want, got map[string]any) string {
	for _, k := range render.Keys(want, got) {
		if s := d.at(pointer+render.Pointer(k), want[k], got[k]); s != "" {
			return s
		}
	}
	return ""
}

func (d *differ) lists(pointer string, want, got []any) string {
	for i := range min(len(want), len(got)) {
		if s := d.at(pointer+render.Pointer(i), want[i], got[i]); s != "" {
			return s
		}
	}
	return fmt.Sprintf("%s: want %d elements, got %d", pointer, len(want), len(got))
}

// text formats a value in one line, cut to a limit.
func (d *differ) text(pointer string, v any) string {
	const most = 200
	if v == nil {
		return "nothing"
	}
	if d.hide && (strings.HasPrefix(pointer, "/data") || strings.HasPrefix(pointer, "/stringData")) {
		return "a hidden value"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "a value"
	}
	return render.Cut(string(data), most)
}
