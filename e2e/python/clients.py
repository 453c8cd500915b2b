"""Sends requests that name presets, as users of Python's clients write them.

Each client is a function that returns its cells: a call for each way of asking that the client has.
The runner fills in the rest of the table with the cell sync: prompts with variables, errors and
retries. clients_test.go starts the servers, sets the environment, gives the names of the clients as
arguments, and judges the requests. Before each cell this script tells the provider the client, the
preset and the cell, so that its records have them. It prints a line for each client.
"""

import asyncio
import inspect
import os
import sys
import time
import traceback
import urllib.request
from dataclasses import dataclass, replace

from pydantic import BaseModel

GATEWAY_PRESETS = ["gpt", "qwen"]  # for chat completions and responses
CLAUDE_PRESETS = ["claude", "claude-thinking"]  # for messages

SYSTEM = "You are my own assistant."
QUESTION = "What is there to see in Rome?"
LOOP_QUESTION = QUESTION + " Call sights."  # the provider calls the tool, until it has its result
ANSWER = "Rome has many sights."
# The tool of the client. The provider calls it with a city.
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
CHAT = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
CHAT_TOOL = {"type": "function", "function": {"name": "sights", "parameters": PARAMETERS}}
CHAT_FORMAT = {"type": "json_schema", "json_schema": {"name": "Place", "strict": True, "schema": PARAMETERS}}
RESPONSES_TOOL = {"type": "function", "name": "sights", "strict": True, "parameters": PARAMETERS}
RESPONSES_FORMAT = {"type": "json_schema", "name": "Place", "strict": True, "schema": PARAMETERS}
MESSAGES_TOOL = {"name": "sights", "input_schema": PARAMETERS}

# What a cell returns.
WANT = {"sync": ANSWER, "async": ANSWER, "stream": ANSWER, "async stream": ANSWER, "tools": "sights", "structured": "Rome"}
# What the gateway does once before it answers: it sends a status, or breaks off, which is our 502.
FAILURES = ["429", "503", "break"]

LOOP = asyncio.new_event_loop()
CLIENTS = {}


class Place(BaseModel):
    city: str


@dataclass(frozen=True)
class Call:
    """What a client is given, as its users give it."""

    site: str  # without /v1
    key: str
    model: str
    prompt: dict | None = None  # fields that the client does not know
    retries: int = 0

    @property
    def base(self):
        return self.site + "/v1"


def errors_of(module, names="BadRequestError AuthenticationError PermissionDeniedError NotFoundError RateLimitError"):
    """Returns the exceptions of a module by their statuses. One name alone is that of all."""
    names = names.split() if " " in names else [names] * 5
    return dict(zip((400, 401, 403, 404, 429), (f"{module}.{name}" for name in names)))


def client(presets, errors, lacks=()):
    """Registers a client. It lacks cells only if it, not a test of it, has no such thing."""

    def add(cells):
        CLIENTS[cells.__name__] = (presets, errors, lacks, cells)
        return cells

    return add


def wait(awaitable):
    return LOOP.run_until_complete(awaitable)


async def collected(stream):
    """Returns the events of an asynchronous stream, or of one that must be awaited first."""
    if inspect.isawaitable(stream):
        stream = await stream
    return [event async for event in stream]


def joined(events, text):
    return "".join(text(event) or "" for event in events)


# The official clients


def of_openai(call, asynchronous=False):
    import openai

    return (openai.AsyncOpenAI if asynchronous else openai.OpenAI)(base_url=call.base, api_key=call.key, max_retries=call.retries)


def chat_delta(chunk):
    return chunk.choices[0].delta.content if chunk.choices else ""


@client(GATEWAY_PRESETS, errors_of("openai"))
def openai_chat(call):
    chat, later = of_openai(call).chat.completions, of_openai(call, True).chat.completions
    ask = {"model": call.model, "messages": CHAT, "extra_body": call.prompt}

    def stream():
        with chat.stream(**ask) as events:
            return events.get_final_completion().choices[0].message.content

    return {
        "sync": lambda: chat.create(**ask).choices[0].message.content,
        "async": lambda: wait(later.create(**ask)).choices[0].message.content,
        "stream": stream,
        "async stream": lambda: joined(wait(collected(later.create(**ask, stream=True))), chat_delta),
        "tools": lambda: chat.create(**ask, tools=[CHAT_TOOL], tool_choice={"type": "function", "function": {"name": "sights"}})
        .choices[0].message.tool_calls[0].function.name,
        "structured": lambda: chat.parse(**ask, response_format=Place).choices[0].message.parsed.city,
    }


