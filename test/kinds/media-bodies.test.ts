import fc from 'fast-check'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Usage } from '../../shared/base/usage.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import type { Price } from '../../shared/catalog/schema.ts'
import { type SyncKind, syncKinds } from '../../shared/kinds/index.ts'
import type { References } from '../../shared/kinds/media.ts'
import { charactersOf, priceNano, type Quantity, type SyncKindRow, zeroQuantity } from '../../shared/kinds/sync-kind.ts'
import { test } from '../support/test.ts'

const catalog = loadCatalog()
const modelOf = (id: string) => catalog.models.get(id)!

/** A body as one model takes it. */
// biome-ignore lint/suspicious/noExplicitAny: every kind has its own input
function inputOf(kind: SyncKind, model: string, body: object, references: References | null = null): any {
  const row = syncKinds[kind] as unknown as SyncKindRow<unknown, unknown>
  return row.input(row.request.parse(body), modelOf(model), references)
}

function paramOf(work: () => unknown): string | null {
  try {
    work()
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) return error.param
    throw error
  }
  return null
}

const usage = (prompt: number, completion: number): Usage => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
})
const used = (parts: Partial<Quantity>): Quantity => ({ ...zeroQuantity, ...parts })

test('priced in nano-dollars: the quantity of each unit, with sizes, options and a minimum', t => {
  const spoken: Price = { unit: 'minute', usd: '0.006', added_by_option: { speakers: '0.004', keywords: '0.002' } }
  const cases: [Price, Partial<Quantity>, nano: bigint][] = [
    [{ unit: 'character', usd: '15' }, { characters: 1_000 }, 15_000_000n],
    [{ unit: 'image', usd: '0.04' }, { pieces: 3 }, 120_000_000n],
    [{ unit: 'image', usd: '0.04', by_size: { '4K': '0.24' } }, { pieces: 2, size: '4K' }, 480_000_000n],
    [{ unit: 'image', usd: '0.04', by_size: { '4K': '0.24' } }, { pieces: 2, size: '1K' }, 80_000_000n],
    [spoken, { seconds: 30 }, 3_000_000n],
    [spoken, { seconds: 30, options: ['speakers'] }, 5_000_000n],
    [spoken, { seconds: 30, options: ['speakers', 'keywords'] }, 6_000_000n],
    [{ unit: 'minute', usd: '0.006' }, { seconds: 90 }, 9_000_000n],
    [{ unit: 'minute', usd: '0.006' }, { seconds: 0.0004 }, 100n],
    [{ unit: 'minute', usd: '0.006', min_seconds: 10 }, { seconds: 2.5 }, 1_000_000n],
    [{ unit: 'minute', usd: '0.006', min_seconds: 10 }, { seconds: 12 }, 1_200_000n],
    [{ unit: 'minute', usd: '0.006', min_seconds: 10 }, { seconds: 0 }, 0n],
    [{ ...spoken, min_seconds: 10 }, { seconds: 1, options: ['speakers'] }, 1_666_667n],
    [{ unit: 'second', usd: '0.0001' }, { seconds: 2.5 }, 250_000n],
    [{ unit: 'flat', usd: '0.9' }, { pieces: 1 }, 900_000_000n],
    [{ unit: 'flat', usd: '0' }, { pieces: 1 }, 0n],
    [{ unit: 'page', usd: '0.004' }, { pieces: 3 }, 12_000_000n],
    [{ unit: 'page', usd: '0.004', annotated: '0.005' }, { pieces: 3, annotatedPages: 2 }, 22_000_000n],
    [{ unit: 'token', input: '5', output: '10' }, { usage: usage(1_000, 2_000) }, 25_000_000n],
  ]
  for (const [price, quantity, nano] of cases) t.is(priceNano(price, used(quantity), 0n), nano, JSON.stringify(price))
})

test('a price has its margin, and nothing costs nothing', t => {
  t.is(priceNano({ unit: 'flat', usd: '0.9' }, used({ pieces: 1 }), 50_000n), 945_000_000n)
  for (const unit of ['character', 'image', 'minute', 'second', 'flat'] as const)
    t.is(priceNano({ unit, usd: '7' }, zeroQuantity, 50_000n), 0n, unit)
})

test('monotonic: twice the quantity costs at least the same and at most double', t => {
  const unit = fc.constantFrom('character', 'image', 'minute', 'second', 'flat')
  const quantity = fc.record({
    pieces: fc.nat(10),
    characters: fc.nat(40_000),
    // Lengths are rounded to the microsecond first; what is below it is noise of the division.
    seconds: fc.nat(1e9).map(microseconds => microseconds / 1e6),
  })
  t.notThrows(() =>
    fc.assert(
      fc.property(unit, quantity, fc.integer({ min: 0, max: 5_000_000 }), (name, some, millionths) => {
        const price = { unit: name, usd: (millionths / 1e6).toFixed(6) } as Price
        const once = priceNano(price, used(some), 50_000n)
        const { pieces, characters, seconds } = some
        const twice = priceNano(
          price,
          used({ pieces: pieces * 2, characters: characters * 2, seconds: seconds * 2 }),
          50_000n,
        )
        return once >= 0n && twice >= once && twice <= 2n * once + 1n
      }),
    ),
  )
})

