"""anthropic: messages, and the tool runner of its beta."""

import anthropic
import pytest
from anthropic import Anthropic, beta_tool

from gateway import (
    CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, ORIGIN, PNG, TEST_KEY, WEATHER_QUESTION, Person, every_model,
    every_model_and_auto, failures, marker, requests_to,
)  # fmt: skip


def client_of(key=LIVE_KEY):
    return Anthropic(base_url=ORIGIN, api_key=key, max_retries=0)


client = client_of()
TOOL = {
    'name': 'weather',
    'description': 'The weather in a city',
    'input_schema': {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']},
}


def asking(model, content):
    return {'model': model, 'max_tokens': 500, 'messages': [{'role': 'user', 'content': content}]}


@every_model_and_auto
def test_messages(model):
    question = f'Hello {marker()}'
    message = client.messages.create(**asking(model, question))
    assert message.content[0].text == f'Echo: {question}'
    assert message.stop_reason == 'end_turn'
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    assert message._request_id


@every_model_and_auto
def test_stream(model):
    question = f'Hello {marker()}'
    with client.messages.stream(**asking(model, question)) as stream:
        text = ''.join(stream.text_stream)
        message = stream.get_final_message()
    assert text == message.content[0].text == f'Echo: {question}'


@every_model
def test_tools(model):
    result = marker()
    asked = client.messages.create(**asking(model, WEATHER_QUESTION), tools=[TOOL])
    assert asked.stop_reason == 'tool_use'
    calls = [block for block in asked.content if block.type == 'tool_use']
    assert [call.input['city'] for call in calls] == ['Oslo', 'Rome']
    results = [{'type': 'tool_result', 'tool_use_id': call.id, 'content': f'sunny {result}'} for call in calls]
    request = asking(model, WEATHER_QUESTION)
    request['messages'] += [{'role': 'assistant', 'content': asked.content}, {'role': 'user', 'content': results}]
    answered = client.messages.create(**request, tools=[TOOL])
    assert answered.content[-1].text
    assert len(requests_to(model, result)) == 1


@pytest.mark.parametrize('streamed', [False, True])
@every_model
def test_tool_runner(model, streamed):
    """Begins a message thread by default; goes on without it when it is refused."""
    cities = []

    @beta_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f'sunny in {city}'

    runner = client.beta.messages.tool_runner(**asking(model, WEATHER_QUESTION), tools=[weather], stream=streamed)
    assert runner.until_done().content[-1].text
    assert cities == ['Oslo', 'Rome']


@every_model
def test_structured_output(model):
    message = client.messages.parse(**asking(model, 'Who is it?'), output_format=Person)
    assert isinstance(message.parsed_output, Person)


@every_model
def test_image(model):
    question = f'What is this? {marker()}'
    source = {'type': 'base64', 'media_type': 'image/png', 'data': PNG}
    content = [{'type': 'image', 'source': source}, {'type': 'text', 'text': question}]
    assert question in client.messages.create(**asking(model, content)).content[0].text
    assert PNG in requests_to(model, question)[0]['raw']


@every_model
def test_thinking(model):
    message = client.messages.create(
        model=model,
        max_tokens=3_000,
        thinking={'type': 'enabled', 'budget_tokens': 1_024},
        messages=[{'role': 'user', 'content': 'Hello'}],
    )
    assert message.content[-1].type == 'text'


@every_model
def test_tokens_are_counted(model):
    request = asking(model, 'How many tokens is this?')
    del request['max_tokens']
    assert client.messages.count_tokens(**request).input_tokens > 0


def test_models():
    assert {OPENAI, CLAUDE, GEMINI} <= {model.id for model in client.models.list()}


@failures(
    {
        'wrong key': anthropic.AuthenticationError,
        'unknown model': anthropic.NotFoundError,
        'scope': anthropic.PermissionDeniedError,
        'rate limit': anthropic.RateLimitError,
        'no credit': anthropic.APIStatusError,
        'overflow': anthropic.BadRequestError,
        'OpenAI fails': anthropic.InternalServerError,
        'Anthropic fails': anthropic.InternalServerError,
        'Gemini fails': anthropic.InternalServerError,
        'Anthropic is busy': anthropic.APIStatusError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error) as raised:
        client_of(key).messages.create(**asking(model, prompt))
    if failure == 'no credit':
        assert raised.value.status_code == 402
    if failure == 'overflow':
        assert 'prompt is too long' in raised.value.message
    if failure == 'Anthropic is busy':
        assert raised.value.status_code in (429, 529)


@every_model
def test_cut_stream(model):
    with pytest.raises(anthropic.APIError):
        with client.messages.stream(**asking(model, 'upstream:cut')) as stream:
            stream.get_final_message()


def test_sandbox():
    assert client_of(TEST_KEY).messages.create(**asking('auto', 'Hello')).content[0].text == 'Hello'
