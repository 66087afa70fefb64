import { measureDocument, measureSound } from '../../../shared/io/media/measure.ts'
import { pageOf, pdf, pdfOfPages, streamOf } from '../../support/media/documents.ts'
import { adts, adtsFrameS, flac, flacFrameS, movie, mp3, mp3FrameS, png, wav } from '../../support/media/media-files.ts'
import { mp4Stating } from '../../support/media/sample-tables.ts'
import { type ExecutionContext, test } from '../../support/test.ts'

const owner = { organisationId: 'org', environment: 'live' } as const

const sounds: [name: string, file: () => Promise<Buffer> | Buffer, seconds: number][] = [
  ['WAV', () => wav(1.5), 1.5],
  ['MP3', () => mp3(100), 100 * mp3FrameS],
  ['FLAC', () => flac(50), 50 * flacFrameS],
  ['Ogg', () => movie('ogg', { audioS: 2.5 }), 2.5],
  ['AAC', () => adts(100), 100 * adtsFrameS],
  ['M4A', () => movie('mp4', { audioS: 2.5 }), 2.5],
  ['M4A whose edit list plays it five times', () => mp4Stating('none', 0, 5), 9.024],
  ['WebM', () => movie('webm', { audioS: 2.5 }), 2.5],
]
for (const [name, file, seconds] of sounds) {
  test(`the milliseconds of sound: ${name}`, async t => {
    t.is(await measureSound(await file(), owner), Math.ceil(seconds * 1_000 - 1e-3))
  })
}

test('null for what is no sound', async t => {
  for (const file of [Buffer.alloc(0), Buffer.from('text'), png(), await movie('mp4', { videoS: 1, audioS: 1 })])
    t.is(await measureSound(file, owner), null)
})

const texts: [name: string, text: string][] = [
  ['plain text', 'Grüße aus 東京\n'],
  ['CSV', 'a,b\r\n1,2\r\n'],
  ['JSON', '{"a":[1,2]}'],
  ['nothing', ''],
]
for (const [name, text] of texts) {
  test(`no pages and its bytes: ${name}`, async t => {
    t.deepEqual(await measureDocument(Buffer.from(text), owner), { pages: 0, textBytes: Buffer.byteLength(text) })
  })
}

/** `textBytes` has one byte after each piece of text that is drawn. */
const pdfs: [name: string, file: Buffer, pages: number, textBytes: number][] = [
  ['one page', pdfOfPages(1), 1, 6],
  ['three hundred pages', pdfOfPages(300), 300, 1_800],
  ['deflated contents', pdfOfPages(2, { contents: streamOf('', 'BT /F1 9 Tf (Hi) Tj ET', true) }), 2, 6],
  ['text beyond the edges', pdfOfPages(1, { contents: streamOf('', 'BT /F1 9 Tf 900 900 Td (Hi) Tj ET') }), 1, 3],
  ['spaces that are no letters', pdfOfPages(1, { contents: streamOf('', 'BT /F1 9 Tf [(H) -900 (i)] TJ ET') }), 1, 4],
  ['no text', pdfOfPages(1, { contents: streamOf('', '0 0 9 9 re f') }), 1, 0],
  ['a mark that is not at the beginning', Buffer.concat([Buffer.from('\n\n'), pdfOfPages(1)]), 1, 6],
  [
    'text in a form that is drawn five times',
    pdfOfPages(1, {
      contents: streamOf('', '/X Do '.repeat(5)),
      more: [
        streamOf('/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F1 3 0 R>>>>', 'BT /F1 9 Tf (Hi) Tj ET'),
      ],
    }),
    1,
    15,
  ],
]
for (const [name, file, pages, textBytes] of pdfs) {
  test(`the pages and text of a PDF: ${name}`, async t => {
    t.deepEqual(await measureDocument(file, owner), { pages, textBytes })
  })
}

