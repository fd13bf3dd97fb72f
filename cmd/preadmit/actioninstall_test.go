package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// testActionRelease holds that a release is run when it is the file whose
// checksum the commit has, and then only.
func testActionRelease(t *testing.T, s *shop) {
	archive := tarball(t, "preadmit", stubScript("0.3.0", true))
	good := fmt.Sprintf("%x  preadmit_0.3.0_linux_amd64.tar.gz\n", sha256.Sum256(archive))
	bad := strings.Repeat("ab", 32) + "  preadmit_0.3.0_linux_amd64.tar.gz\n"
	cached := map[string]string{}
	for _, test := range []struct {
		name, checksums, version, arch string
		want                           outputsOf
		used                           []string
		said                           string
	}{
		{"the commit's own", good, "", "X64", outputsOf{"exit-code": "0", "version": "0.3.0"}, []string{"actions/cache/restore", "actions/cache/save"}, ""},
		{"by name", bad[:64] + "  preadmit_0.4.0_linux_amd64.tar.gz\n" + good, "v0.3.0", "X64", outputsOf{"exit-code": "0", "version": "0.3.0"}, []string{"actions/cache/restore", "actions/cache/save"}, ""},
		{"another file", bad, "", "X64", outputsOf{"exit-code": "3", "version": ""}, []string{"actions/cache/restore"}, "it is not run"},
		{"unknown version", good, "0.9.0", "X64", outputsOf{"exit-code": "2"}, nil, "knows no checksum"},
		{"unknown machine", good, "", "ARM", outputsOf{"exit-code": "2"}, nil, "no program for Linux on ARM"},
		{"hostile version", good, "../../x_linux", "X64", outputsOf{"exit-code": "2"}, nil, "knows no checksum"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("binary-path", "").input("version", test.version).input("sarif", "false")
			c.job.Arch = test.arch
			c.dir = actionCopy(t, test.checksums)
			bin := t.TempDir()
			put(t, filepath.Join(bin, "archive"), string(archive))
			put(t, filepath.Join(bin, "curl"), "#!/bin/bash\nwhile [ \"$1\" != --output ]; do shift; done\n[ \"$4\" = https://github.com/preadmit/preadmit/releases/download/v0.3.0/preadmit_0.3.0_linux_amd64.tar.gz ] || exit 22\ncp '"+bin+"/archive' \"$2\"\n")
			c.job.Path = bin + string(os.PathListSeparator) + c.job.Path
			c.job.Uses["actions/cache/restore"] = func(map[string]string) (map[string]string, error) { return nil, nil }
			c.job.Uses["actions/cache/save"] = func(with map[string]string) (map[string]string, error) {
				cached["path"], cached["key"] = with["path"], with["key"]
				return nil, nil
			}
			r := c.run()
			want(t, r, test.want)
			if diff := cmp.Diff(test.used, r.Used); diff != "" {
				t.Errorf("used: -want +got:\n%s", diff)
			}
			if !strings.Contains(said(r, "error"), test.said) {
				t.Errorf("the log lacks %q:\n%s", test.said, r.Log)
			}
		})
	}
	if !strings.HasPrefix(cached["key"], "preadmit-release-") || filepath.Base(cached["path"]) != cached["key"] {
		t.Errorf("cached %v", cached)
	}
}

