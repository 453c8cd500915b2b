package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Lack ends a test that lacks something, such as a Debian package. The test is skipped. With
// PRESETS_E2E=required it fails instead, unless PRESETS_LACKS has the name of what it lacks.
func Lack(t testing.TB, name, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("PRESETS_E2E") == "required" && !slices.Contains(strings.Fields(os.Getenv("PRESETS_LACKS")), name) {
		t.Fatalf("PRESETS_E2E=required, but %s", why)
	}
	t.Skipf("NOT TESTED: %s", why)
}

// Tool returns the path of a tool of a Debian package. A test without it lacks the package.
func Tool(t testing.TB, tool, debian string) string {
	t.Helper()
	found, err := exec.LookPath(tool)
	if err != nil {
		Lack(t, debian, "it needs %s, of Debian's package %s", tool, debian)
	}
	return found
}

// AsRoot ends a test that is not run by root, which it needs to do something.
func AsRoot(t testing.TB, do string) {
	t.Helper()
	if os.Getuid() != 0 {
		Lack(t, "root", "only root can %s", do)
	}
}
