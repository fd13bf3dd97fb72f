// Package values merges Helm values.
package values

import "maps"

// Merge merges over into a copy of under, map by map. Values that only one of them has are shared
// with the copy.
func Merge(under, over map[string]any) map[string]any {
	merged := make(map[string]any, len(under)+len(over))
	maps.Copy(merged, under)
	for k, v := range over {
		lower, wasMap := merged[k].(map[string]any)
		upper, isMap := v.(map[string]any)
		if wasMap && isMap {
			v = Merge(lower, upper)
		}
		merged[k] = v
	}
	return merged
}
