"""openai: chat completions and responses."""

import json

import openai
import pytest
from openai import OpenAI

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, PNG, PNG_URI, TEST_KEY, UNFORCED, WEATHER_QUESTION,
    City, Person, every_model, every_model_and_auto, failures, marker, requests_to,
)  # fmt: skip


def client_of(key=LIVE_KEY):
    return OpenAI(base_url=BASE_URL, api_key=key, max_retries=0)


client = client_of()
TOOL = openai.pydantic_function_tool(City, name='weather', description='The weather in a city')
RESPONSES_TOOL = {'type': 'function', **TOOL['function']}


def user(content):
    return [{'role': 'user', 'content': content}]


@every_model_and_auto
def test_chat(model):
    question = f'Hello {marker()}'
    raw = client.chat.completions.with_raw_response.create(model=model, messages=user(question))
    completion = raw.parse()
    assert completion.choices[0].message.content == f'Echo: {question}'
    assert completion.choices[0].finish_reason == 'stop'
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert completion._request_id == raw.headers['x-request-id']


@every_model_and_auto
def test_chat_stream(model):
    question = f'Hello {marker()}'
    with client.chat.completions.stream(
        model=model, messages=user(question), stream_options={'include_usage': True}
    ) as stream:
        text = ''.join(event.delta for event in stream if event.type == 'content.delta')
        completion = stream.get_final_completion()
    assert text == completion.choices[0].message.content == f'Echo: {question}'
    assert completion.usage.total_tokens > 0


@pytest.mark.parametrize('streamed', [False, True])
@every_model
def test_chat_tools(model, streamed):
    result = marker()
    messages = user(WEATHER_QUESTION)
    for _ in range(2):
        if streamed:
            with client.chat.completions.stream(model=model, messages=messages, tools=[TOOL]) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.parse(model=model, messages=messages, tools=[TOOL]).choices[0].message
        calls = message.tool_calls or []
        if not calls:
            break
        assert [call.function.parsed_arguments.city for call in calls] == ['Oslo', 'Rome']
        messages.append(message.model_dump(exclude_none=True))
        messages += [{'role': 'tool', 'tool_call_id': call.id, 'content': f'sunny {result}'} for call in calls]
    assert message.content
    assert len(requests_to(model, result)) == 1


@pytest.mark.parametrize('choice', ['required', {'type': 'function', 'function': {'name': 'weather'}}])
@pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI, UNFORCED])
def test_chat_forced_tool(model, choice):
    completion = client.chat.completions.create(
        model=model, messages=user('What is the weather in Oslo?'), tools=[TOOL], tool_choice=choice
    )
    (call,) = completion.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {'city': 'Oslo'}


@every_model
def test_chat_structured_output(model):
    completion = client.chat.completions.parse(model=model, messages=user('Who is it?'), response_format=Person)
    assert isinstance(completion.choices[0].message.parsed, Person)
    loose = {'type': 'object', 'properties': {'name': {'type': 'string'}}, 'required': ['name']}
    completion = client.chat.completions.create(
        model=model,
        messages=user('Who is it?'),
        response_format={'type': 'json_schema', 'json_schema': {'name': 'person', 'schema': loose}},
    )
    assert set(json.loads(completion.choices[0].message.content)) == {'name'}


@every_model
def test_chat_image(model):
    question = f'What is this? {marker()}'
    content = [{'type': 'text', 'text': question}, {'type': 'image_url', 'image_url': {'url': PNG_URI}}]
    completion = client.chat.completions.create(model=model, messages=user(content))
    assert question in completion.choices[0].message.content
    assert PNG in requests_to(model, question)[0]['raw']


@every_model_and_auto
def test_sampling_settings_that_a_model_does_not_have(model):
    for settings in ({'temperature': 0.1, 'top_p': 0.1}, {'temperature': 0.1, 'top_p': 1}):
        assert client.chat.completions.create(model=model, messages=user('Hello'), **settings).choices
        assert client.responses.create(model=model, input='Hello', **settings).output_text


@every_model_and_auto
def test_responses(model):
    question = f'Hello {marker()}'
    response = client.responses.create(model=model, input=question)
    assert response.output_text == f'Echo: {question}'
    assert response.status == 'completed' and response.usage.total_tokens > 0
    with client.responses.stream(model=model, input=question) as stream:
        text = ''.join(event.delta for event in stream if event.type == 'response.output_text.delta')
        assert text == stream.get_final_response().output_text == f'Echo: {question}'


@every_model
def test_responses_tools(model):
    result = marker()
    items = user(WEATHER_QUESTION)
    asked = client.responses.parse(model=model, input=items, tools=[RESPONSES_TOOL], store=False)
    calls = [item for item in asked.output if item.type == 'function_call']
    assert [json.loads(call.arguments)['city'] for call in calls] == ['Oslo', 'Rome']
    items += [item.to_dict() for item in asked.output]
    items += [{'type': 'function_call_output', 'call_id': call.call_id, 'output': result} for call in calls]
    for item in items:
        item.pop('parsed_arguments', None)
    answered = client.responses.create(model=model, input=items, tools=[RESPONSES_TOOL], store=False)
    assert answered.output_text
    assert len(requests_to(model, result)) == 1


@every_model
def test_responses_structured_output_and_image(model):
    response = client.responses.parse(model=model, input='Who is it?', text_format=Person)
    assert isinstance(response.output_parsed, Person)
    question = f'What is this? {marker()}'
    content = [{'type': 'input_text', 'text': question}, {'type': 'input_image', 'image_url': PNG_URI}]
    assert question in client.responses.create(model=model, input=user(content)).output_text
    assert PNG in requests_to(model, question)[0]['raw']


ERRORS = {
    'wrong key': openai.AuthenticationError,
    'unknown model': openai.NotFoundError,
    'scope': openai.PermissionDeniedError,
    'rate limit': openai.RateLimitError,
    'overflow': openai.BadRequestError,
    'OpenAI fails': openai.InternalServerError,
    'Anthropic fails': openai.InternalServerError,
    'Gemini fails': openai.InternalServerError,
    'OpenAI is busy': openai.InternalServerError,
}


@failures({**ERRORS, 'no credit': openai.APIStatusError})
def test_chat_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error) as raised:
        client_of(key).chat.completions.create(model=model, messages=user(prompt))
    if failure == 'no credit':
        assert (raised.value.status_code, raised.value.code) == (402, 'insufficient_credits')
    if failure == 'overflow':
        assert raised.value.code == 'context_length_exceeded'
    if failure == 'rate limit':
        assert int(raised.value.response.headers['retry-after']) > 0


@failures({**ERRORS, 'no credit': openai.RateLimitError})
def test_responses_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error) as raised:
        client_of(key).responses.create(model=model, input=prompt)
    if failure == 'no credit':
        assert raised.value.code == 'insufficient_quota'
    if failure == 'overflow':
        assert raised.value.code == 'context_length_exceeded'


@every_model
def test_cut_stream(model):
    stream = client.chat.completions.create(model=model, messages=user('upstream:cut'), stream=True)
    with pytest.raises(openai.APIError):
        for chunk in stream:
            assert not (chunk.choices and chunk.choices[0].finish_reason)
    with pytest.raises(openai.APIError) as raised:
        for event in client.responses.create(model=model, input='upstream:cut', stream=True):
            assert event.type != 'response.completed'
    assert raised.value.code == 'server_error'


def test_sandbox():
    completion = client_of(TEST_KEY).chat.completions.create(model='auto', messages=user('Hello'))
    assert completion.choices[0].message.content == 'Hello'
