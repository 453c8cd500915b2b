package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// A restore leaves out what has expired since the backup.
func TestRestoreExpired(t *testing.T) {
	var b bytes.Buffer
	w, err := newBackupWriter(&b, BackupInfo{Format: storeFormat, Commit: 0, CreatedAt: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, expires := range []time.Time{time.Now().Add(-time.Second), time.Now().Add(time.Hour)} {
		id := domain.ReplayID{byte(n)}
		record, err := replayRecord(domain.Replay{ID: id, Answer: []byte("{}")})
		if err := errors.Join(err, w.record(records.ReplayKey(id), uint64(expires.Unix()), record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(BackupEnd{Digest: newDigest().text()}); err != nil {
		t.Fatal(err)
	}
	again := restored(t, Options{}, nil, b.Bytes())
	if got := recordsOf(t, again, records.KindReplay); len(got) != 1 {
		t.Errorf("got %d kept answers, want the one that has not expired", len(got))
	}
}

func TestRestoreRefuses(t *testing.T) {
	tier.Race(t)
	full, _ := small(t, Options{})
	secret, _ := small(t, Options{EncryptionKey: testKey})
	line := func(old, to string) []byte { return bytes.Replace(full, []byte(old), []byte(to), 1) }
	short := testKey[:16]
	for _, test := range []struct {
		name   string
		o      Options
		key    []byte
		backup []byte
		want   string // in the error; empty when it is restored
	}{
		{"full", Options{}, nil, full, ""},
		{"no backup", Options{}, nil, []byte("PK\x03\x04" + strings.Repeat("x", 1000)), "it is no backup of presets"},
		{"one endless line", Options{}, nil, []byte(strings.Repeat("x", 1<<20)), "it is no backup of presets"},
		{"newer backup format", Options{}, nil, line("backup 1\n", "backup 22\n"), "version 22 of the format and needs a newer version"},
		{"newer store format", Options{}, nil, line(fmt.Sprintf(`"store_format":%d`, storeFormat), fmt.Sprintf(`"store_format":%d`, storeFormat+1)), "needs a newer version"},
		{"no format", Options{}, nil, line(`"store_format"`, `"stare_format"`), "not those of a backup"},
		{"encrypted", Options{}, testKey, secret, ""},
		{"encrypted, into such", Options{EncryptionKey: testKey}, nil, secret, ""},
		{"encrypted anew", Options{EncryptionKey: bytes.Repeat([]byte{7}, KeySize)}, testKey, secret, ""},
		{"into an encrypted one", Options{EncryptionKey: testKey}, nil, full, ""},
		{"no key", Options{}, nil, secret, "it is encrypted, and needs the key"},
		{"wrong key", Options{}, bytes.Repeat([]byte{7}, KeySize), secret, "the key is not the one"},
		{"short key", Options{}, short, secret, "the key is not the one"},
		{"short key of the store", Options{EncryptionKey: short}, testKey, secret, "has 16 bytes"},
		{"not encrypted though it should be", Options{}, testKey, full, "it is not encrypted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			to := filepath.Join(parent, "new")
			_, end, err := Restore(t.Context(), to, test.o, test.key, fileOf(test.backup))
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				s, err := Open(to, test.o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if got := digestOf(t, s); got != fmt.Sprint(end.Records, " ", end.Digest) {
					t.Errorf("got digest %s, want %+v", got, end)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), string(testKey)) {
				t.Errorf("got error %v, want one with %q and no key", err, test.want)
			}
			if left := listFolder(parent); left != "." {
				t.Errorf("it left %s", left)
			}
		})
	}
}

// A backup whose records do not have the digest in its end is refused.
func TestRestoreWithOtherDigest(t *testing.T) {
	full, _ := small(t, Options{})
	tampered := func() []byte {
		var b bytes.Buffer
		r, err := openBackup(bytes.NewReader(full), nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := newBackupWriter(&b, r.info, nil)
		if err != nil {
			t.Fatal(err)
		}
		for r.next() {
			record := r.record
			if r.key.Kind() == records.KindVersion {
				record = records.Seal(r.key, []byte("another"))
			}
			if err := w.record(r.key, r.expires, record); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(r.err, w.end(r.end)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	parent := t.TempDir()
	if _, _, err := Restore(t.Context(), filepath.Join(parent, "new"), Options{}, nil, fileOf(tampered)); !errors.Is(err, ErrNotRestorable) ||
		!strings.Contains(err.Error(), "with the digest") || listFolder(parent) != "." {
		t.Errorf("got error %v and %s, want one about the digest and nothing left", err, listFolder(parent))
	}
}

// A folder with content is refused and stays unchanged. An empty folder is empty again
// after a refusal.
func TestRestoreFolder(t *testing.T) {
	full, source := small(t, Options{})
	damaged := bytes.Clone(full)
	damaged[len(damaged)-1] ^= 1
	write := func(t *testing.T, name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, folder string)
		backup  []byte
		want    string
	}{
		{"a file", func(t *testing.T, folder string) { write(t, filepath.Join(folder, "notes.txt"), "mine") }, full, "not empty"},
		{"a store", func(t *testing.T, folder string) { copyFolder(t, source, folder) }, full, "not empty"},
		{"what a first start left", func(t *testing.T, folder string) { write(t, filepath.Join(folder, "STORE-1"), "") }, full, "not empty"},
		{"empty", func(*testing.T, string) {}, damaged, "changed or damaged"},
		{"mounted", func(t *testing.T, folder string) {
			if err := os.Mkdir(filepath.Join(folder, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, damaged, "changed or damaged"},
		{"empty, and right", func(*testing.T, string) {}, full, ""},
		{"mounted, and right", func(t *testing.T, folder string) {
			if err := os.Mkdir(filepath.Join(folder, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, full, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			test.prepare(t, folder)
			look := func() string {
				info, err := os.Stat(folder)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(info.Mode(), " ", listFolder(folder))
			}
			before := look()
			_, _, err := Restore(t.Context(), folder, Options{}, nil, fileOf(test.backup))
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				mustOpen(t, folder)
				if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
					t.Errorf("got %v, %v, want mode 700", info.Mode(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
			if after := look(); after != before {
				t.Errorf("the folder changed\nfrom %s\nto   %s", before, after)
			}
		})
	}
	t.Run("disk full", func(t *testing.T) {
		for _, from := range []int{0, 2 << 10} {
			parent := t.TempDir()
			content := &counted{Reader: bytes.NewReader(large(t))}
			r := restore{ctx: t.Context(), free: func(string) (uint64, error) {
				if content.read.Load() >= int64(from) {
					return 0, nil
				}
				return 2 * minFree, nil
			}}
			err := r.writeStore(filepath.Join(parent, "a"), BackupFile{"backup-0", content})
			if !errors.Is(err, ErrDiskFull) || listFolder(parent) != "." {
				t.Errorf("got error %v and %s, want ErrDiskFull and nothing left", err, listFolder(parent))
			}
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		parent := t.TempDir()
		_, _, err := Restore(ctx, filepath.Join(parent, "a"), Options{}, nil, fileOf(large(t)))
		if !errors.Is(err, context.Canceled) || listFolder(parent) != "." {
			t.Errorf("got error %v and %s, want that it was given up and nothing left", err, listFolder(parent))
		}
	})
}

// counted counts the bytes that are read, a few hundred at a time.
type counted struct {
	io.Reader
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p[:min(len(p), 300)])
	c.read.Add(int64(n))
	return n, err
}

// restoreFolder names the folder for a child process that restores what comes on its
// standard input, and is killed.
const restoreFolder = "BADGER_TEST_RESTORE_FOLDER"

func restoreUntilKilled(folder string) {
	_, _, err := Restore(context.Background(), folder, Options{}, nil, BackupFile{"-", os.Stdin})
	fmt.Println("the restore ended:", err)
	os.Exit(1)
}

// TestKilledRestore kills a process that has restored a part of a backup.
func TestKilledRestore(t *testing.T) {
	whole := large(t)
	_, parts, end := chunks(t, whole)
	for _, n := range []int{len(whole) - len(end), len(whole) - len(end) - len(parts[len(parts)-1])} {
		folder := filepath.Join(t.TempDir(), "restored")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), restoreFolder+"="+folder)
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		child.Stdout, child.Stderr = &out, &out
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = in.Write(whole[:n]) // the child has read all but the bytes in the pipe
		for deadline := time.Now().Add(wait.Limit); ; time.Sleep(10 * time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(folder, "*.mem")); len(found) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the child restores nothing: %s", out.String())
			}
		}
		if err := errors.Join(err, child.Process.Kill()); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // killed
		in.Close()
		before := listFolder(folder)
		if _, err := Open(folder, Options{}); err == nil || !strings.Contains(err.Error(), "a restore or salvage into "+folder) || errors.Is(err, ErrDamaged) {
			t.Errorf("Open: got error %v, want that a restore was cut short", err)
		}
		if _, _, err := Restore(t.Context(), folder, Options{}, nil, fileOf(whole)); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("Restore: got error %v, want that the folder is not empty", err)
		}
		if after := listFolder(folder); after != before || before == "." {
			t.Errorf("the folder changed\nfrom %s\nto   %s", before, after)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Restore(t.Context(), folder, Options{}, nil, fileOf(whole)); err != nil {
			t.Errorf("once it is emptied: %v", err)
		}
	}
}

// Two restores at a time do not share a folder.
func TestTwoRestores(t *testing.T) {
	full, _ := small(t, Options{})
	folder := filepath.Join(t.TempDir(), "store")
	var wg sync.WaitGroup
	var succeeded atomic.Int64
	for range 4 {
		wg.Go(func() {
			if _, _, err := Restore(context.Background(), folder, Options{}, nil, fileOf(full)); err == nil {
				succeeded.Add(1)
			}
		})
	}
	wg.Wait()
	if n := succeeded.Load(); n != 1 {
		t.Errorf("%d restores succeeded, want one", n)
	}
	mustOpen(t, folder)
}