@client(GATEWAY_PRESETS, errors_of("openai"))
def openai_responses(call):
    responses, later = of_openai(call).responses, of_openai(call, True).responses
    ask = {"model": call.model, "instructions": SYSTEM, "input": QUESTION, **(call.prompt or {})}

    def stream():
        with responses.stream(**ask) as events:
            return events.get_final_response().output_text

    return {
        "sync": lambda: responses.create(**ask).output_text,
        "async": lambda: wait(later.create(**ask)).output_text,
        "stream": stream,
        "async stream": lambda: wait(collected(later.create(**ask, stream=True)))[-1].response.output_text,
        "tools": lambda: responses.create(**ask, tools=[RESPONSES_TOOL], tool_choice="required").output[0].name,
        "structured": lambda: responses.parse(**ask, text_format=Place).output_parsed.city,
    }


def of_anthropic(call, asynchronous=False):
    import anthropic

    return (anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic)(base_url=call.site, api_key=call.key, max_retries=call.retries)


@client(CLAUDE_PRESETS, errors_of("anthropic"))
def anthropic(call):
    messages, later = of_anthropic(call).messages, of_anthropic(call, True).messages
    ask = {"model": call.model, "system": SYSTEM, "messages": CHAT[1:], "max_tokens": 3000, "extra_body": call.prompt}

    def stream():
        with messages.stream(**ask) as events:
            return events.get_final_text()

    return {
        "sync": lambda: messages.create(**ask).content[0].text,
        "async": lambda: wait(later.create(**ask)).content[0].text,
        "stream": stream,
        "async stream": lambda: joined(wait(collected(later.create(**ask, stream=True))), lambda e: getattr(getattr(e, "delta", None), "text", "")),
        "tools": lambda: messages.create(**ask, tools=[MESSAGES_TOOL], tool_choice={"type": "tool", "name": "sights"}).content[0].name,
        "structured": lambda: messages.parse(**ask, output_format=Place).parsed_output.city,
    }


OPENROUTER_ERRORS = errors_of(
    "openrouter", "BadRequestResponseError UnauthorizedResponseError ForbiddenResponseError NotFoundResponseError TooManyRequestsResponseError"
)


def of_openrouter(call):
    from openrouter import OpenRouter
    from openrouter.utils import BackoffStrategy, RetryConfig

    # Its default repeats for up to an hour.
    backoff = BackoffStrategy(1, 10, 1, 1000)
    return OpenRouter(
        api_key=call.key, server_url=call.base, retry_config=RetryConfig("backoff" if call.retries else "none", backoff, False, ["429", "5XX"])
    )


@client(GATEWAY_PRESETS, OPENROUTER_ERRORS, lacks=["prompt"])
def openrouter_chat(call):
    chat = of_openrouter(call).chat
    ask = {"model": call.model, "messages": CHAT}
    return {
        "sync": lambda: chat.send(**ask).choices[0].message.content,
        "async": lambda: wait(chat.send_async(**ask)).choices[0].message.content,
        "stream": lambda: joined(chat.send(**ask, stream=True), chat_delta),
        "async stream": lambda: joined(wait(collected(chat.send_async(**ask, stream=True))), chat_delta),
        "tools": lambda: chat.send(**ask, tools=[CHAT_TOOL], tool_choice="required").choices[0].message.tool_calls[0].function.name,
        "structured": lambda: Place.model_validate_json(chat.send(**ask, response_format=CHAT_FORMAT).choices[0].message.content).city,
    }


@client(GATEWAY_PRESETS, OPENROUTER_ERRORS)
def openrouter_responses(call):
    responses = of_openrouter(call).beta.responses
    ask = {"model": call.model, "instructions": SYSTEM, "input": QUESTION, **(call.prompt or {})}

    def delta(event):
        return event.delta if event.type == "response.output_text.delta" else ""

    return {
        "sync": lambda: responses.send(**ask).output[0].content[0].text,
        "async": lambda: wait(responses.send_async(**ask)).output[0].content[0].text,
        "stream": lambda: joined(responses.send(**ask, stream=True), delta),
        "async stream": lambda: joined(wait(collected(responses.send_async(**ask, stream=True))), delta),
        "tools": lambda: responses.send(**ask, tools=[RESPONSES_TOOL], tool_choice="required").output[0].name,
        "structured": lambda: Place.model_validate_json(responses.send(**ask, text={"format": RESPONSES_FORMAT}).output[0].content[0].text).city,
    }


