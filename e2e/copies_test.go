package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// The credentials of the S3 server.
const (
	s3ID     = "E2EACCESSKEYOFTHETESTS"
	s3Secret = "e2e-secret-key-of-the-S3-server"
)

// copies is a server of S3 with one bucket, and a server of presets that is copied to it.
type copies struct {
	*server
	objects string   // the folder of the bucket's objects
	s3      string   // the address of the server of S3
	env     []string // of the commands
}

// s3Built is the program of the server of S3, which TestMain removes.
var s3Built struct {
	once   sync.Once
	folder string
	err    error
}

// s3Server returns the path of a server of S3, which the first test builds.
func s3Server(t *testing.T) string {
	t.Helper()
	s3Built.once.Do(func() {
		if s3Built.folder, s3Built.err = os.MkdirTemp("", "caddy-presets-s3-"); s3Built.err == nil {
			s3Built.err = servertest.Build(t, "s3server", ".", filepath.Join(s3Built.folder, servertest.Executable("s3server")))
		}
	})
	if s3Built.err != nil {
		servertest.Lack(t, "s3server", "the server of S3 cannot be built: %v", s3Built.err)
	}
	return filepath.Join(s3Built.folder, servertest.Executable("s3server"))
}

const copiesAddress = "s3://copies/presets/a"

