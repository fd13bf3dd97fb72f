package main

import (
	"io"
	"log"
	"strings"
	"unicode"

	"k8s.io/klog/v2"
)

// quietLibraries keeps what libraries log out of standard error: what a reader
// must know is a result.
func quietLibraries() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	log.SetOutput(io.Discard)
}

// plain makes text of unknown origin fit for one line of a terminal or log.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
