"""What the tests know of the gateway that `npm run test:clients` started, and of the providers emulated behind it."""

import base64
import json
import os
import uuid
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from pydantic import BaseModel, Field

BASE_URL = os.environ['BASE_URL']
ORIGIN = BASE_URL.removesuffix('/v1')
LIVE_KEY = os.environ['LIVE_KEY']
TEST_KEY = os.environ['TEST_KEY']
EMPTY_KEY = os.environ['EMPTY_KEY']

OPENAI, CLAUDE, GEMINI = 'gpt-5.6-luna', 'claude-haiku-4-5', 'gemini-3.5-flash'
# A model that cannot be forced to call a tool, and one whose context is 40,000 tokens.
UNFORCED, SMALL = 'claude-sonnet-5-5', 'agent-small'
PROVIDERS = {OPENAI: 'openai', CLAUDE: 'anthropic', GEMINI: 'gemini', UNFORCED: 'anthropic'}

every_model = pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI])
every_model_and_auto = pytest.mark.parametrize('model', [OPENAI, CLAUDE, GEMINI, 'auto'])

WEATHER_QUESTION = 'What is the weather in Oslo and Rome?'
PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
PNG_BYTES = base64.b64decode(PNG)
PNG_URI = f'data:image/png;base64,{PNG}'


class Person(BaseModel):
    """Has the limits that providers' strict schemas differ in."""

    name: str = Field(min_length=1)
    age: int = Field(ge=0, le=150)


class City(BaseModel):
    """A city."""

    city: str


def marker() -> str:
    """A word that nothing else has said: to find a request again by."""
    return f'mark{uuid.uuid4().hex[:12]}'


def requests_to(model: str, containing: str) -> list[dict[str, Any]]:
    """The requests that the provider of a model got with this text in them."""
    query = urlencode({'containing': containing})
    with urlopen(f'{os.environ["UPSTREAMS_URL"]}/{PROVIDERS[model]}?{query}') as response:
        return json.load(response)


def create_key(**policy: Any) -> str:
    """Creates a key with a policy of its own; its secret."""
    headers = {'authorization': f'Bearer {os.environ["PROVISIONING_KEY"]}', 'content-type': 'application/json'}
    body = json.dumps({'name': 'python', **policy}).encode()
    with urlopen(Request(f'{ORIGIN}/api/v1/keys', body, headers)) as response:
        return json.load(response)['key']


def used_up_key() -> str:
    """A key whose one request of this minute is made."""
    key = create_key(environment='test', rpm_limit=1)
    body = json.dumps({'model': 'auto', 'messages': [{'role': 'user', 'content': 'Hello'}]}).encode()
    headers = {'authorization': f'Bearer {key}', 'content-type': 'application/json'}
    urlopen(Request(f'{BASE_URL}/chat/completions', body, headers)).close()
    return key


LONG = 'word ' * 60_000

# Requests that are refused or fail, by what is wrong: the key, the model and the prompt.
FAILURES = {
    'wrong key': lambda: ('svc_sk_live_nobody', OPENAI, 'Hello'),
    'unknown model': lambda: (LIVE_KEY, 'no-such-model', 'Hello'),
    'scope': lambda: (create_key(scopes='embeddings'), OPENAI, 'Hello'),
    'rate limit': lambda: (used_up_key(), OPENAI, 'Hello'),
    'no credit': lambda: (EMPTY_KEY, OPENAI, 'Hello'),
    'overflow': lambda: (LIVE_KEY, SMALL, LONG),
    'OpenAI fails': lambda: (LIVE_KEY, OPENAI, 'upstream:down'),
    'Anthropic fails': lambda: (LIVE_KEY, CLAUDE, 'upstream:down'),
    'Gemini fails': lambda: (LIVE_KEY, GEMINI, 'upstream:down'),
    'OpenAI is busy': lambda: (LIVE_KEY, OPENAI, 'upstream:busy'),
    'Anthropic is busy': lambda: (LIVE_KEY, CLAUDE, 'upstream:busy'),
    'Gemini is busy': lambda: (LIVE_KEY, GEMINI, 'upstream:busy'),
}


def failures(errors: dict[str, type[Exception]]) -> Any:
    """Parametrizes a test with the failures, and the error that the library is to raise for each."""
    return pytest.mark.parametrize(('failure', 'error'), list(errors.items()))