# LiteLLM as a client. It knows no 403 of OpenAI.

LITELLM_ERRORS = errors_of("litellm", "BadRequestError AuthenticationError APIError NotFoundError RateLimitError")


def litellm_completion(call, provider, base):
    import litellm
    from litellm import acompletion, completion

    litellm.suppress_debug_info = True
    ask = {"model": f"{provider}/{call.model}", "messages": CHAT, "api_base": base, "api_key": call.key, "num_retries": call.retries}
    ask["max_retries"] = 0  # of the client of OpenAI inside
    if provider == "openai":
        ask["max_tokens"] = 1000  # the client does not know the preset's model, and guesses the name of the limit
    if call.prompt:
        ask |= {"extra_body": call.prompt} if provider == "openai" else call.prompt
    return {
        "sync": lambda: completion(**ask).choices[0].message.content,
        "async": lambda: wait(acompletion(**ask)).choices[0].message.content,
        "stream": lambda: joined(completion(**ask, stream=True), chat_delta),
        "async stream": lambda: joined(wait(collected(acompletion(**ask, stream=True))), chat_delta),
        "tools": lambda: completion(**ask, tools=[CHAT_TOOL], tool_choice="required").choices[0].message.tool_calls[0].function.name,
        "structured": lambda: Place.model_validate_json(completion(**ask, response_format=Place).choices[0].message.content).city,
    }


@client(GATEWAY_PRESETS, LITELLM_ERRORS)
def litellm_chat(call):
    return litellm_completion(call, "openai", call.base)


@client(CLAUDE_PRESETS, errors_of("litellm"))
def litellm_anthropic(call):
    return litellm_completion(call, "anthropic", call.site)


@client(GATEWAY_PRESETS, LITELLM_ERRORS)
def litellm_responses(call):
    import litellm
    from litellm import aresponses, responses

    litellm.suppress_debug_info = True
    ask = {"model": f"openai/{call.model}", "instructions": SYSTEM, "input": QUESTION, "api_base": call.base, "api_key": call.key}
    ask |= {"num_retries": call.retries, "max_retries": 0, "extra_body": call.prompt}

    def delta(event):
        return event.delta if event.type == "response.output_text.delta" else ""

    return {
        "sync": lambda: responses(**ask).output[0].content[0].text,
        "async": lambda: wait(aresponses(**ask)).output[0].content[0].text,
        "stream": lambda: joined(responses(**ask, stream=True), delta),
        "async stream": lambda: joined(wait(collected(aresponses(**ask, stream=True))), delta),
        "tools": lambda: responses(**ask, tools=[RESPONSES_TOOL], tool_choice="required").output[0].name,
        "structured": lambda: Place.model_validate_json(responses(**ask, text_format=Place).output[0].content[0].text).city,
    }


# Frameworks of agents


def agents_run(call, use_responses):
    from agents import Agent, ModelSettings, MultiProvider, RunConfig, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    provider = MultiProvider(openai_client=of_openai(call, True), openai_use_responses=use_responses)
    run = {"run_config": RunConfig(model_provider=provider)}
    settings = ModelSettings(extra_body=call.prompt)
    called = []

    @function_tool
    def sights(city: str) -> str:
        """Finds sights."""
        called.append(city)
        return city

    def agent(**more):
        return Agent(name="guide", instructions=SYSTEM, model=f"openai/{call.model}", model_settings=settings, **more)

    async def streamed():
        answer = Runner.run_streamed(agent(), QUESTION, **run)
        await collected(answer.stream_events())
        return answer.final_output

    return {
        "sync": lambda: Runner.run_sync(agent(), QUESTION, **run).final_output,
        "async": lambda: wait(Runner.run(agent(), QUESTION, **run)).final_output,
        "async stream": lambda: wait(streamed()),
        "tools": lambda: looped(Runner.run_sync(agent(tools=[sights]), LOOP_QUESTION, **run).final_output, called),
        "structured": lambda: Runner.run_sync(agent(output_type=Place), QUESTION, **run).final_output.city,
    }