test('characters are code points', t => {
  t.is(charactersOf('añ😀'), 3)
  t.is(charactersOf(''), 0)
})

test('a model’s defaults are filled in', t => {
  t.like(inputOf('image', 'gpt-image-2', { prompt: 'x', quality: 'auto', size: 'auto', background: 'auto' }), {
    n: 1,
    size: null,
    resolution: null,
    quality: null,
    background: null,
    format: null,
    references: 0,
    masked: false,
  })
  t.like(inputOf('image', 'gemini-3.1-flash-image', { prompt: 'x', size: '2K', aspect_ratio: '16:9' }), {
    size: null,
    resolution: '2K',
    aspectRatio: '16:9',
  })
  const square = { size: { width: 1024, height: 1024 }, resolution: null }
  t.like(inputOf('image', 'gpt-image-2', { prompt: 'x', width: 1024, height: 1024 }), square)
  t.like(inputOf('image', 'gpt-image-2', { prompt: 'x', width: 1024, height: 1024, size: '1024x1024' }), square)
  t.like(inputOf('speech', 'tts-1', { input: 'x' }), { voice: 'alloy', format: 'mp3', speed: 1, instructions: null })
  t.like(inputOf('speech', 'tts-1', { input: 'x', voice: { id: 'nova' } }), { voice: 'nova' })
  t.like(inputOf('transcription', 'whisper-1', { audio_url: 'https://a.example/b.wav' }), {
    format: 'json',
    segments: false,
    words: false,
    stream: false,
  })
  t.like(inputOf('sfx', 'eleven-sfx-v2', { prompt: 'x' }), { durationS: null, format: 'mp3' })
})

test('a transcript’s format says what times it needs', t => {
  const timesOf = (fields: object) => {
    const { segments, words } = inputOf('transcription', 'whisper-1', {
      audio_url: 'https://a.example/b.wav',
      ...fields,
    })
    return { segments, words }
  }
  t.deepEqual(timesOf({ response_format: 'text' }), { segments: false, words: false })
  for (const response_format of ['srt', 'vtt', 'verbose_json'])
    t.deepEqual(timesOf({ response_format }), { segments: true, words: false }, response_format)
  const verbose = { response_format: 'verbose_json' }
  t.deepEqual(timesOf({ ...verbose, timestamp_granularities: ['word'] }), { segments: false, words: true })
  t.deepEqual(timesOf({ ...verbose, timestamp_granularities: ['word', 'segment'] }), { segments: true, words: true })
})

test('400 naming the field that a model does not take', t => {
  const cases: [SyncKind, model: string, body: object, param: string][] = [
    ['image', 'runway-gen4-image', { prompt: 'x', n: 2 }, 'n'],
    ['image', 'flux-schnell', { prompt: 'x', mask: 'https://a.example/b.png' }, 'mask'],
    ['image', 'gpt-image-2', { prompt: 'x', mask: 'https://a.example/b.png' }, 'input_references'],
    ['image', 'runway-gen4-image-turbo', { prompt: 'x' }, 'input_references'],
    ['image', 'gpt-image-2', { prompt: 'x', size: '1024x1024', resolution: '1K' }, 'resolution'],
    ['image', 'gpt-image-2', { prompt: 'x', width: 1024 }, 'width'],
    ['image', 'gpt-image-2', { prompt: 'x', height: 1024 }, 'height'],
    ['image', 'gpt-image-2', { prompt: 'x', width: 1024, height: 512, size: '1024x1024' }, 'width'],
    ['image', 'gpt-image-2', { prompt: 'x', width: 1024, height: 1024, resolution: '1K' }, 'resolution'],
    ['image', 'gpt-image-1.5', { prompt: 'x', width: 640, height: 640 }, 'width'],
    ['image', 'nano-banana', { prompt: 'x', aspect_ratio: '7:5' }, 'aspect_ratio'],
    ['image', 'gemini-2.5-flash-image', { prompt: 'x', aspect_ratio: '8:1' }, 'aspect_ratio'],
    ['speech', 'eleven-v3', { input: 'x', response_format: 'aac' }, 'response_format'],
    ['speech', 'eleven-v3', { input: 'x', voice: 'a/b' }, 'voice'],
    ['music', 'eleven-music-v2', { prompt: 'x', output_format: 'aac' }, 'output_format'],
    ['sfx', 'eleven-sfx-v2', { prompt: 'x', duration_s: 0.3 }, 'duration_s'],
  ]
  for (const [kind, model, body, param] of cases)
    t.is(
      paramOf(() => inputOf(kind, model, body)),
      param,
      `${model} ${JSON.stringify(body)}`,
    )
})

