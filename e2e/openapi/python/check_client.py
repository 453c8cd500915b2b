# Uses the clients that openapi-python-client makes of the documents.
#
#   python check_client.py site admin management_key

import sys
from http import HTTPStatus

from admin_client import Client as AdminClient
from admin_client.api.audit import audit_list
from admin_client.api.documents import openapi_get
from admin_client.api.keys import key_create, key_get, key_list, key_revoke
from admin_client.api.store import backup_get
from admin_client.models import KeyKind, NewKey
from api_client import AuthenticatedClient
from api_client.api.inference import inference_chat
from api_client.api.labels import label_delete, label_get, label_put
from api_client.api.presets import (
    preset_archive,
    preset_create_chat,
    preset_create_messages,
    preset_create_responses,
    preset_get,
    preset_history,
    preset_list,
    preset_update,
)
from api_client.api.usage import preset_feedback, preset_usage, workspace_usage
from api_client.api.versions import preset_designate, preset_diff, version_get, version_list
from api_client.api.workspaces import workspace_create, workspace_delete, workspace_get, workspace_history, workspace_update
from api_client.models import (
    ChatRequest,
    ChatSystemMessage,
    ChatSystemMessageRole,
    ChatUserMessage,
    Designation,
    DryRunAnswer,
    Error,
    Feedback,
    FunctionTool,
    FunctionToolParametersType0,
    GatewayChatRequest,
    Label,
    LabelShare,
    LockedSettingName,
    LockedSettingPart,
    MessagesCustomTool,
    MessagesCustomToolInputSchema,
    MessagesRequest,
    PlainThinking,
    PlainThinkingType,
    PolicyBound,
    PresetPolicy,
    PresetPolicyBounds,
    PresetPolicyViolation,
    PresetSortKey,
    PresetStatus,
    PresetUpdate,
    PresetUpdateStatus,
    PresetUsageGroup,
    ResponsesRequest,
    SortOrder,
    UsageGroup,
    UsageStep,
    WorkspaceCreation,
    WorkspaceSettings,
)
from api_client.types import UNSET

site, admin, management_key = sys.argv[1:]
manager = AuthenticatedClient(base_url=f"{site}/v1", token=management_key, raise_on_unexpected_status=True)
operator = AdminClient(base_url=f"{admin}/presets", raise_on_unexpected_status=True)


def ok(response, status=HTTPStatus.OK):
    """Returns the object that a successful response has."""
    assert response.status_code == status, (response.status_code, response.content)
    assert not isinstance(response.parsed, Error), response.parsed
    return response.parsed


def refused(response, status, *paths):
    """Checks the error that a response has, and the places that it names."""
    assert response.status_code == status, (response.status_code, response.content)
    error = response.parsed.error
    assert error.code == status and error.message, error
    issues = error.metadata.issues if error.metadata else []
    assert [issue.path for issue in issues] == list(paths), issues


# a workspace
team = ok(workspace_create.sync_detailed(client=manager, body=WorkspaceCreation(name="Team", slug="team", description="first\nsecond")), HTTPStatus.CREATED).data
assert (team.slug, team.description, team.default_text_model, team.updated_at) == ("team", "first\nsecond", None, None)
refused(workspace_create.sync_detailed(client=manager, body=WorkspaceCreation(name="Team", slug="Team")), 400, "/slug")
refused(workspace_create.sync_detailed(client=manager, body=WorkspaceCreation(name="a\x1bb", slug="other")), 400, "/name")
team = ok(workspace_update.sync_detailed("team", client=manager, body=WorkspaceSettings(default_text_model="acme/small", disabled_server_tools=["openrouter:bash"]))).data
assert team.default_text_model == "acme/small" and team.disabled_server_tools == ["openrouter:bash"]

