"""openai-agents, with responses and chat completions."""

import openai
import pytest
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, PNG, PNG_URI, WEATHER_QUESTION, Person, every_model, every_model_and_auto,
    failures, marker, requests_to,
)  # fmt: skip


def model_of(client, model, key=LIVE_KEY):
    make = OpenAIChatCompletionsModel if client == 'chat' else OpenAIResponsesModel
    return make(model=model, openai_client=AsyncOpenAI(base_url=BASE_URL, api_key=key, max_retries=0))


every_client = pytest.mark.parametrize('client', ['chat', 'responses'])


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f'sunny in {city}'


@every_client
@every_model_and_auto
async def test_run_and_stream(client, model):
    question = f'Hello {marker()}'
    agent = Agent(name='Assistant', model=model_of(client, model))
    assert (await Runner.run(agent, question)).final_output == f'Echo: {question}'
    result = Runner.run_streamed(agent, question)
    async for _ in result.stream_events():
        pass
    assert result.final_output == f'Echo: {question}'


@every_client
@every_model
async def test_tools(client, model):
    agent = Agent(name='Assistant', model=model_of(client, model), tools=[weather])
    result = await Runner.run(agent, WEATHER_QUESTION)
    kinds = [item.type for item in result.new_items if item.type != 'reasoning_item']
    assert kinds == ['tool_call_item'] * 2 + ['tool_call_output_item'] * 2 + ['message_output_item']
    streamed = Runner.run_streamed(agent, WEATHER_QUESTION)
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == result.final_output


@every_client
@every_model
async def test_structured_output_and_image(client, model):
    agent = Agent(name='Assistant', model=model_of(client, model), output_type=Person)
    assert isinstance((await Runner.run(agent, 'Who is it?')).final_output, Person)
    question = f'What is this? {marker()}'
    content = [
        {'type': 'input_text', 'text': question},
        {'type': 'input_image', 'image_url': PNG_URI, 'detail': 'auto'},
    ]
    agent = Agent(name='Assistant', model=model_of(client, model))
    assert question in (await Runner.run(agent, [{'role': 'user', 'content': content}])).final_output
    assert PNG in requests_to(model, question)[0]['raw']


@every_client
@every_model_and_auto
async def test_settings_and_default_model(client, model):
    settings = ModelSettings(temperature=0.2, top_p=0.9, parallel_tool_calls=True, max_tokens=500)
    agent = Agent(name='Assistant', model=model_of(client, model), model_settings=settings, tools=[weather])
    assert (await Runner.run(agent, 'Hello')).final_output


@every_client
@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': openai.NotFoundError,
        'rate limit': openai.RateLimitError,
        'no credit': openai.APIStatusError,
        'overflow': openai.BadRequestError,
    }
)
async def test_errors(client, failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        await Runner.run(Agent(name='Assistant', model=model_of(client, model, key)), prompt)


@every_client
@every_model
async def test_cut_stream(client, model):
    result = Runner.run_streamed(Agent(name='Assistant', model=model_of(client, model)), 'upstream:cut')
    with pytest.raises(Exception):
        async for _ in result.stream_events():
            pass
