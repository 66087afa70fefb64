import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dataUri } from '../jobs/gateway.ts'
import { wav } from './sounds.ts'
import { counted, heardText, soundSeconds } from './upstream.ts'

/** Models of every kind at three providers, and what their work costs, reckoned a second time. */

export const models = ['draw', 'draw-tokens', 'speak', 'speak-tokens', 'hear', 'hear-tokens', 'effect'] as const
export type Model = (typeof models)[number]

const tokens = (input: string, output: string, more: object = {}) => ({ unit: 'token', input, output, ...more })
type Offer = [provider: string, upstream_model: string, price: object, traits?: object]
const rows: Record<Model | 'draw-many' | 'speak-flat', { type: string; kind: object; offers: Offer[] }> = {
  draw: {
    type: 'image',
    kind: { max_n: 4 },
    offers: [
      ['alpha', 'draw', { unit: 'image', usd: '0.01' }],
      ['beta', 'draw', { unit: 'image', usd: '0.02' }, { most_images: 2 }],
      ['gamma', 'acme/image', { unit: 'image', usd: '0.04' }],
    ],
  },
  'draw-tokens': {
    type: 'image',
    kind: { max_n: 4 },
    offers: [
      ['alpha', 'draw', tokens('5', '10', { image_output: '40' })],
      ['beta', 'draw', tokens('10', '20', { image_output: '80' })],
    ],
  },
  speak: {
    type: 'speech',
    kind: { formats: ['mp3'], voices: ['nova'] },
    offers: [
      ['alpha', 'speak', { unit: 'character', usd: '15' }],
      ['beta', 'speak', { unit: 'character', usd: '30' }],
    ],
  },
  'speak-tokens': {
    type: 'speech',
    kind: { formats: ['mp3'], voices: ['nova'] },
    offers: [
      ['alpha', 'speak', tokens('1', '10', { audio_output: '20' })],
      ['beta', 'speak', tokens('2', '20', { audio_output: '40' })],
    ],
  },
  hear: {
    type: 'transcription',
    kind: { formats: ['json', 'text'] },
    offers: [
      ['alpha', 'hear', { unit: 'minute', usd: '0.006' }],
      ['beta', 'hear', { unit: 'minute', usd: '0.012' }],
    ],
  },
  'hear-tokens': {
    type: 'transcription',
    kind: { formats: ['json', 'text'], stream: true },
    offers: [
      ['alpha', 'hear', tokens('2', '10', { audio_input: '2.5' })],
      ['beta', 'hear', tokens('4', '20', { audio_input: '5' })],
    ],
  },
  'draw-many': {
    type: 'image',
    kind: { max_n: 4 },
    offers: [['gamma', 'acme/image', { unit: 'image', usd: '0.04' }, { n_field: 'num_images' }]],
  },
  'speak-flat': {
    type: 'speech',
    kind: { formats: ['mp3'], voices: ['nova'] },
    offers: [['alpha', 'speak', { unit: 'flat', usd: '0.5' }]],
  },
  effect: { type: 'sfx', kind: {}, offers: [['gamma', 'acme/sound', { unit: 'flat', usd: '0.05' }]] },
}

/** Environment variables of a gateway with these models, whose providers are all behind one address. */
export async function syncMediaEnvironment(url: string): Promise<Record<string, string>> {
  const row = { owned_by: 'tests', created: 0, description: '', context_length: null, max_output_tokens: null }
  const shown = { output_modalities: [], supported_parameters: [], quality: null, expires_on: null }
  const priced = { price_source: 'the tests', price_as_of: '2026-01-01' }
  const quirks = { images: 'openai', audio: true }
  const catalog = {
    providers: [
      ...['alpha', 'beta'].map(name => ({
        name,
        protocol: 'openai',
        base_url: `${url}/${name}`,
        auth: 'bearer',
        quirks,
      })),
      { name: 'gamma', protocol: 'fal', base_url: `${url}/gamma`, auth: 'key' },
    ],
    models: Object.entries(rows).map(([id, { type, kind, offers }]) => ({
      id,
      name: id,
      type,
      kind,
      ...row,
      ...shown,
      ...priced,
      input_modalities: ['text', 'image', 'audio'],
      providers: offers.map(([provider, upstream_model, price, traits]) => ({
        provider,
        upstream_model,
        price,
        ...(traits && { traits }),
      })),
    })),
  }
  const path = join(tmpdir(), `headgate-sync-media-${randomUUID()}.json`)
  await writeFile(path, JSON.stringify(catalog))
  const keys = ['ALPHA', 'BETA', 'GAMMA'].map(name => [`${name}_API_KEY`, 'key-of-the-tests'])
  return { MODEL_CATALOG: path, ...Object.fromEntries(keys) }
}

