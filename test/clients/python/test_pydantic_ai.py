"""pydantic-ai with its chat, responses and Anthropic models."""

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent, ModelSettings, NativeOutput, ToolOutput
from pydantic_ai.exceptions import (
    ModelAPIError, ModelAuthenticationError, ModelContextWindowExceededError, ModelHTTPError, ModelNotFoundError,
    ModelRateLimitError, UnexpectedModelBehavior,
)  # fmt: skip
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, ORIGIN, PNG, PNG_BYTES, UNFORCED, WEATHER_QUESTION,
    City, Person, every_model, every_model_and_auto, failures, marker, requests_to,
)  # fmt: skip


def openai_provider(key):
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=BASE_URL, api_key=key, max_retries=0))


MODELS = {
    'chat': lambda model, key=LIVE_KEY: OpenAIChatModel(model, provider=openai_provider(key)),
    'responses': lambda model, key=LIVE_KEY: OpenAIResponsesModel(model, provider=openai_provider(key)),
    'anthropic': lambda model, key=LIVE_KEY: AnthropicModel(
        model, provider=AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=ORIGIN, api_key=key, max_retries=0))
    ),
}
every_client = pytest.mark.parametrize('client', list(MODELS))


@every_client
@every_model_and_auto
async def test_run_and_stream(client, model):
    question = f'Hello {marker()}'
    agent = Agent(MODELS[client](model))
    result = await agent.run(question)
    assert result.output == f'Echo: {question}'
    assert result.usage.total_tokens > 0
    async with agent.run_stream(question) as stream:
        assert await stream.get_output() == f'Echo: {question}'
    again = f'And {marker()}'
    assert (await agent.run(again, message_history=result.all_messages())).output == f'Echo: {again}'


@every_client
@every_model
async def test_tools(client, model):
    cities = []
    agent = Agent(MODELS[client](model))

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f'sunny in {city}'

    assert (await agent.run(WEATHER_QUESTION)).output
    async with agent.run_stream(WEATHER_QUESTION) as stream:
        assert await stream.get_output()
    assert sorted(cities) == ['Oslo', 'Oslo', 'Rome', 'Rome']


@pytest.mark.parametrize(
    ('client', 'model', 'output'),
    [
        *[(client, model, NativeOutput(Person)) for client in ('chat', 'responses') for model in (OPENAI, CLAUDE, GEMINI, UNFORCED)],
        ('anthropic', CLAUDE, NativeOutput(Person)),
        *[('chat', model, ToolOutput(City)) for model in (OPENAI, CLAUDE, GEMINI, UNFORCED)],
        *[('responses', model, ToolOutput(City)) for model in (OPENAI, CLAUDE, GEMINI, UNFORCED)],
        *[('anthropic', model, ToolOutput(City)) for model in (OPENAI, CLAUDE, GEMINI)],
    ],
)  # fmt: skip
async def test_structured_output(client, model, output):
    result = await Agent(MODELS[client](model), output_type=output).run('What is the weather in Oslo?')
    assert isinstance(result.output, (Person, City))


@every_client
@every_model
async def test_image(client, model):
    question = f'What is this? {marker()}'
    result = await Agent(MODELS[client](model)).run([question, BinaryContent(PNG_BYTES, media_type='image/png')])
    assert question in result.output
    assert PNG in requests_to(model, question)[0]['raw']


@pytest.mark.parametrize('client', ['chat', 'responses'])
@pytest.mark.parametrize('model', [OPENAI, CLAUDE, 'auto'])
async def test_settings(client, model):
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=500, parallel_tool_calls=False, timeout=20)
    assert (await Agent(MODELS[client](model), model_settings=settings).run('Hello')).output


@every_client
@failures(
    {
        'wrong key': ModelAuthenticationError,
        'unknown model': ModelNotFoundError,
        'rate limit': ModelRateLimitError,
        'no credit': ModelHTTPError,
        'overflow': ModelContextWindowExceededError,
    }
)
async def test_errors(client, failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        await Agent(MODELS[client](model, key)).run(prompt)


@every_client
@every_model
async def test_cut_stream(client, model):
    with pytest.raises((ModelAPIError, UnexpectedModelBehavior, anthropic.APIError, openai.APIError)):
        async with Agent(MODELS[client](model)).run_stream('upstream:cut') as stream:
            await stream.get_output()
