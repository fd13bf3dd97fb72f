// Command apiserver runs etcd and kube-apiserver on the loopback address in one process, with the
// admission plugins of a default cluster. It takes a directory for its files, the port of
// kube-apiserver and more of its flags. The directory's file "token" has the token of an administrator.
//
// It is a module of its own, since the main one holds neither. TestLive in policy/schema starts it.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: apiserver DIR PORT [FLAG...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, port string, flags []string) error {
	etcd, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return err
	}
	defer etcd.Close()
	key, tokens := filepath.Join(dir, "key.pem"), filepath.Join(dir, "tokens.csv")
	if err := writeKey(key); err != nil {
		return err
	}
	token := rand.Text()
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600); err != nil {
		return err
	}
	cmd := app.NewAPIServerCommand()
	cmd.SetArgs(append([]string{
		"--etcd-servers=http://" + etcd.Clients[0].Addr().String(), "--bind-address=127.0.0.1", "--secure-port=" + port,
		"--cert-dir=" + filepath.Join(dir, "certificates"), "--token-auth-file=" + tokens,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.96.0.0/12", "--endpoint-reconciler-type=none", "--allow-privileged",
	}, flags...))
	return cmd.Execute()
}

// startEtcd starts etcd at a free port, with its data in a directory.
func startEtcd(dir string) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "error"
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = local, local, local, local
	c.InitialCluster = c.Name + "=" + local[0].String()
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	<-etcd.Server.ReadyNotify()
	return etcd, nil
}

// writeKey writes a new key for the tokens of ServiceAccounts.
func writeKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}
