package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// readRegular reads a file that the command line names. It does not wait for
// somebody to write to a named pipe, but reads what the shell passes as
// /dev/fd/N.
func readRegular(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	passed := strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/self/fd/")
	if !info.Mode().IsRegular() && !(passed && info.Mode()&fs.ModeNamedPipe != 0) {
		return nil, fmt.Errorf("%s: is %s, not a regular file", name, render.DescribeMode(info.Mode()))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err == nil && len(data) > maxReport {
		return nil, fmt.Errorf("%s: is larger than %d MiB", name, maxReport>>20)
	}
	return data, err
}
