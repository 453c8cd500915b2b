package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// CaddyVariable names the environment variable that has the path of the program to test. Without
// it the first test builds the program.
const CaddyVariable = "PRESETS_CADDY"

// built is the program that RemoveCaddy removes.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// Caddy returns the path of cmd/caddy, which has the engine Badger alone. All tests of a package
// share it, and TestMain calls RemoveCaddy.
func Caddy(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(CaddyVariable); given != "" {
		return given
	}
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "caddy-presets-"); built.err == nil {
			built.err = Build(t, Root(t), "./cmd/caddy", inBuilt())
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return inBuilt()
}

func inBuilt() string { return filepath.Join(built.folder, Executable("caddy")) }

// RemoveCaddy removes what Caddy built.
func RemoveCaddy() {
	if built.folder != "" {
		_ = os.RemoveAll(built.folder)
	}
}

// Root returns the folder of the main module.
func Root(t testing.TB) string {
	t.Helper()
	folder, err := exec.CommandContext(wait.Command(t), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/caddy-presets/caddy-presets").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(folder))
}

// Build builds a program of the module in a folder, with more flags for go build.
func Build(t testing.TB, module, program, binary string, flags ...string) error {
	t.Helper()
	args := append([]string{"-C", module, "build", "-o", binary}, flags...)
	if out, err := exec.CommandContext(wait.Command(t), "go", append(args, program)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go -C %s build %s: %w\n%s", module, program, err, out)
	}
	return nil
}

// Executable returns the file name of a program.
func Executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}
