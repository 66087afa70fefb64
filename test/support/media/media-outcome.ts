import sharp from 'sharp'
import { errorCodes, GatewayError } from '../../../shared/base/errors.ts'
import { type Called, heardText, speech } from './upstream.ts'
import { type Ask, heardNano, priceOf, type Sent } from './world.ts'

/** What requests for media came to, and what they must have come to. */

export type Step = Ask & {
  key: 'live' | 'capped' | 'poor' | 'test'
  leaves: 'stays' | 'at once' | 'midway' | 'during' | 'after'
  script: string[]
}

export type Seen = { status: number; headers: Headers; bytes: Buffer; end: 'whole' | 'broken' | 'left' }
/** One request, what its providers did and what its client saw; `status` 0 = nothing. */
export type MediaOutcome = { step: Step; name: string; requestId: string; sent: Sent; calls: Called[]; seen: Seen }

export type Row = {
  status: number
  costNano: bigint
  provider: string | null
  requestId: string
  environment: string
  routing?: unknown
}

/** Checks the outcome of one request against its row in the request log. Throws a description of any violation. */
export async function check(told: MediaOutcome, row: Row | null): Promise<void> {
  const { step, seen, sent } = told
  const cost = Number(row?.costNano ?? 0n)
  const say = (problem: string) =>
    new Error(`${problem}: ${describe(told)} ${JSON.stringify({ ...row, costNano: cost })}`)
  if (isReplay(seen)) {
    if (row || (await verdictOf(told)) !== 'whole')
      throw say('a replay is of something whole, and no request of its own')
    return
  }
  if (step.key === 'test' && cost > 0) throw say('a test key paid')
  if (!row && seen.status === 200) throw say('an answer without a row')
  if (seen.end === 'left') return left(told, row, cost, say)
  if (seen.status !== 200) return refused(told, row, cost, say)
  const verdict = await verdictOf(told)
  if (seen.end === 'broken' || verdict === 'broken') {
    if (verdict === 'whole' && sent.events) throw say('what broke off has an end')
    if (!sent.streams) throw say('a whole answer broke off')
    if (cost > 0 || row!.status === 200) throw say('what broke off is billed or called a success')
    return
  }
  if (row!.status !== 200) throw say('a whole answer is not called one')
  if (step.key !== 'test' && cost !== expected(told, row!.provider!))
    throw say(`it should cost ${expected(told, row!.provider!)}`)
  const header = seen.headers.get('x-gateway-cost-usd')
  if (header !== null && Math.round(Number(header) * 1e9) !== cost) throw say(`the header says ${header}`)
}

export function isReplay({ headers }: Seen): boolean {
  return headers.get('idempotent-replayed') === 'true'
}

export function describe({ name, step, calls, seen }: MediaOutcome): string {
  const { status, end, bytes } = seen
  return JSON.stringify({ name, ...step, calls, status, end, body: bytes.toString('latin1', 0, 300) })
}

type Say = (problem: string) => Error

/** A client that disconnects pays for what was produced; if that is unknown, for the maximum cost of the request. */
function left({ step, calls, name }: MediaOutcome, row: Row | null, cost: number, say: Say): void {
  if (cost === 0) return
  const provider = row!.provider!
  // A call that was cut off right after it was sent may not have reached its provider whole.
  const isCutOff = JSON.stringify(row!.routing).includes(`"fault":"client_closed_request"`)
  if (!isCutOff && !calls.some(call => call.provider === provider)) throw say('it paid a provider that was not asked')
  const prices = payable(step, name, provider)
  const isBound = row!.status === 499 && cost >= Math.max(...prices)
  if (!prices.includes(cost) && !isBound) throw say(`what costs ${cost}?`)
}

function payable(step: Step, name: string, provider: string): number[] {
  const pieces = Array.from({ length: step.n }, (_, i) => i + 1)
  const made = pieces.flatMap(count => [count, step.n].map(all => [count, all] as const))
  const whole = [true, false].flatMap(isCounted =>
    made.map(([count, all]) => priceOf(step, name, provider, isCounted, count, all)),
  )
  return [...whole, heardNano(provider)]
}