def looped(answer, called):
    """Checks that the client ran its tool once and sent the result."""
    assert (answer, called) == (ANSWER, ["Rome"]), (answer, called)
    return "sights"


@client(GATEWAY_PRESETS, errors_of("openai"), lacks=["stream"])
def agents_chat(call):
    return agents_run(call, False)


@client(GATEWAY_PRESETS, errors_of("openai"), lacks=["stream"])
def agents_responses(call):
    return agents_run(call, True)


PYDANTIC_ERRORS = errors_of("pydantic_ai", "ModelRequestRejectedError ModelAuthenticationError ModelAuthenticationError ModelNotFoundError ModelRateLimitError")


def pydantic_ai_run(call, model):
    from pydantic_ai import Agent

    called = []

    def sights(city: str) -> str:
        """Finds sights."""
        called.append(city)
        return city

    agent = Agent(model, system_prompt=SYSTEM, model_settings={"extra_body": call.prompt} if call.prompt else None)

    async def streamed():
        async with agent.run_stream(QUESTION) as answer:
            return await answer.get_output()

    return {
        "sync": lambda: agent.run_sync(QUESTION).output,
        "async": lambda: wait(agent.run(QUESTION)).output,
        "stream": lambda: agent.run_stream_sync(QUESTION).get_output(),
        "async stream": lambda: wait(streamed()),
        "tools": lambda: looped(Agent(model, system_prompt=SYSTEM, tools=[sights]).run_sync(LOOP_QUESTION).output, called),
        # A type of the output becomes a tool, which the client forces.
        "structured": lambda: Agent(model, system_prompt=SYSTEM, output_type=Place).run_sync(QUESTION).output.city,
    }


@client(GATEWAY_PRESETS, PYDANTIC_ERRORS)
def pydantic_ai_chat(call):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return pydantic_ai_run(call, OpenAIChatModel(call.model, provider=OpenAIProvider(openai_client=of_openai(call, True))))


@client(GATEWAY_PRESETS, PYDANTIC_ERRORS)
def pydantic_ai_responses(call):
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return pydantic_ai_run(call, OpenAIResponsesModel(call.model, provider=OpenAIProvider(openai_client=of_openai(call, True))))


@client(CLAUDE_PRESETS, PYDANTIC_ERRORS)
def pydantic_ai_anthropic(call):
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return pydantic_ai_run(call, AnthropicModel(call.model, provider=AnthropicProvider(anthropic_client=of_anthropic(call, True))))


LANGCHAIN_NAMES = "{0}InvalidRequestError {0}AuthenticationError {0}PermissionDeniedError {0}ModelNotFoundError {0}RateLimitError"
LANGCHAIN_OPENAI_ERRORS = errors_of("langchain_openai", LANGCHAIN_NAMES.format("OpenAI"))


def langchain_cells(model, **structured):
    messages = [("system", SYSTEM), ("user", QUESTION)]
    tool = {"title": "sights", "description": "Finds sights.", **PARAMETERS}
    return {
        "sync": lambda: model.invoke(messages).text,
        "async": lambda: wait(model.ainvoke(messages)).text,
        "stream": lambda: joined(model.stream(messages), lambda chunk: chunk.text),
        "async stream": lambda: joined(wait(collected(model.astream(messages))), lambda chunk: chunk.text),
        "tools": lambda: model.bind_tools([tool], tool_choice="sights").invoke(messages).tool_calls[0]["name"],
        "structured": lambda: model.with_structured_output(Place, **structured).invoke(messages).city,
    }


@client(GATEWAY_PRESETS, LANGCHAIN_OPENAI_ERRORS)
def langchain_chat(call):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=call.model, base_url=call.base, api_key=call.key, max_retries=call.retries, extra_body=call.prompt)
    return langchain_cells(model, method="function_calling")


@client(GATEWAY_PRESETS, LANGCHAIN_OPENAI_ERRORS)
def langchain_responses(call):
    from langchain_openai import ChatOpenAI

    return langchain_cells(
        ChatOpenAI(
            model=call.model, base_url=call.base, api_key=call.key, max_retries=call.retries, use_responses_api=True, model_kwargs=call.prompt or {}
        )
    )


@client(CLAUDE_PRESETS, errors_of("langchain_anthropic", LANGCHAIN_NAMES.format("Anthropic")))
def langchain_anthropic(call):
    from langchain_anthropic import ChatAnthropic

    more = {"extra_body": call.prompt} if call.prompt else {}
    return langchain_cells(ChatAnthropic(model=call.model, base_url=call.site, api_key=call.key, max_retries=call.retries, model_kwargs=more))