// testActionCache holds that a cache is believed no more than the network.
func testActionCache(t *testing.T, s *shop) {
	archive := tarball(t, "preadmit", stubScript("0.3.0", true))
	poisoned := string(tarball(t, "preadmit", "#!/bin/bash\n[ \"$1\" = version ] && echo 'preadmit 6.6.6 x'\nexit 0\n"))
	for _, content := range []string{string(archive), poisoned} {
		c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("binary-path", "")
		c.dir = actionCopy(t, fmt.Sprintf("%x  preadmit_0.3.0_linux_amd64.tar.gz\n", sha256.Sum256(archive)))
		bin := t.TempDir()
		put(t, filepath.Join(bin, "curl"), "#!/bin/bash\nexit 6\n")
		c.job.Path = bin + string(os.PathListSeparator) + c.job.Path
		c.job.Uses["actions/cache/restore"] = func(with map[string]string) (map[string]string, error) {
			put(t, filepath.Join(with["path"], "preadmit_0.3.0_linux_amd64.tar.gz"), content)
			put(t, filepath.Join(with["path"], "preadmit"), "#!/bin/bash\necho 'preadmit 6.6.6 x'\n")
			return map[string]string{"cache-hit": "true"}, nil
		}
		r := c.run()
		if content == poisoned {
			want(t, r, outputsOf{"exit-code": "3", "version": ""})
		} else {
			want(t, r, outputsOf{"exit-code": "0", "version": "0.3.0"})
		}
	}
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("binary-path", "")
	c.dir = actionCopy(t, fmt.Sprintf("%x  preadmit_0.3.0_linux_amd64.tar.gz\n", sha256.Sum256(archive)))
	c.input("cache", "false").input("sarif", "false")
	bin := t.TempDir()
	put(t, filepath.Join(bin, "curl"), "#!/bin/bash\nexit 6\n")
	c.job.Path = bin + string(os.PathListSeparator) + c.job.Path
	if r := c.run(); len(r.Used) > 0 || r.Outputs["exit-code"] != "3" {
		t.Errorf("cache: false: used %v, exit code %s", r.Used, r.Outputs["exit-code"])
	}
}

// testActionSource holds that without a release the action builds itself, and
// that it neither takes the program from a cache nor leaves it in one: a pull
// request could have put another there.
func testActionSource(t *testing.T, s *shop) {
	bin := t.TempDir()
	put(t, filepath.Join(bin, "stub"), stubScript("0.1.0", true))
	put(t, filepath.Join(bin, "go"), "#!/bin/bash\nprintf '%s|' \"$CGO_ENABLED$GOFLAGS\" \"$@\" >"+bin+"/args\nwhile [ \"$1\" != -o ]; do shift; done\ncp "+bin+"/stub \"$2\"\n")
	for _, event := range []string{"pull_request", "push"} {
		c := newActionCase(t, s).event(event, "acme/shop", s.main).checkout(newestMerge, "--depth=2").input("binary-path", "").input("version", "source")
		c.job.Path = bin + string(os.PathListSeparator) + c.job.Path
		var goVersion string
		c.job.Uses["actions/setup-go"] = func(with map[string]string) (map[string]string, error) {
			goVersion = with["go-version"]
			if with["cache"] != "false" {
				t.Error("setup-go keeps a cache")
			}
			return nil, nil
		}
		poison := stubScript("6.6.6", true)
		c.job.Uses["actions/cache/restore"] = func(with map[string]string) (map[string]string, error) {
			put(t, filepath.Join(with["path"], "preadmit"), poison)
			return map[string]string{"cache-hit": "true"}, nil
		}
		r := c.run()
		want(t, r, outputsOf{"exit-code": "0", "version": "0.1.0"})
		args, _ := os.ReadFile(filepath.Join(bin, "args"))
		if !strings.HasPrefix(string(args), "0|build|-C|") || !strings.HasSuffix(string(args), "|./cmd/preadmit|") {
			t.Errorf("built by %s", args)
		}
		if diff := cmp.Diff([]string{"actions/setup-go", "github/codeql-action/upload-sarif"}, r.Used); diff != "" {
			t.Errorf("%s: used: -want +got:\n%s", event, diff)
		}
		mod, err := os.ReadFile("../../go.mod")
		if err != nil || !strings.Contains(string(mod), "\ntoolchain go"+goVersion+"\n") {
			t.Errorf("Go %q is not go.mod's", goVersion)
		}
	}
}

func tarball(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	rendertest.OK(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
	_, err := io.WriteString(w, content)
	rendertest.OK(t, errors.Join(err, w.Close(), z.Close()))
	return b.Bytes()
}

// actionCopy is the action with other checksums.
func actionCopy(t *testing.T, checksums string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "the action")
	for _, f := range []string{"action.yml", "go.mod"} {
		data := rendertest.ReadFile(t, filepath.Join("../..", f))
		put(t, filepath.Join(dir, f), string(data))
	}
	copyFiles(t, "../../.github/action", filepath.Join(dir, ".github/action"))
	put(t, filepath.Join(dir, ".github/action/checksums.txt"), checksums)
	return dir
}
