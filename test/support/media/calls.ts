import type { Account } from '../gateway.ts'
import { audio, image } from '../jobs/gateway.ts'
import { pdfOfPages } from './documents.ts'

type Call = { path?: string; key?: string; body?: unknown; headers?: Record<string, string> }
type Documented = { success: () => Call[]; errors: () => Call[] }

/** A PDF of so many pages as a `data:` URI. */
const document = (pages: number) => `data:application/pdf;base64,${pdfOfPages(pages).toString('base64')}`

/** Valid bodies of every route of media that is waited for, and one that no model takes. */
const bodies: Record<string, { valid: object[]; wrong: object }> = {
  '/v1/images': {
    valid: [{ prompt: 'A fox' }, { model: 'nano-banana', prompt: 'Bluer', input_references: [image] }],
    wrong: { prompt: 'A fox', n: 99 },
  },
  '/v1/images/generations': {
    valid: [
      { prompt: 'A fox', response_format: 'url' },
      { prompt: 'A fox', n: 2, stream: true },
      { model: 'gpt-image-2', prompt: 'A fox', stream: true, partial_images: 2 },
    ],
    wrong: { prompt: 'A fox', size: 'big' },
  },
  '/v1/images/edits': {
    valid: [{ prompt: 'Bluer', input_references: [image] }],
    wrong: { prompt: 'Bluer', input_references: [audio(1)] },
  },
  '/v1/audio/speech': {
    valid: [
      { model: 'tts-1', input: 'Good day.', voice: 'alloy' },
      { model: 'tts-1', input: 'Good day.', response_format: 'wav' },
      { model: 'gpt-4o-mini-tts', input: 'Good day.', stream_format: 'sse' },
    ],
    wrong: { model: 'tts-1', input: 'Good day.', voice: 'nobody' },
  },
  '/v1/audio/transcriptions': {
    valid: [
      { audio_url: audio(1) },
      { model: 'whisper-1', audio_url: audio(1), response_format: 'verbose_json' },
      { model: 'whisper-1', audio_url: audio(1), response_format: 'vtt' },
      { model: 'gpt-4o-transcribe', audio_url: audio(1), stream: true },
      { model: 'gpt-4o-transcribe', audio_url: audio(1), include: ['logprobs'] },
      { model: 'gpt-4o-transcribe-diarize', audio_url: audio(1), response_format: 'diarized_json' },
      { model: 'gpt-4o-transcribe-diarize', audio_url: audio(1), response_format: 'diarized_json', stream: true },
    ],
    wrong: { audio_url: image },
  },
  '/v1/audio/translations': {
    valid: [{ audio_url: audio(1) }, { model: 'whisper-1', audio_url: audio(1), response_format: 'verbose_json' }],
    wrong: { audio_url: image },
  },
  '/v1/audio/music': { valid: [{ prompt: 'A waltz', duration_s: 3 }], wrong: { prompt: 'A waltz', duration_s: 9_999 } },
  '/v1/audio/sfx': { valid: [{ prompt: 'A door', duration_s: 1 }], wrong: { prompt: 'A door', duration_s: 'long' } },
  '/v1/rerank': {
    valid: [
      { model: 'rerank-v3.5', query: 'When?', documents: ['At nine.', 'Cats.'] },
      { query: 'When?', documents: [{ text: 'At nine.' }], return_documents: true, top_n: 1 },
      { model: 'rerank-2.5', query: 'When?', documents: ['At nine.'] },
    ],
    wrong: { query: 'When?', documents: [{ title: 'At nine.' }] },
  },
  '/v1/moderations': {
    valid: [{ input: 'I hate violence' }, { input: [{ type: 'text', text: 'Hello' }] }],
    wrong: { input: [] },
  },
  '/v1/ocr': {
    valid: [
      { document: { type: 'document_url', document_url: document(2) }, pages: '0-1' },
      {
        model: 'mistral-ocr-latest',
        document: { type: 'image_url', image_url: { url: image } },
        include_image_base64: true,
        table_format: 'html',
        document_annotation_format: {
          type: 'json_schema',
          json_schema: { name: 'report', schema: { type: 'object', properties: { title: { type: 'string' } } } },
        },
      },
    ],
    wrong: { document: { type: 'document_url', document_url: audio(1) } },
  },
}
const lists = ['/v1/images/models', '/v1/audio/music/models', '/v1/audio/sfx/models']

/** Real calls of the routes of media that is waited for, as documented: by their names in the OpenAPI document. */
export function syncMediaCalls(world: () => { account: Account; provisioning: string }): Record<string, Documented> {
  const calls: Record<string, Documented> = {}
  for (const [path, { valid, wrong }] of Object.entries(bodies)) {
    calls[`POST ${path}`] = {
      success: () => valid.map(body => ({ key: world().account.test, body })),
      errors: () => {
        const { account, provisioning } = world()
        return [
          { body: {} },
          { key: provisioning, body: {} },
          ...['{', {}, { colour: 1 }, wrong, { ...valid[0], model: 'nope' }].map(body => ({ key: account.test, body })),
          { key: account.live, body: valid[0] },
          { key: account.test, body: {}, headers: { 'content-type': 'text/plain' } },
        ]
      },
    }
  }
  for (const path of lists) {
    calls[`GET ${path}`] = {
      success: () => [{ key: world().account.test }],
      errors: () => [{}, { key: world().provisioning }],
    }
  }
  return calls
}