# dspy sends its own prompt, and reads the fields of its signature from the answer.


def answered(city):
    """Returns the answer for a client that gives its fields alone."""
    return ANSWER if city == "Rome" else city


DSPY_ERRORS = errors_of("dspy", "LMInvalidRequestError LMAuthError LMAuthError LMInvalidRequestError LMRateLimitError")


def dspy_cells(model, call, **more):
    import dspy

    if call.prompt:
        more["extra_body"] = call.prompt
    lm = dspy.LM(model, api_key=call.key, cache=False, num_retries=call.retries, **more)
    predict = dspy.Predict("question -> city")
    predict.set_lm(lm)

    def structured():
        with dspy.context(adapter=dspy.JSONAdapter()):
            return predict(question=QUESTION).city

    return {
        "sync": lambda: answered(predict(question=QUESTION).city),
        "async": lambda: answered(wait(predict.acall(question=QUESTION)).city),
        "stream": lambda: answered(list(dspy.streamify(predict, async_streaming=False)(question=QUESTION))[-1].city),
        "async stream": lambda: answered(wait(collected(dspy.streamify(predict)(question=QUESTION)))[-1].city),
        "tools": lambda: lm(messages=CHAT, tools=[CHAT_TOOL], tool_choice="required")[0]["tool_calls"][0]["function"]["name"],
        "structured": structured,
    }


@client(GATEWAY_PRESETS, DSPY_ERRORS)
def dspy_chat(call):
    return dspy_cells(f"openai/{call.model}", call, api_base=call.base)


@client(GATEWAY_PRESETS, DSPY_ERRORS)
def dspy_responses(call):
    return dspy_cells(f"openai/{call.model}", call, api_base=call.base, model_type="responses")


@client(CLAUDE_PRESETS, DSPY_ERRORS, lacks=["prompt"])
def dspy_anthropic(call):
    return dspy_cells(f"anthropic/{call.model}", call, api_base=call.base)


# instructor makes structured output of each answer.


def instructor_cells(call, mode, of, wrap, **ask):
    import instructor

    ask |= {"model": call.model, "response_model": Place, "max_retries": call.retries}
    if call.prompt:
        ask["extra_body"] = call.prompt
    whole, later = (getattr(instructor, wrap)(of(call, asynchronous), mode=instructor.Mode[mode]) for asynchronous in (False, True))
    return {
        "sync": lambda: answered(whole.create(**ask).city),
        "async": lambda: answered(wait(later.create(**ask)).city),
        "stream": lambda: answered(list(whole.create_partial(**ask))[-1].city),
        "async stream": lambda: answered(wait(collected(later.create_partial(**ask)))[-1].city),
        "structured": lambda: whole.create(**ask).city,
    }


INSTRUCTOR_ERRORS = errors_of("instructor", "InstructorRetryException")


@client(GATEWAY_PRESETS, INSTRUCTOR_ERRORS, lacks=["tools"])
def instructor_tools(call):
    return instructor_cells(call, "TOOLS", of_openai, "from_openai", messages=CHAT[1:])


@client(GATEWAY_PRESETS, INSTRUCTOR_ERRORS, lacks=["tools"])
def instructor_json(call):
    return instructor_cells(call, "JSON", of_openai, "from_openai", messages=CHAT[1:])


@client(GATEWAY_PRESETS, INSTRUCTOR_ERRORS, lacks=["tools"])
def instructor_responses(call):
    return instructor_cells(call, "RESPONSES_TOOLS", of_openai, "from_openai", messages=CHAT[1:])


@client(CLAUDE_PRESETS, INSTRUCTOR_ERRORS, lacks=["tools"])
def instructor_anthropic(call):
    return instructor_cells(call, "ANTHROPIC_TOOLS", of_anthropic, "from_anthropic", messages=CHAT[1:], max_tokens=3000)


