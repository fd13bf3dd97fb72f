package mutator

import (
	"errors"
	"fmt"

	"github.com/preadmit/preadmit/render"
)

// A pathTest is an entry of pathTests: a part of the location must exist, or
// must not.
type pathTest struct {
	SubPath   string    `json:"subPath,omitempty"`
	Condition condition `json:"condition,omitempty"`
}

type condition string

const (
	mustExist    condition = "MustExist"
	mustNotExist condition = "MustNotExist"
)

// pathTests holds the conditions by the depth of their part in the location
// (gatekeeper/v3/pkg/mutation/path/tester).
type pathTests map[int]condition

// existing reports whether the part at a depth may exist.
func (p pathTests) existing(depth int) bool {
	c, tested := p[depth]
	return !tested || c == mustExist
}

// missing reports whether the part at a depth may be missing.
func (p pathTests) missing(depth int) bool {
	c, tested := p[depth]
	return !tested || c == mustNotExist
}

// newPathTests reads the tests of a location.
func (c *checker) newPathTests(l location, written []pathTest) pathTests {
	tests := pathTests{}
	firstNot, lastMust := len(written), 0
	for i, w := range written {
		pointer := "/spec/parameters" + render.Pointer("pathTests", i)
		sub, ok := c.location(pointer+"/subPath", w.SubPath)
		if !ok {
			continue
		}
		if !l.hasPrefix(sub) {
			c.add(pointer+"/subPath", fmt.Errorf("subPath %s is not how location %s begins", sub, l))
		}
		switch w.Condition {
		case mustNotExist:
			firstNot = min(firstNot, i)
		case mustExist:
			lastMust = i
		case "":
			c.warn(pointer, errors.New("has no condition, so nothing is ever changed"))
		default:
			c.add(pointer+"/condition", fmt.Errorf("condition %q is none of MustExist and MustNotExist", w.Condition))
		}
		if other, twice := tests[len(sub)-1]; twice && other != w.Condition {
			c.add(pointer+"/condition", fmt.Errorf("%s must exist and must not", sub))
		}
		tests[len(sub)-1] = w.Condition
	}
	if lastMust > firstNot { // Gatekeeper compares the indexes
		c.add("/spec/parameters"+render.Pointer("pathTests", lastMust), fmt.Errorf("%s must exist, but is listed after %s, which must not", written[lastMust].SubPath, written[firstNot].SubPath))
	}
	return tests
}
