package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// filesRun is a finished command for files.
type filesRun struct {
	status      int
	out, errOut string
	took        time.Duration // of processors
	memory      int64         // the most, in bytes, 0 if the system does not tell
}

// files runs "caddy presets ..." for files against the server.
func (p *process) files(t *testing.T, secret string, args ...string) filesRun {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(servertest.Caddy(t), append([]string{"presets"}, args...)...)
	cmd.Env = append(os.Environ(), "PRESETS_SERVER="+p.url, "PRESETS_KEY="+secret)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // a status is no failure
	if cmd.ProcessState == nil {
		t.Fatalf("%v does not run", args)
	}
	return filesRun{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), maxMemory(cmd.ProcessState)}
}

// startWithKey runs a server with a management key.
func startWithKey(t *testing.T, secret string) *process {
	t.Helper()
	at := newPlace(t)
	return at.start(t, at.write(t, at.storage("store")+"\nmanagement_key "+secret, ""))
}

// TestExitStatus checks the exit statuses of the commands for files.
func TestExitStatus(t *testing.T) {
	tier.Slow(t)
	const secret = "management-secret-of-the-tests"
	p := startWithKey(t, secret)
	dir := t.TempDir()
	file := filepath.Join(dir, "default", "mail.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		file   string
		args   []string
		status int
		errOut string
	}{
		{"chat: {model: m}\n", []string{"plan", dir}, 2, ""},
		{"chat: {model: m}\n", []string{"plan", dir, "--json"}, 2, ""},
		{"chat: {model: m}\n", []string{"apply", dir}, 1, "Error: nothing was applied: there is no terminal to ask on; say --yes\n"},
		{"chat: {model: m}\n", []string{"apply", dir, "--yes"}, 0, ""},
		{"chat: {model: m}\n", []string{"plan", dir}, 0, ""},
		{"chat: {model: m}\n", []string{"apply", dir}, 0, ""},
		{"chat: {model: 1}\n", []string{"plan", dir}, 1, "Error: default/mail.yaml:1:15: /chat/model: "},
		{"chat: {model: m}\n", []string{"plan", dir, "--unknown"}, 1, "Error: unknown flag: --unknown\n"},
		{"chat: {model: m}\n", []string{"plan", dir, "--server", "gateway.example.com"}, 1, "Error: listing the workspaces: the server must be an origin"},
		{"chat: {model: m2}\n", []string{"plan", dir, "--markdown"}, 2, ""},
	} {
		if err := os.WriteFile(file, []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := p.files(t, secret, step.args...); got.status != step.status || !strings.HasPrefix(got.errOut, step.errOut) || step.errOut == "" && got.errOut != "" {
			t.Errorf("step %d, %v: got status %d and %q, want %d and %q", i, step.args, got.status, got.errOut, step.status, step.errOut)
		}
	}
}

// TestManyFiles bounds the processors' time and the memory of a plan of 5,000 files, or of a
// sample of 100.
func TestManyFiles(t *testing.T) {
	tier.Slow(t)
	const secret = "management-secret-of-the-tests"
	p := startWithKey(t, secret)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "default"), 0o700); err != nil {
		t.Fatal(err)
	}
	presets := 5000 / tier.Sample(50)
	write := func(prompt string) {
		for n := range presets {
			name := filepath.Join(dir, "default", fmt.Sprintf("preset-%04d", n))
			text := fmt.Sprintf("description: Preset %[1]d\nlabels: {prod: latest}\nresponses:\n  model: openai/gpt-5-mini\n  temperature: 0.70\n"+
				"  tools: [{type: function, name: f%[1]d, parameters: {type: object}}]\n  instructions: !file preset-%04[1]d.md\n", n)
			if err := os.WriteFile(name+".yaml", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name+".md", []byte(strings.Repeat(fmt.Sprintf("%s of preset %d.\n", prompt, n), 40)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, run := range []struct {
		name   string
		prompt string
		args   []string
		status int
		// The limits are for 5,000 files, and hold with a margin.
		time   time.Duration
		memory int64
	}{
		{"plan of new presets", "The prompt", []string{"plan", dir, "--prune"}, 2, 10 * time.Second, 300 << 20},
		{"apply", "The prompt", []string{"apply", dir, "--yes"}, 0, 0, 0},
		{"plan of equal presets", "The prompt", []string{"plan", dir, "--prune"}, 0, 10 * time.Second, 300 << 20},
		{"plan of changed prompts", "Another prompt", []string{"plan", dir, "--prune", "--json"}, 2, 0, 300 << 20},
	} {
		write(run.prompt)
		got := p.files(t, secret, run.args...)
		t.Logf("%s: %d files in %v of processors with %d MiB", run.name, presets, got.took, got.memory>>20)
		if got.status != run.status {
			t.Fatalf("%s: got status %d and %.500s, want %d", run.name, got.status, got.errOut, run.status)
		}
		if run.time > 0 && got.took > run.time {
			t.Errorf("%s: takes %v of processors, want at most %v", run.name, got.took, run.time)
		}
		if run.memory > 0 && got.memory > run.memory {
			t.Errorf("%s: takes %d bytes, want at most %d", run.name, got.memory, run.memory)
		}
	}
}