function refused({ seen, step }: MediaOutcome, row: Row | null, cost: number, say: Say): void {
  if (seen.end !== 'whole') throw say('an error broke off')
  const { error } = JSON.parse(seen.bytes.toString())
  if (!errorCodes.includes(error.code) || new GatewayError(error.code, '').status !== seen.status)
    throw say('no error of ours')
  if (seen.status === 500) throw say('a fault of ours')
  if (cost > 0) throw say('an error is billed')
  // A refused call may be summed in the row of another one of its minute; a 503 may leave none.
  const mayHaveNone = seen.status === 402 || seen.status === 503
  if (row ? row.status !== seen.status && seen.status !== 503 : !mayHaveNone) throw say('the row says otherwise')
  if (seen.status === 402 && !['poor', 'capped'].includes(step.key)) throw say('there was money enough')
}

/** Whether the content of a 200 is a whole answer, and the right one. Throws where it is wrong. */
async function verdictOf({ seen, sent, step, name }: MediaOutcome): Promise<'whole' | 'broken'> {
  const { bytes } = seen
  if (sent.events) {
    const lines = bytes
      .toString()
      .split('\n')
      .filter(line => line.startsWith('data: '))
    if (lines.at(-1) !== 'data: [DONE]') {
      if (seen.end === 'whole' && !lines.at(-1)?.includes('"type":"error"'))
        throw new Error(`${name} an unfinished stream has no error`)
      return 'broken'
    }
    const values = lines.slice(0, -1).map(line => JSON.parse(line.slice(6)))
    await rightEvents(step, values, name)
    return 'whole'
  }
  if (seen.end === 'broken') return 'broken'
  if (step.model.startsWith('draw')) await rightImages(JSON.parse(bytes.toString()).data, step, name)
  else if (step.model.startsWith('hear')) rightText(JSON.parse(bytes.toString()).text, step, name)
  else if (step.key !== 'test' && !bytes.equals(speech))
    throw new Error(`${name} the sound is not whole: ${bytes.length}`)
  return 'whole'
}

// biome-ignore lint/suspicious/noExplicitAny: events of every kind
type Shown = any

async function rightEvents(step: Step, events: Shown[], name: string): Promise<void> {
  if (step.model.startsWith('draw')) return rightImages(events, step, name)
  if (step.model.startsWith('hear')) {
    const { text } = events.at(-1)
    if (
      events
        .slice(0, -1)
        .map(({ delta }) => delta)
        .join('') !== text
    )
      throw new Error(`${name} the pieces are not the whole`)
    return rightText(text, step, name)
  }
  const bytes = Buffer.concat(events.slice(0, -1).map(({ audio }) => Buffer.from(audio, 'base64')))
  if (step.key !== 'test' && !bytes.equals(speech)) throw new Error(`${name} the sound of the events is not whole`)
}

function rightText(text: string, { key }: Step, name: string): void {
  if (key !== 'test' && text !== '' && text !== heardText) throw new Error(`${name} the text is not whole: ${text}`)
}

async function rightImages(data: Shown[], { n }: Step, name: string): Promise<void> {
  if (data.length < 1 || data.length > n) throw new Error(`${name} ${data.length} of ${n} images`)
  for (const { url, b64_json } of data) {
    const bytes = url ? Buffer.from(await (await fetch(url)).arrayBuffer()) : Buffer.from(b64_json, 'base64')
    await sharp(bytes, { failOn: 'error' }).raw().toBuffer()
  }
}

/** What a whole answer costs: by what the provider that gave it did, and what the client got. */
function expected({ step, name, calls, seen, sent }: MediaOutcome, provider: string): number {
  const text = seen.bytes.toString()
  if (step.model.startsWith('hear')) {
    const said = sent.events ? text.includes(heardText) : JSON.parse(text).text !== ''
    if (!said) return 0
  }
  const { behaviour } = calls.filter(call => call.provider === provider).at(-1)!
  const pieces = (text.match(/"(?:b64_json|url)":/g) ?? []).length
  const made = behaviour === 'partly' ? step.n : pieces
  return priceOf(step, name, provider, behaviour !== 'uncounted', Math.max(1, pieces), Math.max(1, made))
}
