package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// readWhole reads a backup as Restore does.
func readWhole(content, key []byte) error {
	b, err := openBackup(bytes.NewReader(content), key)
	if err != nil {
		return err
	}
	for b.next() {
	}
	return b.err
}

// TestDamagedBackup cuts a backup at each length and flips a bit of each byte, or of
// every fifth in a sample.
func TestDamagedBackup(t *testing.T) {
	tier.Slow(t)
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			full, _ := small(t, Options{EncryptionKey: key})
			refused := func(what string, content []byte, restoring bool) {
				t.Helper()
				if err := readWhole(content, key); !errors.Is(err, ErrNotRestorable) {
					t.Errorf("%s: got error %v, want ErrNotRestorable", what, err)
				}
				if key == nil {
					if _, _, err := CheckBackup(bytes.NewReader(content), nil); !errors.Is(err, ErrNotRestorable) {
						t.Errorf("%s: checked: got error %v, want ErrNotRestorable", what, err)
					}
				}
				if !restoring {
					return
				}
				parent := t.TempDir()
				_, _, err := Restore(t.Context(), filepath.Join(parent, "a"), Options{}, key, fileOf(content))
				if !errors.Is(err, ErrNotRestorable) || !strings.Contains(err.Error(), "backup-0: ") {
					t.Errorf("%s: restored: got error %v, want ErrNotRestorable and the name", what, err)
				}
				if left := listFolder(parent); left != "." {
					t.Errorf("%s: the refused restore left %s", what, left)
				}
			}
			if err := readWhole(full, key); err != nil {
				t.Fatal(err)
			}
			step := tier.Sample(5)
			for n := 0; n < len(full); n += step {
				restoring := n%(211*step) == 0
				cut := full[:n]
				refused(fmt.Sprintf("%d of %d bytes", n, len(full)), cut, restoring)
				if key != nil { // the part of these that a check without the key finds
					if _, _, err := CheckBackup(bytes.NewReader(cut), nil); !errors.Is(err, ErrNotRestorable) {
						t.Errorf("%d of %d bytes: checked: got error %v, want ErrNotRestorable", n, len(full), err)
					}
				}
				flipped := bytes.Clone(full)
				flipped[n] ^= 1 << (n % 8)
				refused(fmt.Sprintf("byte %d flipped", n), flipped, restoring)
			}
			refused("something behind the end", append(bytes.Clone(full), 0), true)
			refused("twice", append(bytes.Clone(full), full...), false)
			refused("empty", nil, true)
		})
	}
}

// chunks returns the parts of a backup: the lines, the chunks with their lengths, and
// the end.
func chunks(t *testing.T, backup []byte) (lines []byte, chunks [][]byte, end []byte) {
	t.Helper()
	at := bytes.IndexByte(backup, '\n') + 1
	at += bytes.IndexByte(backup[at:], '\n') + 1
	lines, rest := backup[:at], backup[at:]
	for {
		n := binary.BigEndian.Uint32(rest)
		if n == 0 {
			return lines, chunks, rest
		}
		chunks = append(chunks, rest[:4+n])
		rest = rest[4+n:]
	}
}

// Chunks that are all right by themselves are not in another place, or backup.
func TestRearrangedBackup(t *testing.T) {
	tier.Slow(t)
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			withKey(t, key)
			s := mustOpen(t, t.TempDir())
			w := newWorkspace("w")
			w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", 200<<10) + `"]`)
			for i := range 20 {
				w.ID, w.Slug = newID(), fmt.Sprint("w-", i)
				if err := s.Update(t.Context(), put(w)); err != nil {
					t.Fatal(err)
				}
			}
			one := backUp(t, s)
			two := backUp(t, s)
			lines, c, end := chunks(t, one)
			others, d, otherEnd := chunks(t, two)
			if len(c) < 3 {
				t.Fatalf("the backup has %d chunks, want more", len(c))
			}
			if err := readWhole(bytes.Join([][]byte{lines, bytes.Join(c, nil), end}, nil), key); err != nil {
				t.Fatal(err)
			}
			for what, parts := range map[string][][]byte{
				"left out":          {lines, c[0], bytes.Join(c[2:], nil), end},
				"the last left out": {lines, bytes.Join(c[:len(c)-1], nil), end},
				"all left out":      {lines, end},
				"twice":             {lines, c[0], c[0], bytes.Join(c[1:], nil), end},
				"exchanged":         {lines, c[1], c[0], bytes.Join(c[2:], nil), end},
				"another's":         {lines, d[0], bytes.Join(c[1:], nil), end},
				"another's end":     {lines, bytes.Join(c, nil), otherEnd},
				"another's lines":   {others, bytes.Join(c, nil), end},
				"a chunk as end":    {lines, bytes.Join(c, nil), {0, 0, 0, 0}, c[0]},
			} {
				if err := readWhole(bytes.Join(parts, nil), key); !errors.Is(err, ErrNotRestorable) {
					t.Errorf("%s: got error %v, want ErrNotRestorable", what, err)
				}
			}
		})
	}
}

// FuzzBackup reads invalid backups, and valid framing around arbitrary chunks.
func FuzzBackup(f *testing.F) {
	info := BackupInfo{Format: 1, CreatedAt: time.Unix(1, 0).UTC()}
	var b bytes.Buffer
	w, err := newBackupWriter(&b, info, nil)
	if err != nil {
		f.Fatal(err)
	}
	lines := b.Len()
	for _, k := range []records.Key{records.AuditKey(1), records.KeyHashKey(domain.KeyHash{1})} {
		if err := w.record(k, 0, records.Seal(k, []byte("{}"))); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(bytes.Clone(w.chunk), true)
	if err := w.end(BackupEnd{}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes()[:lines], false)
	f.Fuzz(func(t *testing.T, content []byte, within bool) {
		if within {
			var b bytes.Buffer
			w, err := newBackupWriter(&b, info, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.chunk = append(w.chunk, content...)
			if err := w.end(BackupEnd{}); err != nil {
				t.Fatal(err)
			}
			content = b.Bytes()
		}
		r, err := openBackup(bytes.NewReader(content), testKey)
		var before records.Key
		for err == nil && r.next() {
			if bytes.Compare(r.key, before) <= 0 {
				t.Errorf("key %x comes after %x", r.key, before)
			}
			before = r.key
			if _, err := records.Unseal(r.key, r.record); err != nil {
				t.Errorf("an entry: %v", err)
			}
		}
		if err == nil {
			err = r.err
		}
		if err != nil && !errors.Is(err, ErrNotRestorable) {
			t.Errorf("got error %v, want ErrNotRestorable", err)
		}
		if _, _, checked := CheckBackup(bytes.NewReader(content), nil); checked != nil && err == nil {
			t.Errorf("it can be restored, but checking it says %v", checked)
		}
	})
}

// TestEndWithOtherDigest reads ends that no server wrote. Commands print the digest.
func TestEndWithOtherDigest(t *testing.T) {
	right := newDigest().text()
	for digest, want := range map[string]error{
		right: nil, "": ErrNotRestorable, right + "0": ErrNotRestorable, strings.ToUpper(right): ErrNotRestorable, `\u001b[2J` + right: ErrNotRestorable, right + `\n`: ErrNotRestorable,
	} {
		if _, err := parseEnd([]byte(`{"digest":"` + digest + `"}`)); !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want %v", digest, err, want)
		}
	}
}
