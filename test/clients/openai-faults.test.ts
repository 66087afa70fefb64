import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type OpenAi7 from 'openai-7'
import type { APIError } from 'openai-7'
import { createKey, emptyKey, liveKey, requestsTo, testKey } from './support/environment.ts'
import { Attempts, clientOf, type Major, majorNames, majors } from './support/openai.ts'
import { marker } from './support/samples.ts'

const saying = (content: string, model = 'gpt-5.6-luna') => ({ model, messages: [{ role: 'user' as const, content }] })
const chat = (content?: string, model?: string) => (client: OpenAi7) =>
  client.chat.completions.create(saying(content ?? 'Hello', model))

type Refusal = {
  key: string | (() => Promise<string>)
  ask: (client: OpenAi7) => Promise<unknown>
  error: 'APIError' | keyof typeof OpenAi7
  status: number
  code: string
  param?: string
}

/** Refusals that are final: clients must not ask again by themselves. */
const refusals: Record<string, Refusal> = {
  'a key that does not exist': {
    key: 'svc_sk_test_nobody',
    ask: chat(),
    error: 'AuthenticationError',
    status: 401,
    code: 'invalid_api_key',
  },
  'an empty wallet': { key: emptyKey, ask: chat(), error: 'APIError', status: 402, code: 'insufficient_credits' },
  'a key without the scope': {
    key: () => createKey({ scopes: 'chat' }),
    ask: client => client.images.generate({ model: 'gpt-image-2', prompt: 'A cat' }),
    error: 'PermissionDeniedError',
    status: 403,
    code: 'insufficient_scope',
  },
  'a model that does not exist': {
    key: testKey,
    ask: chat('Hello', 'no-such-model'),
    error: 'NotFoundError',
    status: 404,
    code: 'model_not_found',
    param: 'model',
  },
  'a field of the wrong type': {
    key: testKey,
    ask: client => client.chat.completions.create({ ...saying('Hello'), temperature: 'hot' as unknown as number }),
    error: 'BadRequestError',
    status: 400,
    code: 'invalid_request',
    param: 'temperature',
  },
  'a route that the gateway does not have': {
    key: testKey,
    ask: client => client.fineTuning.jobs.list(),
    error: 'NotFoundError',
    status: 404,
    code: 'not_found',
  },
  'the rate limit of the key, to a client that does not wait': {
    key: async () => {
      const key = await createKey({ environment: 'test', rpm_limit: 1 })
      await chat()(clientOf('openai 7', key))
      return key
    },
    ask: chat(),
    error: 'RateLimitError',
    status: 429,
    code: 'rate_limit_exceeded',
  },
}

async function failureOf(asked: Promise<unknown>): Promise<APIError> {
  return asked.then(
    () => Promise.reject(new Error('no error came')),
    error => error,
  )
}

for (const major of majorNames) {
  const classes = majors[major] as unknown as Record<string, new (...args: never[]) => APIError>

  for (const [title, { key, ask, error: name, status, code, param }] of Object.entries(refusals)) {
    test.serial(`${status} ${major}: ${title} is its ${name}`, async t => {
      const attempts = new Attempts()
      const maxRetries = status === 429 ? 0 : 2
      const apiKey = typeof key === 'string' ? key : await key()
      const error = await failureOf(ask(clientOf(major, apiKey, { fetch: attempts.fetch, maxRetries })))
      t.true(error instanceof classes[name]!, String(error))
      t.like(error, { status, code })
      t.regex(error.message, /\w{3}/)
      if (param) t.is(error.param, param)
      if (status === 429) t.regex(new Headers(error.headers).get('retry-after') ?? '', /^\d+$/)
      t.is(attempts.count, 1)
    })
  }

  test.serial(`502 ${major}: a provider at its limit is asked again after the seconds it named`, async t => {
    const attempts = new Attempts()
    const client = clientOf(major, testKey, { fetch: attempts.fetch, maxRetries: 1 })
    const error = await failureOf(chat('sandbox:rate_limit')(client))
    t.true(error instanceof classes.InternalServerError!)
    t.like(error, { status: 502, code: 'upstream_error' })
    const [first, second] = attempts.startedMs
    t.is(attempts.count, 2)
    t.true(second! - first! >= 1_000)
  })

  test.serial(`503 ${major}: a model that no configured provider has now`, async t => {
    const attempts = new Attempts()
    const client = clientOf(major, liveKey, { fetch: attempts.fetch })
    const error = await failureOf(chat('Hello', 'grok-4.5')(client))
    t.true(error instanceof classes.InternalServerError!)
    t.like(error, { status: 503, code: 'no_provider_available' })
    t.regex(new Headers(error.headers).get('retry-after') ?? '', /^\d+$/)
  })

  for (const fault of ['upstream:error', 'upstream:cut'])
    test.serial(`200 ${major}: a stream that the provider breaks off (${fault}) ends in its APIError`, async t => {
      const client = clientOf(major, liveKey)
      const stream = await client.chat.completions.create({ ...saying(fault), stream: true })
      const finishes: unknown[] = []
      const read = async () => {
        for await (const { choices } of stream) finishes.push(choices[0]?.finish_reason)
      }
      t.true((await failureOf(read())) instanceof classes.APIError!)
      t.false(finishes.includes('stop'))
    })

  test.serial(`200 ${major}: aborting a stream hangs up on the provider`, async t => {
    await t.notThrowsAsync(abort(major))
  })
}

/** Reads the first word of an answer that never ends, goes away, and waits until the provider was hung up on. */
async function abort(major: Major): Promise<void> {
  const question = `upstream:hang ${marker()}`
  const stream = await clientOf(major, liveKey).chat.completions.create({ ...saying(question), stream: true })
  for await (const _chunk of stream) break
  for (let looks = 0; looks < 1_200; looks++) {
    const [request] = await requestsTo('openai', question)
    if (request!.aborted) return
    await sleep(50)
  }
  throw new Error('the provider is still answering')
}
