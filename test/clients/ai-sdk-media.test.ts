import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { aiSdk, chatModels, generationNames } from './support/ai-sdk.ts'
import { createKey, emptyKey, liveKey, requestsTo, testKey } from './support/environment.ts'
import { Attempts } from './support/openai.ts'
import { image, marker, wav } from './support/samples.ts'

const isPng = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1', 1, 4) === 'PNG'

/** The packages that use the Responses API. */
const ofResponses = new Set(['openai', 'open-responses'])

for (const generation of generationNames) {
  const sdk = aiSdk(generation, liveKey)
  const { ai, openai, compatible, openrouter } = sdk

  test.serial(`200 ${generation}: embeddings of every provider package`, async t => {
    const name = 'text-embedding-3-small'
    const models = [openai.embedding(name), compatible.embeddingModel(name), openrouter.textEmbeddingModel(name)]
    for (const model of models) {
      const { embeddings, usage } = await ai.embedMany({ model, values: ['one', 'two'], maxRetries: 0 })
      t.is(embeddings.length, 2)
      t.true(usage.tokens > 0)
      t.deepEqual((await ai.embed({ model, value: 'one', maxRetries: 0 })).embedding, embeddings[0])
    }
  })

  test.serial(`200 ${generation}: images are generated and edited`, async t => {
    for (const model of [openai.image('gpt-image-2'), compatible.imageModel('gpt-image-2')]) {
      const prompt = `A cat ${marker()}`
      const { images, usage } = await ai.generateImage({ model, prompt, n: 2, size: '1024x1024', maxRetries: 0 })
      t.is(images.length, 2)
      for (const { uint8Array } of images) t.true(isPng(uint8Array))
      if (model.provider.startsWith('openai')) t.true(usage.totalTokens! > 0)
      const change = `In red ${marker()}`
      const edited = await ai.generateImage({ model, prompt: { text: change, images: [image] }, maxRetries: 0 })
      t.true(isPng(edited.image.uint8Array))
      t.is((await requestsTo('openai', change))[0]!.path, '/v1/images/edits')
    }
  })

  test.serial(`200 ${generation}: speech`, async t => {
    const text = `Good morning ${marker()}`
    const model = openai.speech('gpt-4o-mini-tts')
    const { audio } = await ai.generateSpeech({ model, text, voice: 'alloy', outputFormat: 'wav', maxRetries: 0 })
    t.is(Buffer.from(audio.uint8Array).toString('latin1', 0, 4), 'RIFF')
    t.is((await requestsTo('openai', text))[0]!.body.voice, 'alloy')
  })

  test.serial(`200 ${generation}: transcription by each model`, async t => {
    for (const name of ['whisper-1', 'gpt-4o-transcribe', 'gpt-4o-mini-transcribe'])
      t.regex((await ai.transcribe({ model: openai.transcription(name), audio: wav(1_000), maxRetries: 0 })).text, /\w/)
  })

  test.serial(`200 ${generation}: the sandbox gives pictures, speech and transcripts`, async t => {
    const sandbox = aiSdk(generation, testKey).openai
    const { image } = await ai.generateImage({ model: sandbox.image('gpt-image-2'), prompt: 'A cat', maxRetries: 0 })
    t.true(isPng(image.uint8Array))
    const spoken = await ai.generateSpeech({ model: sandbox.speech('gpt-4o-mini-tts'), text: 'Hello', maxRetries: 0 })
    t.true(spoken.audio.uint8Array.length > 0)
    const model = sandbox.transcription('gpt-4o-transcribe')
    t.regex((await ai.transcribe({ model, audio: wav(1_000), maxRetries: 0 })).text, /\w/)
  })

  type Refusal = [title: string, key: string | (() => Promise<string>), model: string, status: number]
  const refusals: Refusal[] = [
    ['a key that does not exist', 'svc_sk_test_nobody', 'auto', 401],
    ['an empty wallet', emptyKey, 'gpt-5.6-luna', 402],
    ['a model outside the allowlist', () => createKey({ model_allowlist: ['gpt-4.1'] }), 'gpt-5.6-luna', 403],
    ['a model that does not exist', testKey, 'no-such-model', 404],
  ]
  for (const [title, key, model, status] of refusals)
    test.serial(`${status} ${generation}: ${title} is an APICallError that is not asked again`, async t => {
      const apiKey = typeof key === 'string' ? key : await key()
      for (const [packageName, modelOf] of Object.entries(chatModels)) {
        // Codex stops at once on 429 `insufficient_quota`, which this client asks again.
        if (status === 402 && ofResponses.has(packageName)) continue
        const attempts = new Attempts()
        const sdk = aiSdk(generation, apiKey, attempts.fetch)
        const asked = ai.generateText({ model: modelOf(sdk, model), prompt: 'Hello', maxRetries: 2 })
        const error = await asked.catch(error => error)
        t.true(ai.APICallError.isInstance(error), String(error))
        t.like(error, { statusCode: status, isRetryable: false })
        // This package reads no error whose `param` is null, as it is at OpenAI.
        if (packageName !== 'open-responses') t.regex(error.message, /\w{3}.* .*\w{3}/)
        t.is(attempts.count, 1)
      }
    })

  test.serial(`429 ${generation}: an empty wallet is a RetryError where the Responses API is used`, async t => {
    for (const packageName of ofResponses) {
      const attempts = new Attempts()
      const model = chatModels[packageName]!(aiSdk(generation, emptyKey, attempts.fetch), 'gpt-5.6-luna')
      const error = await ai.generateText({ model, prompt: 'Hello', maxRetries: 1 }).catch(error => error)
      t.true(ai.RetryError.isInstance(error), String(error))
      t.is((error.lastError as { statusCode?: number }).statusCode, 429)
      t.is(attempts.count, 2)
    }
  })

  test.serial(`429 ${generation}: the rate limit of a key can be asked again`, async t => {
    const sdk = aiSdk(generation, await createKey({ environment: 'test', rpm_limit: 1 }))
    const ask = () => ai.generateText({ model: sdk.openai.chat('auto'), prompt: 'Hello', maxRetries: 0 })
    await ask()
    const error = await ask().catch(error => error)
    t.like(error, { statusCode: 429, isRetryable: true })
    t.regex(error.responseHeaders['retry-after'], /^\d+$/)
  })

  test.serial(`502 ${generation}: a provider at its limit is asked again after the seconds it named`, async t => {
    const attempts = new Attempts()
    const { openai } = aiSdk(generation, testKey, attempts.fetch)
    const asked = ai.generateText({ model: openai.chat('auto'), prompt: 'sandbox:rate_limit', maxRetries: 1 })
    const error = await asked.catch(error => error)
    t.true(ai.RetryError.isInstance(error))
    t.is(error.reason, 'maxRetriesExceeded')
    const [first, second] = attempts.startedMs
    t.is(attempts.count, 2)
    t.true(second! - first! >= 1_000)
  })

  for (const [packageName, modelOf] of Object.entries(chatModels))
    test.serial(
      `200 ${generation}, ${packageName}: a stream that the provider breaks off is not taken for whole`,
      async t => {
        for (const prompt of ['upstream:error', 'upstream:cut']) {
          const model = modelOf(sdk, 'gpt-5.6-luna')
          const seen: string[] = []
          for await (const part of ai.streamText({ model, prompt, maxRetries: 0, onError: () => {} }).fullStream) {
            if (part.type === 'error') seen.push('error')
            if (part.type === 'finish') seen.push(`finish: ${part.finishReason}`)
          }
          // OpenAI's package drops the `error` of an event that has `choices` too, an older one that of `response.failed`.
          const isDropped = packageName === 'open-responses' && generation === 'ai 6'
          const found = isDropped ? seen.filter(part => part !== 'error') : seen
          // This package has a part for each of the two events that end a failed response.
          const errors = packageName === 'open-responses' ? ['error', 'error'] : ['error']
          const expected = isDropped ? ['finish: error'] : [...errors, 'finish: error']
          t.deepEqual(found, packageName === 'openai.chat' ? ['finish: other'] : expected, prompt)
        }
      },
    )

  test.serial(`200 ${generation}: aborting a stream hangs up on the provider`, async t => {
    const prompt = `upstream:hang ${marker()}`
    const abort = new AbortController()
    const model = openai.chat('gpt-5.6-luna')
    const result = ai.streamText({ model, prompt, abortSignal: abort.signal, maxRetries: 0, onError: () => {} })
    for await (const _piece of result.textStream) abort.abort()
    let aborted = false
    for (let looks = 0; looks < 1_200 && !aborted; looks++) {
      aborted = (await requestsTo('openai', prompt))[0]!.aborted
      await sleep(50)
    }
    t.true(aborted)
  })
}
