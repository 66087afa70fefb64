import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { eventually, type Gateway } from '../gateway.ts'

const root = join(import.meta.dirname, '../../..')
export const model = 'gpt-realtime-2.1'
export const pcmBytesPerSecond = 48_000

// biome-ignore lint/suspicious/noExplicitAny: events of every shape
type Event = any

/** A session with the sandbox as a client of plain WebSockets holds it. */
export class SandboxTalk {
  readonly socket: WebSocket
  readonly events: Event[] = []
  #read = 0

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data: Buffer) => this.events.push(JSON.parse(data.toString())))
  }

  send(...events: object[]): void {
    for (const event of events) this.socket.send(JSON.stringify(event))
  }

  /** What came since the last time, up to the next event of a type, which is the last. */
  async until(type: string): Promise<Event[]> {
    const found = () => this.events.findIndex((event, index) => index >= this.#read && event.type === type)
    await eventually(() => found() >= 0, `${type} came after ${this.events.at(-1)?.type}`)
    return this.events.slice(this.#read, (this.#read = found() + 1))
  }

  /** The next event of a type. */
  async next(type: string): Promise<Event> {
    return (await this.until(type)).at(-1)
  }

  /** Sends an event that is refused; the error. */
  async refused(event: object | string): Promise<Event> {
    this.socket.send(typeof event === 'string' ? event : JSON.stringify(event))
    return (await this.next('error')).error
  }

  /** Sends sound in frames of `frameBytes`. */
  append(sound: Buffer, frameBytes = 960): void {
    for (let at = 0; at < sound.length; at += frameBytes)
      this.send({ type: 'input_audio_buffer.append', audio: sound.toString('base64', at, at + frameBytes) })
  }

  /** Has it answer; all that comes of it. */
  async answer(response?: object): Promise<Event[]> {
    this.send({ type: 'response.create', ...(response && { response }) })
    return this.until('rate_limits.updated')
  }

  async settings(session: object): Promise<Event> {
    this.send({ type: 'session.update', session: { type: 'realtime', ...session } })
    return (await this.next('session.updated')).session
  }

  async close(): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return
    this.socket.close()
    await once(this.socket, 'close')
  }
}

/** Opens a session; `talks` collects all that one test file opens. */
export async function openSandbox(
  gateway: Gateway,
  key: string,
  talks: SandboxTalk[],
  query = `model=${model}`,
): Promise<SandboxTalk> {
  const headers = { authorization: `Bearer ${key}` }
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/realtime?${query}`, { headers })
  const talk = new SandboxTalk(socket)
  talks.push(talk)
  await once(socket, 'open')
  await talk.next('session.created')
  return talk
}

/** An item with what the user wrote. */
export function written(text: string, more: object = {}) {
  const item = { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
  return { type: 'conversation.item.create', item, ...more }
}

/** All the sound of a response's events. */
export function soundOf(events: Event[]): Buffer {
  const deltas = events.filter(({ type }) => type === 'response.output_audio.delta')
  return Buffer.concat(deltas.map(({ delta }) => Buffer.from(delta, 'base64')))
}

export function joined(events: Event[], type: string): string {
  return events.flatMap(event => (event.type === type ? [event.delta] : [])).join('')
}

/** The types in their order, each run of deltas as one. */
export function orderOf(events: Event[]): string[] {
  const types = events.map(({ type }) => type as string)
  return types.filter((type, index) => !type.endsWith('.delta') || types[index - 1] !== type)
}

/** What the compiler says of events where the SDK's types of them are taken at their word; '' = nothing. */
export async function typeErrors(events: Event[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-types-'))
  const file = join(folder, 'events.ts')
  const resources = join(root, 'node_modules/openai/resources/realtime')
  const imports = `
import type { RealtimeServerEvent } from '${resources}/realtime.js'
import type { RealtimeSessionCreateResponse as Created } from '${resources}/client-secrets.js'
type Head = Pick<Created, 'id' | 'expires_at'> & { object: Created['object'] | 'realtime.transcription_session' }
`
  const shapes = new Map(events.map(event => [JSON.stringify(event, shapeOf), event]))
  const checks = [...shapes.values()].map(withoutNullTranscripts).flatMap(checksOf)
  await writeFile(file, [imports, ...checks.map((check, index) => `export const check${index}: ${check}`)].join('\n'))
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
  const tsc = [join(root, 'node_modules/typescript/bin/tsc'), ...options, '--exactOptionalPropertyTypes', file]
  const output = await new Promise<string>(resolve => {
    execFile(process.execPath, tsc, { cwd: root }, (error, stdout, stderr) => resolve(error ? stdout + stderr : ''))
  })
  await rm(folder, { recursive: true })
  return output.slice(0, 4_000)
}

/** OpenAI has null where sound has no transcript yet; the SDK's types lack it. */
function withoutNullTranscripts(event: Event): Event {
  return JSON.parse(JSON.stringify(event, (name, member) => (name === 'transcript' ? (member ?? undefined) : member)))
}

/** Events that differ in their ids, figures and texts alone need to be looked at only once. */
function shapeOf(name: string, member: unknown): unknown {
  if (typeof member === 'number') return 0
  const isWord = ['type', 'object', 'status', 'reason', 'role'].includes(name)
  return typeof member === 'string' && !isWord ? '' : member
}

function checksOf(event: Event): string[] {
  if (!event.session) return [`RealtimeServerEvent = ${JSON.stringify(event)}`]
  // What a session has beside its settings stands in another type.
  const { id, object, expires_at, ...session } = event.session
  const head = JSON.stringify({ id, object, expires_at })
  return [`Head = ${head}`, `RealtimeServerEvent = ${JSON.stringify({ ...event, session })}`]
}
