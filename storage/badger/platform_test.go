package badger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/dump"
)

// .ci/run long runs this test as a 32-bit program, too, where TestMain leaves out all others.
func TestPlatform(t *testing.T) {
	small := strconv.IntSize < 64
	for name, open := range map[string]func(folder string) error{
		"open": func(folder string) error {
			s, err := Open(folder, Options{})
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"restore": func(folder string) error {
			var b bytes.Buffer
			w, err := dump.NewWriter(&b, dump.Info{CreatedAt: time.Now()}, nil)
			if err := errors.Join(err, w.Close()); err != nil {
				return err
			}
			return Restore(t.Context(), folder, Options{}, reading(t, b.Bytes(), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "store")
			err := open(folder)
			if refused := err != nil && strings.Contains(err.Error(), "64-bit platform"); refused != small {
				t.Fatalf("got %v, want the platform refused: %t", err, small)
			}
			if !small {
				return
			}
			if !errors.Is(err, ErrMisused) {
				t.Errorf("got %v, want ErrMisused", err)
			}
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v, want no folder", err)
			}
		})
	}
}
