package servertest

import (
	"os"
	"path/filepath"
	"testing"
)

// EtcdVariable names the environment variable that holds the path of the etcd server to
// test with. The first tier has none: an etcd server takes minutes to build and to test.
const EtcdVariable = "PRESETS_ETCD"

// NoEtcd is the reason why a test that needs an etcd server is skipped.
const NoEtcd = "SKIPPED: " + EtcdVariable + " names no etcd server; CONTRIBUTING.md tells how to build one"

// Etcd returns the path of an etcd server: the one that EtcdVariable names, or one that it builds.
func Etcd(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(EtcdVariable); given != "" {
		return given
	}
	binary := filepath.Join(t.TempDir(), Executable("etcd"))
	if err := Build(t, filepath.Join(Root(t), "caddymodule", "etcd", "testserver"), ".", binary); err != nil {
		Lack(t, "etcd", "there is no etcd, and it cannot be built: %v", err)
	}
	return binary
}
