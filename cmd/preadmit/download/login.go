package download

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"helm.sh/helm/v3/pkg/helmpath"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/fetch"
)

// readLogins reads the logins for hosts: those of Helm's repositories, then those of netrc.
func readLogins() ([]fetch.Login, error) {
	logins, err := helmLogins()
	if err != nil {
		return nil, err
	}
	more, err := netrcLogins()
	return append(logins, more...), err
}

// helmLogins reads the logins that `helm repo add` saved.
func helmLogins() ([]fetch.Login, error) {
	name := cmp.Or(os.Getenv("HELM_REPOSITORY_CONFIG"), helmpath.ConfigPath("repositories.yaml"))
	data, err := readOwnFile(name)
	if data == nil || err != nil {
		return nil, err
	}
	var file struct {
		Repositories []struct {
			URL      string `json:"url"`
			Username string `json:"username"`
			Password string `json:"password"`
			CAFile   string `json:"caFile"`
		} `json:"repositories"`
	}
	if yaml.Unmarshal(data, &file) != nil {
		return nil, fmt.Errorf("%s: is no list of Helm's repositories", name)
	}
	var logins []fetch.Login
	for _, r := range file.Repositories {
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" || r.Username == "" && r.CAFile == "" {
			continue
		}
		l := fetch.Login{Host: u.Host, Username: r.Username, Password: r.Password}
		if r.CAFile != "" {
			if l.CA, err = os.ReadFile(r.CAFile); err != nil {
				return nil, fmt.Errorf("%s: caFile of %s: %w", name, r.URL, err)
			}
		}
		logins = append(logins, l)
	}
	return logins, nil
}

// netrcLogins reads the logins of netrc.
func netrcLogins() ([]fetch.Login, error) {
	name := os.Getenv("NETRC")
	if name == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil
		}
		name = filepath.Join(home, ".netrc")
		if runtime.GOOS == "windows" {
			name = filepath.Join(home, "_netrc")
		}
	}
	data, err := readOwnFile(name)
	if data == nil || err != nil {
		return nil, err
	}
	return parseNetrc(data), nil
}

func parseNetrc(data []byte) []fetch.Login {
	var logins []fetch.Login
	words := bufio.NewScanner(bytes.NewReader(withoutMacros(data)))
	words.Split(bufio.ScanWords)
	next := func() string { words.Scan(); return words.Text() }
	var l *fetch.Login
	for words.Scan() {
		switch words.Text() {
		case "machine":
			logins = append(logins, fetch.Login{Host: next()})
			l = &logins[len(logins)-1]
		case "default":
			l = nil // for all other hosts, which get no login here
		case "login":
			if user := next(); l != nil {
				l.Username = user
			}
		case "password":
			if password := next(); l != nil {
				l.Password = password
			}
		case "account":
			next()
		}
	}
	return logins
}

// withoutMacros drops comments and macdef, which ends at an empty line.
func withoutMacros(data []byte) []byte {
	var kept []string
	macro := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "macdef "):
			macro = true
		case text == "":
			macro = false
		case !macro && !strings.HasPrefix(text, "#"):
			kept = append(kept, text)
		}
	}
	return []byte(strings.Join(kept, "\n"))
}

// readOwnFile reads a file of the user. It returns nil if there is none.
func readOwnFile(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// registryLogins returns a function that finds the login for a registry in docker's configuration,
// including its credential helpers, and in Helm's.
func registryLogins() (func(ctx context.Context, hostport string) (username, password, token string, err error), error) {
	docker, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("docker's configuration: %w", err)
	}
	name := cmp.Or(os.Getenv("HELM_REGISTRY_CONFIG"), helmpath.ConfigPath("registry/config.json"))
	helm, err := credentials.NewStore(name, credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	find := credentials.Credential(credentials.NewStoreWithFallbacks(docker, helm))
	return func(ctx context.Context, hostport string) (username, password, token string, err error) {
		c, err := find(ctx, hostport)
		if err != nil {
			return "", "", "", fmt.Errorf("login for %s: %w", hostport, err)
		}
		return c.Username, c.Password, c.RefreshToken, nil
	}, nil
}
