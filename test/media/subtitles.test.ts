import type { Segment, Transcript } from '../../shared/kinds/transcription.ts'
import { segmentsOf, srt, vtt } from '../../shared/media/subtitles.ts'
import { test } from '../support/test.ts'

const transcript = (parts: Partial<Transcript>): Transcript => ({
  text: '',
  language: null,
  segments: null,
  words: null,
  logprobs: null,
  usage: null,
  ...parts,
})
const segment = (start: number, end: number, text: string): Segment => ({ start, end, text, speaker: null })

test('captions have a number, their times and their text', t => {
  const segments = [segment(0, 1.5, ' Good day.'), segment(3_661.0406, 3_662, 'And good bye.')]
  t.is(
    srt(segments),
    '1\n00:00:00,000 --> 00:00:01,500\nGood day.\n\n2\n01:01:01,041 --> 01:01:02,000\nAnd good bye.\n\n',
  )
  t.is(
    vtt(segments),
    'WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nGood day.\n\n01:01:01.041 --> 01:01:02.000\nAnd good bye.\n\n',
  )
})

test('captions cannot be ended or begun by their text', t => {
  const text = 'one\n\n\n2\n00:00:09,000 --> 00:00:10,000\nanother'
  t.is(srt([segment(0, 1, text)]).split('\n\n').length, 2)
  t.is(srt([segment(0, 1, text)]).match(/-->/g)?.length, 1)
})

test('captions never end before they begin, nor begin before the sound', t => {
  t.true(srt([segment(2, 1, 'x')]).includes('00:00:02,000 --> 00:00:02,000'))
  t.true(srt([segment(-1, 1, 'x')]).includes('00:00:00,000 --> 00:00:01,000'))
})

test('the provider’s own segments are taken as they are', t => {
  const segments = [segment(0, 60, 'a long one')]
  t.is(segmentsOf(transcript({ text: 'a long one', segments, words: [{ start: 0, end: 1, word: 'a' }] }), 60), segments)
})

test('words become lines of one sentence, at most seven seconds and 84 characters', t => {
  const words = Array.from({ length: 200 }, (_, i) => ({
    word: i % 9 === 8 ? 'word.' : 'word',
    start: i * 0.4,
    end: i * 0.4 + 0.3,
  }))
  const lines = segmentsOf(transcript({ text: 'x', words }), 80)
  t.is(lines.map(line => line.text).join(' '), words.map(({ word }) => word).join(' '))
  for (const [i, { start, end, text }] of lines.entries()) {
    t.true(end - start <= 7 && text.length <= 84)
    t.true(text.endsWith('.') || i === lines.length - 1)
    t.true(i === 0 || start >= lines[i - 1]!.end)
  }
  const endless = segmentsOf(transcript({ text: 'x', words: words.map(word => ({ ...word, word: 'word' })) }), 80)
  t.true(endless.every(({ start, end, text }) => end - start <= 7 && text.length <= 84))
})

test('a transcript without times is one line as long as the sound, or none', t => {
  t.deepEqual(segmentsOf(transcript({ text: 'Good day.' }), 3.2), [segment(0, 3.2, 'Good day.')])
  t.deepEqual(segmentsOf(transcript({}), 3.2), [])
})
