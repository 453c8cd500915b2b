"""Sends requests that name presets, as users of Python's clients write them.

clients_test.go starts the servers, sets the environment, and judges the requests. It gives the
names of the clients as arguments. Before each preset of a client this script tells the provider
both names, so that the provider's records have them. It prints a line for each of them.
"""

import asyncio
import os
import sys
import traceback
import urllib.request

GATEWAY_PRESETS = ["gpt", "qwen"]  # for chat completions and responses
CLAUDE_PRESETS = ["claude", "claude-thinking"]  # for messages

SYSTEM = "You are my own assistant."
QUESTION = "What is there to see in Rome?"
# The tool of the client. The provider calls a forced tool with a city.
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}

BASE_URL = os.environ["OPENAI_BASE_URL"]
KEY = os.environ["OPENAI_API_KEY"]

LOOP = asyncio.new_event_loop()
CLIENTS = {}


def client(presets):
    def add(send):
        CLIENTS[send.__name__] = (presets, send)
        return send

    return add


@client(GATEWAY_PRESETS)
def openai_chat(preset):
    from openai import OpenAI

    chat = OpenAI(max_retries=0).chat.completions
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    tool = {"type": "function", "function": {"name": "sights", "parameters": PARAMETERS}}
    assert chat.create(model=f"@preset/{preset}", messages=messages).choices[0].message.content
    answer = chat.create(
        model=f"@preset/{preset}", messages=messages, tools=[tool], tool_choice={"type": "function", "function": {"name": "sights"}}
    )
    assert answer.choices[0].message.tool_calls[0].function.name == "sights"
    with chat.stream(model=f"@preset/{preset}", messages=messages) as stream:
        assert stream.get_final_completion().choices[0].message.content


@client(GATEWAY_PRESETS)
def openai_responses(preset):
    from openai import OpenAI

    responses = OpenAI(max_retries=0).responses
    tool = {"type": "function", "name": "sights", "strict": True, "parameters": PARAMETERS}
    assert responses.create(model=f"@preset/{preset}", instructions=SYSTEM, input=QUESTION).output_text
    answer = responses.create(model=f"@preset/{preset}", instructions=SYSTEM, input=QUESTION, tools=[tool], tool_choice="required")
    assert answer.output[0].name == "sights"
    with responses.stream(model=f"@preset/{preset}", instructions=SYSTEM, input=QUESTION) as stream:
        assert stream.get_final_response().output_text


@client(CLAUDE_PRESETS)
def anthropic(preset):
    from anthropic import Anthropic

    messages = Anthropic(max_retries=0).messages
    ask = dict(model=f"@preset/{preset}", system=SYSTEM, messages=[{"role": "user", "content": QUESTION}], max_tokens=3000)
    tool = {"name": "sights", "input_schema": PARAMETERS}
    assert messages.create(**ask).content[0].text
    assert messages.create(**ask, tools=[tool], tool_choice={"type": "tool", "name": "sights"}).content[0].name == "sights"
    with messages.stream(**ask) as stream:
        assert stream.get_final_text()


@client(GATEWAY_PRESETS)
def openrouter_chat(preset):
    with openrouter() as gateway:
        answer = gateway.chat.send(
            model=f"@preset/{preset}", messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
        )
        assert answer.choices[0].message.content
        refused_by_openrouter(lambda: gateway.chat.send(model="@preset/nobody", messages=[{"role": "user", "content": QUESTION}]))


@client(GATEWAY_PRESETS)
def openrouter_responses(preset):
    with openrouter() as gateway:
        assert gateway.beta.responses.send(model=f"@preset/{preset}", instructions=SYSTEM, input=QUESTION).output
        refused_by_openrouter(lambda: gateway.beta.responses.send(model="@preset/nobody", input=QUESTION))


def refused_by_openrouter(send):
    from openrouter.errors import NotFoundResponseError

    try:
        send()
    except NotFoundResponseError as error:  # not that of a body that the client cannot read
        assert error.data.error.code == 404 and "@preset/nobody" in error.data.error.message, error
    else:
        raise AssertionError("a preset that does not exist serves")


def openrouter():
    from openrouter import OpenRouter
    from openrouter.utils import BackoffStrategy, RetryConfig

    return OpenRouter(api_key=KEY, server_url=BASE_URL, retry_config=RetryConfig("none", BackoffStrategy(1, 1, 1, 1), False))


@client(GATEWAY_PRESETS)
def agents_responses(preset):
    run_agent(f"openai/@preset/{preset}")


@client(GATEWAY_PRESETS)
def agents_chat(preset):
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    run_agent(OpenAIChatCompletionsModel(f"@preset/{preset}", AsyncOpenAI(max_retries=0)))


def run_agent(model):
    from agents import Agent, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)

    @function_tool
    def sights(city: str) -> str:
        """Finds sights."""
        return city

    # The client for Responses lives as long as the loop that it was used in.
    answer = LOOP.run_until_complete(Runner.run(Agent(name="guide", instructions=SYSTEM, tools=[sights], model=model), QUESTION))
    assert answer.final_output


@client(GATEWAY_PRESETS)
def litellm_chat(preset):
    from litellm import completion

    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    # The client does not know the preset's model, and guesses the name of the limit.
    assert completion(model=f"openai/@preset/{preset}", messages=messages, max_tokens=1000, num_retries=0).choices[0].message.content


