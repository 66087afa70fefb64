import type { DashboardKey } from '../../../wire/keys.ts'
import type { CatalogModel } from '../../../wire/models.ts'
import { curlOf } from '../playground/curl.ts'

const hello = 'Say hello in one word.'
/** Example requests by endpoint: the OpenAI SDK's method, and the printed part of the response. */
const examples = {
  chat: {
    path: '/v1/chat/completions',
    method: 'chat.completions',
    type: 'chat',
    input: { messages: [{ role: 'user', content: hello }] },
    shown: 'choices[0].message.content',
  },
  embeddings: {
    path: '/v1/embeddings',
    method: 'embeddings',
    type: 'embeddings',
    input: { input: 'Hello' },
    shown: 'data[0].embedding',
  },
  completions: {
    path: '/v1/completions',
    method: 'completions',
    type: 'chat',
    input: { prompt: hello },
    shown: 'choices[0].text',
  },
}

/** Example requests with a new key, which is read from the environment; only the shell command contains the secret. */
export function snippetsOf(key: DashboardKey, secret: string, models: CatalogModel[]) {
  const scope = key.scopes.includes('*') || key.scopes.includes('chat') ? 'chat' : key.scopes.split(',')[0]!
  const { path, method, type, input, shown } = examples[scope as keyof typeof examples]
  const allowed = models.filter(model => model.type === type && (key.model_allowlist?.includes(model.id) ?? true))
  const fitting = allowed.find(({ available }) => available || key.environment === 'test') ?? allowed[0]
  const body = { model: scope === 'chat' ? 'auto' : (fitting?.id ?? 'auto'), ...input }
  const baseUrl = `${location.origin}/v1`
  const fields = (separator: string, indent: string) =>
    Object.entries(body)
      .map(([name, value]) => `${indent}${name}${separator}${JSON.stringify(value)},\n`)
      .join('')
  return [
    { language: 'curl', code: `export HEADGATE_API_KEY=${secret}\n\n${curlOf({ path, body })}` },
    {
      language: 'Node.js',
      code: `import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: '${baseUrl}',
  apiKey: process.env.HEADGATE_API_KEY,
})
const answer = await client.${method}.create({
${fields(': ', '  ')}})
console.log(answer.${shown})`,
    },
    {
      language: 'Python',
      code: `import os
from openai import OpenAI

client = OpenAI(
    base_url="${baseUrl}",
    api_key=os.environ["HEADGATE_API_KEY"],
)
answer = client.${method}.create(
${fields('=', '    ')})
print(answer.${shown})`,
    },
  ]
}
