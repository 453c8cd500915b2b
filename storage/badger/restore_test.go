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
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// A restore leaves out what has expired since the backup.
func TestRestoreExpired(t *testing.T) {
	var b bytes.Buffer
	w, err := dump.NewWriter(&b, dump.Info{CreatedAt: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, expires := range []time.Time{time.Now().Add(-2 * time.Hour), time.Now()} { // they are kept for an hour longer
		id := domain.ReplayID{byte(n)}
		record, err := replayRecord(domain.Replay{ID: id, Answer: []byte("{}"), ExpiresAt: expires})
		if err := errors.Join(err, w.Add(records.ReplayKey(id), record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again := restored(t, Options{}, b.Bytes())
	if got := recordsOf(t, again, records.KindReplay); len(got) != 1 {
		t.Errorf("got %d kept answers, want the one that has not expired", len(got))
	}
}

// TestRestoreKeys restores with and without keys.
func TestRestoreKeys(t *testing.T) {
	plain, _ := small(t, Options{})
	secret, _ := small(t, Options{EncryptionKey: testKey})
	for name, backup := range map[string][]byte{"plain": plain, "encrypted": secret} {
		for _, key := range [][]byte{nil, testKey, bytes.Repeat([]byte{7}, KeySize), testKey[:16]} {
			parent := t.TempDir()
			to, o := filepath.Join(parent, "new"), Options{EncryptionKey: key}
			from := reading(t, backup, testKey)
			err := Restore(t.Context(), to, o, from)
			if len(key) == 16 {
				if err == nil || !strings.Contains(err.Error(), "has 16 bytes") || listFolder(parent) != "." {
					t.Errorf("%s: got error %v and %s, want one about the key and nothing left", name, err, listFolder(parent))
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(to, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := digestOf(t, s); got.Digest != from.End.Digest || got.Records != from.End.Records {
				t.Errorf("%s: got %+v, want %+v", name, got, from.End)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
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
			before := listFolder(folder)
			err := Restore(t.Context(), folder, Options{}, reading(t, test.backup, nil))
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
			if after := listFolder(folder); after != before {
				t.Errorf("the folder changed\nfrom %s\nto   %s", before, after)
			}
		})
	}
	t.Run("disk full", func(t *testing.T) {
		for _, from := range []int{0, 2 << 10} {
			parent := t.TempDir()
			content := &counted{Reader: bytes.NewReader(large(t))}
			reader, err := dump.NewReader(content, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			begun := content.read.Load()
			err = restore(t.Context(), filepath.Join(parent, "a"), Options{}, reader, func(string) (uint64, error) {
				if content.read.Load() >= begun+int64(from) {
					return 0, nil
				}
				return 2 * minFree, nil
			})
			if !errors.Is(err, ErrDiskFull) || listFolder(parent) != "." {
				t.Errorf("got error %v and %s, want ErrDiskFull and nothing left", err, listFolder(parent))
			}
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		parent := t.TempDir()
		err := Restore(ctx, filepath.Join(parent, "a"), Options{}, reading(t, large(t), nil))
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
	from, err := dump.NewReader(os.Stdin, nil, false)
	if err == nil {
		err = Restore(context.Background(), folder, Options{}, from)
	}
	fmt.Println("the restore ended:", err)
	os.Exit(1)
}

// TestKilledRestore kills a process that has restored a part of a backup.
func TestKilledRestore(t *testing.T) {
	whole := large(t)
	for _, n := range []int{len(whole) - 1, len(whole) / 2} {
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
		if !wait.Eventually(func() bool { found, _ := filepath.Glob(filepath.Join(folder, "*.mem")); return len(found) > 0 }) {
			t.Fatalf("the child restores nothing: %s", out.String())
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
		if err := Restore(t.Context(), folder, Options{}, reading(t, whole, nil)); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("Restore: got error %v, want that the folder is not empty", err)
		}
		if after := listFolder(folder); after != before || before == "." {
			t.Errorf("the folder changed\nfrom %s\nto   %s", before, after)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if err := Restore(t.Context(), folder, Options{}, reading(t, whole, nil)); err != nil {
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
			if err := Restore(context.Background(), folder, Options{}, reading(t, full, nil)); err == nil {
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
