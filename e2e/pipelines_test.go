package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

// pipeline returns a block of docs/files.md that begins with the name of its file.
func pipeline(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "files.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(# " + regexp.QuoteMeta(file) + "\n.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("docs/files.md has no %s", file)
	}
	if err := yaml.Unmarshal(block[1], into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// script is a command of a pipeline.
type script struct{ name, text string }

// githubScripts returns the commands of the GitHub workflow that an event runs. Installing
// is left out: TestXcaddy builds the binary.
func githubScripts(t *testing.T, event string) (all []script) {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, If, Run string }
		}
	}
	pipeline(t, ".github/workflows/presets.yml", &workflow)
	for _, step := range workflow.Jobs["presets"].Steps {
		if step.Run != "" && step.Name != "Install" && strings.HasPrefix(step.If, "github.event_name == '"+event+"'") {
			all = append(all, script{step.Name, step.Run})
		}
	}
	return all
}

// gitlabScripts returns the commands of a job of the GitLab pipeline.
func gitlabScripts(t *testing.T, job string) (all []script) {
	t.Helper()
	var jobs map[string]struct{ Script []string }
	pipeline(t, ".gitlab-ci.yml", &jobs)
	for _, line := range jobs[job].Script {
		all = append(all, script{job, line})
	}
	return all
}

// TestPipelineGroups checks that runs which apply wait for each other alone.
func TestPipelineGroups(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Concurrency struct {
			Group  string
			Cancel string `yaml:"cancel-in-progress"`
		}
	}
	pipeline(t, ".github/workflows/presets.yml", &workflow)
	// The number is that of a pull request.
	if got := workflow.Concurrency; got.Group != "presets-${{ github.event.number || 'apply' }}" || got.Cancel != "${{ github.event_name == 'pull_request' }}" {
		t.Errorf("GitHub: got %+v", got)
	}
	var jobs map[string]struct {
		Group string `yaml:"resource_group"`
	}
	pipeline(t, ".gitlab-ci.yml", &jobs)
	if jobs["apply presets"].Group == "" || jobs["plan presets"].Group+jobs[".presets"].Group != "" {
		t.Errorf("GitLab: got %+v, want a group of apply alone", jobs)
	}
}

// gh stands for the program, which needs GitHub. It keeps the comments in $COMMENTS.
const gh = `#!/bin/sh
set -e
case "$*" in
"api --paginate repos/acme/presets/issues/7/comments --jq "*)
	exec jq -r "$5" "$COMMENTS" ;;
"api --silent --method PATCH repos/acme/presets/issues/comments/"*" --field body=@"*)
	jq --argjson id "${5##*/}" --rawfile body "${7#body=@}" 'map(if .id == $id then .body = $body else . end)' "$COMMENTS" > "$COMMENTS.new" ;;
"pr comment 7 --body-file "*)
	jq --rawfile body "$5" '. + [{id: (length + 1), user: {login: "github-actions[bot]"}, body: $body}]' "$COMMENTS" > "$COMMENTS.new" ;;
*)
	echo "unknown: $*" >&2
	exit 1 ;;
esac
mv "$COMMENTS.new" "$COMMENTS"
`

// otherComments are comments of another workflow, and of a person.
const otherComments = `[{"id":1,"user":{"login":"github-actions[bot]"},"body":"Tests: 7"},{"id":2,"user":{"login":"ann"},"body":"<!-- caddy presets plan -->"}]`

// repository is a folder of presets in Git, and the server that it is applied to.
type repository struct {
	*server
	folder string // of the Git work tree
}

// newRepository starts a server, and makes an empty Git work tree.
func newRepository(t *testing.T) *repository {
	t.Helper()
	servertest.Tool(t, "git", "git")
	r := &repository{startWith(t, "", "respond 404"), t.TempDir()}
	r.git(t, "init", "-q", "-b", "main")
	return r
}

// git runs Git in the work tree, without the settings of this machine.
func (r *repository) git(t *testing.T, args ...string) string {
	t.Helper()
	env := []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com", "GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com",
	}
	return run(t, r.folder, env, "git", args...)
}

// commit commits everything in the work tree, and returns the revision.
func (r *repository) commit(t *testing.T) string {
	t.Helper()
	r.git(t, "add", "-A")
	r.git(t, "commit", "-q", "--allow-empty", "-m", "change")
	return strings.TrimSpace(r.git(t, "rev-parse", "--short=12", "HEAD"))
}

