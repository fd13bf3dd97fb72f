package kyvernocel

import (
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Costs of Kyverno's functions, in the API server's units: 0.1 for reading a
// byte once.
const (
	lookupCost         = 1000
	bytesReadPerUnit   = 10
	bytesParsedPerUnit = 1 // or hashed or packed
)

// costOf returns the cost of a call, or nil if overload is not one of Kyverno's
// functions.
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
	cost := 1 + bytes/bytesParsedPerUnit
	switch {
	case strings.HasPrefix(overload, "kyverno."):
		cost = lookupCost + bytes
	case strings.Contains(overload, "image"):
		cost = 1 + bytes/bytesReadPerUnit
	}
	return &cost
}

// costly reports whether overload is a function of Kyverno with a cost.
func costly(overload string) bool {
	return strings.HasPrefix(overload, "kyverno") && !strings.HasPrefix(overload, orValueName) ||
		strings.HasPrefix(overload, "base64") || strings.HasPrefix(overload, "regex_")
}
