"""crewai with its OpenAI provider."""

import openai
import pytest
from crewai import LLM, Agent
from crewai.tools import tool
from crewai.utilities.exceptions.context_window_exceeding_exception import LLMContextLengthExceededError

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, WEATHER_QUESTION, Person, every_model, failures, marker,
)  # fmt: skip


def llm_of(model, key=LIVE_KEY, **more):
    return LLM(model=model, provider='openai', base_url=BASE_URL, api_key=key, max_retries=0, **more)


@every_model
def test_run_and_stream(model):
    question = f'Hello {marker()}'
    assert llm_of(model).call(question) == f'Echo: {question}'
    assert llm_of(model, stream=True).call(question) == f'Echo: {question}'


@every_model
def test_structured_output(model):
    answer = llm_of(model).call('Who is it?', response_model=Person)
    assert isinstance(answer, Person) or Person.model_validate_json(answer)


@every_model
def test_agent(model):
    cities = []

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f'sunny in {city}'

    agent = Agent(
        role='Reporter', goal='Report', backstory='You report.', llm=llm_of(model), tools=[weather], max_iter=3
    )
    assert agent.kickoff(WEATHER_QUESTION).raw
    assert {'Oslo', 'Rome'} <= set(cities)


@failures(
    {
        'wrong key': openai.AuthenticationError,
        'unknown model': Exception,
        'no credit': openai.APIStatusError,
        'overflow': LLMContextLengthExceededError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        llm_of(model, key).call(prompt)
