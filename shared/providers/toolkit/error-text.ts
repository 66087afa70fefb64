import { isObject } from '../../base/is-object.ts'
import { type Json, parseJsonOrNull } from './json-fields.ts'

/** What an error body says in words, and the request field that it names, if any. */
type ErrorText = { message: string; param: string | null }

const nothing: ErrorText = { message: '', param: null }
const maxDepth = 6
/** Of longer texts the beginning is read, as of an error body: an event of a stream may have megabytes. */
export const maxErrorCharacters = 64 * 1024
const maxListed = 5
/** The invalid field of a request, such as `messages[0].content`. */
const fieldName = /^[\w.[\]-]{1,100}$/
/** What proxies say of an error of the server behind them, whose own words are elsewhere in the body. */
const genericMessage = /^provider returned error$|^upstream error\b/i

const page = /^<[!?a-z]/i

/** Members that hold the words, or an object with them, the most specific first. */
const wordMembers = [
  'message',
  'detail',
  'error',
  'errors',
  'msg',
  'Message',
  'error_description',
  'description',
  'title',
]

/**
 * The reason that an error body gives. Servers write it as text, as `message`, `detail` or `error`, as a list of these, as FastAPI's
 * `{loc, msg}`, with another server's JSON inside (OpenRouter's `metadata.raw`), or as lists by field (RFC 9457).
 */
export function readErrorText(body: unknown, depth = 0): ErrorText {
  if (depth > maxDepth) return nothing
  if (typeof body === 'string') return fromText(body, depth)
  if (Array.isArray(body)) return fromList(body, depth)
  if (!isObject(body)) return nothing
  if (Array.isArray(body.loc) && typeof body.msg === 'string') return fromValidation(body.loc, body.msg)
  const own = fromMembers(body, depth)
  const inner = own.message === '' || genericMessage.test(own.message.trim()) ? rawText(body, depth) : nothing
  return inner.message === '' ? own : inner
}

function fromText(text: string, depth: number): ErrorText {
  const trimmed = text.slice(0, maxErrorCharacters).trim()
  if (/^[[{"]/.test(trimmed)) {
    const json = parseJsonOrNull(trimmed)
    if (json !== null) return readErrorText(json, depth + 1)
  }
  return { message: page.test(trimmed) ? titleOf(trimmed) : trimmed, param: null }
}

/** The title of an HTML page; the rest of one is not about the request. */
function titleOf(html: string): string {
  const title = /<title[^>]{0,200}>([^<]{1,200})<\/title>/i.exec(html.slice(0, 4_000))?.[1] ?? ''
  return title.replace(/\s+/g, ' ').trim()
}

function fromList(list: readonly unknown[], depth: number): ErrorText {
  const texts = list.slice(0, maxListed).map(item => readErrorText(item, depth + 1))
  const messages = [...new Set(texts.map(({ message }) => message).filter(message => message !== ''))]
  return { message: messages.join('; '), param: texts.find(({ param }) => param !== null)?.param ?? null }
}

/** FastAPI's description of one invalid field. What was sent (`input`) is not repeated. */
function fromValidation(loc: readonly unknown[], msg: string): ErrorText {
  const [first, ...rest] = loc
  const place = (first === 'body' || first === 'query' ? rest : loc).join('.')
  const param = fieldName.test(place) ? place : null
  return { message: param ? `${param}: ${msg}` : msg, param }
}

function fromMembers(body: Json, depth: number): ErrorText {
  const param = typeof body.param === 'string' && fieldName.test(body.param) ? body.param : null
  for (const name of wordMembers) {
    const value = body[name]
    const found = name === 'errors' && isObject(value) ? fromFields(value, depth) : readErrorText(value, depth + 1)
    if (found.message !== '') return { message: found.message, param: param ?? found.param }
  }
  return { message: '', param }
}

/** Faults by field: `{"messages": ["is required"]}`. */
function fromFields(fields: Json, depth: number): ErrorText {
  const faults = Object.entries(fields).slice(0, maxListed)
  const named = faults.map(([field, fault]) => ({ field, text: readErrorText(fault, depth + 1).message }))
  const told = named.filter(({ text }) => text !== '')
  const param = told.find(({ field }) => fieldName.test(field))?.field ?? null
  return { message: told.map(({ field, text }) => `${field}: ${text}`).join('; '), param }
}

/** The words of the server behind a proxy. */
function rawText(body: Json, depth: number): ErrorText {
  const { metadata } = body
  return isObject(metadata) ? readErrorText(metadata.raw, depth + 1) : nothing
}
