"""llama-index with OpenAI's chat completions and responses."""

import openai
import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, PNG, PNG_BYTES, WEATHER_QUESTION, City, every_model, every_model_and_auto,
    failures, marker, requests_to,
)  # fmt: skip


def llm_of(model, key=LIVE_KEY):
    return OpenAILike(
        model=model, api_base=BASE_URL, api_key=key, max_retries=0, is_chat_model=True, is_function_calling_model=True
    )


@every_model_and_auto
def test_run_and_stream(model):
    question = f'Hello {marker()}'
    llm = llm_of(model)
    assert llm.complete(question).text == f'Echo: {question}'
    chunks = list(llm.stream_chat([ChatMessage(role='user', content=question)]))
    assert chunks[-1].message.content == f'Echo: {question}'


@pytest.mark.parametrize('make', [OpenAI, OpenAIResponses])
def test_classes_of_the_names_that_the_library_knows(make):
    question = f'Hello {marker()}'
    llm = make(model='gpt-4o', api_base=BASE_URL, api_key=LIVE_KEY, max_retries=0)
    assert llm.complete(question).text == f'Echo: {question}'


@every_model
async def test_agent(model):
    cities = []

    def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f'sunny in {city}'

    agent = FunctionAgent(tools=[weather], llm=llm_of(model))
    assert str(await agent.run(WEATHER_QUESTION))
    assert sorted(cities) == ['Oslo', 'Rome']


@every_model
def test_structured_output(model):
    program = llm_of(model).as_structured_llm(City)
    answer = program.chat([ChatMessage(role='user', content='What is the weather in Oslo?')])
    assert answer.raw == City(city='Oslo')


@every_model
def test_image(model):
    question = f'What is this? {marker()}'
    blocks = [TextBlock(text=question), ImageBlock(image=PNG_BYTES, image_mimetype='image/png')]
    assert question in llm_of(model).chat([ChatMessage(role='user', blocks=blocks)]).message.content
    assert PNG in requests_to(model, question)[0]['raw']


@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': openai.NotFoundError,
        'rate limit': openai.RateLimitError,
        'no credit': openai.APIStatusError,
        'overflow': openai.BadRequestError,
        'OpenAI fails': openai.InternalServerError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        llm_of(model, key).complete(prompt)


@every_model
def test_cut_stream(model):
    with pytest.raises(openai.APIError):
        for _ in llm_of(model).stream_chat([ChatMessage(role='user', content='upstream:cut')]):
            pass
