import { longLength, readPlainWords } from './plain-words.ts'
import {
  addTo,
  type CharacterFlags,
  type ClassCounts,
  type KnownWord,
  unspacedCues,
  visitWords,
  type WordClass,
  wordClasses,
} from './prompt-words.ts'

/** The words of a text. */
export type WordReading = {
  /** Occurrences of words of each class. */
  marks: ClassCounts
  /** The different words of the classes that may be a subject. */
  subjectWords: ReadonlySet<KnownWord>
  /** Classes that cues in a script without spaces belong to. */
  unspacedClasses: ReadonlySet<WordClass>
  flags: CharacterFlags
  count: number
  /** Length in words; scripts without spaces count two characters per word. */
  size: number
  longCount: number
  letters: number
  latinLetters: number
  /** Capitalised words within a sentence; null where they were not counted. */
  names: number | null
  /** Marks that end a sentence; null where they were not counted. */
  sentences: number | null
}

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

/** Classes whose different words are counted. */
const subjects = ['code', 'computing'] as const satisfies WordClass[]
const [code, computing] = subjects.map(name => wordClasses.indexOf(name))

/** The number of different words of a subject. */
export function differentWords(
  { subjectWords, unspacedClasses }: WordReading,
  name: (typeof subjects)[number],
): number {
  let count = unspacedClasses.has(name) ? 1 : 0
  for (const { classes } of subjectWords) if (classes.includes(wordClasses.indexOf(name))) count++
  return count
}

function read(text: string): WordReading {
  const marks: ClassCounts = wordClasses.map(() => 0)
  let subjectWords: Set<KnownWord> | null = null
  const onKnown = (word: KnownWord) => {
    const { classes } = word
    for (let index = 0; index < classes.length; index++) {
      const name = classes[index]!
      marks[name]!++
      if (name === code || name === computing) (subjectWords ??= new Set()).add(word)
    }
  }
  const plain = readPlainWords(text, onKnown)
  const words = plain
    ? { ...plain, unspacedClasses: noClasses, size: plain.count, latinLetters: plain.letters }
    : readAnyWords(text, marks, onKnown)
  return { marks, subjectWords: subjectWords ?? noWords, ...words }
}

/** Reads the words of a text in any script. */
function readAnyWords(text: string, marks: ClassCounts, onKnown: (word: KnownWord) => void) {
  let [count, size, longCount, letters, latinLetters] = [0, 0, 0, 0, 0]
  let isSpaced = true
  const flags = visitWords(text, (start, end, word, isPlain) => {
    const length = end - start
    count++
    letters += length
    if (isPlain || text.charCodeAt(start) < firstNonLatin) latinLetters += length
    if (!isPlain && unspaced.test(text.slice(start, end))) {
      size += length / 2
      isSpaced = false
      return
    }
    size++
    if (length >= longLength) longCount++
    if (word) onKnown(word)
  })
  const unspacedClasses = isSpaced ? noClasses : addUnspaced(text, marks)
  return { unspacedClasses, flags, count, size, longCount, letters, latinLetters, names: null, sentences: null }
}

const noWords: ReadonlySet<KnownWord> = new Set()
const noClasses: ReadonlySet<WordClass> = new Set()

/** Counts the cues in scripts without spaces; returns their classes. */
function addUnspaced(text: string, marks: ClassCounts): Set<WordClass> {
  const classes = new Set<WordClass>()
  for (const [name, pattern] of unspacedCues)
    for (const _ of text.match(pattern) ?? []) {
      addTo(marks, name)
      classes.add(name)
    }
  return classes
}