def llama_index_cells(call, kind, **more):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool

    model = kind(model=call.model, api_base=call.base, api_key=call.key, max_retries=call.retries, is_function_calling_model=True, **more)
    messages = [ChatMessage(role=message["role"], content=message["content"]) for message in CHAT]

    def sights(city: str) -> str:
        """Finds sights."""
        return city

    def called():
        answer = model.chat_with_tools([FunctionTool.from_defaults(sights)], chat_history=messages, tool_required=True)
        return model.get_tool_calls_from_response(answer)[0].tool_name

    return {
        "sync": lambda: model.chat(messages).message.content,
        "async": lambda: wait(model.achat(messages)).message.content,
        "stream": lambda: joined(model.stream_chat(messages), lambda part: part.delta),
        "async stream": lambda: joined(wait(collected(model.astream_chat(messages))), lambda part: part.delta),
        "tools": called,
        "structured": lambda: model.as_structured_llm(Place).chat(messages).raw.city,
    }


@client(GATEWAY_PRESETS, errors_of("openai"))
def llama_index_chat(call):
    from llama_index.llms.openai_like import OpenAILike

    more = {"additional_kwargs": {"extra_body": call.prompt}} if call.prompt else {}
    return llama_index_cells(call, OpenAILike, is_chat_model=True, **more)


@client(GATEWAY_PRESETS, errors_of("openai"))
def llama_index_responses(call):
    from llama_index.llms.openai_like import OpenAILikeResponses

    return llama_index_cells(call, OpenAILikeResponses, additional_kwargs=call.prompt or {})


# The runner


def tell(what):
    urllib.request.urlopen(os.environ["PRESETS_CONTROL_URL"] + "/" + urllib.request.quote(what), data=b"").close()


class Table:
    """The row of a client."""

    def __init__(self, name):
        self.name, self.failures = name, []
        self.presets, self.errors, self.lacks, self.cells = CLIENTS[name]
        self.call = Call(os.environ["PRESETS_SITE"], os.environ["PRESETS_INFERENCE_KEY"], "@preset/" + self.presets[0])

    def run(self):
        begin = time.monotonic()
        for preset in self.presets:
            call = replace(self.call, model=f"@preset/{preset}")
            cells = self.cells(call)
            assert set(cells) | set(self.lacks) - {"prompt"} == set(WANT), f"{self.name} has the cells {set(cells)}"
            for cell, send in cells.items():
                self.expect(f"{preset}/{cell}", send, WANT[cell])
            if "prompt" in self.lacks:
                continue
            prompt = {"prompt": {"id": f"{preset}-prompt", "variables": {"city": "Rome"}}}
            cells = self.cells(replace(call, model=f"@preset/{preset}-prompt", prompt=prompt))
            for cell in ["sync", "async", "stream", "async stream"]:
                if cell in cells:
                    self.expect(f"{preset}-prompt/{cell}", cells[cell], WANT[cell])
        for failure in FAILURES:
            self.expect(f"{self.presets[0]}/retry {failure}", lambda: self.cells(replace(self.call, retries=2))["sync"](), WANT["sync"], fail=failure)
        for status, changes in {
            400: {"model": f"openrouter/@preset/{self.presets[0]}"},
            401: {"key": "sk-of-nobody"},
            403: {"key": os.environ["PRESETS_MANAGEMENT_KEY"]},
            404: {"model": "@preset/nobody"},
            429: {"key": "sk-of-nobody", "site": os.environ["PRESETS_LIMITED_SITE"]},
        }.items():
            if status == 429:  # the second wrong key of a minute
                self.refused(changes)
            self.expect(f"{self.presets[0]}/error {status}", lambda: self.refused(changes), self.errors[status])
        self.expect(f"{self.presets[0]}/error 429 of the gateway", lambda: self.refused({}), self.errors[429], fail="429")
        print("FAIL " if self.failures else "ok   ", f"{self.name} ({time.monotonic() - begin:.1f} s)", flush=True)
        for failure in self.failures:
            print("     ", failure)
        return not self.failures

    def expect(self, what, send, want, fail=None):
        asyncio.set_event_loop(LOOP)  # some clients replace it
        tell(f"client/{self.name}/{what}")
        if fail:
            tell(f"fail/{fail}")
        try:
            got = send()
        except Exception as error:
            got = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3, chain=False)}"
        if got != want:
            self.failures.append(f"{what}: got {got!s:.2000}, want {want}")

    def refused(self, changes):
        try:
            return f"no error, but {self.cells(replace(self.call, **changes))['sync']()}"
        except Exception as error:
            return f"{type(error).__module__.split('.')[0]}.{type(error).__name__}"


if __name__ == "__main__":
    sys.exit(not all([Table(name).run() for name in sys.argv[1:] or CLIENTS]))
