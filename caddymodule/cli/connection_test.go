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
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
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

// TestWaitingIsSaid says once that a command waits, and only if it does.
func TestWaitingIsSaid(t *testing.T) {
	var c connection
	cmd := &cobra.Command{}
	c.connectionFlags(cmd)
	var text strings.Builder
	cmd.SetErr(&text)
	transport, err := c.transport(cmd)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := transport.(noticing)
		for _, silence := range []time.Duration{0, noticeAfter + time.Second, noticeAfter + time.Second} {
			n.RoundTripper = roundTrip(func(*http.Request) (*http.Response, error) {
				time.Sleep(silence)
				return &http.Response{}, nil
			})
			if _, err := n.RoundTrip(nil); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			want := "The server has not answered yet. Waiting up to 30s, which --timeout sets.\n"
			if silence == 0 {
				want = ""
			}
			if text.String() != want {
				t.Errorf("after %v: got %q, want %q", silence, text.String(), want)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
