package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// configMap returns the Caddyfile in the ConfigMap of a file in ops/kubernetes.
func configMap(t *testing.T, file string) string {
	t.Helper()
	var first struct{ Data map[string]string }
	if err := yaml.NewDecoder(strings.NewReader(read(t, filepath.Join(root, "ops", "kubernetes", file)))).Decode(&first); err != nil || first.Data["Caddyfile"] == "" {
		t.Fatalf("%s has no Caddyfile: %v", file, err)
	}
	return first.Data["Caddyfile"]
}

// echoGateway returns the address of a gateway that answers with the key and the body that it got.
func echoGateway(t *testing.T) string {
	t.Helper()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "%q %s", r.Header.Values("Authorization"), body)
	}))
	t.Cleanup(gateway.Close)
	return gateway.Listener.Addr().String()
}

// TestKubernetesReload runs the Caddyfile of ops/kubernetes, changes the ConfigMap, and loads it with
// ops/kubernetes/reload. Every request meanwhile is answered. This machine is the pod: kubectl hands
// the file out, and runs the commands here.
func TestKubernetesReload(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: Windows has no sh")
	}
	gateway := echoGateway(t)
	s, home := newServer(t)
	caddyfile := strings.NewReplacer(
		"http://:8080 {", s.site+" {", "http://:9180 {", "http://"+freeAddress(t)+" {", "/data/presets", filepath.Join(home, "store"),
		"\t\tconsole\n", "\t\tmanagement_key {env.E2E_MANAGEMENT_KEY}\n\t\tinference_key {env.E2E_INFERENCE_KEY}\n\t\tconsole\n",
	).Replace(configMap(t, "badger.yaml"))
	s.env = append(s.env, "CADDY_ADMIN="+s.admin, "PRESETS_UPSTREAM="+gateway, "PRESETS_GATEWAY_KEY="+gatewayKey)
	s.serve(t, home, caddyfile)
	s.manage(t, http.MethodPost, "/v1/presets/p/chat/completions", `{"model": "acme/small", "provider": {"sort": "price"}}`)
	ask := func() (int, string) {
		return s.post(t, "/v1/chat/completions", inferenceKey, `{"model": "@preset/p", "messages": []}`)
	}
	if status, answer := ask(); status != http.StatusOK || !strings.HasPrefix(answer, `["Bearer `+gatewayKey+`"] `) || !strings.Contains(answer, "provider") {
		t.Fatalf("before the reload: got %d %s", status, answer)
	}

	// A new connection for each request, since Caddy closes idle ones when it reloads.
	stop, answered := make(chan struct{}), new(atomic.Int64)
	done := make(chan struct{})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			response, err := client.Get(s.site + "/healthz")
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) { // Go drops what it reads first from a connection once its server shuts down
				response, err = client.Get(s.site + "/healthz")
			}
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("meanwhile a request gets %d", response.StatusCode)
			}
			answered.Add(1)
		}
	}()

	changed, tools := filepath.Join(home, "configmap"), filepath.Join(home, "tools")
	if err := os.Mkdir(tools, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tools, "kubectl"), `#!/bin/sh
case "$*" in
'--namespace presets get configmap presets --output jsonpath={.data.Caddyfile}') cat "$CONFIGMAP" ;;
'--namespace presets get pods '*) echo pod/presets-0 && echo pod/presets-1 ;;
'--namespace presets exec --stdin pod/presets-'?' -- '*) shift 6 && exec "$@" ;;
*) echo "unexpected: $*" >&2 && exit 1 ;;
esac
`)
	if err := os.Chmod(filepath.Join(tools, "kubectl"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := append(s.env, "CONFIGMAP="+changed, "PATH="+strings.Join([]string{tools, filepath.Dir(s.binary), os.Getenv("PATH")}, ":"))
	script, err := filepath.Abs(filepath.Join(root, "ops", "kubernetes", "reload"))
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "requests are answered", func() bool { return t.Failed() || answered.Load() > 0 })

	// A mistake is refused, and the server goes on.
	write(t, changed, strings.Replace(caddyfile, "console\n", "consol\n", 1))
	if out, message, err := try(t, home, env, script); err == nil || strings.Contains(out, "loaded") || !strings.Contains(message, "consol") {
		t.Errorf("a mistake: got %v, %s%s, want an error that names it", err, out, message)
	}
	write(t, changed, strings.Replace(caddyfile, "# drop_fields ", "drop_fields ", 1))
	if out := run(t, home, env, script); !strings.Contains(out, "pod/presets-0: loaded\npod/presets-1: loaded\n") {
		t.Errorf("got %s, want both pods", out)
	}
	if status, answer := ask(); status != http.StatusOK || strings.Contains(answer, "provider") {
		t.Errorf("after the reload: got %d %s, want no provider", status, answer)
	}
	before := answered.Load()
	wait.Until(t, "requests go on", func() bool { return t.Failed() || answered.Load() > before })
	close(stop)
	<-done
}

// TestGatewayWithoutKey checks that the image's Caddyfile sends no header to a gateway that needs no
// key, and takes a setting of the block inference from the environment.
func TestGatewayWithoutKey(t *testing.T) {
	t.Parallel()
	s, home := newServer(t)
	s.env = append(s.env, "CADDY_ADMIN="+s.admin, "PRESETS_UPSTREAM="+echoGateway(t), "PRESETS_SITE="+s.site, "PRESETS_METRICS=http://"+freeAddress(t),
		"PRESETS_FOLDER="+filepath.ToSlash(filepath.Join(home, "store")), "PRESETS_INFERENCE=drop_fields provider plugins")
	s.serve(t, home, read(t, filepath.Join(root, "ops", "docker", "Caddyfile")))
	issue := func(kind string) string {
		return strings.TrimSpace(run(t, home, s.env, servertest.Caddy(t), "presets", "key", "create", "--kind", kind))
	}
	if status, answer := s.post(t, "/v1/presets/p/chat/completions", issue("management"), `{"model": "acme/small", "provider": {"sort": "price"}}`); status != http.StatusOK {
		t.Fatalf("got %d %s", status, answer)
	}
	status, answer := s.post(t, "/v1/chat/completions", issue("inference"), `{"model": "@preset/p", "messages": []}`)
	if status != http.StatusOK || !strings.HasPrefix(answer, "[] ") || !strings.Contains(answer, "acme/small") || strings.Contains(answer, "provider") {
		t.Errorf("got %d %s, want no key and no provider", status, answer)
	}
}
