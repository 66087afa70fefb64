"""litellm, through OpenAI's, Anthropic's and Google's providers."""

import json

import litellm
import pytest
from litellm import exceptions

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, LONG, OPENAI, ORIGIN, PNG, PNG_URI, SMALL, UNFORCED, WEATHER_QUESTION,
    Person, every_model, every_model_and_auto, failures, marker, requests_to,
)  # fmt: skip

litellm.suppress_debug_info = True
ROUTES = {
    'openai': BASE_URL,
    'openai/responses': BASE_URL,
    'litellm_proxy': BASE_URL,
    'anthropic': ORIGIN,
    'gemini': f'{ORIGIN}/v1beta',
}
every_route = pytest.mark.parametrize('route', list(ROUTES))
TOOL = {
    'type': 'function',
    'function': {
        'name': 'weather',
        'description': 'The weather in a city',
        'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']},
    },
}


def complete(route, model, content, key=LIVE_KEY, messages=(), **more):
    return litellm.completion(
        model=f'{route}/{model}',
        messages=[{'role': 'user', 'content': content}, *messages],
        api_base=ROUTES[route],
        api_key=key,
        max_retries=0,
        **more,
    )


@every_route
@every_model_and_auto
def test_run_and_stream(route, model):
    question = f'Hello {marker()}'
    answer = complete(route, model, question)
    assert answer.choices[0].message.content == f'Echo: {question}'
    assert answer.usage.total_tokens > 0
    chunks = list(complete(route, model, question, stream=True, stream_options={'include_usage': True}))
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content == f'Echo: {question}'


@every_route
@every_model
def test_tools(route, model):
    result = marker()
    asked = complete(route, model, WEATHER_QUESTION, tools=[TOOL]).choices[0].message
    assert [json.loads(call.function.arguments)['city'] for call in asked.tool_calls] == ['Oslo', 'Rome']
    results = [{'role': 'tool', 'tool_call_id': call.id, 'content': f'sunny {result}'} for call in asked.tool_calls]
    answered = complete(route, model, WEATHER_QUESTION, messages=[asked.model_dump(), *results], tools=[TOOL])
    assert answered.choices[0].message.content
    assert len(requests_to(model, result)) == 1


@pytest.mark.parametrize(
    ('route', 'model'),
    # LiteLLM knows which models of Anthropic have it by their names.
    [
        ('anthropic', CLAUDE),
        *((route, model) for route in ('openai', 'openai/responses') for model in (OPENAI, CLAUDE, GEMINI)),
    ],
)
def test_structured_output(route, model):
    answer = complete(route, model, 'What is the weather in Oslo?', response_format=Person)
    content = json.loads(answer.choices[0].message.content)
    assert set(content) == {'name', 'age'}


@every_route
@every_model
def test_image(route, model):
    question = f'What is this? {marker()}'
    content = [{'type': 'text', 'text': question}, {'type': 'image_url', 'image_url': {'url': PNG_URI}}]
    assert question in complete(route, model, content).choices[0].message.content
    assert PNG in requests_to(model, question)[0]['raw']


@pytest.mark.parametrize('model', [CLAUDE, GEMINI, UNFORCED])
def test_settings(model):
    assert complete('openai', model, 'Hello', temperature=0.1, top_p=0.1, max_tokens=100, stop=['END']).choices
    forced = complete('openai', model, 'The weather in Oslo?', tools=[TOOL], tool_choice='required')
    assert forced.choices[0].message.tool_calls


@failures(
    {
        'wrong key': exceptions.AuthenticationError,
        'unknown model': exceptions.NotFoundError,
        'rate limit': exceptions.RateLimitError,
        'OpenAI fails': exceptions.APIError,
    }
)
@every_route
def test_errors(route, failure, error):
    key, model, prompt = FAILURES[failure]()
    # LiteLLM has classes of its own for the statuses of failed servers, by route.
    failed = (exceptions.InternalServerError, exceptions.BadGatewayError, exceptions.APIConnectionError)
    errors = (error, *failed) if 'fails' in failure else error
    with pytest.raises(errors):
        complete(route, model, prompt, key)


@pytest.mark.parametrize('route', ['openai', 'litellm_proxy'])
def test_no_credit(route):
    key, model, prompt = FAILURES['no credit']()
    with pytest.raises(Exception) as raised:
        complete(route, model, prompt, key)
    assert raised.value.status_code == 402


@every_route
@pytest.mark.parametrize('model', [SMALL, CLAUDE])
def test_overflow(route, model):
    with pytest.raises(exceptions.ContextWindowExceededError):
        complete(route, model, LONG if model == SMALL else LONG * 5)


@every_model
@pytest.mark.parametrize('route', ['openai', 'anthropic'])
def test_cut_stream(route, model):
    with pytest.raises(Exception):
        for _ in complete(route, model, 'upstream:cut', stream=True):
            pass
