package kustomize

import (
	"fmt"
	"math"
	"time"
)

// plain converts a value decoded by yaml.v3 to the form it would have in
// kustomize's output. It goes through JSON, where a whole float is an integer
// and a date a string.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		for key, e := range v {
			e, err := plain(e)
			if err != nil {
				return nil, err
			}
			v[key] = e
		}
		return v, nil
	case []any:
		for i, e := range v {
			e, err := plain(e)
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
		return v, nil
	case float64:
		return number(v)
	case int:
		return int64(v), nil
	case uint64:
		return float64(v), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case nil, bool, string, int64:
		return v, nil
	}
	return nil, fmt.Errorf("a key is not a string")
}

func number(f float64) (any, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, fmt.Errorf("%v is not representable in JSON", f)
	case f == math.Trunc(f) && math.Abs(f) < 1<<63:
		return int64(f), nil
	}
	return f, nil
}
