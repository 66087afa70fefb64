import { asText } from '../base/as-text.ts'
import { base64Start, isDataUri } from '../base/data-uri.ts'
import { noteUnknown } from '../base/unknown-names.ts'

/** A kind of file that a provider may bill by another measure than its bytes. */
export type FileKind = 'image' | 'document' | 'sound'

/**
 * A member that is a file. Its form: `link`, a URL or a `data:` URI; `base64`; or `picture`, base64 of an image, or an
 * image as text (SVG). A `record` is part of an account of earlier work: models that take no such input ignore it. `forUrls`: its API
 * takes base64 of the alphabet for URLs as well.
 */
export type FileRule = { file: FileKind; form: 'link' | 'base64' | 'picture'; record?: true; forUrls?: true }

/**
 * What a provider reads in a member. `text`: a string or another scalar, or a list of these. `json`: any value, as text.
 * Neither costs more than its bytes. `stored`: the id of a file in the operator's account, which is not to be read.
 */
export type Rule = FixedRule | ((holder: Json) => FixedRule | undefined)
type FixedRule = 'text' | 'json' | 'stored' | FileRule | Objects
export type Members = ReadonlyMap<string, Rule>
type Json = Record<string, unknown>

/** The members of one object: the names of those that are text, and the rules of others. */
export function members(texts: string, others: Record<string, Rule> = {}): Members {
  const names = texts.split(/\s+/).filter(name => name !== '')
  return new Map([...names.map((name): [string, Rule] => [name, 'text']), ...Object.entries(others)])
}

/** Objects at one place, or a list of them, whose members depend on their type. */
export class Objects {
  readonly discriminator: string
  readonly #byType = new Map<unknown, Members | 'stored'>()
  #others: Members | 'ignored' | 'unknown' = new Map()
  #areOthersKnown = false

  constructor(discriminator = 'type') {
    this.discriminator = discriminator
  }

  /** Adds types, separated by spaces. A `stored` one refers to a file in the operator's account. */
  add(types: string, listed: Members | 'stored'): this {
    for (const type of types.split(/\s+/)) this.#byType.set(type, listed)
    return this
  }

  /** Objects of any type have the same members. */
  anyType(listed: Members): this {
    this.#areOthersKnown = true
    return this.others(listed)
  }

  /** Objects without a type. */
  untyped(listed: Members): this {
    this.#byType.set(undefined, listed)
    return this
  }

  /**
   * The members of objects of other types, among whose other members files are refused. `ignored` objects are never sent;
   * `unknown` ones are refused themselves.
   */
  others(listed: Members | 'ignored' | 'unknown'): this {
    this.#others = listed
    return this
  }

  of(type: unknown): Members | 'unknown' | 'stored' | 'ignored' {
    return this.#byType.get(type) ?? this.#others
  }

  /** Whether a type is known. */
  knows(type: unknown): boolean {
    return this.#areOthersKnown || this.#byType.has(type)
  }
}

/** Objects of any type, with these members. */
export const alike = (texts: string, others: Record<string, Rule> = {}) => new Objects().anyType(members(texts, others))

/**
 * A member that may not be sent as it is, mostly since what it costs was not reserved. `dropped`: it looks like a file where
 * none is known. `unknown`: so it does in an object of an unknown type, which makes no sense without it, or the object itself
 * may cost more than its text. `stored`: it refers to a file in the operator's account. `irregular`: a file in base64 with white
 * space, of the alphabet for URLs, or without padding, which is sent in standard base64.
 */
export type Unlisted = { path: readonly (string | number)[]; why: 'dropped' | 'unknown' | 'stored' | 'irregular' }

/** The most members that are dropped from one request; with more it is refused. */
const maxDropped = 100

/** What is told of a request while it is read. */
export type MemberVisitor = {
  /** `characters`: how many of them are bytes of the file, and no text. */
  file(rule: FileRule, characters: number): void
  /** An object of a type, before its members. */
  object?(value: Json): void
}

/** The objects of a dialect, by the members of a request that hold them. */
export type MemberTables = { readonly [member: string]: Objects }

/**
 * Reads a request once by the tables of its dialect: reports every file that a provider reads in it, and returns the
 * members that may not be sent. Members that are in no table pass unless they look like a file: text costs no more than
 * its bytes, which are counted, and clients use members that are newer than any table. `dialect`: under which names that
 * are in no table are noted; null = they are not.
 */
export function readMembers(
  request: object,
  tables: MemberTables,
  visitor: MemberVisitor,
  dialect: string | null = null,
): Unlisted[] {
  const reader = new MemberReader(visitor, dialect)
  for (const name in tables) reader.read(name, (request as Json)[name], tables[name]!)
  return reader.unlisted
}

class MemberReader {
  readonly unlisted: Unlisted[] = []
  readonly #visitor: MemberVisitor
  readonly #dialect: string | null
  readonly #path: (string | number)[] = []
  #refused = 0

  constructor(visitor: MemberVisitor, dialect: string | null) {
    this.#visitor = visitor
    this.#dialect = dialect
  }

  /** Reads what is at a path of one name. */
  read(name: string, value: unknown, objects: Objects): void {
    if (typeof value !== 'object' || value === null) return
    this.#path.push(name)
    this.#readObjects(value, objects)
    this.#path.pop()
  }

