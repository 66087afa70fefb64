import { type KnownWord, unspacedCues, visitWords, type WordClass } from './prompt-words.ts'

/** The words of a text. */
export type WordReading = {
  /** Occurrences of words of each class. */
  marks: Map<WordClass, number>
  /** The different words that have a class; those that only mark English text are left out. */
  known: Set<KnownWord>
  /** Classes that cues in a script without spaces belong to. */
  unspacedClasses: Set<WordClass>
  count: number
  /** Length in words; scripts without spaces count two characters per word. */
  size: number
  longCount: number
  letters: number
  latinLetters: number
}

const longLength = 9
/** Greek is the first script after Latin. */
const firstNonLatin = 0x370
/** Scripts from Thai on are mostly written without spaces. */
const unspaced = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]/

let latest: { text: string; reading: WordReading } | null = null

/** Reads the words of a text, which is mostly read again for the estimate of the same request. */
export function readWords(text: string): Readonly<WordReading> {
  const reading = takeWords(text)
  latest = { text, reading }
  return reading
}

/** As `readWords`, for the last reader of a text: nothing is kept. */
export function takeWords(text: string): Readonly<WordReading> {
  const reading = latest?.text === text ? latest.reading : read(text)
  latest = null
  return reading
}

/** The number of different words of a class. */
export function differentWords({ known, unspacedClasses }: WordReading, name: WordClass): number {
  let count = unspacedClasses.has(name) ? 1 : 0
  for (const { classes } of known) if (classes.includes(name)) count++
  return count
}

function read(text: string): WordReading {
  const marks = new Map<WordClass, number>()
  const known = new Set<KnownWord>()
  const unspacedClasses = new Set<WordClass>()
  const reading = { marks, known, unspacedClasses, count: 0, size: 0, longCount: 0, letters: 0, latinLetters: 0 }
  const add = (name: WordClass) => marks.set(name, (marks.get(name) ?? 0) + 1)
  let isSpaced = true
  visitWords(text, (start, end, word, isPlain) => {
    reading.count++
    reading.letters += end - start
    if (isPlain || text.charCodeAt(start) < firstNonLatin) reading.latinLetters += end - start
    if (!isPlain && unspaced.test(text.slice(start, end))) {
      reading.size += (end - start) / 2
      isSpaced = false
      return
    }
    reading.size++
    if (end - start >= longLength) reading.longCount++
    if (!word) return
    for (const name of word.classes) add(name)
    if (word.classes[0] !== 'english') known.add(word)
  })
  if (!isSpaced)
    for (const [name, pattern] of unspacedCues)
      for (const _ of text.match(pattern) ?? []) {
        add(name)
        unspacedClasses.add(name)
      }
  return reading
}
