import type { RatedTask } from '../catalog/schema.ts'
import type { Features } from './features.ts'
import { type KnownWord, unspacedCues, visitWords, type WordClass } from './prompt-words.ts'

/** The class of a request's task: it decides which of a model's qualities counts. */
export type Task = RatedTask | 'general'

/** Prompts of more tokens are long. */
const longTokens = 50_000

/**
 * The class of a request's task. A class is chosen only if it is clear, and the first that applies: images, then what the
 * last user message is about, the length of the prompt, its language. Reads at most a few thousand characters.
 */
export function taskOf({
  inputs,
  maxPromptEstimate,
  lastText,
}: Pick<Features, 'inputs' | 'maxPromptEstimate' | 'lastText'>): Task {
  if (inputs.image) return 'vision'
  const text = lastText()
  const words = readWords(text)
  return (
    subjectOf(text, words) ??
    (maxPromptEstimate > longTokens ? 'long_context' : isForeign(text, words) ? 'multilingual' : 'general')
  )
}

/** A code fence, or a line of a stack trace in Python, Java, JavaScript. */
const codeSample = /```|Traceback \(most recent call last\)|\bat [\w.$<>]{1,100} ?\([^()\n]{1,200}:\d{1,6}/
/** An instruction to work on code. */
const codeOrder =
  /\b(?:write|implement|fix|debug|refactor|optimi[sz]e|review|test)\b[^.\n]{0,40}\b(?:functions?|methods?|class|scripts?|programs?|quer(?:y|ies)|code|bugs?|regex|unit tests?)\b/i
/** An equation, or mathematics in TeX. */
const equation = /\$\$|\\(?:frac|sqrt|int|sum|begin)\b|[\d)a-z²³] ?[=≤≥<>] ?[-+(√∫∑]?\d|[∑∫√∀∃∈]|\b[a-z]\^\d/
/** Different words of a class that make a subject clear. */
const minWords = 2

function subjectOf(text: string, { classes }: Words): 'code' | 'maths' | null {
  const countOf = (name: SubjectClass) => classes.get(name)?.size ?? 0
  const code = countOf('code')
  if (codeSample.test(text) || codeOrder.test(text)) return 'code'
  const maths = countOf('computing') + (equation.test(text) ? 1 : 0) + (countOf('proof') > 0 ? minWords : 0)
  if (Math.max(code, maths) < minWords) return null
  return code >= maths ? 'code' : 'maths'
}

/** Every tenth word of English text is one of the most frequent ones. Shorter texts say nothing. */
const wordsPerEnglishWord = 10
const minLanguageWords = 6

function isForeign(text: string, { count, english, letters, latinLetters }: Words): boolean {
  if (letters > 0 && latinLetters < letters / 2) return true
  return text !== '' && count >= minLanguageWords && english < count / wordsPerEnglishWord
}

/** The classes whose different words make a subject clear. */
const subjectClasses = ['code', 'computing', 'proof'] as const satisfies WordClass[]
type SubjectClass = (typeof subjectClasses)[number]
const isSubjectClass = (name: WordClass): name is SubjectClass => subjectClasses.includes(name as SubjectClass)

type Words = {
  /** The different words of each class. */
  classes: Map<SubjectClass, Set<KnownWord | SubjectClass>>
  count: number
  english: number
  letters: number
  latinLetters: number
}

function readWords(text: string): Words {
  const words: Words = { classes: new Map(), count: 0, english: 0, letters: 0, latinLetters: 0 }
  const add = (name: SubjectClass, word: KnownWord | SubjectClass) => {
    const found = words.classes.get(name)
    if (found) found.add(word)
    else words.classes.set(name, new Set([word]))
  }
  visitWords(text, (start, end, known) => {
    words.count++
    words.letters += end - start
    if (text.charCodeAt(start) < firstNonLatin) words.latinLetters += end - start
    if (!known) return
    for (const name of known.classes) {
      if (name === 'english') words.english++
      else if (isSubjectClass(name)) add(name, known)
    }
  })
  if (words.latinLetters < words.letters)
    for (const [name, pattern] of unspacedCues) if (isSubjectClass(name) && text.search(pattern) >= 0) add(name, name)
  return words
}

/** Greek is the first script after Latin. */
const firstNonLatin = 0x370
