import { once } from 'node:events'
import { createWriteStream, openAsBlob } from 'node:fs'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { type Behaviour, chatBody, chatPath } from './request.ts'

/** The address of a gateway and a key of it. */
export type GatewayAccess = { url: string; key: string }

/** Writes the input of a batch to a file: so many lines, each about so many bytes long. */
export async function writeInput(path: string, behaviour: Behaviour, lines: number, bytes: number): Promise<void> {
  const around = JSON.stringify({ custom_id: customId(0), method: 'POST', url: chatPath, body: '' }).length
  const body = chatBody(behaviour, false, bytes - around)
  const file = createWriteStream(path)
  for (let i = 0; i < lines; i++) {
    const line = `{"custom_id":"${customId(i)}","method":"POST","url":"${chatPath}","body":${body}}\n`
    if (!file.write(line)) await once(file, 'drain')
  }
  await finished(file.end())
}

function customId(index: number): string {
  return `request-${String(index).padStart(6, '0')}`
}

/** Uploads the input of a batch from a file as it is read; gives the stored file's id. */
export async function upload(gateway: GatewayAccess, path: string): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', await openAsBlob(path), 'input.jsonl')
  return (await answered<{ id: string }>(gateway, '/v1/files', { method: 'POST', body: form })).id
}

/** Creates a batch that the gateway itself runs; gives its id. */
export async function create(gateway: GatewayAccess, inputFileId: string): Promise<string> {
  const request = {
    input_file_id: inputFileId,
    endpoint: chatPath,
    completion_window: '24h',
    batch_routing: 'gateway',
  }
  const init = {
    method: 'POST',
    body: JSON.stringify(request),
    headers: { 'content-type': 'application/json' },
  }
  return (await answered<{ id: string }>(gateway, '/v1/batches', init)).id
}

/** Reads a file to its end as it comes; gives its bytes. */
export async function download(gateway: GatewayAccess, fileId: string): Promise<number> {
  let bytes = 0
  for await (const part of await content(gateway, fileId)) bytes += (part as Buffer).length
  return bytes
}

/** How many different requests an output file answers. Throws an Error when one is there twice or failed. */
export async function countAnswers(gateway: GatewayAccess, fileId: string): Promise<number> {
  const seen = new Set<string>()
  for await (const line of createInterface({ input: await content(gateway, fileId) })) {
    const { custom_id, response } = JSON.parse(line)
    if (seen.has(custom_id)) throw new Error(`${custom_id} is answered twice`)
    if (response?.status_code !== 200 || !(response.body.usage.cost > 0)) throw new Error(`no answer: ${line}`)
    seen.add(custom_id)
  }
  return seen.size
}

async function content({ url, key }: GatewayAccess, fileId: string): Promise<Readable> {
  const response = await fetch(`${url}/v1/files/${fileId}/content`, { headers: { authorization: `Bearer ${key}` } })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  return Readable.fromWeb(response.body!)
}

async function answered<T>({ url, key }: GatewayAccess, path: string, init: RequestInit): Promise<T> {
  const headers = { ...init.headers, authorization: `Bearer ${key}` }
  const response = await fetch(url + path, { ...init, headers })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: ${response.status}: ${text}`)
  return JSON.parse(text)
}
