package transfer

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// generated writes a file with presets of two versions each, and returns its size.
func generated(b *testing.B, name string, presets int) int64 {
	b.Helper()
	file, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	w, hash := bufio.NewWriter(file), sha256.New()
	write := func(l line) {
		raw, err := l.encode()
		if err != nil {
			b.Fatal(err)
		}
		_, _ = hash.Write(raw)
		_, _ = w.Write(raw)
	}
	counts := Counts{Workspaces: 1, Presets: presets, Versions: 2 * presets}
	home := domain.Workspace{ID: uuid.NewString(), Name: "Default", Slug: "default", IOLoggingAPIKeyIDs: []byte("null"), CreatedAt: at}
	prompt := strings.Repeat("You are a helpful assistant. ", 20)
	write(line{Export: &header{formatName, formatVersion, at}})
	write(line{Workspace: &home})
	for n := range presets {
		p := domain.Preset{
			ID: uuid.NewString(), Name: "n", Slug: fmt.Sprintf("preset-%d", n), Status: domain.PresetActive, WorkspaceID: home.ID,
			DesignatedVersionID: uuid.NewString(), DesignatedVersion: 2, LatestVersion: 2, CreatedAt: at, UpdatedAt: at,
		}
		write(line{Preset: newPresetLine(p)})
		for n, id := range []string{uuid.NewString(), p.DesignatedVersionID} {
			write(line{Version: newVersionLine(domain.PresetVersion{
				ID: id, PresetID: p.ID, Version: n + 1, Dialect: domain.Chat, SystemPrompt: &prompt,
				Config: []byte(`{"model":"openai/gpt-5","temperature":0.2,"max_tokens":1000}`), CreatedAt: at, UpdatedAt: at,
			})})
		}
	}
	write(line{End: &trailer{counts, sum(hash.Sum(nil))}})
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// peak reports the maximum heap that fn uses, beyond the heap in use before.
func peak(b *testing.B, fn func()) {
	b.Helper()
	var most atomic.Uint64
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, stop, done := inUse(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			most.Store(max(most.Load(), inUse()))
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	fn()
	close(stop)
	<-done
	b.ReportMetric(float64(most.Load()-min(before, most.Load()))/(1<<20), "peak-MiB")
}

// BenchmarkTransfer moves stores of many presets. One is in a folder, as on a server. The
// other has no engine, and shows the memory needed beside an engine's.
func BenchmarkTransfer(b *testing.B) {
	for _, presets := range []int{10_000, 100_000} {
		name := filepath.Join(b.TempDir(), "file")
		size := generated(b, name, presets)
		open := func(b *testing.B) *os.File {
			b.Helper()
			file, err := os.Open(name)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { file.Close() })
			b.SetBytes(size)
			return file
		}
		b.Run(fmt.Sprintf("check/%d", presets), func(b *testing.B) {
			for range b.N {
				file := open(b)
				peak(b, func() {
					if _, err := Check(b.Context(), file); err != nil {
						b.Fatal(err)
					}
				})
			}
		})
		s, err := badger.Open(filepath.Join(b.TempDir(), "store"), badger.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("import/%d", presets), func(b *testing.B) {
			if b.N > 1 {
				b.Skip("once, with -benchtime 1x")
			}
			file := open(b)
			peak(b, func() {
				if _, err := Import(b.Context(), s, file); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(fmt.Sprintf("export/%d", presets), func(b *testing.B) {
			b.SetBytes(size)
			for range b.N {
				peak(b, func() {
					if _, err := Export(b.Context(), s, io.Discard); err != nil {
						b.Fatal(err)
					}
				})
			}
		})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
