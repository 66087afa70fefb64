import { keys } from '../base/secret-forms.ts'
import { type DetectorType, detectorTypes } from '../keys/guardrails.ts'

// What is found in texts. All patterns are bounded, so that a scan is linear, and none looks further ahead than what `tailStart`
// holds back: a text that comes in parts has the same matches as the whole.

/** A value that was found in a text. */
export type Match = { type: DetectorType; start: number; end: number }

/** Longer values are not found. */
const maxMatch = 4_096
/** Maximum length of a value of several words, such as the groups of an IBAN. */
const maxSpaced = 96
/** A private key has several lines; a longer one is not found. */
const maxPrivateKey = 8_192
/** How many characters before a text decide what begins in it. */
export const contextLength = 64

type Found = { start: number; end: number }
/** Finds the first match that begins at `from` or later; null = none. */
type Finder = (text: string, from: number) => Found | null

/** The first match of a pattern that `accept` takes; the next one may begin within one that it does not take. */
function finderOf(pattern: RegExp, accept: (match: string) => boolean = () => true): Finder {
  return (text, from) => {
    pattern.lastIndex = from
    for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
      const [match] = found
      if (accept(match)) return { start: found.index, end: found.index + match.length }
      pattern.lastIndex = found.index + 1
    }
    return null
  }
}

const space = '[ \u00a0]'
const separator = '[ \u00a0-]'

/** JSON Web Tokens (RFC 7519), and private keys (RFC 7468). */
const webToken = /(?<![\w-])eyJ[\w-]{10,512}\.eyJ[\w-]{10,2048}\.[\w-]{10,1024}/g
const privateKey = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{1,8000}-----END [A-Z ]{0,40}PRIVATE KEY-----/g

const email =
  /(?<![\p{L}\p{N}._%+-])[\p{L}\p{N}._%+-]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.){1,8}\p{L}{2,24}(?![\p{L}\p{N}])/gu

/** Digits in one run, or in the groups that are printed on cards: 4-4-4-4, 4-6-5 (American Express), 4-6-4 (Diners Club). */
const card = new RegExp(
  String.raw`(?<![\w])(?<!\d[.,])(?:[2-6]\d{12,18}|[2-6]\d{3}(${separator})\d{4}\1\d{4}\1\d{4}|3\d{3}(${separator})\d{6}\2\d{4,5})(?!\w)`,
  'g',
)

/** International numbers, as `+49 30 901820` and `0049 (0)30-901820`; and those of North America, as `(555) 234-5678`. */
const internationalPhone = /(?<![\p{L}\p{N}+])(?:\+|00)[1-9](?:[ \u00a0.\-/()]{0,2}\d){6,14}(?!\d)/gu
const americanPhone =
  /(?<![\p{L}\p{N}+.-])(?:1[ .-])?(?:\([2-9]\d{2}\)[ ]?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?![\p{L}\p{N}])/gu

const finders: Record<DetectorType, readonly Finder[]> = {
  secret: [finderOf(keys), finderOf(webToken), finderOf(privateKey)],
  iban: [findIban],
  card: [finderOf(card, isCardNumber)],
  email: [finderOf(email)],
  phone: [finderOf(internationalPhone), finderOf(americanPhone)],
}

/** What a text must have for a detector to find anything. */
const hints: Record<DetectorType, RegExp> = {
  secret: /[-_.]|AKIA|ASIA|AIza/,
  iban: /[A-Za-z]{2}\d{2}/,
  card: /\d{4}/,
  email: /@/,
  phone: /\d{2}/,
}

/**
 * Finds the values in a text from `from` on, in order and without overlaps: of those that overlap the one that begins first,
 * of those that begin together the one of the first type.
 */
export function* findMatches(text: string, types: ReadonlySet<DetectorType>, from = 0): Generator<Match> {
  const open = detectorTypes.filter(type => types.has(type) && hints[type].test(text))
  // Each finder reads the text once: its next match, or that there is none, holds for all matches of the others before it.
  const searches = open.flatMap(type =>
    finders[type].map(find => ({ type, find, next: undefined as Found | null | undefined })),
  )
  for (let at = from; ; ) {
    let first: Match | null = null
    for (const search of searches) {
      if (search.next === undefined || (search.next && search.next.start < at)) search.next = search.find(text, at)
      const { type, next } = search
      if (next && (!first || next.start < first.start)) first = { type, ...next }
    }
    if (!first) return
    yield first
    at = first.end
  }
}

