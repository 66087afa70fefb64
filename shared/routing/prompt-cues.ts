import { type ClassCounts, countOf } from './prompt-words.ts'
import { takeWords, type WordReading } from './read-words.ts'

/** The cues with learned weights, each a small number computed from a prompt's text. */
export const cueNames = [
  'words',
  'sentences',
  'longWordShare',
  'nameShare',
  'hasNumber',
  'numbers',
  'mathsMarks',
  'enumeration',
  'hypothesis',
  'comparison',
  'comparisonShare',
  'recall',
  'choiceLength',
  'choiceNumberShare',
  'choiceSymbolShare',
  'choiceOverlap',
] as const
export type CueName = (typeof cueNames)[number]
/** null = the cue is absent from the prompt; it then weighs as much as an average value: nothing. */
export type Cues = Record<CueName, number | null>

/**
 * Writes the values of cues in the order of `cueNames`, in place of absent ones those of `usual`. Looked up by names in a loop,
 * they would take ten times as long.
 */
export function writeCues(cues: Cues, usual: Record<CueName, number>, values: Float64Array): void {
  values[0] = cues.words ?? usual.words
  values[1] = cues.sentences ?? usual.sentences
  values[2] = cues.longWordShare ?? usual.longWordShare
  values[3] = cues.nameShare ?? usual.nameShare
  values[4] = cues.hasNumber ?? usual.hasNumber
  values[5] = cues.numbers ?? usual.numbers
  values[6] = cues.mathsMarks ?? usual.mathsMarks
  values[7] = cues.enumeration ?? usual.enumeration
  values[8] = cues.hypothesis ?? usual.hypothesis
  values[9] = cues.comparison ?? usual.comparison
  values[10] = cues.comparisonShare ?? usual.comparisonShare
  values[11] = cues.recall ?? usual.recall
  values[12] = cues.choiceLength ?? usual.choiceLength
  values[13] = cues.choiceNumberShare ?? usual.choiceNumberShare
  values[14] = cues.choiceSymbolShare ?? usual.choiceSymbolShare
  values[15] = cues.choiceOverlap ?? usual.choiceOverlap
}

export type Reading = {
  cues: Cues
  /** Occurrences of words of each class. */
  marks: ClassCounts
  /** Length in words; scripts without spaces count two characters per word. */
  size: number
  codeMarks: number
  mathsMarks: number
}

/** Characters read from either end; text in between counts by length only. */
const window = 4_096
/** English text contains one of its most frequent words per this many words. */
const wordsPerEnglishWord = 20
/** Words that a choice adds to the length of a prompt. */
const wordsPerChoice = 4
/** Text of at most this length after the choices, such as "Answer:", is ignored. */
const maxClosingCharacters = 20

/** Computes the cues of a prompt of any length in any language. Pure; the window bounds its running time. */
export function readPrompt(text: string): Reading {
  const isSampled = text.length > 2 * window
  const sampled = isSampled ? `${text.slice(0, window)}\n${text.slice(-window)}` : text
  const { stem, choices } = splitChoices(sampled.trimEnd())
  const words = takeWords(stem)
  const { marks, size } = words
  const scale = isSampled ? text.length / sampled.length : 1
  const sentences = words.sentences ?? occurrences(stem, /[.!?](?=[\s"”»]|$)|[。！？।؟]/g)
  // Most prompts have no such characters.
  const { hasDigit, hasSymbol, hasInnerCapital } = words.flags
  const mathsMarks =
    hasDigit || hasSymbol ? occurrences(stem, /[=+*^<>≤≥≠≈∑∏∫√∞∈∉⊂∀∃∂→⇒⊃∨∧¬~·×÷±π\\]|\d ?[-/] ?\d/g) : 0
  const codeMarks =
    hasSymbol || hasInnerCapital
      ? occurrences(stem, /```|[{}]|;[ \t]*$|\(\)|\w{3}\(|\[\w{0,20}\]|[a-z][A-Z]|:=|←/gm)
      : 0
  const numbers = hasDigit ? occurrences(stem, /\d+(?:[.,]\d+)*/g) : 0
  const enumeration =
    hasDigit || hasSymbol || hasInnerCapital || stem.includes('I.') || stem.includes('I)')
      ? occurrences(stem, /\b(?:[A-Z][a-z]+ \d+ ?[|:.)]|I{1,3}V?[.:)])|\([1-9ivab]\)|\b\d\. [A-Z]/g)
      : 0
  const cues: Cues = {
    words: Math.log1p(size * scale),
    sentences: Math.log1p(sentences * scale),
    hasNumber: numbers > 0 ? 1 : 0,
    numbers: Math.log1p(numbers),
    mathsMarks: Math.log1p(mathsMarks),
    enumeration: Math.log1p(enumeration),
    ...readEnglish(stem, words),
    ...readChoices(choices),
  }
  return { cues, marks, size: size * scale + wordsPerChoice * choices.length, codeMarks, mathsMarks }
}

/** Splits a question from its choices, lettered A to J ("A. …", "B) …"), if any. */
function splitChoices(text: string): { stem: string; choices: string[] } {
  if (!text.includes('\n')) return { stem: text, choices: [] }
  const mark = /\n[ \t]{0,8}\(?([A-J])[.)][ \t]/g
  const starts = [...text.matchAll(mark)].filter(([, letter], i) => letter === String.fromCharCode(65 + i))
  const [first] = starts
  if (!first || starts.length < 2) return { stem: text, choices: [] }
  const choices = starts.map((start, i) =>
    text.slice(start.index + start[0].length, starts[i + 1]?.index ?? text.length),
  )
  const [lastChoice = '', ...closingLines] = choices.pop()!.split('\n')
  choices.push(lastChoice)
  const closing = closingLines.join('\n').trim()
  const stem = text.slice(0, first.index).trimEnd()
  return {
    stem: closing.length > maxClosingCharacters ? `${stem}\n${closing}` : stem,
    choices: choices.map(choice => choice.trim()),
  }
}

/** Cues based on English words; null for other languages, where their absence means nothing. */
function readEnglish(text: string, { marks, count, longCount, names }: Readonly<WordReading>) {
  const comparison = countOf(marks, 'comparison')
  const isEnglish = countOf(marks, 'english') > count / wordsPerEnglishWord
  const ifEnglish = (value: number) => (isEnglish ? value : null)
  const nameCount = () => names ?? occurrences(text, /[a-z,;] \p{Lu}\p{Ll}/gu)
  return {
    longWordShare: ifEnglish(longCount / count),
    nameShare: isEnglish ? nameCount() / count : null,
    hypothesis: ifEnglish(Math.log1p(countOf(marks, 'hypothesis'))),
    comparison: ifEnglish(Math.log1p(comparison)),
    comparisonShare: ifEnglish(comparison / count),
    recall: ifEnglish(Math.log1p(countOf(marks, 'recall'))),
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

/** Similarity of the choices: the mean share of common words over all pairs. */
function overlapOf(choices: string[]): number {
  const sets = choices.map(choice => new Set(choice.toLowerCase().match(/\p{L}+/gu) ?? []))
  let sum = 0
  let pairs = 0
  for (const [i, set] of sets.entries()) {
    for (const other of sets.slice(0, i)) {
      const shared = [...set].filter(word => other.has(word)).length
      sum += shared / Math.max(1, Math.min(set.size, other.size))
      pairs++
    }
  }
  return sum / pairs
}

function occurrences(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0
}
