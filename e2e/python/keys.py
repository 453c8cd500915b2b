"""Runs OpenRouter's official client for Python, which validates answers, through the life of keys.

sdk_test.go starts the servers and sets the environment.
"""

import os
from datetime import datetime, timedelta, timezone

from openrouter import OpenRouter, errors


def client(key):
    return OpenRouter(api_key=key, server_url=os.environ["PRESETS_BASE_URL"])


def refused(call, error, message):
    try:
        call()
    except error as err:
        assert message in str(err), err
    else:
        raise AssertionError(f"want {error.__name__}")


def ask(key):
    return client(key).chat.send(model="acme/large", messages=[{"role": "user", "content": "Hello"}])


management = client(os.environ["PRESETS_MANAGEMENT_KEY"])
keys = management.api_keys
workspace = management.workspaces.get(id="default").data

made = keys.create(name="Plain")
assert made.data.workspace_id == workspace.id, made.data
assert made.data.limit is None and made.data.limit_remaining is None and made.data.limit_reset is None, made.data
assert made.key.startswith(made.data.label[:20]) and made.key.endswith(made.data.label[-4:]), made.data.label
ask(made.key)

expires = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=1)
body = {"name": "Ann", "limit": 50, "limit_reset": "weekly", "include_byok_in_limit": True, "creator_user_id": "ann", "expires_at": expires, "workspace_id": workspace.id}
ann = keys.create(**body)
for name, value in body.items():
    assert getattr(ann.data, name) == value, name
assert ann.data.limit_remaining == 50, ann.data
nothing = keys.create(name="Null", limit=None, limit_reset=None, expires_at=None, creator_user_id=None).data
assert nothing.limit is None and nothing.expires_at is None, nothing

assert [key.name for key in keys.list().data] == ["Plain", "Ann", "Null"]
assert [key.name for key in keys.list(offset=1, workspace_id=workspace.id).data] == ["Ann", "Null"]
assert keys.get(hash=ann.data.hash).data.model_dump() == ann.data.model_dump()

own = client(ann.key).api_keys.get_current_key_metadata().data
assert own.label == ann.data.label and own.limit == 50 and own.expires_at == expires and not own.is_management_key, own
assert own.effective_budget.scope == "key_limit" and own.effective_budget.remaining_usd == 50, own.effective_budget
assert own.budgets == [own.effective_budget] and own.effective_budget.resets_at.weekday() == 0, own.budgets
assert management.api_keys.get_current_key_metadata().data.is_management_key

updated = keys.update(hash=ann.data.hash, name="Anna", limit=None, limit_reset=None, disabled=True).data
assert updated.name == "Anna" and updated.disabled and updated.limit is None and updated.updated_at, updated
refused(lambda: ask(ann.key), errors.UnauthorizedResponseError, "Invalid credentials")
assert [key.name for key in keys.list().data] == ["Plain", "Null"]
assert [key.name for key in keys.list(include_disabled=True).data] == ["Plain", "Anna", "Null"]
keys.update(hash=ann.data.hash, disabled=False)
ask(ann.key)

keys.delete(hash=ann.data.hash)
refused(lambda: ask(ann.key), errors.UnauthorizedResponseError, "Invalid credentials")
refused(lambda: keys.get(hash=ann.data.hash), errors.NotFoundResponseError, "Key not found")
refused(lambda: keys.create(name=""), errors.BadRequestResponseError, "/name")
refused(lambda: keys.update(hash=made.data.hash, limit=-1), errors.BadRequestResponseError, "/limit")
refused(lambda: client(made.key).api_keys.create(name="n"), errors.ForbiddenResponseError, "Only management keys")
refused(lambda: client("sk-nobody").api_keys.list(), errors.UnauthorizedResponseError, "Invalid credentials")
