package caddymodule

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/live"
	"github.com/caddy-presets/caddy-presets/domain"
)

// documentedCaddyfiles returns every Caddyfile that the documents show, by where it
// stands.
func documentedCaddyfiles(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	read := func(pattern string, add func(name, text string)) {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			add(filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator))), string(text))
		}
	}
	for _, pattern := range []string{"Caddyfile.example", "docs/cluster/*Caddyfile"} {
		read(pattern, func(name, text string) { found[name] = text })
	}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		read(pattern, func(name, text string) {
			blocks := strings.Split(text, "```caddyfile\n")
			for i, block := range blocks[1:] {
				block, _, _ = strings.Cut(block, "\n```")
				found[fmt.Sprintf("%s, block %d", name, i+1)] = block + "\n"
			}
		})
	}
	return found
}

// Nobody's key is in a log or reaches the gateway, with any Caddyfile of the
// documents as it stands but for its addresses and its store.
func TestDocumentedCaddyfilesLeakNoKey(t *testing.T) {
	for name, value := range map[string]string{
		"PRESETS_UPSTREAM": "127.0.0.1:1", "PRESETS_ETCD": "http://127.0.0.1:1", "PRESETS_HEALTH_KEY": "health-secret-of-the-tests",
	} {
		t.Setenv(name, value)
	}
	documents := documentedCaddyfiles(t)
	if len(documents) < 11 {
		t.Fatalf("found %d Caddyfiles", len(documents))
	}
	for name, text := range documents {
		config, err := adapt(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, variant := range []struct{ access, up bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
			t.Run(fmt.Sprintf("%s, access log %t, gateway up %t", name, variant.access, variant.up), func(t *testing.T) {
				leaksNoKey(t, config, variant.access, variant.up)
			})
		}
	}
}

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

// leaksNoKey runs a configuration and sends keys in all places to each of its sites.
func leaksNoKey(t *testing.T, adapted []byte, access, up bool) {
	folder, err := os.MkdirTemp("", "leaks") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store := storeFolder(t)
	gateway, logFile := filepath.Join(folder, "gateway"), filepath.Join(folder, "log")
	wire := new(upstream)
	if up {
		listener, err := net.Listen("unix", gateway)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(wire.serve)}
		go func() { _ = server.Serve(tapped{listener, wire}) }()
		defer server.Close()
	}

	var config settings
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	config["admin"] = settings{"disabled": true, "config": settings{"persist": false}}
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
	presets := false
	apps, _ := config["apps"].(settings)
	httpApp, _ := apps["http"].(settings)
	servers, _ := httpApp["servers"].(settings)
	if servers == nil {
		t.Skip("has no site")
	}
	for name, server := range servers {
		server, ours, proxies := server.(settings), false, false
		eachObject(server, func(o settings) {
			switch o["handler"] {
			case "presets":
				ours, presets = true, true
				o["storage"] = settings{"engine": "badger", "folder": store}
				for member, secret := range map[string]string{"management_keys": managementSecret, "inference_keys": inferenceSecret} {
					keys, _ := o[member].([]any)
					o[member] = append(keys, settings{"secret": "sha256:" + sha256Of(secret)})
				}
				o["auth_failure_limit"] = -1
			case "reverse_proxy":
				proxies = true
				o["upstreams"] = []any{settings{"dial": "unix/" + gateway}}
				delete(o, "health_checks")
				delete(o, "load_balancing") // which may wait for a gateway that is down
				if transport, ok := o["transport"].(settings); ok {
					delete(transport, "tls")
				}
			}
		})
		socket := filepath.Join(folder, name)
		server["listen"], server["protocols"], server["automatic_https"] = []any{"unix/" + socket}, []any{"h1", "h2c"}, settings{"disable": true}
		if access && server["logs"] == nil {
			server["logs"] = settings{}
		} else if !access {
			delete(server, "logs")
		}
		if ours || proxies { // others stand for a gateway
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
	defer (&server{t: t}).stop()

	keys := []string{managementSecret, inferenceSecret, "caddypresets_inf_of-the-tests", "caddypresets_mgmt_of-the-tests"}
	caller := inferenceSecret
	if presets {
		var service *domain.Service
		for _, store := range live.All() {
			service = store.Newest().Service
		}
		for i, kind := range []domain.KeyKind{domain.InferenceKey, domain.ManagementKey} {
			if _, keys[2+i], err = service.IssueKey(t.Context(), operator, domain.NewKey{Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		caller = keys[2]
	}
	sent, failed, passed := 0, 0, 0
	for _, socket := range sockets {
		for _, client := range clientsOf(socket) {
			for i, key := range keys {
				for _, place := range placesOf(key, i > 1) {
					if place.name == key && !presets {
						continue // stock Caddy logs the names of headers that it drops, at DEBUG
					}
					for _, path := range []string{chatPath, "/v1/embeddings", "/v1/presets"} {
						request, err := http.NewRequest("POST", "http://127.0.0.1:8080"+path, io.MultiReader(strings.NewReader(`{"model":"m"}`)))
						if err != nil {
							t.Fatal(err)
						}
						request.Header.Set("Authorization", "Bearer "+caller)
						if place.trailer {
							request.Trailer = http.Header{place.name: {place.value}}
						} else {
							request.Header[place.name] = []string{place.value}
						}
						answer, err := client.Do(request)
						if err != nil {
							t.Fatalf("%s %s: %v", path, place.name, err)
						}
						body, err := io.ReadAll(answer.Body)
						answer.Body.Close()
						if err != nil || leaked(body, keys) != "" || leaked([]byte(fmt.Sprint(answer.Header)), keys) != "" {
							t.Errorf("%s, a key in %s: the answer is %s %v, %v", path, place.name, body, answer.Header, err)
						}
						sent++
						switch answer.StatusCode {
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
	if !new(server).eventually(func() bool {
		logged, err = os.ReadFile(logFile)
		return err == nil && (!access || bytes.Count(logged, []byte("handled request")) == sent) && bytes.Count(logged, []byte("http.log.error")) >= failed
	}) {
		t.Fatalf("%v: of %d requests, of which %d failed, %d are in the access log and %d in the error log", err, sent, failed,
			bytes.Count(logged, []byte("handled request")), bytes.Count(logged, []byte("http.log.error")))
	}
	if line := leaked(logged, keys); line != "" {
		t.Errorf("the log holds a key: %s", line)
	}
	if presets { // else what stands behind is a node of ours
		if line := leaked(wire.bytes(), append(keys, domain.HiddenPrefix)); line != "" {
			t.Errorf("the gateway got a key: %s", line)
		}
	}
}

// place is where a key is in a request.
type place struct {
	name, value string
	trailer     bool
}

// placesOf returns the places where a key is looked for.
func placesOf(key string, issued bool) []place {
	var places []place
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		for _, value := range []string{key, "Bearer " + key, "key:" + key, "<" + key + ">", `"` + key + `"`, "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+key))} {
			places = append(places, place{name, value, false})
		}
		if name != "Authorization" { // which HTTP/2 refuses in trailers
			places = append(places, place{name, key, true})
		}
	}
	// Caddy keeps it from its logs, and reverse_proxy from the gateway.
	places = append(places, place{"Proxy-Authorization", "Bearer " + key, false})
	if issued {
		for _, trailer := range []bool{false, true} {
			places = append(places, place{"X-Whatever", "x" + strings.ToUpper(key) + "y", trailer}, place{key, "1", trailer})
		}
		places = append(places,
			place{"Cookie", "a=b; key=" + key, false},
			place{"Sec-Websocket-Protocol", "realtime, openai-insecure-api-key." + key, false},
			place{"X-Whatever", key, false},
		)
	}
	return places
}

// leaked returns the line of text that holds one of keys, in any letter case, or the
// base64 of credentials with it.
func leaked(text []byte, keys []string) string {
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

// clientsOf returns clients of a Unix socket that speak HTTP/1.1 and HTTP/2.
func clientsOf(socket string) []*http.Client {
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
	return slices.Clip(clients)
}
