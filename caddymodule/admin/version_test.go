package admin_test

import "testing"

// TestVersionCommand checks that the command prints one line, and that it needs no server.
func TestVersionCommand(t *testing.T) {
	out, errOut, err := run("version")
	if err != nil || out != "(devel)\n" || errOut != "" {
		t.Errorf("got %q, %q, %v, want (devel), the version of a test", out, errOut, err)
	}
	if _, _, err := run("version", "x"); err == nil {
		t.Error("an argument is ignored")
	}
}
