import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import * as anthropicReplies from '../../emulators/anthropic.ts'
import { Emulator, events, framed, type Recorded, type Reply } from '../../emulators/emulator.ts'
import * as geminiReplies from '../../emulators/gemini.ts'
import { chatChunk, chatReply, reply as openAiReply, rateLimited, serverError } from '../../emulators/openai.ts'
import { openAiAudio } from '../../emulators/openai-audio.ts'
import { openAiImages } from '../../emulators/openai-images.ts'
import { responsesReply } from '../../emulators/openai-responses.ts'
import { AgentUpstream } from '../agents/upstream.ts'
import { anthropicAgent, geminiAgent, openAiAgent } from './agent-upstream.ts'

/** The emulated providers of the matrix, and an address that tells what they were asked. */
export type Upstreams = {
  /**
   * `GET <url>/<provider>?containing=<text>`: the requests that one provider got, as `Seen`.
   * `GET <url>/conversation?name=<name>`: what the providers stated about an agent's conversation, as `Account`.
   */
  url: string
  /** What makes the gateway use them. */
  env: Record<string, string>
  close(): Promise<void>
}

/** One request as a provider received it. */
export type Seen = {
  method: string
  path: string
  headers: Record<string, string>
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
  body: any
  /** The body's bytes as Latin-1: forms are not parsed. */
  raw: string
  /** Whether the caller went away before the answer was whole. */
  aborted: boolean
}

/** What OpenAI does when the prompt has one of these words. */
const faults: Record<string, Reply> = {
  'upstream:cut': chatReply({ cutAfter: 2 }),
  'upstream:error': chatReply({ errorAfter: 2 }),
  'upstream:busy': rateLimited('1'),
  'upstream:down': serverError,
  'upstream:hang': events([framed([chatChunk({ role: 'assistant', content: 'And' })])], { end: 'hang' }),
}

/** The same in the Responses format. */
const responsesFaults: Record<string, Reply> = {
  ...faults,
  'upstream:cut': responsesReply({ cutAfter: 6 }),
  'upstream:error': responsesReply({ failAfter: 6 }),
}

/** What Anthropic does on the same words. */
const anthropicFaults: Record<string, Reply> = {
  'upstream:cut': anthropicReplies.cutMidStream,
  'upstream:error': anthropicReplies.errorMidStream(),
  'upstream:busy': anthropicReplies.rateLimited(1),
  'upstream:down': anthropicReplies.failed(500, 'api_error', 'Internal server error'),
}

/** What Google does on the same words. */
const geminiFaults: Record<string, Reply> = {
  'upstream:cut': geminiReplies.cutStream(['Half an ', 'answer']),
  'upstream:busy': geminiReplies.rateLimited('1s'),
  'upstream:down': geminiReplies.geminiError(500, 'INTERNAL', 'An internal error has occurred.'),
}

/** Answers a request that has the word of a fault with it, and any other as `fallback` does. */
function withFaults(replies: Record<string, Reply>, fallback: Reply): Reply {
  return (request, response) => {
    const fault = Object.keys(replies).find(word => request.raw.includes(word))
    return (fault ? replies[fault]! : fallback)(request, response)
  }
}

const answer: Reply = (request, response) => {
  const replies = request.path.startsWith('/v1/responses') ? responsesFaults : faults
  return withFaults(replies, healthyOpenAi)(request, response)
}

const healthyOpenAi: Reply = (request, response) => {
  if (request.path.startsWith('/v1/audio/')) return openAiAudio(request, response)
  if (request.path.startsWith('/v1/images/')) return openAiImages(request, response)
  return openAiReply(request, response)
}

export async function startUpstreams(): Promise<Upstreams> {
  const agents = new AgentUpstream()
  const [openai, anthropic, gemini] = await Promise.all([
    Emulator.start(agents.reply('openai', openAiAgent(answer))),
    Emulator.start(agents.reply('anthropic', withFaults(anthropicFaults, anthropicAgent))),
    Emulator.start(agents.reply('gemini', withFaults(geminiFaults, geminiAgent))),
  ])
  const emulators: Record<string, Emulator> = { openai, anthropic, gemini }
  const server = http.createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url!, 'http://upstreams')
    response.setHeader('content-type', 'application/json')
    if (pathname === '/conversation')
      return response.end(JSON.stringify(agents.accountOf(searchParams.get('name') ?? '')))
    const text = searchParams.get('containing') ?? ''
    const requests = emulators[pathname.slice(1)]?.requests.filter(({ raw }) => raw.includes(text)) ?? []
    response.end(JSON.stringify(await Promise.all(requests.map(seen))))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    env: {
      OPENAI_API_KEY: 'upstream-openai',
      OPENAI_BASE_URL: `${openai.url}/v1`,
      ANTHROPIC_API_KEY: 'upstream-anthropic',
      ANTHROPIC_BASE_URL: anthropic.url,
      GEMINI_API_KEY: 'upstream-gemini',
      GEMINI_BASE_URL: gemini.url,
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await Promise.all(Object.values(emulators).map(emulator => emulator.close()))
    },
  }
}

async function seen({ method, path, headers, body, raw, aborted }: Recorded): Promise<Seen> {
  const isAborted = await Promise.race([aborted.then(() => true), turn(false)])
  const told = { method, path, headers: headers as Record<string, string>, body, raw: raw.toString('latin1') }
  return { ...told, aborted: isAborted }
}
