package caddymodule

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestMemoryDefaults checks the defaults that depend on Go's memory limit.
func TestMemoryDefaults(t *testing.T) {
	const mib = 1 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, tc := range []struct {
		name                    string
		limit, maxBody          int64
		wantMemory, wantMaximum int64
		wantBody                int64
	}{
		{"no limit", math.MaxInt64, 0, 48 * mib, 128 * mib, 32 * mib},
		{"no limit, large bodies", math.MaxInt64, 64 * mib, 48 * mib, 256 * mib, 64 * mib},
		{"1 GiB", 1024 * mib, 0, 48 * mib, 128 * mib, 32 * mib},
		{"256 MiB", 256 * mib, 0, 48 * mib, 128 * mib, 16 * mib},
		{"116 MiB", 116 * mib, 0, 29 * mib, 58 * mib, 7 * mib},
		{"116 MiB, small bodies", 116 * mib, 8 * mib, 29 * mib, 58 * mib, 8 * mib},
		{"116 MiB, bodies that need more", 116 * mib, 32 * mib, 29 * mib, 66 * mib, 32 * mib},
		{"less than bodies need", 4 * mib, 0, 1 * mib, 4 * mib, 1 * mib},
	} {
		debug.SetMemoryLimit(tc.limit)
		memory, err := memoryFor(0)
		i := Inference{MaxBodySize: tc.maxBody}
		if err2 := i.provisionMemory(); err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", tc.name, err, err2)
		}
		if memory != tc.wantMemory || i.MaxMemory != tc.wantMaximum || i.MaxBodySize != tc.wantBody {
			t.Errorf("%s: got %d, %d and bodies of %d, want %d, %d and %d", tc.name, memory, i.MaxMemory, i.MaxBodySize, tc.wantMemory, tc.wantMaximum, tc.wantBody)
		}
	}
}

func TestMemoryBounds(t *testing.T) {
	for set, ok := range map[int64]bool{-1: false, 1: true, maxSize: true, maxSize + 1: false} {
		got, err := memoryFor(set)
		if (err == nil) != ok || ok && got != set {
			t.Errorf("%d: got %d, %v", set, got, err)
		}
		h := Handler{Memory: set}
		if err := h.provisionSettings(caddy.NewReplacer()); !ok && (err == nil || !strings.HasPrefix(err.Error(), "memory: ")) {
			t.Errorf("%d: got the error %v, want one that names the field", set, err)
		}
	}
}
