package kyvernocel

import (
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Costs of calls that nothing else limits, in the API server's units: 0.1 for
// reading a byte once.
const (
	lookupCost   = 1000
	bytesAtOnce  = 10
	bytesAtWorth = 1 // bytes hashed, parsed or packed
)

// costOf returns the cost of a call of one of Kyverno's functions.
func costOf(overload string, args []ref.Val) *uint64 {
	if !costly(overload) {
		return nil
	}
	bytes := uint64(0)
	for _, a := range args {
		switch v := a.(type) {
		case types.String:
			bytes += uint64(len(v))
		case types.Bytes:
			bytes += uint64(len(v))
		}
	}
	cost := 1 + bytes/bytesAtWorth
	switch {
	case strings.HasPrefix(overload, "kyverno."):
		cost = lookupCost + bytes
	case strings.Contains(overload, "image"):
		cost = 1 + bytes/bytesAtOnce
	}
	return &cost
}

// costly reports whether a call's cost can't be bounded beforehand.
func costly(overload string) bool {
	return strings.HasPrefix(overload, "kyverno") && !strings.HasPrefix(overload, orValueName) ||
		strings.HasPrefix(overload, "base64") || strings.HasPrefix(overload, "regex_")
}
