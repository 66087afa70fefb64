import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

/**
 * What the examples share: requests to the gateway, and a receiver of its webhooks. Environment variables configure them:
 * HEADGATE_URL (default http://localhost:3000, with or without /v1), HEADGATE_KEY, and HEADGATE_WEBHOOK_SECRET, which
 * verifies the webhooks. For a gateway on another machine, set RECEIVER_URL to an address of this machine's RECEIVER_PORT.
 */

type Output = { type: string; url: string; content_type: string; bytes: number; duration_s: number | null }
export type Job = {
  id: string
  status: string
  model: string
  provider: string | null
  url: string | null
  outputs: Output[]
  cost_usd: number | null
  error: { code: string; message: string } | null
}
type Event = { type: string; timestamp: string; data: Job }

const gateway = (process.env.HEADGATE_URL ?? 'http://localhost:3000').replace(/(\/v1)?\/*$/, '')
const maxWaitMs = 10 * 60_000

function needed(variable: string): string {
  const value = process.env[variable]
  if (!value) throw new Error(`set ${variable}, see docs/media.md`)
  return value
}

/** A request to the gateway; the answer's JSON. Throws with the gateway's own words. */
export async function request<Answer>(path: string, body?: object | FormData): Promise<Answer> {
  const json = body !== undefined && !(body instanceof FormData)
  const response = await fetch(`${gateway}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${needed('HEADGATE_KEY')}`,
      ...(json && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: json ? JSON.stringify(body) : (body as FormData) }),
  })
  const answer = await response.json()
  if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(answer)}`)
  return answer as Answer
}

/** Uploads a file; the address to refer to it by for half an hour. */
export async function upload(bytes: Uint8Array, name: string): Promise<string> {
  const form = new FormData()
  form.append('file', new Blob([Uint8Array.from(bytes)]), name)
  const { url } = await request<{ url: string }>('/v1/uploads', form)
  return url
}

/** Submits a job and waits for the webhook that tells its end. Throws unless it is completed. */
export async function runJob(path: string, body: object): Promise<Job> {
  const receiver = await openReceiver(needed('HEADGATE_WEBHOOK_SECRET'))
  try {
    const job = await request<Job>(path, { ...body, webhook_url: receiver.url })
    console.log(`${job.id} is ${job.status}: ${job.model}`)
    const { type, data } = await receiver.eventOf(job.id)
    console.log(`${type}: ${data.provider}, $${data.cost_usd}`)
    if (data.status !== 'completed') throw new Error(`the job is ${data.status}: ${data.error?.message}`)
    return data
  } finally {
    receiver.close()
  }
}

/** A server for webhooks. It takes only those whose signature is right. */
async function openReceiver(secret: string) {
  const webhook = new Webhook(secret)
  const waiting = new Map<string, (event: Event) => void>()
  const early = new Map<string, Event>()
  const server = http.createServer(async (incoming, response) => {
    try {
      const event = webhook.verify(await text(incoming), incoming.headers as Record<string, string>) as Event
      response.writeHead(204).end()
      const { id } = event.data
      early.set(id, event)
      waiting.get(id)?.(event)
    } catch {
      response.writeHead(400).end()
    }
  })
  server.listen(Number(process.env.RECEIVER_PORT ?? 0))
  await once(server, 'listening')
  return {
    url: process.env.RECEIVER_URL ?? `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    /** The event of a job, which may have come already. */
    async eventOf(jobId: string): Promise<Event> {
      const { promise, resolve, reject } = Promise.withResolvers<Event>()
      const timer = setTimeout(() => reject(new Error('no webhook came')), maxWaitMs)
      waiting.set(jobId, resolve)
      const event = early.get(jobId)
      if (event) resolve(event)
      return promise.finally(() => clearTimeout(timer))
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Downloads a result into the folder for temporary files and says where it is. */
export async function download({ url }: Output, jobId: string): Promise<Uint8Array> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`the result answers ${response.status}`)
  const bytes = new Uint8Array(await response.arrayBuffer())
  const file = join(tmpdir(), `headgate-${jobId}${extname(new URL(url).pathname)}`)
  await writeFile(file, bytes)
  console.log(`${file}: ${bytes.length} bytes`)
  return bytes
}
