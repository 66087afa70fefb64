import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../shared/base/config.ts'
import { countMessageTokens } from '../../shared/chat/count-tokens.ts'
import { accountHeaders, sentHeaders } from '../../shared/kinds/anthropic-headers.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import { countTokensRequest } from '../../shared/kinds/messages.ts'
import type { Forwarded } from '../../shared/providers/contract.ts'
import { messagesFeatures } from '../../shared/routing/messages-features.ts'
import { endpointWithoutKoa, type Header } from '../endpoint.ts'
import { chatHeaders } from '../schemas/headers.ts'
import { message, messageEvent, tokenCount } from '../schemas/messages.ts'
import { anthropicVersion } from './anthropic-models.ts'
import { runDirect } from './chat.ts'
import { directErrors } from './model-errors.ts'
import { cacheHeader, labelHeaders, sessionHeaders, structuredHeader, timeoutHeader } from './request-headers.ts'

/** As at Anthropic: images and documents are inline. */
const maxBodyBytes = 32 * 1024 * 1024

/** The headers of the dialect that are forwarded where the provider speaks it. */
const anthropicHeaders: Header[] = [
  anthropicVersion,
  {
    name: 'anthropic-beta',
    maxLength: 8_192,
    description: 'Beta features, separated by commas. Forwarded to providers of this format, ignored at others.',
  },
]
const example = {
  model: 'claude-sonnet-4-5',
  max_tokens: 1024,
  system: 'You are a helpful assistant.',
  messages: [{ role: 'user', content: 'Hello!' }],
}

export const createMessage = endpointWithoutKoa({
  method: 'post',
  path: '/v1/messages',
  operationId: 'createMessage',
  tag: 'Messages',
  summary: 'Create a message',
  description:
    'Accepts and returns Anthropic’s Messages format, and takes any chat model. Providers of this format receive the request as you sent it, apart from `model`, the routing fields, and a `max_tokens` lowered by the key’s spend cap; for all others it is translated to a chat completion. Signed thinking goes back to the model and account that made it. Web searches by the provider’s tool are charged each and need `max_uses`; other tools that the provider charges for are refused. With `stream: true` the response is a stream of server-sent events.',
  access: { scope: 'chat' },
  headers: [...anthropicHeaders, ...sessionHeaders, timeoutHeader, cacheHeader, structuredHeader, ...labelHeaders],
  body: directKinds.messages,
  presets: 'messages',
  maxBodyBytes,
  example,
  answers: {
    200: {
      description: 'The message, or its event stream.',
      schema: message,
      events: messageEvent,
      headers: [...chatHeaders, 'request-id'],
    },
  },
  errors: [...directErrors],
  handle(request) {
    const { services, body, raw, headers, search } = request
    return runDirect('messages', request, messagesFeatures(body, raw.length), {
      naming: { metadata: namedIn(body) },
      forwarded: forwardedOf(services.config, headers, search),
    })
  },
})

export const countTokens = endpointWithoutKoa({
  method: 'post',
  path: '/v1/messages/count_tokens',
  operationId: 'countMessageTokens',
  tag: 'Messages',
  summary: 'Count the tokens of a message',
  description:
    'Counts the tokens that the request would have as a prompt. Free of charge; counts as a request against the key’s limits. Providers of this format count them exactly; for all others the result is an estimate that is rather too high.',
  access: { scope: 'chat' },
  free: true,
  headers: anthropicHeaders,
  body: countTokensRequest.meta({ id: 'CountMessageTokensRequest' }),
  presets: 'messages_count',
  maxBodyBytes,
  example: { model: example.model, system: example.system, messages: example.messages },
  answers: { 200: { description: 'The number of tokens.', schema: tokenCount, headers: ['request-id'] } },
  errors: [...directErrors],
  async handle({ services, apiKey, body, raw, client, headers, search }) {
    const whole = { ...body, max_tokens: body.max_tokens ?? 1 }
    const features = messagesFeatures(whole, raw.length)
    const forwarded = forwardedOf(services.config, headers, search)
    const tokens = await countMessageTokens(services, { key: apiKey, body: whole, raw, features, forwarded, client })
    client.answer({}, JSON.stringify({ input_tokens: tokens }))
  },
})

/**
 * What a provider of the dialect receives beside the body. Headers that choose something in the operator's account are
 * not sent, nor are unknown ones, unless the operator passes them on.
 */
function forwardedOf(
  { passUnknownFields }: Pick<Config, 'passUnknownFields'>,
  headers: IncomingHttpHeaders,
  search: string,
): Forwarded {
  const sent: Record<string, string> = {}
  const dropped: string[] = []
  for (const name in headers) {
    const value = headers[name]
    if (!name.startsWith(prefix) || typeof value !== 'string') continue
    if (sentHeaders.has(name) || (passUnknownFields && !accountHeaders.has(name))) sent[name] = value
    else dropped.push(name)
  }
  const isBeta = new URLSearchParams(search).get('beta') === 'true'
  return { headers: sent, query: isBeta ? '?beta=true' : '', dropped }
}

const prefix = 'anthropic-'

/** The name of the end user, in which Claude Code puts its session. */
function namedIn({ metadata }: { metadata?: { user_id?: string | null | undefined } | null | undefined }) {
  return metadata?.user_id ? { user_id: metadata.user_id } : null
}
