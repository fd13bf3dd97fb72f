package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// rego reads the Rego modules at or below the paths of --policy, and the data
// of --data. Files that can't be read become results.
func (l *loader) rego(o *Sources) error {
	in := l.in
	var broken error
	var err error
	if in.Modules, broken, err = RegoModules(in.Tree, o.Policies, l.stdin); err != nil {
		return err
	}
	in.Found = append(in.Found, policy.Errors(policy.EngineCompile, nil, broken)...)
	names, err := DataNames(in.Tree, o.Data, l.stdin)
	if err != nil {
		return err
	}
	in.Data, broken = rego.LoadData(in.Tree, names...)
	in.Found = append(in.Found, policy.Errors(policy.EngineCompile, nil, broken)...)
	return nil
}

// RegoModules reads the .rego files at or below paths of the command line, each
// once. broken joins the errors of files that can't be read.
func RegoModules(t *Tree, paths []string, stdin io.Reader) (modules []rego.Module, broken, err error) {
	seen := make(map[string]bool)
	var unread []error
	for _, p := range paths {
		name, err := t.NameOf(p, stdin)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range regoFilesOf(t, p, name) {
			if seen[file] {
				continue
			}
			seen[file] = true
			text, err := render.ReadFile(t, file)
			if err != nil {
				unread = append(unread, err)
				continue
			}
			modules = append(modules, rego.Module{File: file, Text: string(text)})
		}
	}
	return modules, errors.Join(unread...), nil
}

// DataNames returns the values of --data with their paths as names in the tree.
func DataNames(t *Tree, values []string, stdin io.Reader) ([]string, error) {
	names := make([]string, len(values))
	for i, v := range values {
		under, file := CutData(v)
		name, err := t.NameOf(file, stdin)
		if err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		if _, err := fs.Stat(t, name); err != nil && !t.Paired {
			return nil, fmt.Errorf("--data: %w", NotFound(v, file))
		}
		if names[i] = under + name; under == "" && strings.Contains(name, ":") { // of a registry with a port
			names[i] = ":" + name
		}
	}
	return names, nil
}

// CutData splits a value of --data, PREFIX:PATH or PATH, into the prefix with
// its colon and the path. The letter of a Windows drive is no prefix.
func CutData(value string) (under, file string) {
	if render.IsAddress(value) || filepath.VolumeName(value) != "" {
		return "", value
	}
	if i := strings.IndexByte(value, ':'); i > 0 {
		return value[:i+1], value[i+1:]
	}
	return "", value
}

// DataFiles returns the paths in values of --data.
func DataFiles(values []string) []string {
	files := make([]string, len(values))
	for i, v := range values {
		_, files[i] = CutData(v)
	}
	return files
}

// regoFilesOf returns the .rego files at a path of the command line. A path that ends in .rego
// counts as one even if it is a link to a file with another name.
func regoFilesOf(t *Tree, p, name string) []string {
	if info, err := fs.Stat(t, name); err == nil && !info.IsDir() && strings.HasSuffix(p, ".rego") {
		return []string{name}
	}
	return regoFiles(t, name)
}

// regoFiles returns the .rego files at or below a name, including links and
// files that can't be read, for which reading gives the error. Other unreadable
// entries are reported when the other policies are searched.
func regoFiles(t *Tree, name string) []string {
	fsys, below, err := t.Locate("open", name)
	if err != nil {
		return nil
	}
	prefix := strings.TrimSuffix(name, below)
	if below == "." && name != "." {
		prefix = name + "/"
	}
	var files []string
	for _, file := range rego.Files(fsys, below) {
		files = append(files, path.Join(prefix, file))
	}
	return files
}

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
