package load

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// ReadRegular reads a file of the command line. A named pipe is an error, because reading it could
// block, except for pipes that the shell passes as /dev/fd/N.
func ReadRegular(name string) ([]byte, error) {
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
	data, err := io.ReadAll(io.LimitReader(f, MaxReport+1))
	if err == nil && len(data) > MaxReport {
		return nil, fmt.Errorf("%s: is larger than %d MiB", name, MaxReport>>20)
	}
	return data, err
}

// MaxReport limits the size of a report that is read. A hundred thousand results take several
// hundred megabytes.
const MaxReport = 2 << 30
