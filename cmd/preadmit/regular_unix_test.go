//go:build unix

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNamedPipesDoNotBlock opens named pipes that nobody writes to, or reads.
func TestNamedPipesDoNotBlock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	writeFiles(t, dir, map[string]string{"h.yaml": deniedObjects["pod"]})
	object := filepath.Join(dir, "h.yaml")
	for _, args := range [][]string{
		{"convert", pipe, "-o", "text"},
		{"verify", pipe},
		{"baseline", "--suppressions", pipe, "--reason", "x", object},
		{"check", "--no-cache", "-o", "json=" + pipe, object},
		{"check", "--no-cache", "-p", pipe, object},
		{"check", "--no-cache", "--suppressions", pipe, object},
		{"check", "--no-cache", "--with", pipe, object},
		{"check", "--no-cache", "--config", pipe, object},
		{"check", "--no-cache", pipe},
		{"test", pipe},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			done := make(chan int, 1)
			var out bytes.Buffer
			go func() { done <- run(context.Background(), args, strings.NewReader(""), &out, &out) }()
			select {
			case code := <-done:
				if code == exitOK {
					t.Errorf("exit 0\n%s", out.String())
				}
			case <-time.After(30 * time.Second):
				t.Error("it waits")
			}
		})
	}
}