const form = '/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F1 3 0 R>>'
const japanese = '<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/90ms-RKSJ-H/DescendantFonts[6 0 R]>>'
const untold: [name: string, file: () => Buffer][] = [
  ['a picture', () => png()],
  ['a PDF behind other text', () => Buffer.concat([Buffer.alloc(2_000, ' '), pdfOfPages(1)])],
  ['a PDF of nothing but its mark', () => Buffer.from('%PDF-1.7\n')],
  ['a tree of ten pages that states one', () => pdfOfPages(10, { count: 1 })],
  ['a PDF that was cut off', () => pdfOfPages(50).subarray(0, 2_000)],
  ['an encrypted PDF', () => pdf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Kids[]/Count 0>>'], encrypted)],
  ['more than 5,000 pages', () => pdfOfPages(1, { kids: '5 0 R '.repeat(5_001), count: 5_001 })],
  [
    'a tree of pages that is a circle',
    () => pdf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Kids[2 0 R 2 0 R]/Count 3>>']),
  ],
  [
    'text in an encoding that is not at hand',
    () => pdfOfPages(1, { font: japanese, contents: streamOf('', 'BT /F1 9 Tf <82a0> Tj ET'), more: [cidFont] }),
  ],
  [
    'contents by a filter that is unknown',
    () => pdfOfPages(1, { contents: streamOf('/Filter/Nonsense', 'BT (Hi) Tj ET') }),
  ],
  [
    'more than 16 MiB of text',
    () =>
      pdfOfPages(1, { contents: streamOf('', `BT /F1 9 Tf ${`(${'a'.repeat(50_000)}) Tj `.repeat(400)} ET`, true) }),
  ],
]
const encrypted = `/Encrypt<</Filter/Standard/V 1/R 2/O(${'a'.repeat(32)})/U(${'b'.repeat(32)})/P -4>>/ID[(a)(a)]`
const cidFont =
  '<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>>>'
for (const [name, file] of untold) {
  test(`null for a document: ${name}`, async t => {
    t.is(await measureDocument(file(), owner), null)
  })
}

/** Measures while the event loop turns; gives how often it did. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let turning = setImmediate(function turn() {
    turns++
    turning = setImmediate(turn)
  })
  await work()
  clearImmediate(turning)
  return turns
}

async function isHarmless(t: ExecutionContext, work: () => Promise<unknown>) {
  const before = process.memoryUsage.rss()
  const turns = await turnsDuring(async () => t.is(await work(), null))
  t.true(turns > 0)
  t.true(process.memoryUsage.rss() - before < 700e6)
}

test.serial('null for a PDF that deflates to gigabytes, without their memory', t => {
  const spaces = streamOf('', Buffer.alloc(600_000_000, ' '), true)
  return isHarmless(t, () => measureDocument(pdfOfPages(1, { contents: spaces }), owner))
})

test.serial('null for a PDF whose forms draw one another a billion times, when time is up', t => {
  const level = (next: number) => streamOf(`${form}/XObject<</X ${next} 0 R>>>>`, '/X Do '.repeat(100))
  const more = [level(7), level(8), level(9), level(10), streamOf(`${form}>>`, 'BT /F1 9 Tf (Hi) Tj ET')]
  return isHarmless(t, () => measureDocument(pdfOfPages(1, { contents: streamOf('', '/X Do'), more }), owner, 2_000))
})

for (const table of ['stts', 'ctts'] as const) {
  test.serial(
    `null for an MP4 file of ${mp4Stating(table, 1).length} bytes whose ${table} states four billion samples`,
    t => isHarmless(t, () => measureSound(mp4Stating(table, 0xffff_ffff), owner, 2_000)),
  )
}

test.serial(
  'null for files that take memory faster than a thread can be stopped, three at once: the process lives',
  async t => {
    const bomb = mp4Stating('ctts', 0xffff_ffff)
    const lengths = await Promise.all(
      ['a', 'b', 'c'].map(organisationId => measureSound(bomb, { ...owner, organisationId })),
    )
    t.deepEqual(lengths, [null, null, null])
  },
)

test.serial('measured: ordinary files after all hostile ones', async t => {
  t.is(await measureSound(mp4Stating('none', 0), owner), 1_024)
  t.like(
    await measureDocument(
      pdf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Kids[3 0 R]/Count 1>>', pageOf()]),
      owner,
    ),
    { pages: 1 },
  )
})