// write writes a file below presets/. It removes the file if text is empty.
func (r *repository) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(r.folder, "presets", filepath.FromSlash(name))
	if text == "" {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantVersions fails the test unless a preset has n versions.
func (r *repository) wantVersions(t *testing.T, slug string, n int) {
	t.Helper()
	status, text := r.send(t, http.MethodGet, "/v1/presets/"+slug+"/versions", managementKey, "")
	if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"total_count":%d`, n)) {
		t.Errorf("%s: got %d %s, want %d versions", slug, status, text, n)
	}
}

// TestPipelines runs the commands of the documented pipelines as their runners do. A pull
// request shows the plan, and merging applies it.
func TestPipelines(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]struct{ plan, apply []script }{
		"github": {githubScripts(t, "pull_request"), githubScripts(t, "push")},
		"gitlab": {gitlabScripts(t, "plan presets"), gitlabScripts(t, "apply presets")},
	} {
		t.Run(name, func(t *testing.T) {
			if len(scripts.plan) != 2 || len(scripts.apply) == 0 {
				t.Fatalf("got commands %+v", scripts)
			}
			if name == "github" {
				servertest.Tool(t, "jq", "jq")
			}
			r := newRepository(t)
			origin, bin := t.TempDir(), t.TempDir()
			r.git(t, "init", "-q", "--bare", origin)
			r.git(t, "remote", "add", "origin", origin)
			if err := os.Symlink(r.binary, filepath.Join(bin, "caddy")); err != nil {
				t.Fatal(err)
			}
			comments := filepath.Join(bin, "comments.json")
			for file, text := range map[string]string{
				filepath.Join(bin, "gh"): gh, comments: otherComments,
				filepath.Join(r.folder, ".git", "info", "exclude"): "/*.md\n",
			} {
				if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			env := append(r.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PRESETS_KEY="+managementKey, "PRESETS_SERVER="+r.site,
				"NUMBER=7", "GITHUB_REPOSITORY=acme/presets", "COMMENTS="+comments, "GITHUB_REF_NAME=main", "CI_COMMIT_BRANCH=main")
			play := func(scripts []script) {
				t.Helper()
				for _, s := range scripts {
					run(t, r.folder, env, "bash", "-euo", "pipefail", "-c", s.text)
				}
			}
			push := func() (revision string) {
				t.Helper()
				revision = r.commit(t)
				r.git(t, "push", "-q", "origin", "main")
				return revision
			}
			r.write(t, "default/mail.yaml", "responses:\n  model: acme/small\n")
			first := push()
			play(scripts.plan)
			if text, err := os.ReadFile(filepath.Join(r.folder, "plan.md")); err != nil || !strings.Contains(string(text), "mail") {
				t.Errorf("the plan: got %s, %v", text, err)
			}
			play(scripts.apply)
			r.wantVersions(t, "mail", 1)
			play(scripts.plan) // without changes
			text, err := os.ReadFile(filepath.Join(r.folder, "plan.md"))
			if err != nil {
				t.Fatal(err)
			}
			wantComments(t, comments, name == "github", "<!-- caddy presets plan -->\n"+string(text))
			r.write(t, "default/mail.yaml", "")
			r.write(t, "default/other.yaml", "responses:\n  model: acme/small\n")
			push()
			play(scripts.apply)
			gone := func() {
				t.Helper()
				if status, _ := r.send(t, "GET", "/v1/presets/mail", managementKey, ""); status != 404 {
					t.Errorf("a file that is gone: got %d, want 404", status)
				}
				r.wantVersions(t, "other", 1)
			}
			gone()
			r.git(t, "reset", "-q", "--hard", first) // a run of an older commit comes later
			play(scripts.apply)
			gone()
			if _, _, err := try(t, r.folder, append(env, "PRESETS_KEY=wrong-key-of-the-pipeline"), "bash", "-euo", "pipefail", "-c", scripts.plan[0].text); err == nil {
				t.Error("a plan that fails passes the pipeline")
			}
		})
	}
}

// wantComments checks that the other comments are as they were, and that one more has a text
// if there is one more.
func wantComments(t *testing.T, file string, more bool, text string) {
	t.Helper()
	type comment struct {
		ID   int    `json:"id"`
		Body string `json:"body"`
	}
	var want, got []comment
	stored, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(otherComments), &want), json.Unmarshal(stored, &got))
	}
	if more {
		want = append(want, comment{3, text})
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the comments: got %+v, %v, want %+v", got, err, want)
	}
}
