import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { endpoints } from '../catalog/schema.ts'
import { serves, wishOf } from '../chat/router.ts'
import type { Bytes } from '../io/bytes.ts'
import { type Line, linesOf } from '../io/lines.ts'
import type { Services } from '../services.ts'
import { mostLineBytes } from './input.ts'
import {
  type BatchEndpoint,
  type BatchRequestLine,
  batchEndpoints,
  isBlank,
  type LineFault,
  parseRequest,
} from './request.ts'

/** Requests of one batch (contract §7). */
const mostRequests = 50_000
const mostFaults = 100
const mostSlugCharacters = 200
const byteOrderMark = Buffer.from('\ufeff')

export type Validated = {
  total: number
  /** The one model id all lines name; null when several, `auto` or fallbacks. */
  model: string | null
}

/**
 * Reads the whole input. Gives its figures, or its faults (the first 100, in order). Holds one line at a time, and the
 * custom ids.
 */
export async function validateInput(
  { catalog }: Pick<Services, 'catalog'>,
  body: Bytes,
  endpoint: BatchEndpoint,
): Promise<Validated | { faults: LineFault[] }> {
  const input = new Input(catalog, endpoint)
  for await (const lines of linesOf(body, mostLineBytes))
    for (const line of lines) if (!input.take(line)) return { faults: input.faults }
  return input.end()
}

/** What is known of an input after some of its lines. */
class Input {
  readonly faults: LineFault[] = []
  readonly #catalog: Catalog
  readonly #endpoint: BatchEndpoint
  /** The line of each custom id. */
  readonly #lines = new Map<string, number>()
  /** Blank lines since the last request: a fault if another one follows. */
  #blank: number[] = []
  #total = 0
  #model: string | null = null

  constructor(catalog: Catalog, endpoint: BatchEndpoint) {
    this.#catalog = catalog
    this.#endpoint = endpoint
  }

  /** Takes the next line; false when no more are wanted. */
  take({ number, bytes }: Line): boolean {
    const blank = bytes !== null && isBlank(bytes)
    if (blank) this.#blank.push(number)
    // So many at the end are no slip, and a file of nothing else is not read to its end.
    if (blank && this.#blank.length <= mostFaults) return true
    for (const line of this.#blank) this.#fault(line, blankLine(line))
    this.#blank = []
    if (blank) return false
    this.#total = number
    if (number > mostRequests) {
      this.#fault(number, tooMany())
      return false
    }
    try {
      this.#check(number, bytes)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      this.#fault(number, error)
    }
    return this.faults.length < mostFaults
  }

  end(): Validated | { faults: LineFault[] } {
    if (this.#total === 0) this.#fault(null, new GatewayError('invalid_request', 'The file has no requests.'))
    return this.faults.length > 0 ? { faults: this.faults } : { total: this.#total, model: this.#model }
  }

  /** Throws the GatewayError of a line that is no good. */
  #check(number: number, bytes: Buffer | null): void {
    if (bytes === null) throw tooLong()
    if (number === 1 && bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark)) throw marked()
    const { customId, body } = parseRequest(bytes, this.#endpoint)
    const first = this.#lines.get(customId)
    if (first !== undefined)
      throw new GatewayError(
        'invalid_request',
        `\`custom_id\` is that of line ${first} already; each must be its own.`,
        { param: 'custom_id' },
      )
    this.#lines.set(customId, number)
    const model = modelOf(this.#catalog, this.#endpoint, body)
    if (this.#lines.size === 1) this.#model = model
    else if (this.#model !== model) this.#model = null
  }

  #fault(line: number | null, { code, message, param }: GatewayError): void {
    if (this.faults.length === mostFaults) return
    this.faults.push({ code, line, message: storable(message), param: param && storable(param) })
  }
}

/** The one model that a request names, by its id; null when it leaves a choice. Throws 400 and 404 for one it cannot have. */
function modelOf(catalog: Catalog, endpoint: BatchEndpoint, body: BatchRequestLine['body']): string | null {
  const model = namedModel(catalog, endpoint, body.model, 'body.model')
  const { models } = body
  if (!models) return model
  for (const [index, slug] of models.entries()) namedModel(catalog, endpoint, slug, `body.models.${index}`)
  return null
}

function namedModel(catalog: Catalog, endpoint: BatchEndpoint, slug: string, param: string): string | null {
  const kind = batchEndpoints[endpoint]
  const { auto, model, sort } = wishOf(catalog, slug, kind)
  if (auto) return null
  if (!model || model.disabled)
    throw new GatewayError(
      'model_not_found',
      `There is no model \`${slug.slice(0, mostSlugCharacters)}\`. GET /v1/models lists what there is.`,
      { param },
    )
  if (!serves(model, kind))
    throw new GatewayError(
      'invalid_request',
      `\`${slug}\` is served by ${model.endpoint ?? endpoints[model.type]}, not by ${endpoint}.`,
      { param },
    )
  return sort === 'score' ? model.id : null
}

/** As text that Postgres stores in JSON: a fault may quote any text of the file. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd')
}

function blankLine(number: number): GatewayError {
  return new GatewayError('invalid_json', `Line ${number} is blank; write one request on each line.`)
}

function tooMany(): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The file has more than ${mostRequests.toLocaleString('en')} requests; split it.`,
  )
}

function tooLong(): GatewayError {
  return new GatewayError('request_too_large', 'The line is longer than 10 MiB; refer to large files by URL.')
}

function marked(): GatewayError {
  return new GatewayError('invalid_json', 'The file begins with a byte order mark; save it as UTF-8 without one.')
}