test('413 naming an image that is larger than its model takes: 10 MiB without a limit of its own', t => {
  const mib = 1024 * 1024
  const body = { prompt: 'A heron', images: ['https://example.com/a.png'] }
  const file = { storageKey: 'a', contentType: 'image/png', filename: 'a.png', durationS: null }
  const given = (slug: string, bytes: number) =>
    syncKinds.image.input(body, modelOf(slug), { 'input_references.0': { ...file, bytes } })
  t.is(given('gpt-image-2', 50 * mib).references, 1)
  t.is(given('nano-banana', 10 * mib).references, 1)
  const error = t.throws(() => given('nano-banana', 10 * mib + 1))
  t.like(error, { code: 'file_too_large', param: 'input_references.0' })
})

test('400 for sound longer than the model takes, or than a day', t => {
  const body = { audio_url: 'https://a.example/b.wav' }
  const long = (durationS: number): References => ({
    audio_url: { storageKey: 'k', contentType: 'audio/wav', bytes: 1, filename: 'b.wav', durationS },
  })
  t.is(
    paramOf(() => inputOf('transcription', 'whisper-1', body, long(86_401))),
    'audio_url',
  )
  t.is(
    paramOf(() => inputOf('transcription', 'whisper-1', body, long(86_400))),
    null,
  )
})

test('the pages of a document are bounded by what is selected and by what it has', t => {
  const body = { document: { type: 'document_url', document_url: 'https://a.example/b.pdf' } }
  const pdf = { storageKey: 'k', contentType: 'application/pdf', bytes: 1, filename: 'b.pdf', durationS: null }
  const mostOf = (fields: object, file: Partial<References[string]> | null) =>
    inputOf('ocr', 'mistral-ocr-4-0', { ...body, ...fields }, file && { 'document.document_url': { ...pdf, ...file } })
      .maxPages
  const cases: [fields: object, file: Partial<References[string]> | null, most: number][] = [
    [{}, null, 1_000],
    [{ pages: [0] }, null, 1_000],
    [{}, { pages: 7 }, 7],
    [{ pages: [0, 3, 3] }, { pages: 7 }, 2],
    [{ pages: '0-2, 5' }, { pages: 7 }, 4],
    [{ pages: '0-999999' }, { pages: 7 }, 7],
    [{}, { pages: 4_000 }, 1_000],
    [{}, { pages: null }, 1_000],
    [{ pages: [0, 1] }, { pages: null }, 2],
    [{}, { contentType: 'image/png' }, 1],
    [{}, { contentType: 'image/tiff' }, 1_000],
    // Of a Word document all pages are read, whichever are selected.
    [{ pages: [0] }, { contentType: 'application/msword' }, 1_000],
  ]
  for (const [fields, file, most] of cases) t.is(mostOf(fields, file), most, JSON.stringify([fields, file]))
})

test('every enabled row has a price of a unit that its kind counts', t => {
  const units: Record<SyncKind, string[]> = {
    image: ['token', 'image'],
    speech: ['token', 'character'],
    transcription: ['token', 'minute', 'second'],
    music: ['flat'],
    sfx: ['flat'],
    rerank: ['flat', 'token'],
    moderation: ['token'],
    ocr: ['page'],
  }
  for (const [kind, { type }] of Object.entries(syncKinds)) {
    const models = [...catalog.models.values()].filter(model => model.type === type && !model.disabled)
    t.true(models.length > 0, kind)
    for (const { id, providers } of models)
      for (const { price } of providers) t.true(units[kind as SyncKind].includes(price.unit), `${id} ${price.unit}`)
  }
})

test('reserved is at least the documented usual usage of gpt-image-2 and gpt-4o-mini-tts', t => {
  const max = (kind: SyncKind, model: string, input: unknown) =>
    (syncKinds[kind] as unknown as SyncKindRow<unknown, unknown>).maxQuantity(input, modelOf(model))
  const image = max('image', 'gpt-image-2', inputOf('image', 'gpt-image-2', { prompt: 'x', n: 2 }))
  // The finest picture of 1536 × 1024 has 6,240 tokens (platform.openai.com/docs/guides/images).
  t.true(image.usage.completion_tokens >= 2 * 6_240 && image.pieces === 2)
  const large = max('image', 'gpt-image-2', inputOf('image', 'gpt-image-2', { prompt: 'x', size: '3072x2048' }))
  t.true(large.usage.completion_tokens >= 4 * 6_240)
  const text = 'A sentence that is spoken. '.repeat(20)
  const speech = max('speech', 'gpt-4o-mini-tts', inputOf('speech', 'gpt-4o-mini-tts', { input: text, voice: 'coral' }))
  t.true(speech.usage.completion_tokens >= (text.length / 15) * 25 && speech.characters === text.length)
})
