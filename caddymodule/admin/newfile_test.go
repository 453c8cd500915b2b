package admin

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, strings.NewReader("text"), 0)
	if _, err := io.Copy(io.Discard, p); err != nil || p.read() != 4 {
		t.Errorf("got %d bytes, %v, want 4", p.read(), err)
	}
	p.done()
	if out.Len() > 0 {
		t.Errorf("got %q without a terminal, want nothing", out.String())
	}
	synctest.Test(t, func(t *testing.T) { // time passes only in Sleep
		p := newProgress(io.Discard, bytes.NewReader(make([]byte, 3<<20)), 3<<20)
		p.terminal = &out
		for range 3 {
			for range 1 << 10 {
				if _, err := io.ReadFull(p, make([]byte, 1<<10)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(progressInterval)
		}
		p.done()
	})
	lines := strings.Split(out.String(), "\r")
	for i, want := range []string{"", "1.0 KiB of 3.0 MiB in 0s", "1.0 MiB of 3.0 MiB in 200ms", "2.0 MiB of 3.0 MiB in 400ms", "", ""} {
		if i >= len(lines) || strings.TrimRight(lines[i], " ") != want {
			t.Fatalf("got %q, want %q at %d", lines, want, i)
		}
	}
}

// TestTotals checks that a backup shows how much is to come.
func TestTotals(t *testing.T) {
	for _, tc := range []struct {
		name string
		tell func(p *progress, read int64)
		want []string
	}{
		{"backup", func(p *progress, read int64) { p.estimate(int(4*read>>10), 12<<10) }, []string{"1.0 KiB in 0s", "1.0 MiB of about 3.0 MiB in 200ms", "2.0 MiB of about 3.0 MiB in 400ms"}},
		{"nothing yet", func(p *progress, read int64) { p.estimate(0, 12<<10) }, []string{"1.0 KiB in 0s", "1.0 MiB in 200ms", "2.0 MiB in 400ms"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			synctest.Test(t, func(*testing.T) {
				p := newProgress(io.Discard, bytes.NewReader(make([]byte, 3<<20)), 0)
				p.terminal = &out
				for range 3 << 10 {
					_, _ = p.Read(make([]byte, 1<<10))
					tc.tell(p, p.read())
					if p.read()%(1<<20) == 0 {
						time.Sleep(progressInterval)
					}
				}
				p.done()
			})
			for i, want := range tc.want {
				if got := strings.TrimSpace(strings.Split(out.String(), "\r")[i+1]); got != want {
					t.Errorf("got %q, want %q at %d", got, want, i)
				}
			}
		})
	}
}

// TestPublish checks that a new file is complete or absent. A file of another program is
// not replaced.
func TestPublish(t *testing.T) {
	synced := func(string) error { return nil }
	fails := func(string) error { return errors.New("not synced") }
	for what, tc := range map[string]struct {
		there, want string // empty for no file
		sync        func(string) error
		says        string
	}{
		"a new name":              {"", "whole", synced, ""},
		"a name taken meanwhile":  {"another's", "another's", synced, "exists already"},
		"a folder without a sync": {"", "", fails, "not synced"},
	} {
		dir := t.TempDir()
		partial, name := filepath.Join(dir, "b.partial"), filepath.Join(dir, "b")
		if err := os.WriteFile(partial, []byte("whole"), 0o600); err != nil {
			t.Fatal(err)
		}
		if tc.there != "" {
			if err := os.WriteFile(name, []byte(tc.there), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := publish(partial, name, tc.sync)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got error %v, want %q", what, err, tc.says)
		}
		if got, _ := os.ReadFile(name); string(got) != tc.want {
			t.Errorf("%s: got a file with %q, want %q", what, got, tc.want)
		}
	}
}

// TestMeterClears checks that other output does not share a line with the meter.
func TestMeterClears(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(io.Discard)
		m.terminal = &out
		line := func(text string) { m.show(func() string { return text }) }
		line("first")
		line("too early")
		m.clear()
		out.WriteString("note\n")
		line("second")
		m.done()
		line("too late")
		m.done()
	})
	blank := "\r" + strings.Repeat(" ", meterWidth) + "\r"
	padded := func(text string) string { return "\r" + text + strings.Repeat(" ", meterWidth-len(text)) }
	if want := padded("first in 0s") + blank + "note\n" + padded("second in 0s") + blank; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
