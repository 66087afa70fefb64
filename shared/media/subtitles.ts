import type { Segment, Transcript, Word } from '../kinds/transcription.ts'

const maxSeconds = 7
const maxCharacters = 84
const sentenceEnd = /[.!?…。！？]$/u

/** The timed segments of a transcript: the provider's own, else lines assembled from its words. */
export function segmentsOf({ segments, words, text }: Transcript, seconds: number): Segment[] {
  if (segments) return segments
  if (words && words.length > 0) return linesOf(words)
  return text === '' ? [] : [{ start: 0, end: seconds, text, speaker: null }]
}

function linesOf(words: readonly Word[]): Segment[] {
  const lines: Segment[] = []
  let isOver = true
  for (const { word, start, end } of words) {
    const line = lines.at(-1)
    if (!line || isOver || end - line.start > maxSeconds || line.text.length + word.length >= maxCharacters)
      lines.push({ start, end, text: word.trim(), speaker: null })
    else {
      line.text += ` ${word.trim()}`
      line.end = end
    }
    isOver = sentenceEnd.test(word.trim())
  }
  return lines
}

/** Formats segments as SubRip. */
export function srt(segments: readonly Segment[]): string {
  return segments.map(({ start, end, text }, i) => `${i + 1}\n${span(start, end, ',')}\n${lineOf(text)}\n\n`).join('')
}

/** Formats segments as WebVTT. */
export function vtt(segments: readonly Segment[]): string {
  return `WEBVTT\n\n${segments.map(({ start, end, text }) => `${span(start, end, '.')}\n${lineOf(text)}\n\n`).join('')}`
}

/** An empty line would end the caption, and an arrow would start another. */
function lineOf(text: string): string {
  const lines = text.split('\n').map(line => line.trim())
  return lines.filter(Boolean).join('\n').replaceAll('-->', '->')
}

function span(start: number, end: number, point: ',' | '.'): string {
  return `${clock(start, point)} --> ${clock(Math.max(start, end), point)}`
}

function clock(seconds: number, point: ',' | '.'): string {
  const ms = Math.round(Math.max(0, seconds) * 1000)
  const part = (value: number, digits = 2) => String(value).padStart(digits, '0')
  const [hours, minutes] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60]
  return `${part(hours)}:${part(minutes)}:${part(Math.floor(ms / 1000) % 60)}${point}${part(ms % 1000, 3)}`
}