/** One request: what is asked for, and how. */
export type Ask = {
  model: Model
  n: number
  stream: boolean
  form: boolean
  byUrl: boolean
  withKey: boolean
}
export type Sent = { path: string; body: object | FormData; streams: boolean; events: boolean }

const recording = wav(soundSeconds * 1_000)
const prompt = (name: string) => `${name} of a fox 🦊 in the snow`

/** The request that asks for it. `name` leads its calls to their script. */
export function requestOf({ model, n, stream, form, byUrl }: Ask, name: string): Sent {
  const input = prompt(name)
  if (model === 'effect') return { path: '/v1/audio/sfx', body: { model, prompt: input }, streams: true, events: false }
  if (model.startsWith('speak')) {
    const body = { model, input, ...(stream && { stream_format: 'sse' }) }
    return { path: '/v1/audio/speech', body, streams: true, events: stream }
  }
  if (model.startsWith('hear')) {
    const path = '/v1/audio/transcriptions'
    if (form) return { path, body: formOf({ model, prompt: input, stream }, 'file'), streams: stream, events: stream }
    const body = { model, prompt: input, audio_url: dataUri('audio/wav', recording), ...(stream && { stream }) }
    return { path, body, streams: stream, events: stream }
  }
  const fields = { model, prompt: input, n, response_format: byUrl ? 'url' : 'b64_json', stream }
  return { path: '/v1/images', body: fields, streams: stream, events: stream }
}

function formOf(fields: Record<string, unknown>, file: string): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value))
  form.append(file, new Blob([new Uint8Array(recording)], { type: 'audio/wav' }), 'a.wav')
  return form
}

/** How often a provider's work costs what alpha's does, by the prices above. */
const times: Record<string, bigint> = { alpha: 1n, beta: 2n, gamma: 4n }
const withMargin = (pico: bigint) => (pico * 105n + 99n) / 100n
const nano = (pico: bigint) => Number((pico + 500n) / 1_000n)

/** What whole work costs, in nano-dollars: `pieces` images of those that were `made`, counted by the provider or not. */
export function priceOf(
  ask: Ask,
  name: string,
  provider: string,
  isCounted: boolean,
  pieces: number,
  made: number,
): number {
  return nano(withMargin(picoOf(ask, name, isCounted, pieces, made) * (ask.model === 'effect' ? 1n : times[provider]!)))
}

/** What the sound of a recording costs where tokens are priced, however little of its text came. */
export function heardNano(provider: string): number {
  return nano(withMargin(BigInt(counted.heard) * 2_500_000n * times[provider]!))
}

const usualImageTokens = 1_290

function picoOf({ model }: Ask, name: string, isCounted: boolean, pieces: number, made: number): bigint {
  const input = prompt(name)
  const characters = [...input].length
  switch (model) {
    case 'draw':
      return 10_000_000_000n * BigInt(pieces)
    case 'draw-tokens': {
      const all = (isCounted ? counted.image : usualImageTokens) * made
      const billed = Math.ceil((all * pieces) / made)
      return BigInt(billed) * 40_000_000n + BigInt(isCounted ? counted.prompt : 0) * 5_000_000n
    }
    case 'speak':
      return BigInt(characters) * 15_000_000n
    case 'speak-tokens': {
      const spoken = isCounted ? counted.spoken : Math.ceil((characters * 25) / 15)
      const asked = isCounted ? counted.prompt : Math.ceil(Buffer.byteLength(input) / 4)
      return BigInt(asked) * 1_000_000n + BigInt(spoken) * 20_000_000n
    }
    case 'hear':
      return (6_000_000_000n * BigInt(soundSeconds)) / 60n
    case 'hear-tokens': {
      const said = isCounted ? counted.said : Math.ceil(heardText.length / 4)
      return BigInt(counted.heard) * 2_500_000n + BigInt(said) * 10_000_000n
    }
    case 'effect':
      return 50_000_000_000n
  }
}
