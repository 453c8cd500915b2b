package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

// pseudoTerminal returns a pseudo-terminal, and a function that closes it and returns what was
// printed.
func pseudoTerminal(t *testing.T) (tty *os.File, printed func() string) {
	t.Helper()
	return terminalWith(t, "")
}

// terminalWith is pseudoTerminal after somebody typed some text.
func terminalWith(t *testing.T, typed string) (tty *os.File, printed func() string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { control.Close() })
	descriptor := int(control.Fd())
	number, err := unix.IoctlGetInt(descriptor, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(descriptor, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals: ", err)
	}
	if _, err := control.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(control) // EIO at the end
		text <- string(all)
	}()
	return tty, func() string {
		tty.Close()
		return strings.ReplaceAll(<-text, "\r\n", "\n")
	}
}

// onTerminal returns what a command prints on a terminal.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	tty, printed := pseudoTerminal(t)
	if err := runTo(tty, io.Discard, tty, append([]string{"presets"}, args...)...); err != nil {
		t.Error(err)
	}
	return printed()
}

// TestTerminal checks that colours are for terminals that want them, and that hostile JSON is
// escaped there.
func TestTerminal(t *testing.T) {
	s := start(t, nil)
	s.fill()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	diff := words("diff email-copywriter 2 staging")
	plain := mustRun(t, diff...)
	if strings.Contains(plain, "\x1b") {
		t.Errorf("got %q in a pipe, want no colours", plain)
	}
	want := strings.NewReplacer(
		"--- email-copywriter@2", "\x1b[36m--- email-copywriter@2\x1b[m", "+++ email-copywriter@3", "\x1b[36m+++ email-copywriter@3\x1b[m",
		"@@ -1,2 +1,2 @@", "\x1b[36m@@ -1,2 +1,2 @@\x1b[m",
		"- Be friendly.", "\x1b[31m- Be friendly.\x1b[m", "+ Be very friendly.", "\x1b[32m+ Be very friendly.\x1b[m",
		"- /temperature 0.70", "\x1b[31m- /temperature 0.70\x1b[m", `+ /tools [{"type":"web_search"}]`, "\x1b[32m"+`+ /tools [{"type":"web_search"}]`+"\x1b[m",
	).Replace(plain)
	if got := onTerminal(t, diff...); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if got := onTerminal(t, diff...); got != plain {
				t.Errorf("got %q, want %q", got, plain)
			}
		})
	}
	// A terminal is no input.
	if got := onTerminal(t, "try", "email-copywriter"); !strings.Contains(got, `"input": "Hello"`) {
		t.Errorf("got %q, want the default input", got)
	}

	s.before(hostile)
	t.Setenv("NO_COLOR", "1")
	for _, command := range append(hostileCommands, "list --json", "show mail --json", "versions mail --json", "diff mail 1 2 --json") {
		tty, printed := pseudoTerminal(t)
		err := runTo(tty, io.Discard, strings.NewReader("x"), append([]string{"presets"}, words(command)...)...)
		text := printed() + fmt.Sprint(err)
		if at := strings.IndexFunc(text, func(r rune) bool { return terminal.IsUnsafe(r) && r != '\n' }); at >= 0 {
			t.Errorf("%s: got %q, which is not safe at %d", command, text, at)
		}
		if json, ok := strings.CutSuffix(text, "\n<nil>"); ok && command == "show mail --json" && data[struct{ Name string }](t, json).Name != evil {
			t.Errorf("got %q, want the same JSON", json)
		}
	}
}

// TestTerminalConvert checks that the report of a conversion is escaped on a terminal, and only
// there.
func TestTerminalConvert(t *testing.T) {
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	input := fmt.Sprintf(`[{"name":%s,"prompt":"Hello."}]`, quoted)
	type report struct{ Written []struct{ Prompt string } }
	for _, isTerminal := range []bool{true, false} {
		var out io.Writer
		var plain strings.Builder
		tty, printed := pseudoTerminal(t)
		if out = tty; !isTerminal {
			out = &plain
		}
		err := runTo(out, io.Discard, strings.NewReader(input), "presets", "convert", "langfuse", "-", t.TempDir(), "--json")
		text := printed() + plain.String()
		if isUnsafe := strings.ContainsAny(text, "\u202e\u009b"); err != nil || isUnsafe == isTerminal {
			t.Errorf("on a terminal %t: got %q, %v", isTerminal, text, err)
		}
		if got := data[report](t, text); len(got.Written) != 1 || got.Written[0].Prompt != evil {
			t.Errorf("on a terminal %t: got %q, want the name in it", isTerminal, text)
		}
	}
}