func newCopies(t *testing.T) *copies {
	t.Helper()
	home := t.TempDir()
	program := s3Server(t)
	for _, folder := range []string{"data/copies", "metadata"} {
		if err := os.MkdirAll(filepath.Join(home, filepath.FromSlash(folder)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	certificate, key := servertest.Certificate(t)
	in := func(name string) string { return filepath.Join(home, name) }
	write(t, in("s3.pem"), string(certificate))
	write(t, in("s3.key"), string(key))
	credentials := []string{"AWS_ACCESS_KEY_ID=" + s3ID, "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_CA_BUNDLE=" + in("s3.pem")}
	c := &copies{server: startWith(t, "", ""), objects: filepath.Join(in("data"), "copies", "presets", "a"), s3: freeAddress(t)}
	cmd := exec.CommandContext(wait.Command(t), program, c.s3, in("data"), in("metadata"), in("s3.pem"), in("s3.key"))
	cmd.Env = append(os.Environ(), credentials...)
	servertest.Serve(t, cmd, c.s3)
	c.env = append(homeOf(home), append(credentials, "AWS_ENDPOINT_URL=https://"+c.s3)...)
	return c
}

// presets runs a command with more variables. It returns what the command wrote for people.
func (c *copies) presets(t *testing.T, env []string, args ...string) (note string, err error) {
	t.Helper()
	out, note, err := try(t, t.TempDir(), append(c.env, env...), c.binary, append([]string{"presets"}, args...)...)
	if strings.Contains(out+note, s3Secret) {
		t.Errorf("%v: the output has the secret:\n%s%s", args, out, note)
	}
	return note, err
}

// copy copies the store, and returns the digest in the copy.
func (c *copies) copy(t *testing.T, args ...string) string {
	t.Helper()
	note, err := c.presets(t, nil, append([]string{"backup", "--address", c.admin}, args...)...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, note)
	}
	return digestIn(t, note)
}

func digestIn(t *testing.T, note string) string {
	t.Helper()
	found := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(note)
	if found == "" {
		t.Fatalf("there is no digest in %q", note)
	}
	return found
}

// kept returns the names of the copies.
func (c *copies) kept(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(c.objects)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// change makes another version of a preset.
func (c *copies) change(t *testing.T, text string) {
	t.Helper()
	c.manage(t, http.MethodPost, "/v1/presets/p/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q}]}`, text))
}

// copyMetric returns the time of the last copy in the metrics, empty for none.
func (c *copies) copyMetric(t *testing.T) string {
	t.Helper()
	response, err := http.Get("http://" + c.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(regexp.MustCompile(`(?m)^caddy_presets_last_copy_timestamp_seconds\{.*`).Find(text))
}

// TestCopies copies a store to a server of S3, keeps two copies, and restores each of them.
func TestCopies(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	c := newCopies(t)
	if got := c.copyMetric(t); got != "" {
		t.Errorf("before a copy: got %s, want none", got)
	}
	c.change(t, "first")
	c.copy(t, "--keep", "2", copiesAddress)
	c.change(t, "second")
	second := c.copy(t, "--keep", "2", copiesAddress)
	between := c.kept(t)[1]
	c.change(t, "CANARY")
	_, shown := c.send(t, http.MethodGet, "/v1/presets/p/versions", managementKey, "")
	third := c.copy(t, "--keep", "2", copiesAddress+"/")
	kept := c.kept(t)
	if len(kept) != 2 || kept[0] != between {
		t.Fatalf("got %q, want the newest two, with %s", kept, between)
	}
	note, err := c.presets(t, nil, "backup", "--address", c.admin, "--keep", "2", copiesAddress)
	if err != nil || !strings.Contains(note, "Nothing has changed since "+copiesAddress+"/"+kept[1]) || len(c.kept(t)) != 2 {
		t.Errorf("without a change: got %q, %v", note, err)
	}
	if got := c.copyMetric(t); got == "" {
		t.Error("there is no metric of the last copy")
	}
	made, err := time.Parse("20060102T150405.000Z", strings.TrimSuffix(strings.TrimPrefix(kept[0], "presets-"), ".backup"))
	if err != nil {
		t.Fatal(err)
	}
	folder := func(name string) string { return filepath.Join(t.TempDir(), name) }
	newest := folder("newest")
	for _, restored := range []struct {
		want, folder string
		args         []string
	}{
		{third, newest, []string{copiesAddress}},
		{third, folder("named"), []string{copiesAddress + "/" + kept[1]}},
		{second, folder("earlier"), []string{"--at", made.Format(time.RFC3339Nano), copiesAddress}},
	} {
		note, err := c.presets(t, nil, append([]string{"restore", "--folder", restored.folder}, restored.args...)...)
		if err != nil || digestIn(t, note) != restored.want {
			t.Errorf("%v: got %q, %v, want digest %s", restored.args, note, err, restored.want)
		}
	}
	if note, err := c.presets(t, nil, "restore", "--folder", folder("none"), "--at", made.Add(-time.Millisecond).Format(time.RFC3339Nano), copiesAddress); err == nil || !strings.Contains(note, "no copy that was made until then, of 2") {
		t.Errorf("before the first copy: got %q, %v", note, err)
	}
	c.verifies(t, copiesAddress)

	again, home := newServer(t)
	again.serve(t, home, fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n\tpersist_config off\n}\n%s {\n\tbind 127.0.0.1\n\tpresets {\n\t\tstorage badger %q\n\t\tmanagement_key {env.E2E_MANAGEMENT_KEY} user_e2e\n\t}\n}\n",
		again.admin, again.site, filepath.ToSlash(newest)))
	if status, got := again.send(t, http.MethodGet, "/v1/presets/p/versions", managementKey, ""); status != http.StatusOK || got != shown || !strings.Contains(got, "CANARY") {
		t.Errorf("the restored store: got %d %s, want %s", status, got, shown)
	}

	t.Run("encrypted", func(t *testing.T) {
		key := storagetest.KeyFile(t, storagetest.KeyDigits)
		digest := c.copy(t, "--encryption-key-file", key, copiesAddress+"-encrypted")
		files, err := filepath.Glob(c.objects + "-encrypted/*")
		if err != nil || len(files) != 1 || strings.Contains(read(t, files[0]), "CANARY") {
			t.Errorf("got %q, %v", files, err)
		}
		if note, err := c.presets(t, nil, "verify", copiesAddress+"-encrypted"); err == nil {
			t.Errorf("without its key: got %q", note)
		}
		note, err := c.presets(t, nil, "restore", "--folder", folder("decrypted"), "--backup-key-file", key, copiesAddress+"-encrypted")
		if err != nil || digestIn(t, note) != digest {
			t.Errorf("got %q, %v, want digest %s", note, err, digest)
		}
	})
	t.Run("another store", func(t *testing.T) { // one that was not mounted, at a lower commit
		other := startWith(t, "", "")
		note, err := c.presets(t, nil, "backup", "--address", other.admin, "--keep", "1", copiesAddress)
		if err == nil || !strings.Contains(note, "no backup was removed") || len(c.kept(t)) != 3 {
			t.Errorf("got %q, %v, and %q", note, err, c.kept(t))
		}
	})
}

// verifies fails the test unless the newest copy is whole.
func (c *copies) verifies(t *testing.T, address string) {
	t.Helper()
	out, note, err := try(t, t.TempDir(), c.env, c.binary, "presets", "verify", address)
	if err != nil || !strings.Contains(out, "Nothing is damaged") {
		t.Errorf("%s: got %q, %q, %v", address, out, note, err)
	}
}

// TestCopiesRefused names a bucket that is missing, wrong credentials, a server of another authority
// and one that does not listen. The errors say what is wrong, and show no credentials.
func TestCopiesRefused(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	c := newCopies(t)
	broken := filepath.Join(t.TempDir(), "credentials")
	write(t, broken, "[default]\naws_access_key_id = "+s3ID+"\n"+s3Secret+"\n")
	for n, tc := range []struct {
		says, address string
		env           []string
	}{
		{"s3://absent/presets/: the server answers NoSuchBucket", "s3://absent/presets", nil},
		{"the server answers SignatureDoesNotMatch", copiesAddress, []string{"AWS_SECRET_ACCESS_KEY=" + s3Secret + "x"}},
		{"No user exists with the provided access key ID", copiesAddress, []string{"AWS_ACCESS_KEY_ID=OTHER"}},
		{"no credentials: set AWS_ACCESS_KEY_ID", copiesAddress, []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}},
		{"no credentials: set AWS_ACCESS_KEY_ID", copiesAddress, []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SHARED_CREDENTIALS_FILE=" + broken}},
		{"certificate", copiesAddress, []string{"AWS_CA_BUNDLE="}},
		{"connection refused", copiesAddress, []string{"AWS_ENDPOINT_URL=https://" + freeAddress(t)}},
		{"want https", copiesAddress, []string{"AWS_ENDPOINT_URL=http://192.0.2.1:9000"}},
		{"want s3://bucket/prefix", "s3:///presets", nil},
	} {
		commands := [][]string{{"verify"}, {"backup", "--address", c.admin, "--keep", "1"}, {"restore", "--folder", filepath.Join(t.TempDir(), "new")}}
		if n > 1 {
			commands = commands[:1]
		}
		for _, command := range commands {
			note, err := c.presets(t, tc.env, append(command, tc.address)...)
			if err == nil || !strings.Contains(note, tc.says) || strings.Contains(note, s3ID) {
				t.Errorf("%s with %q: got %q, %v, want %q", command[0], tc.env, note, err, tc.says)
			}
		}
	}
	if got := c.kept(t); len(got) > 0 || c.copyMetric(t) != "" {
		t.Errorf("got %q and the metric %q", got, c.copyMetric(t))
	}
	good := filepath.Join(t.TempDir(), "credentials")
	write(t, good, "[other]\naws_access_key_id = "+s3ID+"\naws_secret_access_key = "+s3Secret+"\n")
	if note, err := c.presets(t, []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SHARED_CREDENTIALS_FILE=" + good, "AWS_PROFILE=other"}, "backup", "--address", c.admin, copiesAddress); err != nil {
		t.Errorf("with a file of credentials: got %q, %v", note, err)
	}
}

// TestCopyCutOff kills a copy in the middle of its upload, cuts the connections of another one, and
// lets that one try again.
func TestCopyCutOff(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	c := newCopies(t)
	c.change(t, "first")
	c.copy(t, copiesAddress)
	good := c.kept(t)
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 150<<10)
	for range 120 { // more than the first part of an upload
		_, _ = random.Read(noise)
		c.change(t, base64.StdEncoding.EncodeToString(noise))
	}
	w := newWire(t, c.s3)
	through := "AWS_ENDPOINT_URL=https://" + w.address
	command := func(args ...string) (*exec.Cmd, *safeBuffer) {
		cmd := exec.CommandContext(wait.Command(t), c.binary, append([]string{"presets", "backup", "--address", c.admin}, args...)...)
		cmd.Env = append(append(os.Environ(), c.env...), through)
		out := new(safeBuffer)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd, out
	}

	w.stopAfter(17 << 20)
	killed, out := command(copiesAddress)
	p := servertest.Start(t, killed)
	select {
	case <-w.stopped:
	case <-p.Ended():
		t.Fatalf("it ended before: %s", out)
	}
	p.Kill()
	if got := c.kept(t); strings.Join(got, " ") != strings.Join(good, " ") {
		t.Errorf("after it was killed: got %q, want %q", got, good)
	}
	c.verifies(t, copiesAddress)
	c.change(t, "served meanwhile")

	w.cutAfter(1 << 20)
	looping, out := command("--keep", "1", "--every", "100ms", copiesAddress)
	p = servertest.Start(t, looping)
	if !wait.Eventually(func() bool { return strings.Contains(out.String(), "Failed: ") || !p.Running() }) {
		t.Error("it does not fail")
	}
	w.pass()
	if !wait.Eventually(func() bool { return strings.Contains(out.String(), "Nothing has changed since") || !p.Running() }) {
		t.Error("it does not go on")
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stopping it: %v", err)
	}
	for _, want := range []string{"Removed parts of " + copiesAddress, "Failed: ", "The last good copy: never. Trying again in 100ms.", "Copied it to " + copiesAddress, "Removed " + copiesAddress + "/" + good[0]} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q", out, want)
		}
	}
	if strings.Contains(out.String(), s3Secret) || strings.Contains(out.String(), s3ID) {
		t.Errorf("the output has credentials: %s", out)
	}
	if got := c.kept(t); len(got) != 1 || got[0] == good[0] {
		t.Errorf("got %q, want the new one alone", got)
	}
	c.verifies(t, copiesAddress)
	if parts, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(c.objects)), ".sgwtmp", "multipart", "*", "*")); len(parts) > 0 {
		t.Errorf("parts are left: %q", parts)
	}
	note, err := c.presets(t, nil, "restore", "--folder", filepath.Join(t.TempDir(), "new"), copiesAddress)
	if err != nil || digestIn(t, note) != digestIn(t, out.String()[strings.LastIndex(out.String(), "Made a backup"):]) {
		t.Errorf("got %q, %v, want the digest of %s", note, err, out)
	}
}

