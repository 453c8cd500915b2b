package etcd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// server is a cluster of one member that all tests share, each with a prefix of its own.
var server string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	binary := os.Getenv("ETCD")
	folder, _ := os.MkdirTemp("", "etcd-")
	defer os.RemoveAll(folder)
	cmd := exec.CommandContext(context.Background(), binary, "--data-dir", filepath.Join(folder, "data"), "--listen-client-urls", "http://127.0.0.1:23790",
		"--advertise-client-urls", "http://127.0.0.1:23790", "--listen-peer-urls", "http://127.0.0.1:23800", "--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	server = "127.0.0.1:23790"
	return m.Run()
}

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t *testing.T, place string) storagetest.Store {
		s, err := Open(t.Context(), Options{Endpoints: []string{server}, Prefix: fmt.Sprintf("%x/", sha256.Sum256([]byte(place))), RequestTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
