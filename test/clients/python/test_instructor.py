"""instructor, over the clients of openai and anthropic."""

import anthropic
import instructor
import openai
import pytest
from instructor import Mode
from instructor.core import InstructorRetryException

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, ORIGIN, UNFORCED, City, Person, every_model, failures,
)  # fmt: skip


def openai_client(mode, key=LIVE_KEY):
    return instructor.from_openai(openai.OpenAI(base_url=BASE_URL, api_key=key, max_retries=0), mode=mode)


def user(content):
    return [{'role': 'user', 'content': content}]


# The emulated providers call a tool with the city that is asked about, and follow a schema with any values.
BY_TOOL, BY_SCHEMA = (City, 'What is the weather in Oslo?'), (Person, 'Who is it?')
every_claude_too = pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI, UNFORCED])


@pytest.mark.parametrize(
    ('mode', 'kind'),
    [
        (Mode.TOOLS, BY_TOOL),
        (Mode.TOOLS_STRICT, BY_TOOL),
        (Mode.JSON_SCHEMA, BY_SCHEMA),
        (Mode.RESPONSES_TOOLS, BY_TOOL),
    ],
    ids=['tools', 'strict tools', 'schema', 'responses'],
)
@every_claude_too
def test_structured_output(model, mode, kind):
    output, question = kind
    answer = openai_client(mode).create(model=model, messages=user(question), response_model=output, max_retries=1)
    assert isinstance(answer, output)


@every_claude_too
def test_partials(model):
    partials = openai_client(Mode.TOOLS).create_partial(
        model=model, messages=user('What is the weather in Oslo?'), response_model=City
    )
    assert list(partials)[-1].city == 'Oslo'


@every_model
def test_anthropic(model):
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=ORIGIN, api_key=LIVE_KEY, max_retries=0))
    answer = client.create(
        model=model, max_tokens=500, messages=user('What is the weather in Oslo?'), response_model=City, max_retries=1
    )
    assert answer.city == 'Oslo'


@failures(
    {
        'wrong key': 401,
        'unknown model': 404,
        'no credit': 402,
        'overflow': 400,
        'OpenAI fails': 502,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises((InstructorRetryException, openai.APIStatusError)) as raised:
        openai_client(Mode.TOOLS, key).create(model=model, messages=user(prompt), response_model=City, max_retries=1)
    cause = raised.value if isinstance(raised.value, openai.APIStatusError) else raised.value.__cause__
    while not isinstance(cause, openai.APIStatusError):
        cause = cause.__cause__ or cause.last_attempt.exception()
    assert cause.status_code == error
