import { once } from 'node:events'
import { connect } from 'node:net'
import OpenAI from 'openai'
import type { RealtimeConnectionConfig } from 'openai/realtime/internal-base'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'
import { LiveWS } from 'openai/resources/live/ws'
import type { WebSocket } from 'ws'
import { eventually } from '../gateway.ts'

/** A session held with a client of the official SDK, and all that it heard. */
export type Talk<Client> = {
  client: Client
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape
  events: any[]
  /** What the client reports as errors, those of the provider among them. */
  errors: Error[]
  /** The `count`th event of a type, once it is there. */
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape
  heard(type: string, count?: number): Promise<any>
  /** How the session was closed; null while it is open. */
  closed: { code: number; reason: string } | null
  /** What it was closed with, once it is. */
  end(): Promise<{ code: number; reason: string }>
  /** Closes it as an application does, and waits until it is. */
  close(): Promise<void>
}
export type RealtimeTalk = Talk<OpenAIRealtimeWS>
export type LiveTalk = Talk<LiveWS>

/**
 * Opens a session with the SDK's realtime client at `url` (`http://host:port`, without `/v1`). It takes `wss:` addresses
 * only; what is sent there goes over a plain connection here. Rejects when the upgrade is refused.
 */
export async function openTalk(
  url: string,
  apiKey: string,
  config: Pick<RealtimeConnectionConfig, 'model' | 'intent'>,
): Promise<RealtimeTalk> {
  const { hostname, port } = new URL(url)
  const createConnection = () => connect(Number(port), hostname)
  const openai = new OpenAI({ apiKey, baseURL: `${url}/v1` })
  const client = new OpenAIRealtimeWS({ ...config, options: { createConnection } } as RealtimeConnectionConfig, openai)
  return joined(client, client.socket)
}

/**
 * Opens a session with the SDK's Live client at `url`, with `model` at the gateway's route in place of OpenAI's. Rejects
 * when the upgrade is refused.
 */
export async function openLive(url: string, apiKey: string, model?: string): Promise<LiveTalk> {
  class Client extends LiveWS {
    protected override _createSocket(address: URL, headers: Record<string, string>) {
      const gateway = new URL(`/v1/realtime?model=${model}`, address)
      return super._createSocket(model === undefined ? address : gateway, headers)
    }
  }
  const client = new Client(new OpenAI({ apiKey, baseURL: `${url}/v1` }))
  return joined(client, client.socket.platformSocket)
}

async function joined<Client extends OpenAIRealtimeWS | LiveWS>(
  client: Client,
  socket: WebSocket,
): Promise<Talk<Client>> {
  const talk: Talk<Client> = {
    client,
    events: [],
    errors: [],
    async heard(type, count = 1) {
      const found = () => talk.events.filter(event => event.type === type)[count - 1]
      await eventually(() => found() !== undefined, `${count} ${type} came`)
      return found()
    },
    closed: null,
    async end() {
      await eventually(() => talk.closed !== null, 'the session is closed')
      return talk.closed!
    },
    async close() {
      client.close()
      await talk.end()
    },
  }
  // Both clients have these events, but in types that TypeScript cannot join.
  const emitter = client as OpenAIRealtimeWS
  emitter.on('event', event => talk.events.push(event))
  emitter.on('error', error => talk.errors.push(error))
  socket.on('close', (code, reason) => {
    talk.closed = { code, reason: reason.toString() }
  })
  await once(socket, 'open')
  return talk
}
