/**
 * Word classes. The first group identifies English text; the second holds cues whose weights are learned from English
 * prompts; the third, whose weights are set manually, covers some other languages as well.
 */
const words = {
  english: `the of to and is are for that which with it this you your what how why who does do have has at by from be as
    we they there these if or`,

  hypothesis:
    'if suppose assume assuming consider scenario scenarios imagine given let would could should might whether hypothetical',
  comparison: `than more less fewer greater most least larger smaller higher lower same different difference compare
    compared both either versus equal twice half`,
  recall: 'called known name named term refers defined definition define example type types',

  proof: `prove proof proofs derive derivation theorem lemma corollary induction contradiction irrational axiom axioms
    beweise beweis beweisen zeige herleiten satz demuestra demuestre demostrar demostración teorema démontrer démontre
    démontrez prouver preuve théorème dimostra dimostrare demonstre докажи докажите доказательство теорема
    أثبت برهن सिद्ध 증명`,
  analysis: `analyse analyze analysis compare contrast evaluate critique assess design architecture architect strategy
    optimise optimize optimization tradeoff tradeoffs diagnose diagnosis complexity rigorous rigorously
    thoroughly reasoning step steps implications feasibility negotiate legal
    analysiere analysieren vergleiche bewerte entwirf entwerfen optimiere begründe schritt architektur
    analiza analizar compara diseña diseñar evalúa optimiza paso arquitectura analysez analyser comparez concevez
    évaluez étape analizza confronta progetta analise projete проанализируй проанализируйте сравни сравните спроектируй
    حلل قارن`,
  code: `code python javascript typescript java rust golang kotlin swift php sql regex function class method variable array
    loop bug bugs debug compile compiler exception traceback stacktrace segfault refactor api endpoint algorithm
    recursion recursive thread threads mutex deadlock query queries index unittest docker kubernetes git def const import
    html css json yaml bash linux database backend frontend react async await callback undefined null stderr localhost
    funktion programm programmiere función código programa algoritmo fonction programme algorithme
    funzione функция код программа ошибка`,
  computing: `calculate compute solve integral integrate derivative differentiate equation equations inequality
    probability matrix eigenvalue eigenvalues polynomial prime primes modulo limit converge converges
    berechne berechnen löse lösen gleichung wahrscheinlichkeit ableitung calcula calcular resuelve resolver
    ecuación probabilidad derivada calculez calculer résous résolvez équation probabilité calcola risolvi equazione
    вычисли вычислите реши решите найди уравнение интеграл احسب حل معادلة`,
  routine: `summarise summarize summary translate proofread rephrase paraphrase reword shorten extract classify categorise
    categorize zusammenfassen zusammenfassung fasse übersetze übersetzen resume resumir resumen traduce traducir résume
    résumer résumé traduis traduire riassumi riassunto traduci resuma traduza переведи переведите перескажи`,
  codeVerb: 'write implement fix debug refactor optimise optimize review test',
  codeObject:
    'function functions method methods class script scripts program programs query queries code bug bugs regex unit',
  greeting: `hi hello hey hiya howdy yo thanks thank bye goodbye cheers morning evening night welcome ok okay yes yeah yep sure
    hallo moin servus danke tschüss guten hola gracias buenos buenas adiós salut bonjour bonsoir merci ciao grazie
    buongiorno olá oi obrigado obrigada привет здравствуй здравствуйте спасибо مرحبا شكرا नमस्ते धन्यवाद 안녕하세요 안녕
    감사합니다`,
}
export type WordClass = keyof typeof words

/** Patterns of the third group for scripts without spaces; each match counts as a word. */
export const unspacedCues: [WordClass, RegExp][] = [
  ['proof', /证明|證明|推导|証明|定理/g],
  ['analysis', /分析|比较|比較|设计|設計|评估|評価|优化|最適化|逐步|架构|権衡|权衡/g],
  ['code', /代码|函数|算法|编程|程序|调试|コード|関数|アルゴリズム|プログラム|バグ/g],
  ['computing', /计算|計算|求解|解方程|方程|积分|積分|概率|確率|导数|微分/g],
  ['routine', /总结|總結|摘要|概括|翻译|翻譯|要約|翻訳/g],
  ['greeting', /你好|您好|谢谢|謝謝|早上好|再见|こんにちは|ありがとう|おはよう|こんばんは|สวัสดี/g],
]

export const wordClasses = Object.keys(words) as WordClass[]

/** How often words of each class occur, by the index of the class in `wordClasses`. */
export type ClassCounts = number[]

const indexes = Object.fromEntries(wordClasses.map((name, index) => [name, index])) as Record<WordClass, number>

export function countOf(counts: Readonly<ClassCounts>, name: WordClass): number {
  return counts[indexes[name]]!
}

export function addTo(counts: ClassCounts, name: WordClass): void {
  counts[indexes[name]]!++
}

/** A word that has classes, in lower case. `classes` are indexes in `wordClasses`. */
export type KnownWord = { word: string; classes: readonly number[] }

/**
 * A word of a text, from `start` to before `end`; `known` if it has classes. `isPlain`: of ASCII characters only.
 */
type Visit = (start: number, end: number, known: KnownWord | undefined, isPlain: boolean) => void

/** Which characters a text has at all, so that few texts are searched for patterns of them. */
export type CharacterFlags = {
  hasDigit: boolean
  /** A mark of code or mathematics, or a character beyond ASCII. */
  hasSymbol: boolean
  /** A capital letter that follows another letter. */
  hasInnerCapital: boolean
}

/**
 * Visits each word of a text: a letter, then letters and apostrophes. Without regular expressions and substrings, and on a
 * copy in an array, since every request to `auto` passes here. Texts of ASCII are read by `readPlainWords`.
 */
