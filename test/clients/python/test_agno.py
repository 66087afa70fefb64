"""agno with its chat, responses and Anthropic models."""

import pytest
from agno.agent import Agent
from agno.media import Image
from agno.models.anthropic import Claude
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.run.base import RunStatus

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, ORIGIN, PNG, PNG_BYTES, WEATHER_QUESTION, Person,
    every_model, marker, requests_to,
)  # fmt: skip

MODELS = {
    'chat': lambda model, key=LIVE_KEY: OpenAIChat(id=model, base_url=BASE_URL, api_key=key, max_retries=0),
    'responses': lambda model, key=LIVE_KEY: OpenAIResponses(
        id=model, base_url=BASE_URL, api_key=key, max_retries=0, store=False
    ),
    'anthropic': lambda model, key=LIVE_KEY: Claude(
        id=model, api_key=key, client_params={'base_url': ORIGIN, 'max_retries': 0}
    ),
}
every_client = pytest.mark.parametrize('client', list(MODELS))


@every_client
@every_model
def test_run_and_stream(client, model):
    question = f'Hello {marker()}'
    agent = Agent(model=MODELS[client](model), telemetry=False)
    assert agent.run(question).content == f'Echo: {question}'
    pieces = [event.content for event in agent.run(question, stream=True) if event.event == 'RunContent']
    assert ''.join(piece or '' for piece in pieces) == f'Echo: {question}'


@every_client
@every_model
def test_tools(client, model):
    cities = []

    def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f'sunny in {city}'

    assert Agent(model=MODELS[client](model), tools=[weather], telemetry=False).run(WEATHER_QUESTION).content
    assert cities == ['Oslo', 'Rome']


@pytest.mark.parametrize('client', ['chat', 'responses'])
@every_model
def test_structured_output(client, model):
    agent = Agent(model=MODELS[client](model), output_schema=Person, telemetry=False)
    assert isinstance(agent.run('Who is it?').content, Person)


@every_client
@every_model
def test_image(client, model):
    question = f'What is this? {marker()}'
    agent = Agent(model=MODELS[client](model), telemetry=False)
    assert (
        question in agent.run(question, images=[Image(content=PNG_BYTES, format='png', mime_type='image/png')]).content
    )
    assert PNG in requests_to(model, question)[0]['raw']


@every_client
@pytest.mark.parametrize('failure', ['wrong key', 'unknown model', 'no credit', 'overflow'])
def test_errors(client, failure):
    key, model, prompt = FAILURES[failure]()
    result = Agent(model=MODELS[client](model, key), telemetry=False).run(prompt)
    assert result.status == RunStatus.error
