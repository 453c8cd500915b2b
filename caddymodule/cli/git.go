package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
)

// gitTime bounds how long Git may take.
const gitTime = 10 * time.Second

// revision returns the Git revision of a folder, such as v1.2-3-g0123456789ab-dirty, or nothing.
func revision(ctx context.Context, folder string) string {
	if !isInWorkTree(folder) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	// A monitor of the file system would be a program that the repository names.
	git := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "-C", folder, "describe", "--always", "--dirty", "--abbrev=12") //nolint:gosec // no shell reads the folder's name
	// In a hook of Git, its variables name another repository than the folder's. Git needs no key.
	git.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "GIT_") || strings.HasPrefix(variable, "PRESETS_")
	})
	git.Env = append(git.Env, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	git.WaitDelay = time.Second
	out, err := git.Output()
	text := strings.TrimSpace(string(out))
	if err != nil || plan.CheckMessage(text) != nil {
		return ""
	}
	return text
}

// isInWorkTree reports whether Git finds the repository of a folder by a name .git, which no
// commit can contain. Git takes any folder with HEAD, objects and refs for a repository, too. A
// commit can contain these, and a configuration that names programs.
func isInWorkTree(folder string) bool {
	folder, err := filepath.Abs(folder)
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	for err == nil {
		if exists(filepath.Join(folder, ".git")) {
			return true
		}
		parent := filepath.Dir(folder)
		if parent == folder || exists(filepath.Join(folder, "HEAD")) {
			return false
		}
		folder = parent
	}
	return false
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