export function visitWords(text: string, visit: Visit): CharacterFlags {
  const { length } = text
  const units = unitsOf(text)
  let flags = 0
  for (let index = 0; index < length; ) {
    const start = index
    let hash = 0
    let isPlain = true
    while (index < length) {
      const unit = units[index]!
      if (unit < 0x80) {
        const kind = asciiKinds[unit]!
        flags |= index > start ? kind & capital : kind & (digit | symbol)
        if ((kind & letter) === 0 && (kind !== apostrophe || index === start)) break
        hash = nextHash(hash, unit | 0x20)
        index++
      } else {
        flags |= symbol
        const width = unit === rightQuote ? (index === start ? 0 : 1) : letterWidth(text, index)
        if (width === 0) break
        isPlain = false
        index += width
      }
    }
    if (index === start) index++
    else
      visit(
        start,
        index,
        isPlain ? plainWord(units, start, index, hash) : table.get(lowerCase(text, start, index)),
        isPlain,
      )
  }
  return flagsOf(flags)
}

/** The flags of a text: of all its characters, but of letters only those within words. */
export function flagsOf(seen: number): CharacterFlags {
  return {
    hasDigit: (seen & digit) !== 0,
    hasSymbol: (seen & symbol) !== 0,
    hasInnerCapital: (seen & capital) !== 0,
  }
}

const usualLength = 8_256
const usualBytes = Buffer.alloc(2 * usualLength)
const usualUnits = new Uint16Array(usualBytes.buffer, usualBytes.byteOffset, usualLength)

/** The code units of a text, until the next call. */
function unitsOf(text: string): Uint16Array {
  if (text.length > usualLength) return Uint16Array.from(text, (_, index) => text.charCodeAt(index))
  usualBytes.write(text, 'utf16le')
  return usualUnits
}

/** Kinds of ASCII characters, as bits; a capital is also a letter. */
export const kinds = { letter: 1, capital: 2, apostrophe: 4, digit: 8, symbol: 16, stop: 32, afterStop: 64 } as const
const { letter, capital, apostrophe, digit, symbol, stop, afterStop } = kinds
const rightQuote = 0x2019
export const asciiKinds = Uint8Array.from({ length: 0x80 }, (_, unit) => {
  const character = String.fromCharCode(unit)
  if (/[A-Z]/.test(character)) return letter | capital
  if (/[a-z]/.test(character)) return letter
  if (/[0-9]/.test(character)) return digit
  if (/[`{};([:=+*^<>~\\]/.test(character)) return symbol
  if (/[.!?]/.test(character)) return stop
  if (/[\s"]/.test(character)) return afterStop
  return character === "'" ? apostrophe : 0
})

/** Code units of the letter or mark at an index; 0 = there is none. */
function letterWidth(text: string, index: number): number {
  const point = text.codePointAt(index)!
  if (point > 0xffff) return isLetter(point) ? 2 : 0
  letters[point] ||= isLetter(point) ? 1 : 2
  return letters[point] === 1 ? 1 : 0
}

const isLetter = (point: number) => /[\p{L}\p{M}]/u.test(String.fromCodePoint(point))
/** By code unit: 1 = a letter or mark, 2 = another character, 0 = not known yet. */
const letters = new Uint8Array(0x10000)

const lowerCase = (text: string, start: number, end: number) => text.slice(start, end).toLowerCase()

export const nextHash = (hash: number, unit: number) => (Math.imul(hash, 39) + unit) | 0
const hashBits = 13
const placeOf = (hash: number) => (hash ^ (hash >>> hashBits)) & ((1 << hashBits) - 1)

/** The known word that a word of ASCII characters with this hash is. */
export function plainWord(
  units: Uint16Array | Uint8Array,
  start: number,
  end: number,
  hash: number,
): KnownWord | undefined {
  const place = placeOf(hash)
  if (places.hash[place] !== hash || places.length[place] !== end - start) return
  let at = places.start[place]!
  for (let index = start; index < end; index++) if ((units[index]! | 0x20) !== spellings[at++]) return
  return plainWords[places.index[place]!]
}

const table = tableOf()
const plainWords = [...table.values()].filter(({ word }) => /^[a-z]+$/.test(word))
/** The letters of all words of ASCII characters, one after another: comparing bytes is faster than comparing texts. */
const spellings = new Uint8Array(Buffer.from(plainWords.map(({ word }) => word).join('')))
const places = placesOf(plainWords)

function tableOf(): Map<string, KnownWord> {
  const table = new Map<string, KnownWord & { classes: number[] }>()
  for (const [index, name] of wordClasses.entries())
    for (const word of new Set(words[name].split(/\s+/))) {
      const known = table.get(word)
      if (known) known.classes.push(index)
      else table.set(word, { word, classes: [index] })
    }
  return table
}

/**
 * The known words of ASCII characters by the place of their hash: hash, length, index in `plainWords`, start in
 * `spellings`. Throws if two words have the same place: then choose another multiplier.
 */
function placesOf(words: readonly KnownWord[]) {
  const size = 1 << hashBits
  const [length, index, start] = [new Uint8Array(size), new Uint16Array(size), new Uint16Array(size)]
  const places = { hash: new Int32Array(size), length, index, start }
  let spelled = 0
  for (const [number, { word }] of words.entries()) {
    let hash = 0
    for (let at = 0; at < word.length; at++) hash = nextHash(hash, word.charCodeAt(at))
    const place = placeOf(hash)
    if (length[place]) throw new Error(`Two words have the same place: ${word}, ${words[index[place]!]!.word}`)
    places.hash[place] = hash
    length[place] = word.length
    index[place] = number
    start[place] = spelled
    spelled += word.length
  }
  return places
}
