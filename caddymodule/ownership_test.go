package caddymodule

import (
	"testing"
)

// TestOwnershipMatrix sends every change of a preset that an owner manages, and of one without
// an owner. The latter tells whether a request changes anything.
func TestOwnershipMatrix(t *testing.T) {
	s := start(t, standard)
	f := &fixtures{s: s}
	for _, op := range guardedOperations {
		t.Run(op.method+" "+op.path+" "+op.body, func(t *testing.T) {
			prepare := func(owner string) (send func(headers ...string) reply) {
				slug := f.preset(false)
				s.manage("PUT", "/v1/presets/"+slug+"/labels/one", `{"version":1,"protected":true}`).want(t, 200)
				s.manage("PATCH", "/v1/presets/"+slug, `{"managed_by":`+owner+`}`).want(t, 200, `"managed_by":`+owner)
				if op.archived {
					s.do("DELETE", "/v1/presets/"+slug, "", bearer(managementSecret), "X-Preset-Override: files").want(t, 200)
				}
				path, body := "/v1/"+f.fill(op.path, slug, ""), f.fill(op.body, slug, "")
				return func(headers ...string) reply {
					return s.do(op.method, path, body, append(headers, bearer(managementSecret))...)
				}
			}
			free := prepare("null")
			before := s.changesRecorded()
			free().want(t, 200)
			changes := s.changesRecorded() > before
			owned := prepare(`"files"`)
			before = s.changesRecorded()
			for _, headers := range [][]string{nil, {"X-Preset-Owner: other"}, {"X-Preset-Override: other"}} {
				if got := owned(headers...); changes {
					got.want(t, 409, "is managed by files: change it there, or send X-Preset-Override: files")
				} else {
					got.want(t, 200)
				}
			}
			if after := s.changesRecorded(); after != before {
				t.Errorf("a refused change left %d records", after-before)
			}
			owned("X-Preset-Override: files").want(t, 200)
			if after := s.changesRecorded(); changes != (after > before) {
				t.Errorf("the override left %d records", after-before)
			}
		})
	}
}

// TestOwnershipHeaders sends headers that are wrong, and checks what is shown of right ones.
func TestOwnershipHeaders(t *testing.T) {
	s := start(t, standard+"\npreset_creators any")
	post := func(secret string, headers ...string) reply {
		return s.do("POST", "/v1/presets/mail/responses", `{"model":"m"}`, append(headers, bearer(secret))...)
	}
	owner := func(name string) string { return "X-Preset-Owner: " + name }
	post(managementSecret, owner("")).wantError(t, 400, "Invalid request parameters: x-preset-owner: must not be empty")
	post(managementSecret, "X-Preset-Override: ").wantError(t, 400, "Invalid request parameters: x-preset-override: must not be empty")
	post(managementSecret, owner("Files")).wantError(t, 400, "")
	post(inferenceSecret, owner("files")).want(t, 403)
	post(managementSecret, owner("files"), "Idempotency-Key: one").want(t, 200, `"managed_by":"files"`, `"version":1`)
	post(managementSecret, owner("files"), "Idempotency-Key: one").want(t, 200, `"version":1`)
	post(managementSecret, owner("other"), "Idempotency-Key: one").want(t, 422)
	post(managementSecret, owner("files"), "X-Preset-Override: files", "Idempotency-Key: one").want(t, 422)
	post(inferenceSecret).wantError(t, 409, "Preset mail is managed by files: change it there, or send X-Preset-Override: files")
	s.manage("DELETE", "/v1/workspaces/default?confirm_default_workspace_deletion=true", "").want(t, 409)
	post(managementSecret, "X-Preset-Override: files").want(t, 200, `"version":2`)
	s.manage("GET", "/v1/presets/mail/history", "").want(t, 200, `"managed_by":"files","override":"files","request_id"`)
	s.manage("PATCH", "/v1/presets/mail", `{"managed_by":1}`).wantError(t, 400, "Invalid request parameters: /managed_by: must be a string or null")
	s.manage("PATCH", "/v1/presets/mail", `{"managed_by":"no one"}`).want(t, 400)
	s.do("PATCH", "/v1/presets/mail", `{"managed_by":null}`, bearer(managementSecret), owner("files")).want(t, 200, `"managed_by":null`)
	post(inferenceSecret).want(t, 200, `"version":3`)
}
