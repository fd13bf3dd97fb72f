package helm

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/template"

	"github.com/preadmit/preadmit/render/internal/gotemplate"
)

// listFunctions are the functions that make or walk lists and maps, where that
// may take long or gives another order each time.
func (r *run) listFunctions() template.FuncMap {
	return template.FuncMap{
		"until":              func(n int) ([]int, error) { return r.untilStep(0, n, gotemplate.Sign(n)) },
		"untilStep":          r.untilStep,
		"seq":                r.seq,
		"keys":               keys,
		"values":             values,
		"concat":             r.concat,
		"append":             r.push,
		"push":               r.push,
		"mustAppend":         r.push,
		"mustPush":           r.push,
		"prepend":            r.prepend,
		"mustPrepend":        r.prepend,
		"splitList":          r.splitList,
		"split":              r.split,
		"uniq":               squared(r, "uniq", library()["mustUniq"].(func(any) ([]any, error))),
		"mustUniq":           squared(r, "uniq", library()["mustUniq"].(func(any) ([]any, error))),
		"deepCopy":           r.deepCopy,
		"mustDeepCopy":       r.deepCopy,
		"merge":              r.merged("merge"),
		"mergeOverwrite":     r.merged("mergeOverwrite"),
		"mustMerge":          r.mustMerged("mustMerge"),
		"mustMergeOverwrite": r.mustMerged("mustMergeOverwrite"),
	}
}

// list charges the items of a list that a function made to the budget.
func (r *run) list(n int) error {
	r.made += 16 * n
	switch {
	case n > maxList:
		return errList
	case r.made > maxMade:
		return errMade
	}
	return nil
}

func (r *run) untilStep(start, stop, step int) ([]int, error) {
	list, ok := gotemplate.UntilStep(start, stop, step, maxList)
	if !ok {
		return nil, errList
	}
	return list, r.list(len(list))
}

func (r *run) seq(params ...int) (string, error) { return gotemplate.Seq(r.untilStep, params...) }

// keys returns the keys in order, unlike sprig's.
func keys(maps ...map[string]any) []string {
	all := []string{}
	for _, m := range maps {
		all = append(all, sortedKeys(m)...)
	}
	return all
}

// values returns the values in the order of their keys.
func values(m map[string]any) []any {
	all := []any{}
	for _, key := range sortedKeys(m) {
		all = append(all, m[key])
	}
	return all
}

func (r *run) concat(lists ...any) (any, error) {
	var all []any
	for _, list := range lists {
		items, err := items(list)
		if err != nil {
			return nil, err
		}
		if err := r.list(len(all) + items.Len()); err != nil {
			return nil, err
		}
		for i := range items.Len() {
			all = append(all, items.Index(i).Interface())
		}
	}
	return all, nil
}

func items(list any) (reflect.Value, error) {
	v := reflect.ValueOf(list)
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return v, fmt.Errorf("wants a list, not %T", list)
	}
	return v, nil
}

func (r *run) push(list, item any) ([]any, error) {
	all, err := r.concat(list)
	if err != nil {
		return nil, err
	}
	return append(all.([]any), item), nil
}

func (r *run) prepend(list, item any) ([]any, error) {
	all, err := r.concat(list)
	if err != nil {
		return nil, err
	}
	return append([]any{item}, all.([]any)...), nil
}

func (r *run) splitList(sep, s string) ([]string, error) {
	parts := strings.SplitN(s, sep, maxList+1)
	return parts, r.list(len(parts))
}

func (r *run) split(sep, s string) (map[string]string, error) {
	parts, err := r.splitList(sep, s)
	if err != nil {
		return nil, err
	}
	m := make(map[string]string, len(parts))
	for i, part := range parts {
		m["_"+strconv.Itoa(i)] = part
	}
	return m, nil
}

// squared limits a function that compares each item with every other.
func squared(r *run, name string, f func(any) ([]any, error)) func(any) ([]any, error) {
	return func(list any) ([]any, error) {
		if v := reflect.ValueOf(list); v.IsValid() && v.Kind() == reflect.Slice {
			if err := r.step(v.Len() / 64 * v.Len()); err != nil {
				return nil, err
			}
		}
		if list == nil {
			return nil, errors.New(name + " wants a list")
		}
		return f(list)
	}
}

func (r *run) deepCopy(v any) (any, error) {
	if err := r.measureAny(v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("deepCopy wants a value, not nil")
	}
	return copyTree(v)
}

// copyTree copies maps and lists of the types that YAML gives, much faster than
// sprig's general copy, and leaves other types to that.
func copyTree(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, bool, int, int64, float64:
		return v, nil
	case table:
		if v != nil {
			out, err := copyFields(v)
			return table(out), err
		}
	case map[string]any:
		if v != nil {
			return copyFields(v)
		}
	case []any:
		if v != nil {
			return copyItems(v)
		}
	case files: // `deepCopy .` is common, and sprig would copy byte by byte
		out := make(files, len(v))
		for name, data := range v {
			out[name] = bytes.Clone(data)
		}
		return out, nil
	}
	return library()["mustDeepCopy"].(func(any) (any, error))(v)
}

func copyFields(m map[string]any) (_ map[string]any, err error) {
	out := make(map[string]any, len(m))
	for k, e := range m {
		if out[k], err = copyTree(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func copyItems(list []any) (_ []any, err error) {
	out := make([]any, len(list))
	for i, e := range list {
		if out[i], err = copyTree(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *run) measureMaps(dst map[string]any, srcs []map[string]any) error {
	if err := r.measureAny(dst); err != nil {
		return err
	}
	for _, src := range srcs {
		if err := r.measureAny(src); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) merged(name string) any {
	f := library()[name].(func(map[string]any, ...map[string]any) any)
	return func(dst map[string]any, srcs ...map[string]any) (any, error) {
		if err := r.measureMaps(dst, srcs); err != nil {
			return nil, err
		}
		return f(dst, srcs...), nil
	}
}

func (r *run) mustMerged(name string) any {
	f := library()[name].(func(map[string]any, ...map[string]any) (any, error))
	return func(dst map[string]any, srcs ...map[string]any) (any, error) {
		if err := r.measureMaps(dst, srcs); err != nil {
			return nil, err
		}
		return f(dst, srcs...)
	}
}
