"""Runs the Python of docs/migrate/openai-prompts.md, and requests that differ from it.

prompts_test.go gives the code as the argument, starts the servers and compares what went up.
"""

import sys

from agents import Agent, Runner, set_tracing_disabled

set_tracing_disabled(True)
of_the_page = {}
exec(sys.argv[1], of_the_page)  # noqa: S102
client, prompt = of_the_page["client"], of_the_page["prompt"]
for answer in (of_the_page["response"].output_text, of_the_page["result"].final_output):
    assert answer == "Rome has many sights.", answer

# What the page says about other calls
events = list(client.responses.create(prompt=prompt, stream=True))
assert events[-1].response.output_text == "Rome has many sights."
answer = client.chat.completions.create(model="@preset/pmpt_68f7a1c2@1", messages=[], extra_body={"prompt": prompt})
assert answer.choices[0].message.content == "Rome has many sights."
assert Runner.run_sync(Agent(name="guide", prompt=prompt), "And churches?").final_output == "Rome has many sights."
try:
    with client.responses.stream(prompt=prompt):
        raise AssertionError("stream needs neither model nor input")
except ValueError as error:
    assert "model" in str(error) or "input" in str(error), error
