import { classesOf, unspacedCues, type WordClass } from './prompt-words.ts'

/** The cues with learned weights, each a small number read off a prompt's text. */
export const cueNames = [
  'words',
  'sentences',
  'wordsPerSentence',
  'longWordShare',
  'nameShare',
  'hasNumber',
  'numbers',
  'mathsMarks',
  'quotation',
  'enumeration',
  'blank',
  'questionEnd',
  'negation',
  'hypothesis',
  'comparison',
  'comparisonShare',
  'consequence',
  'time',
  'thirdPerson',
  'recall',
  'choiceLength',
  'choiceNumberShare',
  'choiceSymbolShare',
  'choiceOverlap',
] as const
export type CueName = (typeof cueNames)[number]
/** null = the prompt has nothing the cue could be read off, which weighs as much as an average value: nothing. */
export type Cues = Record<CueName, number | null>

export type Reading = {
  cues: Cues
  /** How often words of each class occur. */
  marks: Map<WordClass, number>
  /** The length in words; scripts without spaces count two characters a word. */
  size: number
  codeMarks: number
  mathsMarks: number
}

/** Characters looked at from either end; what lies between counts by its length only. */
const window = 4_096
/** English text has one of its commonest words among so many. */
const wordsPerEnglishWord = 20
/** What a choice counts as in the length of a prompt. */
const wordsPerChoice = 4
/** What follows the choices and is not longer, such as "Answer:", asks nothing. */
const mostClosingCharacters = 20

/** Reads the cues off a prompt of any length in any language. Pure, time bounded by the window. */
export function readPrompt(text: string): Reading {
  const whole = text.length > 2 * window
  const seen = whole ? `${text.slice(0, window)}\n${text.slice(-window)}` : text
  const { stem, choices } = splitChoices(seen.trimEnd())
  const words = readWords(stem)
  const { marks, size } = words
  const stretch = whole ? text.length / seen.length : 1
  const sentences = occurrences(stem, /[.!?](?=[\s"”»]|$)|[。！？।؟]/g)
  const mathsMarks = occurrences(stem, /[=+*^<>≤≥≠≈∑∏∫√∞∈∉⊂∀∃∂→⇒⊃∨∧¬~·×÷±π\\]|\d ?[-/] ?\d/g)
  const codeMarks = occurrences(stem, /```|[{}]|;[ \t]*$|\(\)|\w\(|\[\w{0,20}\]|[a-z][A-Z]|:=|←/gm)
  const numbers = occurrences(stem, /\d+(?:[.,]\d+)*/g)
  const cues: Cues = {
    words: Math.log1p(size * stretch),
    sentences: Math.log1p(sentences * stretch),
    wordsPerSentence: Math.log1p(size / (1 + sentences)),
    hasNumber: numbers > 0 ? 1 : 0,
    numbers: Math.log1p(numbers),
    mathsMarks: Math.log1p(mathsMarks),
    quotation: /["“”«»„「]/.test(stem) ? 1 : 0,
    enumeration: Math.log1p(
      occurrences(stem, /\b(?:[A-Z][a-z]+ \d+ ?[|:.)]|I{1,3}V?[.:)])|\([1-9ivab]\)|\b\d\. [A-Z]/g),
    ),
    blank: stem.includes('__') ? 1 : 0,
    questionEnd: /[?？؟]$/.test(stem) ? 1 : 0,
    ...readEnglish(stem, words),
    ...readChoices(choices),
  }
  return { cues, marks, size: size * stretch + wordsPerChoice * choices.length, codeMarks, mathsMarks }
}

/** A question and the choices under it, lettered A to J ("A. …", "B) …"), if any. */
function splitChoices(text: string): { stem: string; choices: string[] } {
  const mark = /\n[ \t]{0,8}\(?([A-J])[.)][ \t]/g
  const starts = [...text.matchAll(mark)].filter(([, letter], i) => letter === String.fromCharCode(65 + i))
  const [first] = starts
  if (!first || starts.length < 2) return { stem: text, choices: [] }
  const choices = starts.map((start, i) =>
    text.slice(start.index + start[0].length, starts[i + 1]?.index ?? text.length),
  )
  const [lastChoice = '', ...after] = choices.pop()!.split('\n')
  choices.push(lastChoice)
  const rest = after.join('\n').trim()
  const stem = text.slice(0, first.index).trimEnd()
  return {
    stem: rest.length > mostClosingCharacters ? `${stem}\n${rest}` : stem,
    choices: choices.map(choice => choice.trim()),
  }
}

/** What the words tell; in another language than English they tell nothing, and least that there is nothing in them. */
function readEnglish(text: string, { marks, count, longCount }: Words) {
  const of = (name: WordClass) => marks.get(name) ?? 0
  const known = of('english') > count / wordsPerEnglishWord
  const told = (value: number) => (known ? value : null)
  return {
    longWordShare: told(longCount / count),
    nameShare: told(occurrences(text, /[a-z,;] \p{Lu}\p{Ll}/gu) / count),
    negation: told(Math.log1p(of('negation'))),
    hypothesis: told(Math.log1p(of('hypothesis'))),
    comparison: told(Math.log1p(of('comparison'))),
    comparisonShare: told(of('comparison') / count),
    consequence: told(Math.log1p(of('consequence'))),
    time: told(Math.log1p(of('time'))),
    thirdPerson: told(Math.log1p(of('thirdPerson'))),
    recall: told(Math.log1p(of('recall'))),
  }
}

function readChoices(choices: string[]) {
  const share = (test: RegExp) => choices.filter(choice => test.test(choice)).length / choices.length
  if (choices.length === 0) {
    return { choiceLength: null, choiceNumberShare: null, choiceSymbolShare: null, choiceOverlap: null }
  }
  return {
    choiceLength: Math.log1p(choices.reduce((sum, { length }) => sum + length, 0) / choices.length),
    choiceNumberShare: share(/^[^\p{L}\d]{0,3}\d/u),
    choiceSymbolShare: share(/[\\^=+*∨∧⊃~]/),
    choiceOverlap: overlapOf(choices),
  }
}

/** How much the choices look alike: the mean share of words that two of them have in common. */
function overlapOf(choices: string[]): number {
  const sets = choices.map(choice => new Set(choice.toLowerCase().match(/\p{L}+/gu) ?? []))
  let sum = 0
  let pairs = 0
  for (const [i, one] of sets.entries()) {
    for (const other of sets.slice(0, i)) {
      const shared = [...one].filter(word => other.has(word)).length
      sum += shared / Math.max(1, Math.min(one.size, other.size))
      pairs++
    }
  }
  return sum / pairs
}

/** Scripts from Thai on are mostly written without spaces between words. */
const unspaced = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]/

type Words = { marks: Map<WordClass, number>; count: number; size: number; longCount: number }

function readWords(text: string): Words {
  const marks = new Map<WordClass, number>()
  const add = (name: WordClass) => marks.set(name, (marks.get(name) ?? 0) + 1)
  let count = 0
  let size = 0
  let longCount = 0
  let spaced = true
  for (const [word] of text.matchAll(/[\p{L}\p{M}][\p{L}\p{M}'’]*/gu)) {
    count++
    if (unspaced.test(word)) {
      size += word.length / 2
      spaced = false
      continue
    }
    size++
    if (word.length >= 9) longCount++
    for (const name of classesOf(word.toLowerCase()) ?? []) add(name)
  }
  if (!spaced) for (const [name, pattern] of unspacedCues) if (pattern.test(text)) add(name)
  return { marks, count, size, longCount }
}

function occurrences(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0
}
