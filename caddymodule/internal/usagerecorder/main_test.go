package usagerecorder

import (
	"os"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

func TestMain(m *testing.M) {
	FlushInterval = 20 * time.Millisecond
	undo := storagetest.UseMemory()
	code := m.Run()
	undo()
	os.Exit(code)
}