// safeBuffer is what a command has written until now.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wire passes connections on to a server. It can stop, or cut them, in the middle of what a client
// sends.
type wire struct {
	address string
	stopped chan struct{} // is closed once stopAfter stops

	mu   sync.Mutex
	left int                 // bytes until then
	act  func(conn net.Conn) // nil to pass on all
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	w := &wire{address: listener.Addr().String(), stopped: make(chan struct{})}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(client, server)
				client.Close()
			}()
			go func() {
				_, _ = io.Copy(wireWriter{w, server}, client)
				server.Close()
			}()
		}
	}()
	return w
}

// stopAfter has the wire pass on nothing more after so many bytes.
func (w *wire) stopAfter(bytes int) {
	stop := sync.OnceFunc(func() { close(w.stopped) })
	w.after(bytes, func(net.Conn) { stop() })
}

// cutAfter has the wire close all connections on which something comes after so many bytes, until pass.
func (w *wire) cutAfter(bytes int) { w.after(bytes, func(conn net.Conn) { conn.Close() }) }

func (w *wire) pass() { w.after(0, nil) }

func (w *wire) after(bytes int, act func(net.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.act = bytes, act
}

type wireWriter struct {
	*wire
	to net.Conn
}

func (w wireWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.left -= len(p)
	act := w.act
	if w.left >= 0 {
		act = nil
	}
	w.mu.Unlock()
	if act == nil {
		return w.to.Write(p)
	}
	act(w.to)
	return len(p), nil
}
