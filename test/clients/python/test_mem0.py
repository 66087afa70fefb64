"""mem0: its language models and embedders, with the settings that it sends by default."""

import openai
import pytest
from mem0.utils.factory import EmbedderFactory, LlmFactory

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, UNFORCED, WEATHER_QUESTION, failures, marker,
)  # fmt: skip


def llm_of(model, key=LIVE_KEY):
    return LlmFactory.create('openai', {'model': model, 'api_key': key, 'openai_base_url': BASE_URL})


def user(content):
    return [{'role': 'user', 'content': content}]


every_claude_too = pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI, UNFORCED, 'auto'])


@every_claude_too
def test_run(model):
    question = f'Hello {marker()}'
    assert llm_of(model).generate_response(user(question)) == f'Echo: {question}'


@every_claude_too
def test_json(model):
    messages = user('Who is it? Answer in JSON.')
    assert llm_of(model).generate_response(messages, response_format={'type': 'json_object'})


@every_claude_too
def test_tools(model):
    parameters = {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}
    tool = {'type': 'function', 'function': {'name': 'weather', 'description': 'Weather', 'parameters': parameters}}
    answer = llm_of(model).generate_response(user(WEATHER_QUESTION), tools=[tool])
    assert [call['arguments']['city'] for call in answer['tool_calls']] == ['Oslo', 'Rome']


@pytest.mark.parametrize(('model', 'dimensions'), [('text-embedding-3-small', 1_536), ('gemini-embedding-001', 768)])
def test_embeddings(model, dimensions):
    settings = {'model': model, 'embedding_dims': dimensions, 'api_key': LIVE_KEY, 'openai_base_url': BASE_URL}
    vector = EmbedderFactory.create('openai', settings, None).embed('Hello')
    assert vector


@failures(
    {'wrong key': openai.AuthenticationError, 'unknown model': openai.NotFoundError, 'overflow': openai.BadRequestError}
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        llm_of(model, key).generate_response(user(prompt))
