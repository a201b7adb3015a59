"""Test a frontend with OpenAI's own client: python openai_client.py URL"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
MODEL = "mocker-model"
CHAT = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name three rivers."}]


def refused(kind, param, **parameters):
    """Check that the server rejects the parameters with an error of the class kind that names param."""
    call = client.chat.completions.create if "messages" in parameters else client.completions.create
    try:
        call(model=parameters.pop("model", MODEL), **parameters)
    except kind as error:
        assert error.param == param and error.body["code"] == error.status_code and error.message, (error.param, error.body)
    else:
        raise AssertionError(f"{parameters} is taken")


whole = client.completions.create(model=MODEL, prompt="the people of the world", max_tokens=12, seed=5)
assert len(whole.choices[0].text.split()) == 12 and whole.choices[0].finish_reason == "length", whole
assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (5, 12, 17), whole.usage
assert client.completions.create(model=MODEL, prompt="the people of the world", max_tokens=12, seed=5).choices[0].text == whole.choices[0].text

stop = whole.choices[0].text.split()[4]
cut = client.completions.create(model=MODEL, prompt="the people of the world", max_tokens=12, seed=5, stop=[" " + stop])
assert cut.choices[0].text == " ".join(whole.choices[0].text.split()[:4]) and cut.choices[0].finish_reason == "stop", cut
assert cut.usage.completion_tokens == 5, cut.usage

many = client.completions.create(model=MODEL, prompt=["the people", "of the world"], n=2, max_tokens=3, logprobs=2, echo=True)
assert [c.index for c in many.choices] == [0, 1, 2, 3] and many.usage.completion_tokens == 12, many
assert many.choices[0].logprobs.token_logprobs[0] is None and len(many.choices[3].logprobs.tokens) == 6, many.choices

chat = client.chat.completions.create(model=MODEL, messages=CHAT, max_completion_tokens=7, n=2, logprobs=True, top_logprobs=3)
assert all(len(c.logprobs.content) == 7 and len(c.logprobs.content[0].top_logprobs) == 3 for c in chat.choices), chat
assert chat.choices[1].message.role == "assistant" and len(chat.choices[1].message.content.split()) == 7, chat

pieces = list(client.chat.completions.create(
    model=MODEL, messages=CHAT, max_tokens=7, n=2, seed=1, stream=True, stream_options={"include_usage": True}))
assert pieces[-1].usage.completion_tokens == 14 and not pieces[-1].choices, pieces[-1]
for index in range(2):
    text = "".join(p.choices[0].delta.content or "" for p in pieces[:-1] if p.choices[0].index == index)
    assert len(text.split()) == 7, text
natural = client.chat.completions.create(model=MODEL, messages=CHAT)
assert natural.choices[0].finish_reason == "stop", natural

assert client.models.retrieve(MODEL).id == MODEL and [m.id for m in client.models.list()] == [MODEL]
try:
    client.models.retrieve("some/other")
except openai.NotFoundError as error:
    assert error.status_code == error.body["code"] == 404 and error.param == "model", error.body
else:
    raise AssertionError("a model that is not there")

BAD = openai.BadRequestError
refused(openai.NotFoundError, "model", model="other", prompt="x")
refused(BAD, "max_tokens", prompt="x", max_tokens=100000)
refused(BAD, "temperature", prompt="x", temperature=3)
refused(BAD, "top_p", prompt="x", top_p=0)
refused(BAD, "n", prompt="x", n=0)
refused(BAD, "best_of", prompt="x", best_of=3)
refused(BAD, "suffix", prompt="x", suffix="y")
refused(BAD, "logit_bias", prompt="x", logit_bias={"5": 10})
refused(BAD, "tools", messages=CHAT, tools=[{"type": "function", "function": {"name": "f"}}])
refused(BAD, "response_format", messages=CHAT, response_format={"type": "json_object"})
refused(BAD, "top_logprobs", messages=CHAT, top_logprobs=3)
print("openai", openai.__version__, "is content")
