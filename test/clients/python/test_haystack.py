"""haystack with its generators of OpenAI's chat completions and responses."""

import openai
import pytest
from haystack.components.agents import Agent
from haystack.components.embedders import OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent
from haystack.tools import tool
from haystack.utils import Secret

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, PNG, WEATHER_QUESTION, Person, every_model, failures, marker,
    requests_to,
)  # fmt: skip

GENERATORS = {'chat': OpenAIChatGenerator, 'responses': OpenAIResponsesChatGenerator}
every_client = pytest.mark.parametrize('client', list(GENERATORS))


def generator_of(client, model, key=LIVE_KEY, **more):
    return GENERATORS[client](model=model, api_base_url=BASE_URL, api_key=Secret.from_token(key), max_retries=0, **more)


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f'sunny in {city}'


@every_client
@every_model
def test_run_and_stream(client, model):
    question = f'Hello {marker()}'
    for more in ({}, {'streaming_callback': lambda chunk: None}):
        (reply,) = generator_of(client, model, **more).run([ChatMessage.from_user(question)])['replies']
        assert reply.text == f'Echo: {question}'


@every_client
@every_model
def test_agent(client, model):
    agent = Agent(chat_generator=generator_of(client, model), tools=[weather])
    messages = agent.run([ChatMessage.from_user(WEATHER_QUESTION)])['messages']
    assert sum(len(message.tool_call_results) for message in messages) == 2
    assert messages[-1].text


@every_client
@every_model
def test_structured_output(client, model):
    name = 'response_format' if client == 'chat' else 'text_format'
    generator = generator_of(client, model, generation_kwargs={name: Person})
    (reply,) = generator.run([ChatMessage.from_user('Who is it?')])['replies']
    assert isinstance(Person.model_validate_json(reply.text), Person)


@every_client
@every_model
def test_image(client, model):
    question = f'What is this? {marker()}'
    content = [question, ImageContent(base64_image=PNG, mime_type='image/png')]
    (reply,) = generator_of(client, model).run([ChatMessage.from_user(content_parts=content)])['replies']
    assert question in reply.text
    assert PNG in requests_to(model, question)[0]['raw']


def test_embeddings():
    embedder = OpenAITextEmbedder(
        model='text-embedding-3-small', api_base_url=BASE_URL, api_key=Secret.from_token(LIVE_KEY)
    )
    assert len(embedder.run('Hello')['embedding']) > 0


@every_client
@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': openai.NotFoundError,
        'no credit': openai.APIStatusError,
        'overflow': openai.BadRequestError,
    }
)
def test_errors(client, failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        generator_of(client, model, key).run([ChatMessage.from_user(prompt)])
