// Package cel is the host of the engines that speak CEL: admission policies,
// Gatekeeper's templates in CEL, Kyverno's policies in CEL and its validate.cel,
// and the rules of CustomResourceDefinitions. An engine brings its bindings, its
// libraries, its budgets and its matching.
//
// It takes expressions, declarations and objects, and returns checked ASTs
// ([Compile]), [Program]s that are safe for concurrent use, and the fields that
// made one fail ([Failure]). As in the API server, an expression of a new policy
// is compiled in the CEL environment of the minor version before, and runs in
// that of the newest (k8s.io/apiserver/pkg/cel/environment).
//
//   - version.go, compile.go, error.go: environments and checking
//   - program.go, dialect.go, guard.go: running, under limits
//   - freeze.go, values.go, objects.go: objects as immutable values
//   - variables.go, question.go: values that are evaluated when they are read, or
//     that are unknown offline
//   - blame.go, secret.go: fields and messages of a failure, without
//     values of Secrets
package cel

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A Version is a minor version of Kubernetes: 31 is 1.31.
type Version uint

// oldest is the first version that had CEL in the API server.
const oldest Version = 23

// Newest is the newest version that the libraries know.
func Newest() Version {
	return Version(environment.DefaultCompatibilityVersion().Minor()) + 1
}

// ParseVersion reads "1.31", "v1.31" or "v1.31.2"; "" is the newest. A version
// that is newer than the libraries counts as the newest.
func ParseVersion(s string) (Version, error) {
	if s == "" {
		return Newest(), nil
	}
	major, rest, ok := strings.Cut(strings.TrimPrefix(s, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(strings.TrimRight(minor, "+"), 10, 16)
	if !ok || major != "1" || err != nil {
		return 0, fmt.Errorf("%q is not a Kubernetes version such as 1.31", s)
	}
	return min(max(Version(n), oldest), Newest()), nil
}

// String is the version as people write it.
func (v Version) String() string { return "1." + strconv.FormatUint(uint64(v), 10) }

// base returns the environment in which an API server of this version checks new
// expressions: that of the version before, so that it can be rolled back.
func (v Version) base() *environment.EnvSet {
	return environment.MustBaseEnvSet(version.MajorMinor(1, uint(v)-1))
}
