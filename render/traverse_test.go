package render

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestTraverse(t *testing.T) {
	t.Parallel()
	v := map[string]any{"b": []any{"x", map[string]any{"c/d": nil}}, "a": int64(1), "e": map[string]any{}}
	var fields, texts []string
	for at, v := range Fields(v, "/top") {
		if IsScalar(v) || v == nil {
			at += fmt.Sprint("=", v)
		}
		fields = append(fields, at)
	}
	for at, text := range Texts(v, "") {
		texts = append(texts, at+"="+text)
	}
	if got, want := strings.Join(fields, " "), "/top /top/a=1 /top/b /top/b/0=x /top/b/1 /top/b/1/c~1d=<nil> /top/e"; got != want {
		t.Errorf("fields are %s, want %s", got, want)
	}
	if got, want := strings.Join(texts, " "), "/a=a /b=b /b/0=x /b/1/c~1d=c/d /e=e"; got != want {
		t.Errorf("texts are %s, want %s", got, want)
	}
	keys := map[string]int{}
	for key := range Values(v) {
		keys[key]++
	}
	if want := (map[string]int{"": 3, "a": 1, "b": 1, "c/d": 1, "e": 1}); !reflect.DeepEqual(keys, want) {
		t.Errorf("keys are %v, want %v", keys, want)
	}
}

// Each walk ends where its caller breaks, at every value.
func TestTraverseEnds(t *testing.T) {
	t.Parallel()
	v := []any{map[string]any{"a": "x", "b": []any{"y"}}, "z"}
	for end := 1; end <= 4; end++ {
		count := [3]int{}
		for range Values(v) {
			if count[0]++; count[0] == end {
				break
			}
		}
		for range Fields(v, "") {
			if count[1]++; count[1] == end {
				break
			}
		}
		for range Texts(v, "") {
			if count[2]++; count[2] == end {
				break
			}
		}
		if count != [3]int{end, end, end} {
			t.Errorf("the walks end after %v values, want %d", count, end)
		}
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	v := map[string]any{"a": []any{int64(1), "x"}, "b": map[string]any{"c": nil}}
	got := Replace(v, func(v any) any {
		if v == "x" {
			return "y"
		}
		return v
	})
	if want := (map[string]any{"a": []any{int64(1), "y"}, "b": map[string]any{"c": nil}}); !reflect.DeepEqual(got, want) {
		t.Errorf("it is %v, want %v", got, want)
	}
	c := Copy(v).(map[string]any)
	c["a"].([]any)[0], c["b"].(map[string]any)["c"] = "changed", "changed"
	if v["a"].([]any)[0] != int64(1) || v["b"].(map[string]any)["c"] != nil {
		t.Errorf("changing the copy changed the value: %v", v)
	}
}
