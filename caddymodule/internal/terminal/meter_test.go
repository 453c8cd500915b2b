package terminal

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, strings.NewReader("text"), 0)
	if _, err := io.Copy(io.Discard, p); err != nil || p.Bytes() != 4 {
		t.Errorf("got %d bytes, %v, want 4", p.Bytes(), err)
	}
	p.Done()
	if out.Len() > 0 {
		t.Errorf("got %q without a terminal, want nothing", out.String())
	}
	synctest.Test(t, func(t *testing.T) { // time passes only in Sleep
		p := NewProgress(io.Discard, bytes.NewReader(make([]byte, 3<<20)), 3<<20)
		p.terminal = &out
		for range 3 {
			for range 1 << 10 {
				if _, err := io.ReadFull(p, make([]byte, 1<<10)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(meterInterval)
		}
		p.Done()
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
		tell func(p *Progress, read int64)
		want []string
	}{
		{"backup", func(p *Progress, read int64) { p.Estimate(int(4*read>>10), 12<<10) }, []string{"1.0 KiB in 0s", "1.0 MiB of about 3.0 MiB in 200ms", "2.0 MiB of about 3.0 MiB in 400ms"}},
		{"nothing yet", func(p *Progress, read int64) { p.Estimate(0, 12<<10) }, []string{"1.0 KiB in 0s", "1.0 MiB in 200ms", "2.0 MiB in 400ms"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			synctest.Test(t, func(*testing.T) {
				p := NewProgress(io.Discard, bytes.NewReader(make([]byte, 3<<20)), 0)
				p.terminal = &out
				for range 3 << 10 {
					_, _ = p.Read(make([]byte, 1<<10))
					tc.tell(p, p.Bytes())
					if p.Bytes()%(1<<20) == 0 {
						time.Sleep(meterInterval)
					}
				}
				p.Done()
			})
			for i, want := range tc.want {
				if got := strings.TrimSpace(strings.Split(out.String(), "\r")[i+1]); got != want {
					t.Errorf("got %q, want %q at %d", got, want, i)
				}
			}
		})
	}
}

// TestMeterEnds checks that a meter clears its line at the end, and shows nothing afterwards.
func TestMeterEnds(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) { // no time passes
		m := NewMeter(io.Discard)
		m.terminal = &out
		for _, line := range []string{"first", "too early"} {
			m.Show(func() string { return line })
		}
		m.Done()
		m.Show(func() string { return "too late" })
		m.Done()
	})
	if want := "\rfirst in 0s" + strings.Repeat(" ", meterWidth-len("first in 0s")) + "\r" + strings.Repeat(" ", meterWidth) + "\r"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
