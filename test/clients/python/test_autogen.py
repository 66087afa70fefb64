"""autogen with its OpenAI client."""

import openai
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import Image
from autogen_core.models import UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, PNG, WEATHER_QUESTION, Person, every_model,
    every_model_and_auto, failures, marker,
)  # fmt: skip

ABILITIES = {
    'vision': True,
    'function_calling': True,
    'json_output': True,
    'structured_output': True,
    'family': 'unknown',
    'multiple_system_messages': True,
}


def client_of(model, key=LIVE_KEY):
    return OpenAIChatCompletionClient(model=model, base_url=BASE_URL, api_key=key, max_retries=0, model_info=ABILITIES)


@every_model_and_auto
async def test_run_and_stream(model):
    question = f'Hello {marker()}'
    message = UserMessage(content=question, source='user')
    assert (await client_of(model).create([message])).content == f'Echo: {question}'
    *pieces, last = [piece async for piece in client_of(model).create_stream([message])]
    assert ''.join(pieces) == last.content == f'Echo: {question}'


@every_model
async def test_agent(model):
    cities = []

    async def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f'sunny in {city}'

    agent = AssistantAgent(
        'assistant', client_of(model), tools=[weather], reflect_on_tool_use=True, system_message='Be brief.'
    )
    result = await agent.run(task=WEATHER_QUESTION)
    assert result.messages[-1].to_text()
    assert sorted(cities) == ['Oslo', 'Rome']


@every_model
async def test_structured_output(model):
    message = UserMessage(content='Who is it?', source='user')
    answer = await client_of(model).create([message], json_output=Person)
    assert isinstance(Person.model_validate_json(answer.content), Person)


@every_model
async def test_image(model):
    question = f'What is this? {marker()}'
    message = UserMessage(content=[question, Image.from_base64(PNG)], source='user')
    assert question in (await client_of(model).create([message])).content


@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': openai.NotFoundError,
        'rate limit': openai.RateLimitError,
        'overflow': openai.BadRequestError,
    }
)
async def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        await client_of(model, key).create([UserMessage(content=prompt, source='user')])
