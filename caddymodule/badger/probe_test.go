package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == probeCommand {
		pretendToProbe(filepath.Base(os.Args[2]))
	}
	storepool.RetryInterval = 20 * time.Millisecond
	caddytest.Main(m)
}

// pretendToProbe replaces probeCommand: it acts as the folder's name says and ends the
// process.
func pretendToProbe(what string) {
	switch what {
	case "whole":
		fmt.Print(`{"damaged":false}`)
	case "damaged":
		fmt.Print(`{"damaged":true,"error":"stored data is damaged: here"}`)
		os.Exit(1)
	case "full":
		fmt.Print(`{"damaged":false,"error":"too little"}`)
		os.Exit(1)
	case "silent":
	case "crash":
		fmt.Fprintln(os.Stderr, "fatal error: out of memory\nmore of it")
		os.Exit(2)
	case "killed":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
	case "stuck":
		time.Sleep(time.Hour)
	case "environment":
		fmt.Printf(`{"damaged":false,"error":"secret <%s> home %t"}`, os.Getenv("PRESETS_TEST_SECRET"), os.Getenv("HOME") != "")
	}
	os.Exit(0)
}

// TestProbeApart checks that only the process's message marks a folder as damaged. Other
// failures are temporary.
func TestProbeApart(t *testing.T) {
	tier.Slow(t)
	isCommand.Store(true)
	t.Cleanup(func() { isCommand.Store(false) })
	t.Setenv("PRESETS_TEST_SECRET", "sekrit")
	for what, tc := range map[string]struct {
		kind error
		says string
	}{
		"whole":       {},
		"damaged":     {badgerstore.ErrDamaged, "damaged: here"},
		"full":        {domain.ErrUnavailable, "too little"},
		"silent":      {domain.ErrUnavailable, "reported nothing"},
		"crash":       {domain.ErrUnavailable, "fatal error: out of memory"},
		"killed":      {domain.ErrUnavailable, "reported nothing"},
		"environment": {domain.ErrUnavailable, "secret <> home true"},
	} {
		err := probeApart(t.Context(), filepath.Join(t.TempDir(), what), badgerstore.Options{Logger: zap.NewNop()})
		if !errors.Is(err, tc.kind) || errors.Is(err, badgerstore.ErrDamaged) != (what == "damaged") {
			t.Errorf("%s: got %v, want %v", what, err, tc.kind)
		}
		if err != nil && (!strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "more of it")) {
			t.Errorf("%s: got %v, want %q", what, err, tc.says)
		}
	}
}

func TestProbeApartEnds(t *testing.T) {
	isCommand.Store(true)
	t.Cleanup(func() { isCommand.Store(false) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := probeApart(ctx, filepath.Join(t.TempDir(), "stuck"), badgerstore.Options{Logger: zap.NewNop()})
	if !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("got %v, want that it is unavailable", err)
	}
}
