"""Lists models as users of Python's official clients do, and prints what each client read as JSON.

picker_test.go starts the servers, sets the environment, and judges what is printed.
"""

import asyncio
import json

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI


async def every(pages):
    return [model async for model in pages]


def shown(models):
    return [model.to_dict(mode="json") for model in models]


claude, gpt = Anthropic(max_retries=0), OpenAI(max_retries=0)
lists = {
    "anthropic": shown(claude.models.list(limit=1)),  # page by page
    "anthropic_async": shown(asyncio.run(every(AsyncAnthropic(max_retries=0).models.list(limit=1)))),
    "openai": shown(gpt.models.list()),
    "openai_async": shown(asyncio.run(every(AsyncOpenAI(max_retries=0).models.list()))),
}
lists["anthropic_single"] = shown(claude.models.retrieve(model["id"]) for model in lists["anthropic"])
lists["openai_single"] = shown(gpt.models.retrieve(model["id"]) for model in lists["openai"])
print(json.dumps(lists))
