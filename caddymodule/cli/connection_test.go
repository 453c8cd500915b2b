package cli

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// list runs "list" with arguments, and returns its error and what it said on standard error.
func list(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	t.Setenv(keyVariable, "key")
	cmd := listCommand()
	var out, errors strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&errors)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return errors.String(), err
}

// TestPrivateAuthority reads from a server whose certificate only --cacert makes valid.
func TestPrivateAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data": [], "total_count": 0}`))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := list(t, "--server", server.URL, "--cacert", file); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	empty := file + ".empty"
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"certificate":       {"--server", server.URL},
		"no certificate in": {"--server", server.URL, "--cacert", empty},
		"no such file":      {"--server", server.URL, "--cacert", file + ".none"},
		"--timeout must be": {"--server", server.URL, "--timeout", "-1s"},
	} {
		if _, err := list(t, args...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: got %v, want %q", args, err, name)
		}
	}
}

// TestSilentServer ends a command after --timeout.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = list(t, "--server", "http://"+listener.Addr().String(), "--timeout", "20ms")
	if err == nil || !strings.Contains(err.Error(), "within 20ms") {
		t.Errorf("got %v", err)
	}
}
