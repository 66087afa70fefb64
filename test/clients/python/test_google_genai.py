"""google-genai, and langchain-google-genai above it."""

import base64
from functools import cache

import pytest
from google import genai
from google.genai import errors, types
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI, GoogleGenerativeAIEmbeddings

from gateway import (
    LIVE_KEY, FAILURES, ORIGIN, OPENAI, PNG, PNG_BYTES, PNG_URI, WEATHER_QUESTION, Person,
    every_model, every_model_and_auto, failures, marker, requests_to,
)  # fmt: skip


@cache
def google(key=LIVE_KEY):
    """A client that stays open: one that nobody holds is closed."""
    return genai.Client(api_key=key, http_options={'base_url': ORIGIN})


def langchain(model, key=LIVE_KEY, **more):
    return ChatGoogleGenerativeAI(model=model, google_api_key=key, base_url=ORIGIN, max_retries=1, **more)


def weather(city: str) -> str:
    """The weather in a city."""
    return f'sunny in {city}'


def assert_has_image(model, question):
    """Google's own models get what the client wrote, which is base64 for URLs."""
    (request,) = requests_to(model, question)
    assert PNG in request['raw'] or base64.urlsafe_b64encode(PNG_BYTES).decode() in request['raw']


@every_model_and_auto
def test_run_and_stream(model):
    question = f'Hello {marker()}'
    answer = google().models.generate_content(model=model, contents=question)
    assert answer.text == f'Echo: {question}'
    assert answer.usage_metadata.total_token_count > 0
    parts = list(google().models.generate_content_stream(model=model, contents=question))
    assert ''.join(part.text or '' for part in parts) == f'Echo: {question}'
    assert parts[-1].usage_metadata.total_token_count > 0
    assert google().models.count_tokens(model=model, contents=question).total_tokens > 0


@every_model
async def test_async_chat(model):
    chat = google().aio.chats.create(model=model)
    for question in (f'Hello {marker()}', f'And {marker()}'):
        assert (await chat.send_message(question)).text == f'Echo: {question}'


@every_model
def test_tools(model):
    asked = []

    def weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return f'sunny in {city} {result}'

    result = marker()
    config = types.GenerateContentConfig(tools=[weather])
    assert google().models.generate_content(model=model, contents=WEATHER_QUESTION, config=config).text
    assert sorted(asked) == ['Oslo', 'Rome']
    assert len(requests_to(model, result)) == 1


@every_model
def test_structured_output(model):
    config = types.GenerateContentConfig(response_mime_type='application/json', response_schema=Person)
    answer = google().models.generate_content(model=model, contents='Who is it?', config=config)
    assert isinstance(answer.parsed, Person)


@every_model
def test_image(model):
    question = f'What is this? {marker()}'
    contents = [types.Part.from_bytes(data=PNG_BYTES, mime_type='image/png'), question]
    assert question in google().models.generate_content(model=model, contents=contents).text
    assert_has_image(model, question)


@pytest.mark.parametrize('model', ['gemini-embedding-001', 'text-embedding-3-small'])
def test_embeddings(model):
    answer = google().models.embed_content(model=model, contents=['Hello', 'World'])
    assert [len(each.values) > 0 for each in answer.embeddings] == [True, True]
    embeddings = GoogleGenerativeAIEmbeddings(model=model, google_api_key=LIVE_KEY, base_url=ORIGIN)
    assert len(embeddings.embed_query('Hello')) > 0
    assert len(embeddings.embed_documents(['Hello', 'World'])) == 2


def test_models():
    names = {model.name for model in google().models.list()}
    assert {f'models/{OPENAI}', 'models/gemini-3.5-flash'} <= names
    assert google().models.get(model=OPENAI).input_token_limit > 0


@failures(
    {
        'wrong key': errors.ClientError,
        'unknown model': errors.ClientError,
        'rate limit': errors.ClientError,
        'no credit': errors.ClientError,
        'overflow': errors.ClientError,
        'OpenAI fails': errors.ServerError,
        'Anthropic fails': errors.ServerError,
        'Gemini fails': errors.ServerError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        google(key).models.generate_content(model=model, contents=prompt)


@every_model
def test_cut_stream(model):
    with pytest.raises(Exception):
        for _ in google().models.generate_content_stream(model=model, contents='upstream:cut'):
            pass


@every_model_and_auto
def test_langchain_run_and_stream(model):
    chat = langchain(model)
    question = f'Hello {marker()}'
    assert chat.invoke(question).text == f'Echo: {question}'
    message = None
    for chunk in chat.stream(question):
        message = chunk if message is None else message + chunk
    assert message.text == f'Echo: {question}'
    assert message.usage_metadata['total_tokens'] > 0


@every_model
def test_langchain_agent(model):
    agent = create_agent(langchain(model), [tool(weather)])
    messages = agent.invoke({'messages': [HumanMessage(WEATHER_QUESTION)]})['messages']
    assert [message.type for message in messages] == ['human', 'ai', 'tool', 'tool', 'ai']


@every_model
def test_langchain_structured_output(model):
    assert isinstance(langchain(model).with_structured_output(Person).invoke('Who is it?'), Person)


@every_model
def test_langchain_image(model):
    question = f'What is this? {marker()}'
    content = [{'type': 'text', 'text': question}, {'type': 'image_url', 'image_url': {'url': PNG_URI}}]
    assert question in langchain(model).invoke([HumanMessage(content)]).text
    assert_has_image(model, question)


@failures({'wrong key': Exception, 'unknown model': Exception, 'no credit': Exception})
def test_langchain_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        langchain(model, key).invoke(prompt)
