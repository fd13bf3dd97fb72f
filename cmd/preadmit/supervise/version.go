package supervise

import (
	"fmt"
	"os"
	"runtime"
)

// version is set by the release build (-ldflags -X .../supervise.version=...).
var version = "0.1.0"

// Version returns the program's version.
func Version() string { return version }

// VersionLine returns the output of the command version.
func VersionLine() string {
	return fmt.Sprintf("preadmit %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// printVersion prints the version and returns true if the command line asks for
// nothing else. It runs before the libraries initialize, which it does not need.
func printVersion(args []string) bool {
	if len(args) != 2 || args[1] != "version" || args[0] == Marker || isTest(args[0]) {
		return false
	}
	_, err := os.Stdout.WriteString(VersionLine())
	return err == nil
}
