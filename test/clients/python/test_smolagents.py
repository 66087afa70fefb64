"""smolagents with its OpenAI model."""

import openai
import pytest
from smolagents import OpenAIModel, Tool

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, PNG, PNG_URI, UNFORCED, WEATHER_QUESTION, every_model,
    every_model_and_auto, failures, marker,
    requests_to,
)  # fmt: skip


def model_of(model, key=LIVE_KEY):
    return OpenAIModel(model_id=model, api_base=BASE_URL, api_key=key, client_kwargs={'max_retries': 0}, retry=False)


def user(content):
    return [{'role': 'user', 'content': [{'type': 'text', 'text': content}]}]


class Weather(Tool):
    name = 'weather'
    description = 'The weather in a city'
    inputs = {'city': {'type': 'string', 'description': 'The city'}}
    output_type = 'string'

    def forward(self, city: str) -> str:
        return f'sunny in {city}'


@every_model_and_auto
def test_run_and_stream(model):
    question = f'Hello {marker()}'
    answer = model_of(model).generate(user(question))
    assert answer.content == f'Echo: {question}'
    assert answer.token_usage.total_tokens > 0
    deltas = list(model_of(model).generate_stream(user(question)))
    assert ''.join(delta.content or '' for delta in deltas) == f'Echo: {question}'


@pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI, UNFORCED])
def test_forced_tools(model):
    """Requires a tool call, as its ToolCallingAgent does."""
    answer = model_of(model).generate(user(WEATHER_QUESTION), tools_to_call_from=[Weather()])
    assert [call.function.name for call in answer.tool_calls] == ['weather', 'weather']


@every_model
def test_image(model):
    question = f'What is this? {marker()}'
    content = [{'type': 'text', 'text': question}, {'type': 'image_url', 'image_url': {'url': PNG_URI}}]
    assert question in model_of(model).generate([{'role': 'user', 'content': content}]).content
    assert PNG in requests_to(model, question)[0]['raw']


@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': openai.NotFoundError,
        'overflow': openai.BadRequestError,
        'OpenAI fails': openai.InternalServerError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        model_of(model, key).generate(user(prompt))
