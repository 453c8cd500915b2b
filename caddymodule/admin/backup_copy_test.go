package admin_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bucket/buckettest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// TestCopyToBucket copies a store to a bucket, keeps the newest copies, and restores them. A step
// that fails removes no copy.
func TestCopyToBucket(t *testing.T) {
	s, to := start(t, caddytest.Standard), buckettest.Start(t)
	const address = "s3://bucket/presets"
	copies := func(want int, says string, args ...string) (note string) {
		t.Helper()
		out, note, err := s.run(append([]string{"backup", address}, args...)...)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v: got %q and %q, %v, want %q", args, out, note, err, says)
		}
		if got := to.Names(); len(got) != want {
			t.Errorf("%v: got %q, want %d", args, got, want)
		}
		if strings.Contains(out+note, buckettest.Secret) {
			t.Errorf("%v: the output shows the secret", args)
		}
		return note
	}
	metric := func() bool {
		return strings.Contains(s.Admin("GET", "/metrics", "").Body, "caddy_presets_last_copy_timestamp_seconds{")
	}
	s.versions("/v1/presets/p/responses", 1, 1)
	to.Refuse(http.MethodPut)
	copies(0, "the server answers AccessDenied")
	if metric() {
		t.Error("a copy that failed counts")
	}
	to.Refuse("")
	first := digests.FindString(copies(1, ""))
	if !metric() {
		t.Error("the metric of the last copy is missing")
	}
	if note := copies(1, ""); !strings.Contains(note, "Nothing has changed since "+address+"/presets-") {
		t.Errorf("without a change: got %q", note)
	}
	for n := 2; n <= 3; n++ {
		s.versions("/v1/presets/p/responses", n, n)
		copies(n, "")
	}
	names := to.Names()
	s.versions("/v1/presets/p/responses", 4, 4)
	to.Refuse(http.MethodDelete)
	copies(4, "older backups could not be removed", "--keep", "2")
	to.Refuse("")
	s.versions("/v1/presets/p/responses", 5, 5)
	copies(2, "", "--keep", "2")
	if got := to.Names(); slices.Contains(got, names[2]) {
		t.Errorf("got %q, want the newest two", got)
	}

	_, note := must(t, "verify", address)
	if !strings.Contains(note, "Got "+address+"/presets-") {
		t.Errorf("got %q", note)
	}
	folder := filepath.Join(caddytest.Folder(t), "restored")
	if _, note := must(t, "restore", "--folder", folder, address); digests.FindString(note) == first {
		t.Errorf("got %q, want the newest", note)
	}
	newest := to.Names()[1]
	to.Change(newest, func(content []byte) []byte { return content[:len(content)-1] })
	for _, command := range [][]string{{"verify", address}, {"restore", "--folder", folder + "2", address}} {
		if out, _, err := run(command...); err == nil || !strings.Contains(out+err.Error(), "it was cut short") {
			t.Errorf("%v of a copy that was cut short: got %q, %v", command, out, err)
		}
	}
	made, err := time.Parse("presets/presets-20060102T150405.000Z.backup", to.Names()[0])
	if err != nil {
		t.Fatal(err)
	}
	at := made.Format(time.RFC3339Nano)
	must(t, "restore", "--folder", folder+"3", "--at", at, address)
	refuses(t, map[string][]string{
		"has no copy that was made until then, of 2": {"--at", made.Add(-time.Millisecond).Format(time.RFC3339Nano), address},
		"must be a time as RFC 3339":                 {"--at", "yesterday", address},
		"--at is for a prefix of copies":             {"--at", at, "s3://bucket/" + newest},
		"--at is for copies in a bucket":             {"--at", at, "monday.backup"},
		"answers NoSuchKey":                          {"s3://bucket/presets/" + strings.Replace(names[0], "presets/", "", 1)},
		"answers NoSuchBucket":                       {"s3://absent/presets"},
	}, "restore", "--folder", folder+"4")
	s.refuses(map[string][]string{
		"--every: must be a positive duration": {"--every", "1m", "monday.backup"},
		"--keep: must be at least 1":           {"--keep", "0", address},
	}, "backup")
}

// TestCopyOfAnotherStore copies a store to where another one, or a copy that is damaged, is.
func TestCopyOfAnotherStore(t *testing.T) {
	s, to := start(t, caddytest.Standard), buckettest.Start(t)
	s.versions("/v1/presets/p/responses", 1, 3)
	s.must("backup", "s3://bucket/a")
	whole := to.Names()[0]
	to.Change(whole, func(content []byte) []byte {
		return []byte(strings.Replace(string(content), `{"commit":`, `{"commit":9`, 1))
	})
	s.versions("/v1/presets/p/responses", 4, 4)
	for range 2 { // the second time without a change
		if _, _, err := s.run("backup", "--keep", "1", "s3://bucket/a"); err == nil || !strings.Contains(err.Error(), "no backup was removed") || len(to.Names()) != 2 {
			t.Errorf("beside a higher commit: got %v, and %q", err, to.Names())
		}
	}
	to.Change(whole, func([]byte) []byte { return []byte("other") })
	if _, _, err := s.run("backup", "--keep", "1", "s3://bucket/a"); err == nil || !strings.Contains(err.Error(), "cannot be compared with the others; move it away") || len(to.Names()) != 2 {
		t.Errorf("beside another file: got %v, and %q", err, to.Names())
	}
}

// TestEncryptedBucket copies an encrypted store, which takes its key.
func TestEncryptedBucket(t *testing.T) {
	s, to := start(t, caddytest.Standard), buckettest.Start(t)
	key := storagetest.KeyFile(t, storagetest.KeyDigits)
	s.Folder = caddytest.Folder(t)
	s.load(s.Folder, key)
	if _, _, err := s.run("backup", "s3://bucket/a"); err == nil || !strings.Contains(err.Error(), "needs --encryption-key-file") || len(to.Names()) > 0 {
		t.Errorf("without the key: got %v, and %q", err, to.Names())
	}
	s.must("backup", "--encryption-key-file", key, "s3://bucket/a")
	must(t, "verify", "--encryption-key-file", key, "s3://bucket/a")
	must(t, "restore", "--folder", filepath.Join(caddytest.Folder(t), "new"), "--backup-key-file", key, "s3://bucket/a")
}

// TestCopyState tells the age of a copy, after a reload, too.
func TestCopyState(t *testing.T) {
	s := start(t, caddytest.Standard)
	before := time.Now()
	s.Admin("POST", "/presets/backup/copied?age=3600", "").Want(t, 200, fmt.Sprintf(`"last_copy":"%s`, before.Add(-time.Hour).UTC().Format("2006-01-02T")))
	for _, age := range []string{"-1", "x", "315360001"} {
		s.Admin("POST", "/presets/backup/copied?age="+age, "").Want(t, 400, "age: must be a number")
	}
	s.Reload(caddytest.Standard)
	_, value, _ := strings.Cut(s.Admin("GET", "/metrics", "").Body, fmt.Sprintf("\ncaddy_presets_last_copy_timestamp_seconds{store=%q} ", s.Folder))
	value, _, _ = strings.Cut(value, "\n")
	at, err := strconv.ParseFloat(value, 64)
	if ago := time.Since(time.Unix(int64(at), 0)); err != nil || ago < time.Hour || ago > time.Since(before)+time.Hour+time.Second {
		t.Errorf("the metric is %q, want an hour ago", value)
	}
}