/** Shorter texts are no value: a phone number has seven digits. */
const minMatch = 7

/** Whether a text as a whole is a value. */
export function isMatch(text: string, types: ReadonlySet<DetectorType>): boolean {
  if (text.length < minMatch || text.length > maxMatch) return false
  const [first] = findMatches(text, types)
  return first !== undefined && first.start === 0 && first.end === text.length
}

/** Whether digits are a payment card number: their issuer's range, and the Luhn check digit (ISO/IEC 7812-1). */
function isCardNumber(match: string): boolean {
  const digits = match.replace(/\D/g, '')
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i])
    const doubled = i % 2 === 0 ? digit : digit * 2
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0 && issuers.some(({ length, begin }) => length.test(String(digits.length)) && begin.test(digits))
}

/** Visa, Mastercard, American Express, Diners Club, Discover, UnionPay, JCB, Maestro. */
const issuers = [
  { begin: /^4/, length: /^1[369]$/ },
  { begin: /^5[1-5]|^2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)/, length: /^16$/ },
  { begin: /^3[47]/, length: /^15$/ },
  { begin: /^3(?:0|[689])/, length: /^1[4-9]$/ },
  { begin: /^6/, length: /^1[6-9]$/ },
  { begin: /^35/, length: /^1[6-9]$/ },
  { begin: /^5[0678]/, length: /^1[2-9]$/ },
]

/** The length of an IBAN by its country (SWIFT's IBAN registry). */
const ibanLengths = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 ' +
    'FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 ' +
    'LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 ' +
    'SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map(entry => [entry.slice(0, 2), Number(entry.slice(2))] as const),
)
const ibanStart = /(?<![A-Za-z0-9])(?:[A-Z]{2}|[a-z]{2})\d{2}/g
const spaces = new RegExp(space)

/** Finds an IBAN, in one run or in groups of four, by the length of its country and its check digits (ISO 13616). */
function findIban(text: string, from: number): Found | null {
  ibanStart.lastIndex = from
  for (let found = ibanStart.exec(text); found; found = ibanStart.exec(text)) {
    const start = found.index
    ibanStart.lastIndex = start + 1
    const length = ibanLengths.get(found[0].slice(0, 2).toUpperCase())
    if (length === undefined) continue
    const isUpper = found[0] < 'a'
    const run = isUpper ? /[A-Z0-9]/ : /[a-z0-9]/
    let characters = found[0]
    let end = start + 4
    while (characters.length < length) {
      if (isUpper && characters.length % 4 === 0 && spaces.test(text[end] ?? '')) end++
      if (!run.test(text[end] ?? '')) break
      characters += text[end++]
    }
    const isWhole = characters.length === length && !/[A-Za-z0-9]/.test(text[end] ?? '')
    if (isWhole && hasCheckDigits(characters.toUpperCase())) return { start, end }
  }
  return null
}

function hasCheckDigits(iban: string): boolean {
  let remainder = 0
  for (const character of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(character, 36)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder === 1
}

/** The end of a word that may be a group of an IBAN, a card or a phone number, with the spaces after it. */
const spacedWord = /[A-Z0-9+().\-/]{1,24}[ \u00a0]{1,2}$/

/** Where the part of a text begins that what follows may make a match of, or change the match in. */
export function tailStart(text: string): number {
  let start = text.length
  const minStart = Math.max(0, text.length - maxMatch)
  while (start > minStart && !/[\s\0]/.test(text[start - 1]!)) start--
  for (const until = Math.max(0, start - maxSpaced); start > until; ) {
    const word = spacedWord.exec(text.slice(Math.max(0, start - 28), start))
    if (!word) break
    start -= word[0].length
  }
  const begin = text.lastIndexOf('-----BEGIN ')
  const isOpen = begin >= 0 && text.length - begin < maxPrivateKey && !text.includes('-----END ', begin)
  return isOpen ? Math.min(start, begin) : start
}
