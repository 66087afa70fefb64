"""dspy, which asks through litellm."""

import dspy
import pytest
from dspy.utils import exceptions

from gateway import (
    BASE_URL, FAILURES, LIVE_KEY, every_model, failures,
)  # fmt: skip


def lm_of(model, key=LIVE_KEY, **more):
    settings = {'num_retries': 0, 'cache': False, 'max_tokens': 20_000, 'temperature': 1.0, **more}
    return dspy.LM(f'openai/{model}', api_base=BASE_URL, api_key=key, **settings)


@every_model
@pytest.mark.parametrize('model_type', ['chat', 'responses'])
def test_run(model, model_type):
    (answer,) = lm_of(model, model_type=model_type)('Hello')
    text = answer['text'] if isinstance(answer, dict) else answer
    assert text == 'Echo: Hello'


class Find(dspy.Signature):
    """Find the person."""

    question: str = dspy.InputField()
    name: str = dspy.OutputField()
    age: int = dspy.OutputField()


@every_model
def test_structured_output(model):
    with dspy.context(lm=lm_of(model), adapter=dspy.JSONAdapter()):
        person = dspy.Predict(Find)(question='Who is it?')
    assert isinstance(person.name, str) and isinstance(person.age, int)


@failures(
    {
        'wrong key': exceptions.LMAuthError,
        'unknown model': exceptions.LMUnsupportedModelError,
        'overflow': exceptions.ContextWindowExceededError,
    }
)
def test_errors(failure, error):
    key, model, prompt = FAILURES[failure]()
    with pytest.raises(error):
        lm_of(model, key)(prompt)