# presets, in all three dialects
chat = ok(preset_create_chat.sync_detailed("triage", client=manager, workspace_id="team", body=ChatRequest(
    model="acme/small", temperature=0.5,
    messages=[ChatSystemMessage(role=ChatSystemMessageRole.SYSTEM, content="Be brief."), ChatUserMessage(role="user", content="ping")],
))).data
first = chat.designated_version
assert (first.version, first.system_prompt, first.config.to_dict()) == (1, "Be brief.", {"model": "acme/small", "temperature": 0.5})
parameters = FunctionToolParametersType0.from_dict({"type": "object"})
second = ok(preset_create_responses.sync_detailed("triage", client=manager, workspace_id="team", message="a tool", body=ResponsesRequest(
    model="acme/small", instructions="Think.", tools=[FunctionTool(type_="function", name="get_order", parameters=parameters)],
))).data.designated_version
assert (second.version, second.message, second.config.to_dict()["tools"][0]["name"]) == (2, "a tool", "get_order")
third = ok(preset_create_messages.sync_detailed("triage", client=manager, workspace_id="team", designate=False, label="canary", body=MessagesRequest(
    model="acme/large", max_tokens=50, thinking=PlainThinking(type_=PlainThinkingType.ADAPTIVE),
    tools=[MessagesCustomTool(name="get_order", input_schema=MessagesCustomToolInputSchema.from_dict({"type": "object"}))],
))).data
assert (third.designated_version.version, third.created_version.version, third.labels["canary"].version) == (2, 3, 3)
wrong = ChatRequest.from_dict({"temperature": 5.5, "tools": []})
wrong.temperature = "hot"
refused(preset_create_chat.sync_detailed("triage", client=manager, workspace_id="team", body=wrong), 400, "/temperature")
refused(preset_get.sync_detailed("absent", client=manager), 404)
refused(preset_get.sync_detailed("triage", client=AuthenticatedClient(base_url=f"{site}/v1", token="wrong")), 401)

# pages
for n in range(5):
    ok(preset_create_chat.sync_detailed(f"page-{n}", client=manager, body=ChatRequest(model="m")))
seen, offset = [], 0
while True:
    page = ok(preset_list.sync_detailed(client=manager, sort=PresetSortKey.SLUG, order=SortOrder.ASC, q="page-", offset=offset, limit=2))
    seen += [preset.slug for preset in page.data]
    offset += len(page.data)
    if offset == page.total_count:
        break
assert seen == [f"page-{n}" for n in range(5)], seen
refused(preset_list.sync_detailed(client=manager, limit=101), 400, "limit")

# versions
versions = ok(version_list.sync_detailed("triage", client=manager, workspace_id="team"))
assert [(v.version, v.dialect.value, v.designated) for v in versions.data] == [(1, "chat", False), (2, "responses", True), (3, "messages", False)]
assert ok(version_get.sync_detailed("triage", 1, client=manager, workspace_id="team")).data.config.to_dict() == first.config.to_dict()
diff = ok(preset_diff.sync_detailed("triage", client=manager, workspace_id="team", from_="1", to="canary")).data
assert any(change.path == "/model" and change.op.value == "replace" and change.value == "acme/large" for change in diff.config), diff
designated = ok(preset_designate.sync_detailed("triage", client=manager, workspace_id="team", body=Designation(version=1))).data
assert designated.designated_version_number == 1

# labels
split = [LabelShare(version=1, weight=90), LabelShare(version=3, weight=10)]
label = ok(label_put.sync_detailed("triage", "live", client=manager, workspace_id="team", body=Label(split=split))).data
assert [(share.version, share.weight) for share in label.split] == [(1, 90), (3, 10)] and label.version is UNSET
ok(label_put.sync_detailed("triage", "live", client=manager, workspace_id="team", body=Label(version=3)))
label = ok(label_get.sync_detailed("triage", "live", client=manager, workspace_id="team")).data
assert label.version == 3 and label.history_count == 2 and label.history[0].from_.split[0].weight == 90
refused(label_put.sync_detailed("triage", "latest", client=manager, workspace_id="team", body=Label(version=1)), 400, "label")
assert ok(label_delete.sync_detailed("triage", "live", client=manager, workspace_id="team")).deleted is True

