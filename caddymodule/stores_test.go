package caddymodule

import (
	"testing"
)

// TestConfiguredKeysOfEverySiteHoldTheirWorkspace deletes and renames workspaces on each
// site of a store. Keys of all its sites count as acting in their workspaces.
func TestConfiguredKeysOfEverySiteHoldTheirWorkspace(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201, `"slug":"team"`)
	other := s.siteAt(freeAddress(t), s.presets("inference_key other-inference-secret carl team"))
	if err := s.load(s.site(standard) + other); err != nil {
		t.Fatal(err)
	}
	s.manage("DELETE", "/v1/workspaces/team", "").wantError(t, 400, "Invalid request parameters: id: the workspace has live keys")
	s.manage("PATCH", "/v1/workspaces/team", `{"slug":"crew"}`).wantError(t, 400, "Invalid request parameters: /slug: keys of the configuration")
	s.manage("PATCH", "/v1/workspaces/team", `{"name":"Crew","slug":"team"}`).want(t, 200, `"name":"Crew"`)
	s.reload(standard)
	s.manage("PATCH", "/v1/workspaces/team", `{"slug":"crew"}`).want(t, 200, `"slug":"crew"`)
	s.manage("DELETE", "/v1/workspaces/crew", "").want(t, 200)
}

// TestReplaysOfAnotherSite checks two sites whose keys have the same numbers. One site's
// answers are not replayed on the other.
func TestReplaysOfAnotherSite(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	address := freeAddress(t)
	other := s.siteAt(address, s.presets("preset_creators any\ninference_key other-inference-secret eve team"))
	if err := s.load(s.site(standard+"\npreset_creators any") + other); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/presets/p/responses"
	s.do("POST", path, `{}`, bearer(inferenceSecret), once("1")).want(t, 200, `"creator_user_id":"bob"`)
	send(t, "POST", "http://"+address+path, `{}`, bearer("other-inference-secret"), once("1")).want(t, 200, `"creator_user_id":"eve"`)
	send(t, "GET", "http://"+address+"/v1/presets/p", "", bearer("other-inference-secret")).want(t, 200, `"creator_user_id":"eve"`)
}
