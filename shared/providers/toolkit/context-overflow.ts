/**
 * How servers say that a prompt is longer than their model's context, where no error code does. The wordings, with where each
 * was seen, are in `test/emulators/context-overflows.ts`.
 */
const overflows: readonly RegExp[] = [
  /\bcontext[ _](?:length|window|size|limit)\b/,
  /maximum (?:prompt|model|input|sequence) length|maximum supported sequence length|max(?:imum)? input (?:length|tokens)/,
  /\b(?:prompt|input|conversation)s?(?: \S+){0,2} too long\b|\bprompt exceeds max(?:imum)? length\b/,
  /\b(?:input|prompt)\b[^.]{0,30}\btokens?\b.{0,80}\b(?:exceed|longer than|larger than|greater than|only supports up to)/,
  /\bexceeds? (?:the )?(?:max|maximum|limit|model|configured|allowed)\b.{0,40}\btokens?\b/,
  /\bprompt\b.{0,40}\btokens?\b.{0,40}\btoo (?:large|long)\b/,
  /\btoo many (?:input |prompt |total text )?(?:tokens|bytes)\b|\binput tokens? (?:count )?exceed/,
  /\bexceeded model token limit\b|\btoken limit exceeded\b|\btokens? (?:count of \d+ )?exceeds? the limit of \d/,
  /\brange of input length should be\b|\binput request: expected maxlength\b|\bprompt length\b.{0,30}\bexceed/,
  /`inputs`(?: tokens \+ `max_new_tokens`)? must (?:be|have)|\bmax(?:imum)? (?:size|\d+)[: ]+\d* ?tokens\b/,
  /\breduce the length of the (?:messages|input|prompt)\b/,
]

/** What mentions tokens or contexts for another reason: rate limits, limits of the output alone, other fields. */
const others: readonly RegExp[] = [
  /rate.?limit|too many requests|throttl|per (?:minute|hour|day)|\b[tr]p[md]\b|please wait|current quota/,
  /maximum (?:allowed number of output|value for `?max_)|completion tokens, whereas|max(?:imum)? output tokens/,
]

const maxRead = 4_000

/** True if the message of a refused request says that the prompt does not fit into the model's context. */
export function isContextOverflow(message: string): boolean {
  const text = message.slice(0, maxRead).toLowerCase()
  return overflows.some(words => words.test(text)) && !others.some(words => words.test(text))
}

const number = /(?<![\w.])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,])\d{3,12}(?![\w])/g

/** Anthropic's form where the requested output is counted in. */
const withOutput = /(\d{1,12}) \+ (\d{1,12}) > (\d{1,12})/

/**
 * The prompt's tokens and the limit that a message states, if it states exactly these two; null otherwise. The larger one is
 * the prompt, whatever the order.
 */
export function overflowCounts(message: string): { input: number; output: number | null; limit: number } | null {
  const [sum, input, output, limit] = withOutput.exec(message.slice(0, maxRead)) ?? []
  if (sum !== undefined) return { input: Number(input), output: Number(output), limit: Number(limit) }
  const found = (message.slice(0, maxRead).match(number) ?? []).map(digits => Number(digits.replaceAll(',', '')))
  const counts = [...new Set(found)]
  return counts.length === 2 ? { input: Math.max(...counts), output: null, limit: Math.min(...counts) } : null
}
