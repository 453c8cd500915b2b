package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
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

// TestPipelines runs the commands of the documented pipelines as their runners do. A pull
// request shows the plan, and merging applies it.
func TestPipelines(t *testing.T) {
	for name, scripts := range map[string]struct{ plan, apply []script }{
		"github": {githubScripts(t, "pull_request"), githubScripts(t, "push")},
		"gitlab": {gitlabScripts(t, "plan presets"), gitlabScripts(t, "apply presets")},
	} {
		t.Run(name, func(t *testing.T) {
			if len(scripts.plan) != 2 || len(scripts.apply) != 1 {
				t.Fatalf("got commands %+v", scripts)
			}
			r := newRepository(t)
			bin := t.TempDir()
			if err := os.Symlink(r.binary, filepath.Join(bin, "caddy")); err != nil {
				t.Fatal(err)
			}
			// gh needs GitHub. This one keeps the comment.
			const gh = "#!/bin/sh\n[ \"$1 $2 $3 $4\" = 'pr comment 7 --body-file' ] && cp \"$5\" comment.md\n"
			if err := os.WriteFile(filepath.Join(bin, "gh"), []byte(gh), 0o700); err != nil {
				t.Fatal(err)
			}
			env := append(r.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PRESETS_KEY="+managementKey, "PRESETS_SERVER="+r.site, "NUMBER=7")
			play := func(scripts []script) {
				t.Helper()
				for _, s := range scripts {
					run(t, r.folder, env, "bash", "-euo", "pipefail", "-c", s.text)
				}
			}
			r.write(t, "default/mail.yaml", "responses:\n  model: acme/small\n")
			r.commit(t)
			play(scripts.plan)
			comment, err := os.ReadFile(filepath.Join(r.folder, "plan.md"))
			if err != nil || !strings.Contains(string(comment), "mail") {
				t.Errorf("the plan: got %s, %v", comment, err)
			}
			if kept, err := os.ReadFile(filepath.Join(r.folder, "comment.md")); name == "github" && string(kept) != string(comment) {
				t.Errorf("the comment: got %s, %v", kept, err)
			}
			play(scripts.apply)
			if all := r.versions(t, "default", "mail"); len(all) != 1 {
				t.Errorf("got versions %+v, want 1", all)
			}
			play(scripts.plan) // without changes
			r.write(t, "default/mail.yaml", "")
			r.write(t, "default/other.yaml", "responses:\n  model: acme/small\n")
			play(scripts.apply)
			if status, _ := r.send(t, "GET", "/v1/presets/mail", managementKey, ""); status != 404 {
				t.Errorf("a file that is gone: got %d, want 404", status)
			}
			if _, _, err := try(t, r.folder, append(env, "PRESETS_KEY=wrong-key-of-the-pipeline"), "bash", "-euo", "pipefail", "-c", scripts.plan[0].text); err == nil {
				t.Error("a plan that fails passes the pipeline")
			}
		})
	}
}
