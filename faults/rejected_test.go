//go:build faults

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRejectedReloads loads configurations that fail at different stages. Each leaves the
// previous one running with its store open, and leaves no resources behind.
func TestRejectedReloads(t *testing.T) {
	begun := time.Now()
	s := newServer(t, options{presets: "inference", env: []string{"FAULTS_TWICE=" + managementKey}})
	s.mustStart()
	r := newRecorder(t)
	kinds := rejectedConfigs(t, s)
	if len(kinds) < 30 {
		t.Errorf("there are %d kinds, want 30", len(kinds))
	}
	preset := presetName{slug: "p"}
	serves := func(name string) {
		s.waitOldListenersClosed(strings.TrimPrefix(s.site, "http://"))
		s.client.CloseIdleConnections()
		a, err := r.createVersion(s, preset, "after "+name)
		if err != nil || a.status != http.StatusOK {
			t.Errorf("%s: afterwards a write gives %s, %v", name, a, err)
		}
		if a, err := s.get(preset.path("")); err != nil || a.status != http.StatusOK || !bytes.Contains(a.body, []byte("after "+name)) {
			t.Errorf("%s: afterwards a read gives %s, %v", name, a, err)
		}
		a, err = s.send(http.MethodPost, "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`, "Authorization", "Bearer "+inferenceKey)
		if err != nil || a.status != http.StatusOK || a.header.Get("X-Preset") == "" {
			t.Errorf("%s: afterwards an inference request gives %s, %v", name, a, err)
		}
	}
	config := func() string {
		a, err := s.sendAdmin(http.MethodGet, "/config/", "", "")
		if err != nil || a.status != http.StatusOK {
			t.Fatal(a, err)
		}
		return string(a.body)
	}
	// The configurations below change a valid one. A valid change of it is accepted.
	s.reload(s.caddyfile() + "\n# changed\n:0 {\nbind 127.0.0.1\n}\n")
	s.reload(s.caddyfile())
	serves("none")

	was, opened := config(), storeLock(t, s.store)
	for _, k := range kinds {
		a, err := k.load(s)
		switch {
		case err != nil:
			t.Errorf("%s: %v", k.name, err)
		case a.status < 400:
			t.Errorf("%s: is accepted: %s", k.name, a)
			s.reload(s.caddyfile())
		case !strings.Contains(string(a.body), k.because):
			t.Errorf("%s: is refused for another reason than %q: %s", k.name, k.because, a)
		case strings.Contains(string(a.body), managementKey):
			t.Errorf("%s: the answer shows a key: %s", k.name, a)
		}
		serves(k.name)
		if config() != was {
			t.Errorf("%s: /config/ shows another configuration", k.name)
			was = config()
		}
		if now := storeLock(t, s.store); !sameOpening(opened, now) {
			t.Errorf("%s: the store was closed and opened again", k.name)
			opened = now
		}
		if k.newStore != "" {
			if _, err := os.Stat(filepath.Join(k.newStore, "STORE")); err != nil {
				t.Errorf("%s: never got as far as its store: %v", k.name, err)
			}
			if holder, err := os.ReadFile(lockOf(k.newStore)); err != nil || len(holder) > 0 {
				t.Errorf("%s: its store is still open by %q: %v", k.name, holder, err)
			}
		}
	}
	// The rejections are repeated to find leaks. The first time the server also takes
	// memory that it keeps, and writes use memory. A leak grows each time.
	var before, after footprint
	fits := func(f footprint) bool {
		return hasNotGrown(int64(f.fds), int64(before.fds), 0.05) && hasNotGrown(int64(f.goroutines), int64(before.goroutines), 0.05) && hasNotGrown(f.heap, before.heap, 0.05)
	}
	for round := 0; round == 0 || round < 3 && !fits(after); round++ {
		before = s.settledFootprint(5*time.Second, func(footprint) bool { return false })
		for _, k := range kinds {
			if a, err := k.load(s); err != nil || a.status < 400 {
				t.Errorf("%s, again: %s, %v", k.name, a, err)
			}
		}
		after = s.settledFootprint(30*time.Second, fits)
	}
	if !fits(after) {
		t.Errorf("%d refused configurations leave %v, want at most 5 %% above %v", len(kinds), after, before)
	}
	r.verify(s, true)
	result(t, "rejected", begun, append([]any{
		"kinds", len(kinds), "acknowledged", r.acknowledged, "fds", fmt.Sprintf("%d->%d", before.fds, after.fds),
		"goroutines", fmt.Sprintf("%d->%d", before.goroutines, after.goroutines), "heap", fmt.Sprintf("%.1f->%.1fMiB", mib(before.heap), mib(after.heap)),
	}, r.found.figures()...)...)
}

// rejected is a configuration that Caddy must refuse.
type rejected struct {
	name      string
	because   string // a part of the error
	text      string
	caddyfile bool   // else JSON
	newStore  string // a store that it creates
}

// load tries to make it the configuration of a server.
func (k rejected) load(s *server) (answer, error) {
	if k.caddyfile {
		return s.load(k.text)
	}
	return s.sendAdmin(http.MethodPost, "/load", "application/json", k.text)
}

// object is a JSON object of a configuration.
type object = map[string]any

// rejectedConfigs returns configurations that are refused at each stage: when they are read, when our
// handler is made, before and after its store is opened, and in another module. It changes the
// configuration of s. The tests of caddymodule and its engines have all messages.
func rejectedConfigs(t *testing.T, s *server) (kinds []rejected) {
	t.Helper()
	other := newServer(t, options{})
	other.mustStart()
	file := func(name, text string) string {
		path := filepath.Join(s.home, "rejected", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	missing := filepath.Join(s.home, "missing")
	aFile := file("file", "x")

	running, err := s.sendAdmin(http.MethodGet, "/config/", "", "")
	if err != nil {
		t.Fatal(err)
	}
	// change adds the running configuration with a change to it.
	change := func(name, because string, edit func(config, handler object)) *rejected {
		var config object
		if err := json.Unmarshal(running.body, &config); err != nil {
			t.Fatal(err)
		}
		handler := findHandler(config)
		if handler == nil {
			t.Fatalf("the configuration has no presets handler: %s", running.body)
		}
		edit(config, handler)
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, rejected{name: name, because: because, text: string(text)})
		return &kinds[len(kinds)-1]
	}
	set := func(member string, value any, because string) {
		change(fmt.Sprintf("%s %v", member, value), because, func(_, h object) { h[member] = value })
	}
	set("base_path", 1, "cannot unmarshal number")
	set("base_path", "{no.such}", "unrecognized placeholder")
	set("max_body_size", -1, "must be positive")
	set("unknown", true, "unknown field")

	keys := func(name, because string, secrets ...string) {
		change("management key "+name, because, func(_, h object) {
			var list []object
			for _, secret := range secrets {
				list = append(list, object{"secret": secret})
			}
			h["management_keys"] = list
		})
	}
	keys("of no hash", "must be followed by 64 hexadecimal digits", "sha256:abc")
	keys("in no file", "file."+missing, "{file."+missing+"}")
	keys("too short", "must be at least 16 characters", "{file."+file("short", "short\n")+"}")
	keys("twice", "has the same secret as", "{env.FAULTS_TWICE}", "{env.FAULTS_TWICE}")
	set("inference", object{"keys": "sometimes"}, "must be everywhere, required, optional or off")
	set("memory", -1, "must be between 1 and")

	storage := func(name, because string, value object) {
		change("storage "+name, because, func(_, h object) { h["storage"] = value })
	}
	badger := func(name, because, folder string) {
		storage(name, because, object{"engine": "badger", "folder": folder})
	}
	storage("unknown", "storage: there is no engine", object{"engine": "postgres"})
	storage("with an unknown setting", "unknown field", object{"engine": "badger", "folder": s.store, "sync": false})
	key := func(name, because, folder, file string) {
		storage("with "+name, because, object{"engine": "badger", "folder": folder, "encryption_key_file": file})
	}
	digits := file("digits", strings.Repeat("0123456789abcdef", 4)+"\n")
	key("a key that the running one has not", "is in use with another encryption key", s.store, digits)
	badger("below a file", "not a directory", filepath.Join(aFile, "store"))
	badger("of another process", "is in use", other.store)
	badger("in a folder of something else", "is neither empty nor a store", filepath.Dir(file("else/README", "x")))
	// The marker has a valid checksum, because a damaged store is no reason to reject a
	// configuration.
	newer := `{"format":99,"id":"x","state":"ready"}`
	newer += fmt.Sprintf("\n%08x\n", crc32.Checksum([]byte(newer), crc32.MakeTable(crc32.Castagnoli)))
	badger("of a newer version", "needs a newer version", filepath.Dir(file("newer/STORE", newer)))

	change("another handler", "unknown module: http.handlers.preset", func(_, h object) { h["handler"] = "preset" })
	second := func(name, because, newStore string, edit func(config, copied object)) {
		change(name, because, func(config, h object) {
			copied := maps.Clone(h)
			copied["base_path"] = "/v2"
			if newStore != "" {
				copied["storage"] = object{"engine": "badger", "folder": newStore}
			}
			servers(config)["second"] = object{
				"listen": []string{"127.0.0.1:0"}, "routes": []object{{"handle": []object{copied}}},
			}
			edit(config, copied)
		}).newStore = newStore
	}
	second("a second handler of the same store", "must be positive", "", func(_, copied object) { copied["max_body_size"] = -1 })
	second("a second handler of a store of its own", "inference: max_body_size: must be positive", filepath.Join(s.home, "second"), func(_, copied object) {
		copied["inference"] = object{"max_body_size": -1}
	})
	second("a new store and a port that is taken", "address already in use", filepath.Join(s.home, "third"), func(config, _ object) {
		servers(config)["second"].(object)["listen"] = []string{taken.Addr().String()}
	})
	change("a port that is taken", "address already in use", func(config, _ object) {
		servers(config)["second"] = object{"listen": []string{taken.Addr().String()}}
	})
	change("an unknown matcher", "unknown module: http.matchers.no_such", func(config, _ object) {
		servers(config)["second"] = object{"routes": []object{{"match": []object{{"no_such": object{}}}}}}
	})
	change("an unknown app", "unknown module: no_such", func(config, _ object) { config["apps"].(object)["no_such"] = object{} })
	change("a certificate that is missing", "no such file", func(config, _ object) {
		config["apps"].(object)["tls"] = object{"certificates": object{"load_files": []object{{"certificate": missing, "key": missing}}}}
	})
	change("an unknown subscriber", "unknown module: events.handlers.no_such", func(config, _ object) {
		config["apps"].(object)["events"] = object{"subscriptions": []object{{"events": []string{"presets.archived"}, "handlers": []object{{"handler": "no_such"}}}}}
	})
	change("a log without a place", "not a directory", func(config, _ object) {
		config["logging"] = object{"logs": object{"default": object{"writer": object{"output": "file", "filename": filepath.Join(aFile, "log")}}}}
	})
	change("an unknown member", "unknown field", func(config, _ object) { config["presets"] = object{} })

	whole := string(running.body)
	for name, text := range map[string]string{"half": whole[:len(whole)/2], "more than whole": whole + "}", "no JSON": "presets", "a list": "[" + whole + "]"} {
		kinds = append(kinds, rejected{name: name, text: text})
	}
	caddyfile := func(name, because, was, is string) {
		text := strings.Replace(s.caddyfile(), was, is, 1)
		if text == s.caddyfile() {
			t.Fatalf("%s: the Caddyfile has no %q", name, was)
		}
		kinds = append(kinds, rejected{name: name, because: because, text: text, caddyfile: true})
	}
	caddyfile("subdirective unknown", "unrecognized subdirective", "storage badger", "store badger")
	caddyfile("folder twice", "want at most one argument", `storage badger "`, `storage badger x "`)
	caddyfile("directive unknown", "unrecognized directive", "presets {", "presents {")
	caddyfile("block without an end", "", "presets {", "presets {{")
	return kinds
}

// servers returns the servers of a configuration.
func servers(config object) object {
	return config["apps"].(object)["http"].(object)["servers"].(object)
}

// findHandler returns the presets handler below a value, nil if there is none.
func findHandler(value any) object {
	switch value := value.(type) {
	case object:
		if value["handler"] == "presets" {
			return value
		}
		for _, member := range value {
			if found := findHandler(member); found != nil {
				return found
			}
		}
	case []any:
		for _, element := range value {
			if found := findHandler(element); found != nil {
				return found
			}
		}
	}
	return nil
}
