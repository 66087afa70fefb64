"""langchain-openai and langchain-anthropic, and the agents of langchain and langgraph."""

import anthropic
import openai
import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.prebuilt import create_react_agent

from gateway import (
    BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, LONG, OPENAI, ORIGIN, PNG, PNG_URI, SMALL, UNFORCED,
    WEATHER_QUESTION, City, Person, every_model, every_model_and_auto, failures, marker, requests_to,
)  # fmt: skip

CLIENTS = {
    'chat': lambda model, key=LIVE_KEY, **more: ChatOpenAI(
        model=model, base_url=BASE_URL, api_key=key, max_retries=0, use_responses_api=False, stream_usage=True, **more
    ),
    'responses': lambda model, key=LIVE_KEY, **more: ChatOpenAI(
        model=model, base_url=BASE_URL, api_key=key, max_retries=0, use_responses_api=True, **more
    ),
    'anthropic': lambda model, key=LIVE_KEY, **more: ChatAnthropic(
        model=model, base_url=ORIGIN, api_key=key, max_retries=0, max_tokens=500, **more
    ),
}
every_client = pytest.mark.parametrize('client', list(CLIENTS))


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f'sunny in {city}'


@every_client
@every_model_and_auto
def test_run_and_stream(client, model):
    chat = CLIENTS[client](model)
    question = f'Hello {marker()}'
    assert chat.invoke(question).text == f'Echo: {question}'
    message = None
    for chunk in chat.stream(question):
        message = chunk if message is None else message + chunk
    assert message.text == f'Echo: {question}'
    assert message.usage_metadata['total_tokens'] > 0


@every_client
@every_model
def test_tools(client, model):
    chat = CLIENTS[client](model).bind_tools([weather])
    result = marker()
    asked = chat.invoke(WEATHER_QUESTION)
    assert [call['args']['city'] for call in asked.tool_calls] == ['Oslo', 'Rome']
    results = [weather.invoke(call) for call in asked.tool_calls]
    for each in results:
        each.content += result
    assert chat.invoke([HumanMessage(WEATHER_QUESTION), asked, *results]).text
    assert len(requests_to(model, result)) == 1
    message = None
    for chunk in chat.stream(WEATHER_QUESTION):
        message = chunk if message is None else message + chunk
    assert [call['args']['city'] for call in message.tool_calls] == ['Oslo', 'Rome']


@every_client
@every_model
def test_structured_output(client, model):
    person = CLIENTS[client](model).with_structured_output(Person, method='json_schema').invoke('Who is it?')
    assert isinstance(person, Person)


@pytest.mark.parametrize(
    ('client', 'model'),
    [
        ('chat', OPENAI),
        ('chat', CLAUDE),
        ('chat', GEMINI),
        ('chat', UNFORCED),
        ('responses', CLAUDE),
        ('anthropic', CLAUDE),
    ],
)
def test_structured_output_by_a_forced_tool(client, model):
    chat = CLIENTS[client](model).with_structured_output(City, method='function_calling')
    assert chat.invoke('What is the weather in Oslo?') == City(city='Oslo')


@every_client
@every_model
def test_image(client, model):
    question = f'What is this? {marker()}'
    content = [{'type': 'text', 'text': question}, {'type': 'image_url', 'image_url': {'url': PNG_URI}}]
    assert question in CLIENTS[client](model).invoke([HumanMessage(content)]).text
    assert PNG in requests_to(model, question)[0]['raw']


@pytest.mark.parametrize('make', [create_agent, create_react_agent])
@every_client
@every_model
def test_agent(client, model, make):
    agent = make(CLIENTS[client](model), [weather])
    messages = agent.invoke({'messages': [HumanMessage(WEATHER_QUESTION)]})['messages']
    assert [message.type for message in messages] == ['human', 'ai', 'tool', 'tool', 'ai']


@pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI, UNFORCED])
def test_agent_with_structured_output(model):
    agent = create_agent(CLIENTS['chat'](model), [], response_format=City)
    result = agent.invoke({'messages': [HumanMessage('What is the weather in Oslo?')]})
    assert isinstance(result['structured_response'], City)


@pytest.mark.parametrize('client', ['chat', 'responses'])
@pytest.mark.parametrize('model', [OPENAI, CLAUDE, 'auto'])
def test_temperature(client, model):
    assert CLIENTS[client](model, temperature=0.2, top_p=0.9).invoke('Hello').text


def test_embeddings():
    embeddings = OpenAIEmbeddings(
        model='text-embedding-3-small', base_url=BASE_URL, api_key=LIVE_KEY, check_embedding_ctx_length=False
    )
    assert len(embeddings.embed_query('Hello')) > 0


@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': openai.NotFoundError,
        'rate limit': openai.RateLimitError,
        'no credit': openai.APIStatusError,
        'OpenAI fails': openai.InternalServerError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    for client in ('chat', 'responses'):
        with pytest.raises(error):
            CLIENTS[client](model, key).invoke(prompt)


@every_client
@pytest.mark.parametrize('model', [SMALL, CLAUDE])
def test_overflow(client, model):
    with pytest.raises(ContextOverflowError):
        CLIENTS[client](model).invoke(LONG if model == SMALL else LONG * 5)


@pytest.mark.parametrize(
    ('client', 'error'), [('chat', openai.APIError), ('responses', openai.APIError), ('anthropic', anthropic.APIError)]
)
@every_model
def test_cut_stream(client, model, error):
    with pytest.raises(error):
        for _ in CLIENTS[client](model).stream('upstream:cut'):
            pass
