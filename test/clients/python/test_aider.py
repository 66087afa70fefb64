"""aider, the program, with OpenAI's and Anthropic's routes."""

import os
import subprocess
import sys

import pytest

from gateway import BASE_URL, CLAUDE, FAILURES, GEMINI, LIVE_KEY, OPENAI, ORIGIN, marker, requests_to

QUIET = """--yes-always --no-git --no-gitignore --no-check-update --no-show-release-notes --no-show-model-warnings --no-pretty
    --no-fancy-input --analytics-disable --no-detect-urls --no-suggest-shell-commands --map-tokens 0 --no-stream"""
ROUTES = {
    'openai': lambda key: ['--openai-api-base', BASE_URL, '--openai-api-key', key],
    'anthropic': lambda key: ['--anthropic-api-key', key, '--set-env', f'ANTHROPIC_API_BASE={ORIGIN}'],
}


def run(folder, route, model, prompt, key=LIVE_KEY, *more):
    """What aider prints; the emulated provider answers with the prompt, so that it can contain an edit."""
    (folder / 'prompt.md').write_text(prompt)
    # Its list of prices, which it would fetch from the Internet.
    prices = folder / '.aider/caches/model_prices_and_context_window.json'
    prices.parent.mkdir(parents=True)
    prices.write_text('{"none": {}}')
    command = [sys.executable, '-m', 'aider', '--model', f'{route}/{model}', *ROUTES[route](key), *QUIET.split(), *more]
    done = subprocess.run(
        [*command, '--message-file', 'prompt.md'],
        cwd=folder,
        env={**os.environ, 'HOME': str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ('route', 'model'), [('openai', OPENAI), ('openai', CLAUDE), ('openai', GEMINI), ('anthropic', CLAUDE)]
)
def test_edit(tmp_path, route, model):
    word = marker()
    (tmp_path / 'notes.txt').write_text('first\n')
    prompt = f'\n\nnotes.txt\n```\n<<<<<<< SEARCH\nfirst\n=======\n{word}\n>>>>>>> REPLACE\n```\n'
    output = run(tmp_path, route, model, prompt, LIVE_KEY, '--edit-format', 'diff', '--file', 'notes.txt')
    assert (tmp_path / 'notes.txt').read_text() == f'{word}\n', output
    assert requests_to(model, word)


@pytest.mark.parametrize(
    ('failure', 'shown'),
    [('wrong key', 'AuthenticationError'), ('unknown model', 'NotFoundError'), ('overflow', 'context window')],
)
def test_errors(tmp_path, failure, shown):
    key, model, prompt = FAILURES[failure]()
    assert shown in run(tmp_path, 'openai', model, prompt, key)
