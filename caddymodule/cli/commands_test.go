package cli_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestCommandsPrint compares what the commands print with a file.
func TestCommandsPrint(t *testing.T) {
	s := start(t, nil)
	s.fill()
	golden(t, "commands", s.session(
		words("list"),
		words("list --query newsletter"),
		words("list --status disabled --sort slug --order asc"),
		words("list --workspace team"),
		words("show email-copywriter"),
		words("show email-copywriter --version staging"),
		words("show tour-guide"),
		words("versions email-copywriter"),
		words("diff email-copywriter 1 2"),
		words("diff email-copywriter 2 staging"),
		words("diff email-copywriter 2 2"),
		words("designate email-copywriter staging"),
		words("designate email-copywriter 3"),
		words("label email-copywriter stable 2"),
		words("label email-copywriter stable 2:90,3:10"),
		words("label email-copywriter stable --delete"),
		words("try email-copywriter --input Hello"),
		words("try tour-guide --var city=Rome"),
		words("try tour-guide"),
		words("try summary --send"),
		words("copy email-copywriter --to-workspace team"),
		words("copy email-copywriter --to-workspace team"),
		words("copy email-copywriter --to-workspace team --new-version"),
		words("list --workspace team"),
		words("designate summary 1"),
		words("label summary live 1"),
		words("label summary live 1 --override files"),
		words("label email-copywriter stable --history"),
		words("show @preset/email-copywriter@1"),
		words("diff email-copywriter@1 2"),
		words("designate @preset/email-copywriter@2"),
		words("label email-copywriter@1 first"),
		words("versions @preset/email-copywriter"),
		append(words("rename email-copywriter"), "Newsletter"),
		words("disable email-copywriter"),
		words("archive email-copywriter"),
		words("enable email-copywriter"),
		words("archive @preset/email-copywriter"),
		words("list --status archived"),
		words("archive email-copywriter"),
		words("preset restore email-copywriter"),
		words("archive summary"),
		words("archive summary --override files"),
		words("preset restore summary"),
		words("preset restore summary --override files"),
		words("workspace list"),
		words("workspace create research --description Trials"),
		words("workspace create research"),
		words("workspace list"),
	))
}

func words(line string) []string { return strings.Fields(line) }

// TestCommandsPrintJSON checks that --json prints the data of the API.
func TestCommandsPrintJSON(t *testing.T) {
	s := start(t, nil)
	s.fill()

	list := data[[]object](t, mustRun(t, "list", "--json", "--sort", "slug", "--order", "asc"))
	if len(list) != 4 || list[0]["slug"] != "email-copywriter" || list[3]["slug"] != "tour-guide" || list[0]["labels"] == nil {
		t.Errorf("got %v, want the four presets by slug", list)
	}
	if empty := mustRun(t, "list", "--json", "--workspace", "team"); empty != "[]\n" {
		t.Errorf("no presets: got %q, want an empty array", empty)
	}
	for _, tc := range []struct{ command, path string }{
		{"show email-copywriter --json", "/v1/presets/email-copywriter"},
		{"show email-copywriter --version staging --json", "/v1/presets/email-copywriter/versions/3"},
		{"diff email-copywriter 1 2 --json", "/v1/presets/email-copywriter/diff?from=1&to=2"},
	} {
		want := s.Manage("GET", tc.path, "").Body
		if got := fmt.Sprintf(`{"data":%s}`, strings.TrimSuffix(mustRun(t, words(tc.command)...), "\n")); got != want {
			t.Errorf("%s: got %s, want the bytes of the API, %s", tc.command, got, want)
		}
	}
	versions := data[[]object](t, mustRun(t, words("versions email-copywriter --json")...))
	if len(versions) != 3 || versions[1]["message"] != "shorter" || versions[1]["config"] != nil {
		t.Errorf("got %v, want the summaries of three versions", versions)
	}
	designated := data[object](t, mustRun(t, words("designate email-copywriter 1 --json")...))
	if designated["designated_version_number"] != 1.0 {
		t.Errorf("got %v, want the preset with version 1", designated)
	}
	label := data[object](t, mustRun(t, words("label email-copywriter live 1 --json")...))
	if label["label"] != "live" || label["version"] != 1.0 {
		t.Errorf("got %v, want the label", label)
	}
	if deleted := mustRun(t, words("label email-copywriter live --delete --json")...); deleted != "{\"deleted\":true}\n" {
		t.Errorf("got %q, want the answer", deleted)
	}
	if history := data[[]object](t, mustRun(t, words("label email-copywriter live --history --json")...)); len(history) != 2 || history[0]["to"] != nil || history[1]["number"] != 1.0 {
		t.Errorf("got %v, want both changes", history)
	}
	if disabled := data[object](t, mustRun(t, words("disable tour-guide --json")...)); disabled["status"] != "disabled" {
		t.Errorf("got %v, want the preset", disabled)
	}
	mustRun(t, "enable", "tour-guide")
	if archived := mustRun(t, words("archive tour-guide --json")...); archived != "{\"deleted\":true}\n" {
		t.Errorf("got %q, want the answer", archived)
	}
	if restored := data[object](t, mustRun(t, words("preset restore tour-guide --json")...)); restored["slug"] != "tour-guide" {
		t.Errorf("got %v, want the preset", restored)
	}
	if all := data[[]object](t, mustRun(t, words("workspace list --json")...)); len(all) != 2 || all[0]["slug"] != "default" {
		t.Errorf("got %v, want both workspaces", all)
	}
	if created := data[object](t, mustRun(t, words("workspace create lab --name Lab --json")...)); created["name"] != "Lab" {
		t.Errorf("got %v, want the workspace", created)
	}
	dryRun := data[object](t, mustRun(t, words("try email-copywriter --json")...))
	if dryRun["path"] != "/v1/responses" || dryRun["fields"] == nil {
		t.Errorf("got %v, want the dry run", dryRun)
	}
	copied := data[object](t, mustRun(t, words("copy summary --to-workspace team --json")...))
	if copied["slug"] != "summary" || copied["managed_by"] != nil {
		t.Errorf("got %v, want a copy without an owner", copied)
	}
}