  #readObjects(value: unknown, objects: Objects): void {
    if (typeof value !== 'object' || value === null) return
    if (!Array.isArray(value)) {
      this.#readObject(value as Json, objects)
      return
    }
    for (let index = 0; index < value.length; index++) {
      this.#path.push(index)
      // Without it the others would have other places.
      if (typeof value[index] === 'string' && looksLikeFile(value[index], '')) this.#refuse('unknown')
      this.#readObjects(value[index], objects)
      this.#path.pop()
    }
  }

  #readObject(value: Json, objects: Objects): void {
    const type = value[objects.discriminator]
    const listed = objects.of(type)
    if (listed === 'ignored') return
    if (typeof listed === 'string') {
      this.#refuse(listed)
      return
    }
    this.#visitor.object?.(value)
    if (!objects.knows(type)) this.#note(asText(type))
    for (const name in value) {
      const member = value[name]
      const rule = listed.get(name)
      if (rule === 'json' || member === null || (rule === 'text' && typeof member !== 'object')) continue
      if (rule === undefined && name !== objects.discriminator) this.#note(`${asText(type)}.${name}`)
      this.#path.push(name)
      const fixed = typeof rule === 'function' ? rule(value) : rule
      if (fixed instanceof Objects && (typeof member === 'object' || textOrParts.has(name)))
        this.#readObjects(member, fixed)
      else if (!isCovered(member, name, fixed))
        this.#refuse(fixed === 'stored' ? 'stored' : objects.knows(type) ? 'dropped' : 'unknown')
      else if (typeof fixed === 'object' && 'file' in fixed && typeof member === 'string' && member !== '')
        this.#readFile(member, fixed)
      this.#path.pop()
    }
  }

  #readFile(file: string, rule: FileRule): void {
    this.#visitor.file(rule, charactersOf(file, rule))
    if (isIrregular(file, rule)) this.unlisted.push({ path: [...this.#path], why: 'irregular' })
  }

  #note(name: string): void {
    if (this.#dialect) noteUnknown('nested', `${this.#dialect}.${name}`)
  }

  #refuse(why: Unlisted['why']): void {
    if (++this.#refused > maxDropped + 1) return
    const isLast = this.#refused > maxDropped
    this.unlisted.push({ path: [...this.#path], why: isLast && why === 'dropped' ? 'unknown' : why })
  }
}

/** Members that are parts or blocks, or text in their place. */
const textOrParts: ReadonlySet<string> = new Set(['content', 'output'])

/** Whether what a member costs is known: by its file, or since it is text. */
function isCovered(member: unknown, name: string, rule: FixedRule | undefined): boolean {
  if (rule === 'stored') return !member
  if (typeof rule === 'object' && 'file' in rule && typeof member === 'string') return true
  const isText = (Array.isArray(member) ? member : [member]).every(one => typeof one !== 'object')
  return (rule === 'text' && isText) || !looksLikeFile(member, name)
}

const spaces = ['\n', '\r', ' ', '\t']
const ofUrls = ['-', '_']
const beginsAsBase64 = /^[\w+/\s=-]*$/
const maxTestedCharacters = 200

/** Whether a file is base64, but not as providers take it: in lines, of the alphabet for URLs, or without padding. */
function isIrregular(file: string, { form, forUrls }: FileRule): boolean {
  const start = isDataUri(file) ? base64Start(file) : form === 'link' ? null : 0
  if (start === null || !beginsAsBase64.test(file.slice(start, start + maxTestedCharacters))) return false
  if (spaces.some(sign => file.includes(sign))) return true
  return !forUrls && ((file.length - start) % 4 > 0 || ofUrls.some(sign => file.includes(sign, start)))
}

const base64Picture = /^(?:iVBORw0KGgo|\/9j\/|R0lGOD|UklGR)/

function charactersOf(file: string, { form }: FileRule): number {
  const isText = form === 'link' ? !/^\s*data:/i.test(file) : form === 'picture' && !base64Picture.test(file)
  return isText ? 0 : file.length
}

/** A `data:` URI, or a URL of any scheme. */
const link = /^\s*(?:data:|[a-z][a-z\d+.-]{0,30}:\/\/)/i

/**
 * How the usual files begin in base64: PNG, JPEG, GIF, RIFF (WebP, WAV), TIFF, MP4 and HEIC (`ftyp`), WebM, PDF, ZIP
 * (Office), ID3, Ogg, FLAC, AIFF, SVG and XML; in as many characters as no text has, BMP and frames of MP3 and AAC.
 */
const beginning =
  /^\s*(?:iVBORw0KGgo|\/9j\/|R0lGOD|UklGR|SUkqA|TU0AK|AAAA[\w+/]{2}Z0eX|GkXfo|JVBERi|UEsDB|SUQz|T2dnUw|ZkxhQ|Rk9STQ|PHN2Z|PD94bW|(?:Qk[0-3]|\/\/[E-Pk-v]|\/\+[M-P])[\w+/]{60})/

/** Base64 of a length that no id has, without white space at its end. Lines may end in it. */
const long = /^[\w+/\r\n-]{1024,}={0,2}$/

/** Names of ids of files, and of opaque state, which is base64 too and costs no more than its characters. */
const fileId = /(?:^|_)file_?[iI]ds?$|FileIds?$/
const opaque = /encrypted|signature|digest|(?:token|state)$/i

/**
 * Whether a value is or holds what providers read as a file: a URL, the bytes in base64, or the id of a stored one.
 * `name`: of the member whose value it is.
 */
function looksLikeFile(value: unknown, name: string): boolean {
  if (typeof value === 'string') return value !== '' && isFile(value, name)
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(one => looksLikeFile(one, name))
  for (const inner in value) if (looksLikeFile((value as Record<string, unknown>)[inner], inner)) return true
  return false
}

function isFile(text: string, name: string): boolean {
  if (link.test(text) || fileId.test(name)) return true
  return !opaque.test(name) && (beginning.test(text) || long.test(text.trimEnd()))
}
