import { examineImage } from '../../shared/io/media/images.ts'
import { type PngShape, blankPng as png } from '../support/media/bombs.ts'
import { test } from '../support/test.ts'

/** The header of a lossless WebP, which states its size; there is no image behind it. */
function webp(side: number): Buffer {
  const bits = (side - 1) | ((side - 1) << 14)
  const image = Buffer.alloc(64)
  image[0] = 0x2f
  image.writeInt32LE(bits, 1)
  const head = Buffer.from('RIFF\0\0\0\0WEBPVP8L\0\0\0\0', 'latin1')
  head.writeUInt32LE(head.length - 8 + image.length, 4)
  head.writeUInt32LE(image.length, 16)
  return Buffer.concat([head, image])
}

const taken: [what: string, shape: PngShape][] = [
  ['interlaced, eight bits', { width: 300, height: 200, interlaced: true }],
  ['interlaced, 16 bits', { width: 300, height: 200, bits: 16, interlaced: true }],
  ['16 megapixels of 16 bits, row by row', { width: 4_000, height: 4_000, bits: 16 }],
]
for (const [what, shape] of taken) {
  test.serial(`decoded: ${what}`, async t => {
    t.deepEqual(await examineImage(png(shape)), { contentType: 'image/png', width: shape.width, height: shape.height })
  })
}

const refused: [what: string, image: () => Buffer][] = [
  ['13 megapixels of 16 bits, interlaced', () => png({ width: 3_600, height: 3_600, bits: 16, interlaced: true })],
  ['26 megapixels, interlaced', () => png({ width: 5_100, height: 5_100, interlaced: true })],
  ['51 megapixels, row by row', () => png({ width: 5_100, height: 10_000 })],
  ['rows of more than 32,768 pixels', () => png({ width: 40_000, height: 2 })],
  ['a WebP image of 26 megapixels', () => webp(5_100)],
  ['a page of SVG', () => Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
]
for (const [what, image] of refused) {
  test.serial(`null, and no memory taken: ${what}`, async t => {
    const bytes = image()
    const before = process.memoryUsage.rss()
    t.is(await examineImage(bytes), null)
    t.true(process.memoryUsage.rss() - before < 80e6)
  })
}

test.serial('503 when too many images wait already; the others are decoded', async t => {
  const bytes = png({ width: 10, height: 10 })
  const looks = await Promise.allSettled(Array.from({ length: 10 }, () => examineImage(bytes, 4)))
  t.deepEqual(looks.map(look => look.status).sort(), [...Array(4).fill('fulfilled'), ...Array(6).fill('rejected')])
  const [refusal] = looks.flatMap(look => (look.status === 'rejected' ? [look.reason] : []))
  t.like(refusal, { code: 'service_unavailable' })
})