@client(GATEWAY_PRESETS)
def litellm_responses(preset):
    from litellm import responses

    assert responses(model=f"openai/@preset/{preset}", instructions=SYSTEM, input=QUESTION).output


@client(CLAUDE_PRESETS)
def litellm_anthropic(preset):
    from litellm import completion

    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    assert completion(model=f"anthropic/@preset/{preset}", messages=messages, num_retries=0).choices[0].message.content


@client(GATEWAY_PRESETS)
def pydantic_ai_chat(preset):
    from pydantic_ai.models.openai import OpenAIChatModel

    ask_pydantic_ai(OpenAIChatModel(f"@preset/{preset}"))


@client(GATEWAY_PRESETS)
def pydantic_ai_responses(preset):
    from pydantic_ai.models.openai import OpenAIResponsesModel

    ask_pydantic_ai(OpenAIResponsesModel(f"@preset/{preset}"))


@client(CLAUDE_PRESETS)
def pydantic_ai_anthropic(preset):
    from pydantic_ai.models.anthropic import AnthropicModel

    ask_pydantic_ai(AnthropicModel(f"@preset/{preset}"))


def ask_pydantic_ai(model):
    from pydantic import BaseModel
    from pydantic_ai import Agent

    class Place(BaseModel):
        city: str

    assert Agent(model, system_prompt=SYSTEM).run_sync(QUESTION).output
    # A type of the output becomes a tool, which the client forces.
    assert Agent(model, system_prompt=SYSTEM, output_type=Place).run_sync(QUESTION).output.city == "Rome"


@client(GATEWAY_PRESETS)
def langchain_chat(preset):
    from langchain_openai import ChatOpenAI

    ask_langchain(ChatOpenAI(model=f"@preset/{preset}", max_retries=0), method="function_calling")


@client(GATEWAY_PRESETS)
def langchain_responses(preset):
    from langchain_openai import ChatOpenAI

    ask_langchain(ChatOpenAI(model=f"@preset/{preset}", max_retries=0, use_responses_api=True))


@client(CLAUDE_PRESETS)
def langchain_anthropic(preset):
    from langchain_anthropic import ChatAnthropic

    ask_langchain(ChatAnthropic(model=f"@preset/{preset}", max_retries=0))


def ask_langchain(model, **structured):
    messages = [("system", SYSTEM), ("user", QUESTION)]
    assert model.invoke(messages).text
    assert model.with_structured_output({"title": "Place", "description": "A place.", **PARAMETERS}, **structured).invoke(messages) == {"city": "Rome"}


@client(GATEWAY_PRESETS)
def dspy(preset):
    import dspy

    lm = dspy.LM(f"openai/@preset/{preset}", cache=False, num_retries=0)
    with dspy.context(lm=lm):
        assert dspy.Predict("question -> city")(question=QUESTION).city == "Rome"


@client(GATEWAY_PRESETS)
def instructor_tools(preset):
    ask_instructor(preset, "TOOLS")


@client(GATEWAY_PRESETS)
def instructor_json(preset):
    ask_instructor(preset, "JSON")


def ask_instructor(preset, mode):
    import instructor
    from openai import OpenAI
    from pydantic import BaseModel

    class Place(BaseModel):
        city: str

    chat = instructor.from_openai(OpenAI(max_retries=0), mode=instructor.Mode[mode])
    messages = [{"role": "user", "content": QUESTION}]
    assert chat.create(model=f"@preset/{preset}", messages=messages, response_model=Place, max_retries=0).city == "Rome"


@client(CLAUDE_PRESETS)
def instructor_anthropic(preset):
    import instructor
    from anthropic import Anthropic
    from pydantic import BaseModel

    class Place(BaseModel):
        city: str

    messages = instructor.from_anthropic(Anthropic(max_retries=0))
    ask = dict(messages=[{"role": "user", "content": QUESTION}], max_tokens=3000, max_retries=0)
    assert messages.create(model=f"@preset/{preset}", response_model=Place, **ask).city == "Rome"


@client(GATEWAY_PRESETS)
def llama_index_chat(preset):
    from llama_index.llms.openai_like import OpenAILike

    ask_llama_index(OpenAILike(model=f"@preset/{preset}", api_base=BASE_URL, api_key=KEY, is_chat_model=True, max_retries=0))


@client(GATEWAY_PRESETS)
def llama_index_responses(preset):
    from llama_index.llms.openai_like import OpenAILikeResponses

    ask_llama_index(OpenAILikeResponses(model=f"@preset/{preset}", api_base=BASE_URL, api_key=KEY, max_retries=0))


def ask_llama_index(model):
    from llama_index.core.llms import ChatMessage

    assert model.chat([ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content=QUESTION)]).message.content


def tell(name):
    urllib.request.urlopen(os.environ["PRESETS_CONTROL_URL"] + "/client/" + name, data=b"").close()


def main(names):
    failures = 0
    for name in names:
        presets, send = CLIENTS[name]
        for preset in presets:
            tell(f"{name}/{preset}")
            try:
                send(preset)
                print(f"ok    {name} {preset}")
            except Exception:  # its requests tell more
                failures += 1
                print(f"FAIL  {name} {preset}\n{traceback.format_exc(limit=-3)}")
    sys.exit(failures != 0)


main(sys.argv[1:] or CLIENTS)
