// Package pattern matches JSON values with Kyverno's patterns: wildcards,
// operators and ranges in leaves, anchors in keys.
package pattern
