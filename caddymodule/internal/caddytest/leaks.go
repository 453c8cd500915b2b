package caddytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// settings is an object of a configuration.
type settings = map[string]any

// eachObject calls do with every object in value.
func eachObject(value any, do func(settings)) {
	switch value := value.(type) {
	case settings:
		do(value)
		for _, member := range value {
			eachObject(member, do)
		}
	case []any:
		for _, member := range value {
			eachObject(member, do)
		}
	}
}

// LeaksNoKey runs each of the named Caddyfiles, with and without an access log, and with
// the gateway up and down. It sends keys in all places of requests to the sites. No key
// may be logged or reach the gateway. The sites listen on Unix sockets. The engine badger
// stores presets in the folder that storeFolder returns.
func LeaksNoKey(t *testing.T, caddyfiles map[string]string, storeFolder func(*testing.T) string) {
	for name, value := range map[string]string{
		"PRESETS_UPSTREAM": "127.0.0.1:1", "PRESETS_ETCD": "http://127.0.0.1:1",
		"PRESETS_WEBHOOK_SECRET": "webhook-secret-of-the-tests",
		"LITELLM_KEY":            "key-of-a-gateway", "OPENAI_API_KEY": "key-of-a-gateway", "ANTHROPIC_API_KEY": "key-of-a-gateway", "OPENROUTER_API_KEY": "key-of-a-gateway",
	} {
		t.Setenv(name, value)
	}
	for i, name := range slices.Sorted(maps.Keys(caddyfiles)) {
		text := caddyfiles[name]
		config, err := Adapt(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for j := range 4 {
			if (i+j)%tier.Sample(4) != 0 { // a sample has another one for each Caddyfile
				continue
			}
			access, up := j/2 == 0, j%2 == 0
			t.Run(fmt.Sprintf("%s, access log %t, gateway up %t", name, access, up), func(t *testing.T) {
				leaksNoKey(t, config, storeFolder(t), access, up)
			})
		}
	}
}

// bundleIn makes a folder with a preset's file, and returns its name.
func bundleIn(t *testing.T, folder string) string {
	t.Helper()
	bundle := filepath.Join(folder, "bundle")
	err := os.MkdirAll(filepath.Join(bundle, "default"), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, "default", "bundled.yaml"), []byte("chat: {model: m}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func leaksNoKey(t *testing.T, adapted []byte, store string, access, up bool) {
	folder, err := os.MkdirTemp("", "leaks") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	gateway, admin, logFile := filepath.Join(folder, "gateway"), filepath.Join(folder, "admin"), filepath.Join(folder, "log")
	var wire Wire
	if up {
		listener, err := net.Listen("unix", gateway)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(accept), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(wire.Tap(listener)) }()
		defer server.Close()
	}

	var config settings
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	config["admin"] = settings{"listen": "unix/" + admin, "config": settings{"persist": false}}
	logs := settings{"default": settings{}}
	if logging, ok := config["logging"].(settings); ok {
		logs = logging["logs"].(settings)
	}
	for _, log := range logs {
		log := log.(settings)
		log["level"], log["writer"] = "DEBUG", settings{"output": "file", "filename": logFile}
	}
	config["logging"] = settings{"logs": logs}
	var sockets []string
	names := make(map[string]string) // of sites that have one, by socket
	presets := false
	apps, _ := config["apps"].(settings)
	httpApp, _ := apps["http"].(settings)
	servers, _ := httpApp["servers"].(settings)
	if servers == nil {
		t.Skip("has no site")
	}
	delete(httpApp, "shutdown_delay") // no balancer looks on
	for name, server := range servers {
		server, ours, proxies := server.(settings), false, false
		socket := filepath.Join(folder, name)
		eachObject(server, func(o settings) {
			if hosts, ok := o["host"].([]any); ok {
				names[socket] = hosts[0].(string)
			}
			switch o["handler"] {
			case "presets":
				ours, presets = true, true
				o["storage"] = settings{"engine": "badger", "folder": store}
				for member, secret := range map[string]string{"management_keys": ManagementSecret, "inference_keys": InferenceSecret} {
					keys, _ := o[member].([]any)
					hash := sha256.Sum256([]byte(secret))
					o[member] = append(keys, settings{"secret": "sha256:" + hex.EncodeToString(hash[:])})
				}
				o["auth_failure_limit"] = -1
				if o["bundle"] != nil {
					o["bundle"] = bundleIn(t, folder)
				}
			case "reverse_proxy":
				proxies = true
				o["upstreams"] = []any{settings{"dial": "unix/" + gateway}}
				delete(o, "health_checks")
				delete(o, "load_balancing") // it may wait for a gateway that is down
				if transport, ok := o["transport"].(settings); ok {
					delete(transport, "tls")
				}
			}
		})
		server["listen"], server["protocols"], server["automatic_https"] = []any{"unix/" + socket}, []any{"h1", "h2c"}, settings{"disable": true}
		if access && server["logs"] == nil {
			server["logs"] = settings{}
		} else if !access {
			delete(server, "logs")
		}
		if ours || proxies { // other sites are gateways
			sockets = append(sockets, socket)
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(text, true); err != nil {
		t.Fatal(err)
	}
	defer Stop(t)

	keys := []string{ManagementSecret, InferenceSecret, "caddypresets_inf_of-the-tests", "caddypresets_mgmt_of-the-tests"}
	caller := InferenceSecret
	if presets {
		server := &Server{T: t, AdminAddress: "unix/" + admin}
		for i, kind := range []domain.KeyKind{domain.InferenceKey, domain.ManagementKey} {
			keys[2+i] = server.Issue(fmt.Sprintf(`{"kind":%q}`, kind)).Secret
		}
		caller = keys[2]
	}
	sent, failed, passed := 0, 0, 0
	for _, socket := range sockets {
		for _, client := range UnixClients(socket) {
			for i, key := range keys {
				for j, place := range PlacesOf(key, i > 1) {
					if place.Name == key && !presets {
						continue // stock Caddy logs the names of headers that it drops, at DEBUG
					}
					paths := []string{"/v1/chat/completions", "/v1/embeddings", "/v1/presets"}
					if !tier.EveryCase() {
						paths = paths[(i+j)%len(paths):][:1]
					}
					for _, path := range paths {
						request, err := http.NewRequest("POST", "http://127.0.0.1:8080"+path, io.MultiReader(strings.NewReader(`{"model":"m"}`)))
						if err != nil {
							t.Fatal(err)
						}
						request.Host = names[socket] // empty: that of the URL
						request.Header.Set("Authorization", "Bearer "+caller)
						if place.Trailer {
							request.Trailer = http.Header{place.Name: {place.Value}}
						} else {
							request.Header[place.Name] = []string{place.Value}
						}
						response, err := client.Do(request)
						if err != nil {
							t.Fatalf("%s %s: %v", path, place.Name, err)
						}
						body, err := io.ReadAll(response.Body)
						response.Body.Close()
						if err != nil || Leaked(body, keys) != "" || Leaked([]byte(fmt.Sprint(response.Header)), keys) != "" {
							t.Errorf("%s, a key in %s: the answer is %s %v, %v", path, place.Name, body, response.Header, err)
						}
						sent++
						switch response.StatusCode {
						case http.StatusBadGateway:
							failed++
						case http.StatusAccepted:
							passed++
						}
					}
				}
			}
		}
	}
	if up != (passed > sent/4) || up == (failed > sent/4) {
		t.Errorf("of %d requests %d passed, and %d failed since the gateway was down", sent, passed, failed)
	}
	var logged []byte
	complete := func() bool {
		logged, err = os.ReadFile(logFile)
		return err == nil && (!access || bytes.Count(logged, []byte("handled request")) == sent) && bytes.Count(logged, []byte("http.log.error")) >= failed
	}
	if !wait.Eventually(complete) {
		t.Fatalf("%v: of %d requests, of which %d failed, %d are in the access log and %d in the error log", err, sent, failed,
			bytes.Count(logged, []byte("handled request")), bytes.Count(logged, []byte("http.log.error")))
	}
	if line := Leaked(logged, keys); line != "" {
		t.Errorf("the log holds a key: %s", line)
	}
	if bytes.Contains(logged, []byte("do not guard the API and the console")) {
		t.Error("the log warns of a directive that does not guard")
	}
	if presets { // else the upstream is a node of ours
		if line := Leaked(wire.Take(), append(keys, string(secrets.Hidden))); line != "" {
			t.Errorf("the gateway got a key: %s", line)
		}
	}
}

// accept is a gateway that reads complete requests.
func accept(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusAccepted)
}

// Place is a place of a key in a request.
type Place struct {
	Name, Value string
	Trailer     bool
}

// PlacesOf returns the places where a key is found. An issued key is found in more
// places, by its prefix.
func PlacesOf(key string, issued bool) []Place {
	var places []Place
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Inference-Key"} {
		for _, value := range []string{key, "Bearer " + key, "key:" + key, "<" + key + ">", `"` + key + `"`, "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+key))} {
			places = append(places, Place{name, value, false})
		}
		if name != "Authorization" { // HTTP/2 refuses it in trailers
			places = append(places, Place{name, key, true})
		}
	}
	// Caddy does not log this header, and reverse_proxy does not send it.
	places = append(places, Place{"Proxy-Authorization", "Bearer " + key, false})
	if issued {
		for _, trailer := range []bool{false, true} {
			places = append(places, Place{"X-Whatever", "x" + strings.ToUpper(key) + "y", trailer}, Place{key, "1", trailer})
		}
		places = append(places,
			Place{"Cookie", "a=b; key=" + key, false},
			Place{"Sec-Websocket-Protocol", "realtime, openai-insecure-api-key." + key, false},
			Place{"X-Whatever", key, false},
		)
	}
	return places
}

// Leaked returns the part of text around one of keys, in any letter case or in Basic
// credentials. It returns "" if no key is found.
func Leaked(text []byte, keys []string) string {
	text = bytes.ToLower(text)
	for _, key := range keys {
		for _, form := range []string{key, base64.StdEncoding.EncodeToString([]byte("ann:" + key))} {
			if at := bytes.Index(text, bytes.ToLower([]byte(form))); at >= 0 {
				return string(text[max(0, at-300):min(len(text), at+len(form)+20)])
			}
		}
	}
	return ""
}

// UnixClients returns clients of a Unix socket that speak HTTP/1.1 and HTTP/2.
func UnixClients(socket string) []*http.Client {
	var clients []*http.Client
	for _, two := range []bool{false, true} {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!two)
		protocols.SetUnencryptedHTTP2(two)
		clients = append(clients, &http.Client{Transport: &http.Transport{
			Protocols: protocols, DisableKeepAlives: true, // a refusal may end the connection
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		}})
	}
	return clients
}

// Wire records the bytes that connections of its listeners read.
type Wire struct {
	mu   sync.Mutex
	text []byte
}

// Tap returns a listener whose reads w records.
func (w *Wire) Tap(l net.Listener) net.Listener { return tapped{l, w} }

// Contains reports whether text was read since the last call of Take.
func (w *Wire) Contains(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.text, []byte(text))
}

// Len returns the number of bytes read since the last call of Take.
func (w *Wire) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.text)
}

// Take returns the bytes read since the last call.
func (w *Wire) Take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.text
	w.text = nil
	return text
}

type tapped struct {
	net.Listener
	wire *Wire
}

func (l tapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return tappedConn{conn, l.wire}, err
}

type tappedConn struct {
	net.Conn
	wire *Wire
}

func (c tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	c.wire.text = append(c.wire.text, p[:n]...)
	return n, err
}
