package jmespath

import (
	"math"
	"strconv"

	"go.yaml.in/yaml/v2"
)

// parseYAML parses the first document. It is sigs.k8s.io/yaml's YAMLToJSON without
// JSON as an intermediate step, so that expanded aliases are counted.
func parseYAML(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	if err := s.spend(4 * len(in)); err != nil {
		return val{}, err
	}
	var v any
	if err := yaml.Unmarshal([]byte(in), &v); err != nil {
		return val{}, plain("parse_yaml", err)
	}
	out, err := s.fromYAML(v)
	return val{v: out}, err
}

// fromYAML converts a value of the YAML library to a JSON value.
func (s *search) fromYAML(v any) (any, error) {
	if err := s.spend(4); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case map[any]any:
		return s.fromYAMLMap(v)
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			var err error
			if list[i], err = s.fromYAML(x); err != nil {
				return nil, err
			}
		}
		return list, nil
	case int:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case uint64:
		return float64(v), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, plainf("parse_yaml", "json: unsupported value: %v", v)
		}
		return v, nil
	case string, bool, nil:
		return v, nil
	}
	return nil, plainf("parse_yaml", "a value of YAML has no form in JSON")
}

func (s *search) fromYAMLMap(m map[any]any) (any, error) {
	fields := make(map[string]any, len(m))
	for k, x := range m {
		key, err := yamlKey(k)
		if err != nil {
			return nil, err
		}
		if fields[key], err = s.fromYAML(x); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// yamlKey converts a key to JSON's form.
func yamlKey(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		text := strconv.FormatFloat(k, 'g', -1, 32)
		if special, ok := map[string]string{"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}[text]; ok {
			text = special
		}
		return text, nil
	}
	return "", plainf("parse_yaml", "unsupported map key of type: %T", k)
}
