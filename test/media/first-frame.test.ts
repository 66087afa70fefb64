import fc from 'fast-check'
import { soundFormats } from '../../shared/kinds/sound.ts'
import { awaitFirstFrame } from '../../shared/media/first-frame.ts'
import { ProviderError } from '../../shared/providers/provider-error.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { sound } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'

/** A file's bytes in pieces of random sizes; counts how it is closed. */
function inPieces(bytes: Buffer, sizes: readonly number[]) {
  const state = { closed: 0 }
  async function* body() {
    try {
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const end = at + sizes[i % sizes.length]!
        yield bytes.subarray(at, end)
        at = end
      }
    } finally {
      state.closed++
    }
  }
  return { state, body: body() }
}

async function wholeOf(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of body) parts.push(part)
  return Buffer.concat(parts)
}

/** An ID3v2 tag with so many bytes in it. */
function tag(bytes: number): Buffer {
  const size = [21, 14, 7, 0].map(shift => (bytes >> shift) & 127)
  return Buffer.concat([Buffer.from('ID3\x04\0\0', 'latin1'), Buffer.from(size), Buffer.alloc(bytes)])
}

const sizes = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 6 })

for (const format of soundFormats) {
  test(`${format}: begun with its first frame, and as it is, whatever the pieces`, async t => {
    const file = await sound(format, 0.2)
    await t.notThrowsAsync(
      fc.assert(
        fc.asyncProperty(sizes, async sizes => {
          const { body, state } = inPieces(file, sizes)
          const { body: rest } = await awaitFirstFrame(body, format)
          return (await wholeOf(rest)).equals(file) && state.closed === 1
        }),
        { numRuns: 50 },
      ),
    )
  })
  test(`${format}: never begun, and closed, without a frame`, async t => {
    const file = await sound(format, 0.2)
    const nothing: Record<string, number> = { pcm: 1, wav: 44, mp3: 20, aac: 6, flac: 42, opus: 60 }
    for (const cut of [0, 1, nothing[format]!])
      for (const size of [1, 1_000]) {
        const { body, state } = inPieces(file.subarray(0, cut), [size])
        const error = await t.throwsAsync(awaitFirstFrame(body, format), { instanceOf: ProviderError })
        t.is(error!.reason, 'invalid_response')
        t.is(state.closed, 1)
      }
  })
}

test('mp3, aac: begun behind a tag, in pieces of any size, and when all of the sound is less than a look later', async t => {
  for (const format of ['mp3', 'aac'] as const) {
    const short = await sound(format, 0.2)
    for (const [bytes, size] of [
      [0, 4],
      [100, 1],
      [100_000, 1_000],
      [1_900_000, 64],
    ] as const) {
      const file = Buffer.concat([tag(bytes), short])
      const { body } = await awaitFirstFrame(inPieces(file, [size]).body, format)
      t.true((await wholeOf(body)).equals(file), `${format} behind ${bytes} bytes, in pieces of ${size}`)
    }
  }
})

test('a ProviderError for any bytes that are none of the format, and no more than the head is read', async t => {
  const noise = fc.uint8Array({ minLength: 0, maxLength: 5_000 })
  const magic = fc.constantFrom('', 'RIFF\0\0\0\0WAVE', 'OggS\0', 'fLaC', 'ID3\x04\0\0', '\xff\xfb\x90', '\xff\xf1')
  await t.notThrowsAsync(
    fc.assert(
      fc.asyncProperty(fc.constantFrom(...soundFormats), magic, noise, sizes, async (format, start, bytes, sizes) => {
        const file = Buffer.concat([Buffer.from(start, 'latin1'), bytes])
        const { body, state } = inPieces(file, sizes)
        try {
          return (await wholeOf((await awaitFirstFrame(body, format)).body)).equals(file)
        } catch (error) {
          return error instanceof ProviderError && state.closed === 1
        }
      }),
      { numRuns: fuzzRuns(1_000) },
    ),
  )
  const endless = inPieces(Buffer.concat([Buffer.from('OggS\0'), Buffer.alloc(4 * 1024 * 1024)]), [65_536])
  await t.throwsAsync(awaitFirstFrame(endless.body, 'opus'), { instanceOf: ProviderError })
  t.is(endless.state.closed, 1)
})
