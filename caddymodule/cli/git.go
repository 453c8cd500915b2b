package cli

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
)

// gitTime bounds how long Git may take.
const gitTime = 10 * time.Second

// revision returns the Git revision of a folder, such as v1.2-3-g0123456789ab-dirty. It is
// empty if there is none, or no Git.
func revision(ctx context.Context, folder string) string {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	// A monitor of the file system would be a program that the repository names.
	git := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "-C", folder, "describe", "--always", "--dirty", "--abbrev=12") //nolint:gosec // no shell reads the folder's name
	// In a hook of Git, its variables name another repository than the folder's.
	git.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
	git.Env = append(git.Env, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	git.WaitDelay = time.Second
	out, err := git.Output()
	text := strings.TrimSpace(string(out))
	if err != nil || plan.CheckMessage(text) != nil {
		return ""
	}
	return text
}
