# Uses the models that datamodel-code-generator makes of the documents: they write the bodies of
# requests, and read all that the server answers.
#
#   python check_models.py site admin management_key

import sys

import httpx
import admin_models
import api_models as models
from pydantic import ValidationError

site, admin, management_key = sys.argv[1:]
manager = httpx.Client(base_url=f"{site}/v1", headers={"Authorization": f"Bearer {management_key}"})
operator = httpx.Client(base_url=f"{admin}/presets")


def call(client, method, path, into, body=None, status=200, **options):
    """Sends a request, and reads the response as a model. The model must know all of its members."""
    if body is not None:
        options["json"] = body.model_dump(mode="json", by_alias=True, exclude_unset=True)
    response = client.request(method, path, **options)
    assert response.status_code == status, (method, path, response.status_code, response.text)
    read = into.model_validate_json(response.content)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True).keys() == response.json().keys()
    return read


def wrong(make):
    """Checks that a model refuses what the document says is refused."""
    try:
        make()
    except ValidationError:
        return
    raise AssertionError("the model accepts it")


wrong(lambda: models.WorkspaceCreation(name="a\nb", slug="models"))
wrong(lambda: models.WorkspaceCreation(name="Models", slug="Models"))
wrong(lambda: models.WorkspaceCreation(name="Models"))
wrong(lambda: models.PresetPolicy(lock=["nothing"]))
wrong(lambda: models.Label(split=[{"version": 1, "weight": 10001}]))
wrong(lambda: models.FunctionTool(type="custom", name="n", parameters=None))
wrong(lambda: admin_models.NewKey(kind="root"))

workspace = call(manager, "POST", "/workspaces", models.WorkspaceResponse, models.WorkspaceCreation(name="Models", slug="models"), status=201)
assert workspace.data.slug == "models" and workspace.data.updated_at is None
there = {"params": {"workspace_id": "models"}}
chat = models.ChatRequest(model="acme/small", temperature=0.5, messages=[
    models.ChatSystemMessage(role="system", content="Be brief."),
    models.ChatUserMessage(role="user", content=[models.TextPart(type="text", text="ping")]),
])
preset = call(manager, "POST", "/presets/p/chat/completions", models.PresetResponse, chat, **there).data
assert preset.designated_version.config.model_dump() == {"model": "acme/small", "temperature": 0.5}, preset
responses = models.ResponsesRequest(model="acme/small", input="ping", tools=[models.FunctionTool(type="function", name="f", parameters={"type": "object"})], tool_choice="required")
assert call(manager, "POST", "/presets/p/responses", models.PresetResponse, responses, **there).data.designated_version_number == 2
messages = models.MessagesRequest(model="acme/large", max_tokens=50, system="Think.", tools=[models.MessagesCustomTool(name="f", input_schema={"type": "object"})])
assert call(manager, "POST", "/presets/p/messages", models.PresetResponse, messages, **there).data.designated_version.dialect == models.Dialect.messages
presets = call(manager, "GET", "/presets", models.PresetsResponse, **there)
assert [preset.slug for preset in presets.data] == ["p"]
versions = call(manager, "GET", "/presets/p/versions", models.VersionsResponse, params={"workspace_id": "models", "limit": 2, "offset": 1})
assert len(versions.data) == 2
designated = call(manager, "POST", "/presets/p/designate", models.PresetResponse, models.Designation(version=1), **there)
assert designated.data.designated_version_number == 1
label = call(manager, "PUT", "/presets/p/labels/l", models.LabelResponse, models.Label(split=[models.LabelShare(version=1, weight=1), models.LabelShare(version=2, weight=3)]), **there)
assert label.data.version is None and label.data.history[0].to is not None
policy = models.PresetUpdate(policy=models.PresetPolicy(lock=["reasoning.effort", "reasoning_effort"], bounds={"temperature": models.PolicyBound(max=1)}))
changed = call(manager, "PATCH", "/presets/p", models.PresetResponse, policy, **there)
assert changed.data.policy.bounds
refused = call(manager, "PATCH", "/presets/p", models.Error, models.PresetUpdate(name="n"), status=412, headers={"If-Match": '"0123456789abcdef0123456789abcdef"'}, **there)
assert refused.error.code == 412
refused = call(manager, "PATCH", "/presets/p", models.Error, status=400, json={"name": 5, "policy": {"lock": 1}}, **there)
assert sorted(issue.path for issue in refused.error.metadata.issues) == ["/name", "/policy/lock"], refused
for path, into in {
    "/presets/p": models.PresetResponse, "/presets/p/versions/3": models.VersionResponse, "/presets/p/diff?from=1&to=3": models.DiffResponse,
    "/presets/p/labels/l": models.LabelResponse, "/presets/p/history": models.HistoryResponse, "/presets/p/usage": models.UsageResponse,
    "/workspaces": models.WorkspacesResponse, "/workspaces/models": models.WorkspaceResponse, "/workspaces/models/history": models.HistoryResponse, "/workspaces/models/usage?by=preset": models.UsageResponse,
}.items():
    separator = "&" if "?" in path else "?"
    call(manager, "GET", path + (f"{separator}workspace_id=models" if path.startswith("/presets") else ""), into)

key = call(operator, "POST", "/keys", admin_models.NewIssuedKeyResponse, admin_models.NewKey(kind="inference", workspace="models", expires_in="720h"), status=201)
assert key.key and key.live
assert any(listed.id == key.id for listed in call(operator, "GET", "/keys", admin_models.IssuedKeysResponse).keys)
revoked = call(operator, "DELETE", f"/keys/{key.id.root}", admin_models.IssuedKey)
assert not revoked.live
call(operator, "GET", "/audit", admin_models.AuditResponse)
call(operator, "GET", "/health", admin_models.HealthResponse)
call(operator, "POST", "/verify", admin_models.VerdictResponse)
call(operator, "POST", "/prune", admin_models.PrunedResponse, admin_models.Pruning(keep=1, workspace="models", dry_run=True))
call(operator, "POST", "/keys/prune", admin_models.PrunedKeysResponse, admin_models.KeyPruning(older_than="30d", dry_run=True))
call(operator, "DELETE", "/keys/absent", admin_models.AdminError, status=404)
deleted = call(manager, "DELETE", "/workspaces/models", models.DeletedResponse)
assert deleted.deleted is True
print("all checks passed")
