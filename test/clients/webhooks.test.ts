import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type OpenAi7 from 'openai-7'
import { Webhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { type Received, Receiver } from '../support/webhooks/receiver.ts'
import { messages, runSnippet } from '../support/webhooks/verify-snippets.ts'
import { baseUrl, testKey, webhookSecret } from './support/environment.ts'
import { clientOf } from './support/openai.ts'

const compilationMs = 240_000
const model = 'veo-3.1-lite' as OpenAi7.VideoModel

/** Each way in which a customer checks that a delivery is ours: by its headers and body, or throws. */
const verifiers: Record<string, (delivery: Received, secret: string) => unknown> = {
  standardwebhooks: ({ body, headers }, secret) => new Webhook(secret).verify(body, headers),
  svix: ({ body, headers }, secret) => {
    new SvixWebhook(secret).verify(body, headers)
    return JSON.parse(body)
  },
  'openai 6': ({ body, headers }, secret) => clientOf('openai 6', testKey).webhooks.unwrap(body, headers, secret),
  'openai 7': ({ body, headers }, secret) => clientOf('openai 7', testKey).webhooks.unwrap(body, headers, secret),
}

test.serial('the webhook of a video job is verified by every package, and a changed one by none', async t => {
  const receiver = await Receiver.start()
  t.teardown(() => receiver.close())
  const submitted = await fetch(`${baseUrl}/videos`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: 'A lighthouse at dusk', seconds: 4, webhook_url: receiver.url }),
  })
  const job = (await submitted.json()) as { id: string }
  t.is(submitted.status, 202)
  for (let looks = 0; looks < 1_200 && receiver.received.length === 0; looks++) await sleep(50)
  const delivery = receiver.last()
  const other = `whsec_${Buffer.alloc(24).toString('base64')}`
  const changed = { ...delivery, body: delivery.body.replace('completed', 'failed') }
  for (const [name, verify] of Object.entries(verifiers)) {
    t.like(
      await verify(delivery, webhookSecret),
      { type: 'job.completed', data: { id: job.id, status: 'completed' } },
      name,
    )
    await t.throwsAsync(async () => verify(delivery, other), undefined, name)
    await t.throwsAsync(async () => verify(changed, webhookSecret), undefined, name)
  }
})

test.serial('the snippet for Go accepts what is signed, and nothing else, where the language is installed', async t => {
  t.timeout(compilationMs)
  const found = await runSnippet('Go')
  if (!found) t.log('not run: the language is not installed')
  const expected = found && messages.map(message => message.expected)
  t.deepEqual(found, expected)
})
