import { Emulator, type Recorded, type Reply } from '../../emulators/emulator.ts'

/** An answer as it came from an emulator. */
export type Answer = { status: number; headers: Record<string, string>; body: Buffer }

/** A proxy between an adapter and an emulator: it records the traffic and can corrupt replies. */
export type Relay = {
  url: string
  /** Records the requests, and takes one-off replies. */
  emulator: Emulator
  /** Of the requests with the same index, as far as the emulator answered them. */
  answers: Map<Recorded, Answer>
  /** What becomes of each answer, by the number of its request; null = nothing. */
  spoil(how: ((answer: Answer, index: number) => Answer | Reply | null) | null): void
  /** Which requests get another answer, by their number; the emulator does not receive them. */
  replace(how: (index: number) => Answer | null): void
  close(): Promise<void>
}

const ofConnections = new Set(['host', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'expect'])

/** Starts a relay to an emulator, whose address in texts becomes the relay's own. */
export async function startRelay(target: string): Promise<Relay> {
  const answers: Relay['answers'] = new Map()
  let spoiling: Parameters<Relay['spoil']>[0] = null
  let replacing: Parameters<Relay['replace']>[0] = () => null
  const emulator = await Emulator.start(async (request, response) => {
    const index = emulator.requests.indexOf(request)
    const other = replacing(index)
    if (other) return replyOf(other)(request, response)
    const answer = await forwarded(target, emulator.url, request)
    answers.set(request, answer)
    const spoilt = spoiling?.(answer, index) ?? answer
    await (typeof spoilt === 'function' ? spoilt : replyOf(spoilt))(request, response)
  })
  return {
    url: emulator.url,
    emulator,
    answers,
    spoil: how => {
      spoiling = how
    },
    replace: how => {
      replacing = how
    },
    close: () => emulator.close(),
  }
}

export function replyOf({ status, headers, body }: Answer): Reply {
  return (_request, response) => void response.writeHead(status, headers).end(body)
}

/** The first half of an answer, after which the connection breaks, is held open, or ends as if that were all. */
export function halfOf({ status, headers, body }: Answer, then: 'break' | 'hang' | 'end'): Reply {
  return (_request, response) => {
    const length = then === 'end' ? {} : { 'content-length': String(body.length) }
    response.writeHead(status, { ...headers, ...length })
    response.write(body.subarray(0, Math.floor(body.length / 2)), () => {
      if (then === 'break') response.socket?.resetAndDestroy()
    })
    if (then === 'end') response.end()
  }
}

async function forwarded(target: string, own: string, { method, path, query, headers, raw }: Recorded) {
  const handed = Object.entries(headers).filter(([name]) => !ofConnections.has(name)) as [string, string][]
  const answer = await fetch(`${target}${path}${query.size > 0 ? `?${query}` : ''}`, {
    method,
    headers: handed,
    redirect: 'manual',
    ...(method !== 'GET' && { body: new Uint8Array(raw) }),
  })
  const bytes = Buffer.from(await answer.arrayBuffer())
  const isText = /json|text/.test(answer.headers.get('content-type') ?? '')
  return {
    status: answer.status,
    headers: Object.fromEntries([...answer.headers].filter(([name]) => !ofConnections.has(name))),
    body: isText ? Buffer.from(bytes.toString().replaceAll(target, own)) : bytes,
  }
}
