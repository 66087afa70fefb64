import type { RatedTask } from '../catalog/schema.ts'
import type { Features } from './features.ts'
import { countOf } from './prompt-words.ts'
import { differentWords, readWords, type WordReading } from './read-words.ts'

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
  // As the estimate of the difficulty reads it.
  const text = lastText().trimEnd()
  const words = readWords(text)
  return (
    subjectOf(text, words) ??
    (maxPromptEstimate > longTokens ? 'long_context' : isForeign(text, words) ? 'multilingual' : 'general')
  )
}

/** A code fence, or a line of a stack trace in Python, Java, JavaScript: each has a symbol. */
const codeSample = /```|Traceback \(most recent call last\)|\bat [\w.$<>]{1,100} ?\([^()\n]{1,200}:\d{1,6}/
/** An instruction to work on code. */
const codeOrder =
  /\b(?:write|implement|fix|debug|refactor|optimi[sz]e|review|test)\b[^.\n]{0,40}\b(?:functions?|methods?|class|scripts?|programs?|quer(?:y|ies)|code|bugs?|regex|unit tests?)\b/i
/** An equation, or mathematics in TeX. */
const equation = /\$\$|\\(?:frac|sqrt|int|sum|begin)\b|[\d)a-z²³] ?[=≤≥<>] ?[-+(√∫∑]?\d|[∑∫√∀∃∈]|\b[a-z]\^\d/
/** Different words of a class that make a subject clear. */
const minWords = 2

function subjectOf(text: string, words: WordReading): 'code' | 'maths' | null {
  const { marks, flags } = words
  const hasCodeOrder = countOf(marks, 'codeVerb') > 0 && countOf(marks, 'codeObject') > 0 && codeOrder.test(text)
  if (hasCodeOrder || (flags.hasSymbol && codeSample.test(text))) return 'code'
  const code = differentWords(words, 'code')
  const mathsWords = differentWords(words, 'computing') + (countOf(marks, 'proof') > 0 ? minWords : 0)
  // An equation alone does not make the subject clear.
  const maths = mathsWords > 0 && equation.test(text) ? mathsWords + 1 : mathsWords
  if (Math.max(code, maths) < minWords) return null
  return code >= maths ? 'code' : 'maths'
}

/** Every tenth word of English text is one of the most frequent ones. Shorter texts say nothing. */
const wordsPerEnglishWord = 10
const minLanguageWords = 6

function isForeign(text: string, { marks, count, letters, latinLetters }: WordReading): boolean {
  if (letters > 0 && latinLetters < letters / 2) return true
  return text !== '' && count >= minLanguageWords && countOf(marks, 'english') < count / wordsPerEnglishWord
}
