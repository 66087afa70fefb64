import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { endpointOf, modelNotFoundError } from '../catalog/model-not-found.ts'
import type { Bytes } from '../io/bytes.ts'
import { type Line, splitLines } from '../io/lines.ts'
import type { Platform } from '../platform.ts'
import { parseModelSelector, serves } from '../routing/options.ts'
import { maxLineBytes } from './input.ts'
import {
  type BatchEndpoint,
  type BatchRequestLine,
  batchEndpoints,
  isBlank,
  type LineFault,
  parseRequest,
} from './request.ts'

/**
 * A batch is up to 50,000 requests in a file of 200 MB. A bad line found after hours has cost the lines before it,
 * and files are written by programs: one bad line is seldom alone.
 *
 * While the batch is `validating`, every line passes the checks of a request to its endpoint (the same schema), those
 * of the line object around it, and the catalog's: the models it names exist and are served there. Any fault fails
 * the batch, nothing is run or charged, and `errors` has the first 100 faults in file order, each with the code,
 * field and message that the direct request would have had, under `body`. Reading stops after 100 faults, or at line
 * 50,001.
 *
 * - The format is strict JSON Lines: UTF-8 without a byte order mark, one object per line, `\n` or `\r\n`. Up to 100
 *   blank lines at the end are ignored; elsewhere they are faults, so that line numbers match those of an editor.
 * - A line may be 10 MiB, as long as a request's body.
 * - A model of another kind is `invalid_request` and the message names the endpoint that serves it: in a file the
 *   endpoint is usually the mistake.
 * - Stored responses (`store: true`, `previous_response_id`, `conversation`, `background`, `prompt`) are faults of a
 *   line of `/v1/responses`, like `stream: true` of any: the line could only be answered without them.
 * - Checks that depend on time are left to the run: the key's allowlist, what the model accepts, whether a provider
 *   is up. Such a line fails alone, with the answer of a direct request, in the error file.
 * - A fault may quote any text of the file, so NUL and lone surrogates, which PostgreSQL does not store in JSON, are
 *   replaced.
 *
 * The file is streamed: memory holds one chunk, one line and the custom ids (their number and length are bounded).
 * Measured on one core with chat lines of 1 kB: 7 µs a line once the code is warm, 13 µs at first, so half a second
 * for 50,000 lines, with 25 to 60 MB more memory than before. The runner reads the lines a second time, without
 * checks, at half the cost. A catalog that changes between the two makes lines fail, not the batch.
 */

/** The limit of requests in one batch. */
const maxRequests = 50_000
const maxFaults = 100
const maxSlugCharacters = 200
const byteOrderMark = Buffer.from('\ufeff')

type Validated = {
  total: number
  /** The one model id all lines name; null when several, `auto` or fallbacks. */
  model: string | null
}

/**
 * Validates the whole input. Returns its total and model, or its faults (the first 100, in order). Holds only one line and
 * the custom ids in memory.
 */
export async function validateInput(
  { catalog }: Pick<Platform, 'catalog'>,
  body: Bytes,
  endpoint: BatchEndpoint,
): Promise<Validated | { faults: LineFault[] }> {
  const validator = new InputValidator(catalog, endpoint)
  for await (const lines of splitLines(body, maxLineBytes))
    for (const line of lines) if (!validator.add(line)) return { faults: validator.faults }
  return validator.end()
}

/** The state of a validation after some of the lines. */
class InputValidator {
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

  /** Validates the next line; false when validation is over. */
  add({ number, bytes }: Line): boolean {
    const blank = bytes !== null && isBlank(bytes)
    if (blank) this.#blank.push(number)
    // A few blank lines at the end are tolerated; more than that end the validation early.
    if (blank && this.#blank.length <= maxFaults) return true
    for (const line of this.#blank) this.#addFault(line, blankLine(line))
    this.#blank = []
    if (blank) return false
    this.#total = number
    if (number > maxRequests) {
      this.#addFault(number, tooMany())
      return false
    }
    try {
      this.#check(number, bytes)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      this.#addFault(number, error)
    }
    return this.faults.length < maxFaults
  }

  end(): Validated | { faults: LineFault[] } {
    if (this.#total === 0) this.#addFault(null, new GatewayError('invalid_request', 'The file has no requests.'))
    return this.faults.length > 0 ? { faults: this.faults } : { total: this.#total, model: this.#model }
  }

  /** Throws a GatewayError for an invalid line. */
  #check(number: number, bytes: Buffer | null): void {
    if (bytes === null) throw tooLong()
    if (number === 1 && bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark)) throw byteOrderMarkFault()
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

  #addFault(line: number | null, { code, message, param }: GatewayError): void {
    if (this.faults.length === maxFaults) return
    this.faults.push({ code, line, message: storable(message), param: param && storable(param) })
  }
}

/** The id of the one model that a request names; null when it allows several. Throws 400 and 404 for unusable ones. */
function modelOf(catalog: Catalog, endpoint: BatchEndpoint, body: BatchRequestLine['body']): string | null {
  const model = namedModel(catalog, endpoint, body.model, 'body.model')
  const { models } = body
  if (!models) return model
  for (const [index, slug] of models.entries()) namedModel(catalog, endpoint, slug, `body.models.${index}`)
  return null
}

function namedModel(catalog: Catalog, endpoint: BatchEndpoint, slug: string, param: string): string | null {
  const kind = batchEndpoints[endpoint]
  const { auto, model, sort } = parseModelSelector(catalog, slug, kind)
  if (auto) return null
  if (!model || model.disabled)
    throw modelNotFoundError(catalog, {
      slug: slug.slice(0, maxSlugCharacters),
      model,
      list: '/v1/models',
      serves: row => serves(row, kind),
      // Validation ends after a few faults.
      suggests: true,
    }).withParam(param)
  if (!serves(model, kind))
    throw new GatewayError('invalid_request', `\`${slug}\` is served by ${endpointOf(model)}, not by ${endpoint}.`, {
      param,
    })
  return sort === 'score' ? model.id : null
}

/** Sanitises text for Postgres' JSON: a fault may quote any text of the file. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd')
}

function blankLine(number: number): GatewayError {
  return new GatewayError('invalid_json', `Line ${number} is blank; write one request on each line.`)
}

function tooMany(): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The file has more than ${maxRequests.toLocaleString('en')} requests; split it.`,
  )
}

function tooLong(): GatewayError {
  return new GatewayError('request_too_large', 'The line is longer than 10 MiB; refer to large files by URL.')
}

function byteOrderMarkFault(): GatewayError {
  return new GatewayError('invalid_json', 'The file begins with a byte order mark; save it as UTF-8 without one.')
}
