package usagerecorder

import (
	"os"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

func TestMain(m *testing.M) {
	undo := storagetest.UseMemory()
	code := m.Run()
	undo()
	os.Exit(code)
}