# policy, and conditional requests
read = preset_get.sync_detailed("triage", client=manager, workspace_id="team")
tag = read.headers["ETag"]
assert preset_get.sync_detailed("triage", client=manager, workspace_id="team", if_none_match=tag).status_code == HTTPStatus.NOT_MODIFIED
bounds = PresetPolicyBounds()
bounds["temperature"] = PolicyBound(max_=1)
policy = PresetPolicy(lock=[LockedSettingName.MODEL, LockedSettingName.REASONING_EFFORT, LockedSettingPart.REASONING_EFFORT], bounds=bounds, violation=PresetPolicyViolation.REFUSE)
patched = ok(preset_update.sync_detailed("triage", client=manager, workspace_id="team", if_match=tag, body=PresetUpdate(name="Triage", policy=policy))).data
assert patched.policy.lock == policy.lock and patched.policy.bounds["temperature"].max_ == 1, patched.policy
refused(preset_update.sync_detailed("triage", client=manager, workspace_id="team", if_match=tag, body=PresetUpdate(name="Late")), 412)
refused(preset_update.sync_detailed("triage", client=manager, workspace_id="team", if_match="unquoted", body=PresetUpdate(name="Late")), 400, "if-match")
patched = ok(preset_update.sync_detailed("triage", client=manager, workspace_id="team", body=PresetUpdate(policy=None, status=PresetUpdateStatus.ACTIVE))).data
assert patched.policy is None and patched.status == PresetStatus.ACTIVE and patched.name == "Triage"

# the admin endpoint, with the id of a key in paths
issued = key_create.sync_detailed(client=operator, body=NewKey(kind=KeyKind.INFERENCE, name="python", workspace="team", presets=["triage"]))
assert issued.status_code == HTTPStatus.CREATED, issued.content
key = issued.parsed
assert any(listed.id == key.id and listed.live for listed in key_list.sync(client=operator).keys)
caller = AuthenticatedClient(base_url=f"{site}/v1", token=key.key, raise_on_unexpected_status=True)

# inference, usage and feedback
question = GatewayChatRequest(model="@preset/triage", messages=[ChatUserMessage(role="user", content="ping")])
answer = inference_chat.sync_detailed(client=caller, body=question, x_session_id="s")
assert answer.status_code == HTTPStatus.OK and answer.headers["X-Preset"] == "triage@1", answer
assert answer.parsed["choices"][0]["message"]["content"] == "pong", answer.parsed
dry = ok(inference_chat.sync_detailed(client=caller, body=question, x_preset_dry_run=True))
assert isinstance(dry, DryRunAnswer) and dry.data.fields["model"].from_ == "preset", dry
taken = ok(preset_feedback.sync_detailed("triage", client=caller, body=Feedback(request_id=answer.headers["X-Preset-Request-Id"], score=0.5)), HTTPStatus.ACCEPTED).data
assert (taken.version, taken.score) == (1, 0.5)
report = ok(preset_usage.sync_detailed("triage", client=manager, workspace_id="team", step=UsageStep.HOUR, by=PresetUsageGroup.MODEL)).data
assert report.step == UsageStep.HOUR and report.by == UsageGroup.MODEL and isinstance(report.series, list)
assert ok(workspace_usage.sync_detailed("team", client=manager, by=UsageGroup.PRESET)).data.by == UsageGroup.PRESET

# histories
history = ok(preset_history.sync_detailed("triage", client=manager, workspace_id="team", limit=100))
assert history.data[-1].operation == "preset.create_version" and history.data[-1].version == 1, history.data[-1]
assert history.total_count == len(history.data)
assert ok(workspace_history.sync_detailed("team", client=manager)).total_count > history.total_count
records = audit_list.sync(client=operator, limit=1000)
assert records.head.count == records.total_count == records.records[-1].number

# the key is revoked
revoked = key_revoke.sync(str(key.id), client=operator)
assert revoked.id == key.id and not revoked.live and revoked.revoked_at is not None
assert not key_get.sync(str(key.id), client=operator).live
absent = key_get.sync_detailed("absent", client=operator)
assert absent.status_code == HTTPStatus.NOT_FOUND and "absent" not in str(absent.parsed.error), absent
refused(preset_get.sync_detailed("triage", client=caller), 401)

# the store and the document
assert backup_get.sync(client=operator).payload.read().startswith(b"caddy-presets backup 1 {")
assert openapi_get.sync(client=operator).startswith("# Generated")

# removal
assert ok(preset_archive.sync_detailed("triage", client=manager, workspace_id="team")).deleted is True
refused(preset_get.sync_detailed("triage", client=manager, workspace_id="team"), 404)
assert ok(workspace_delete.sync_detailed("team", client=manager)).deleted is True
refused(workspace_get.sync_detailed("team", client=manager), 404)
print("all checks passed")
