import { Dispatcher, errors } from 'undici'
import type { z } from 'zod'
import { chatRequest } from '../../kinds/chat.ts'
import { completionRequest } from '../../kinds/completion.ts'
import { embeddingRequest } from '../../kinds/embedding.ts'
import { type Tokenizer, tokenizer } from '../../kinds/tokenizer.ts'
import { chat, lastUserText } from './chat/chat.ts'
import { complete, promptsOf } from './chat/completion.ts'
import { embed } from './chat/embedding.ts'
import { badRequest, errorResponse, type SandboxResponse } from './chat/response.ts'
import { parseDirective } from './directives.ts'
import { Exchange } from './exchange.ts'

/** The upstream of test keys: responds in OpenAI's dialect inside this process and never opens a connection. */
export function createSandbox(): Dispatcher {
  return new Sandbox()
}

/** How one path is served: the body's schema, the texts searched for directives, and the response. */
type Route<B> = {
  schema: z.ZodType<B>
  text(body: B, tokenizer: Tokenizer): string
  answer(body: B, tokenizer: Tokenizer): SandboxResponse | Promise<SandboxResponse>
}

type Plan = { waitMs: number; answer: SandboxResponse }

function route<B>({ schema, text, answer }: Route<B>) {
  return async (json: unknown, counter: Tokenizer): Promise<Plan> => {
    const parsed = schema.safeParse(json)
    if (!parsed.success) {
      const [issue] = parsed.error.issues
      return { waitMs: 0, answer: badRequest(issue?.message ?? 'invalid', issue?.path.join('.') || null) }
    }
    const directive = parseDirective(text(parsed.data, counter))
    if (directive && 'answer' in directive) return { waitMs: 0, answer: directive.answer }
    return { waitMs: directive?.waitMs ?? 0, answer: await answer(parsed.data, counter) }
  }
}

const texts = (prompts: { text: string }[]) => prompts.map(({ text }) => text).join('\n')

/** By path suffix. The longest comes first, because one contains the other. */
const routes = [
  ['/chat/completions', route({ schema: chatRequest, text: lastUserText, answer: chat })],
  [
    '/completions',
    route({
      schema: completionRequest,
      text: (body, counter) => texts(promptsOf(body.prompt, counter)),
      answer: complete,
    }),
  ],
  [
    '/embeddings',
    route({ schema: embeddingRequest, text: (body, counter) => texts(promptsOf(body.input, counter)), answer: embed }),
  ],
] as const

class Sandbox extends Dispatcher {
  readonly #open = new Set<Exchange>()
  #closing: Promise<void> | undefined
  #emptied: (() => void) | undefined

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const exchange = new Exchange(handler, finished => {
      this.#open.delete(finished)
      if (this.#open.size === 0) this.#emptied?.()
    })
    if (this.#closing) {
      exchange.abort(new errors.ClientClosedError())
      return false
    }
    this.#open.add(exchange)
    handler.onRequestStart?.(exchange, null)
    if (options.headersTimeout) {
      exchange.later(options.headersTimeout, () => exchange.abort(new errors.HeadersTimeoutError()))
    }
    void serve(exchange, options)
    return true
  }

  /** Rejects new requests and waits for the open ones. */
  override close(): Promise<void>
  override close(callback: () => void): void
  override close(callback?: () => void): Promise<void> | void {
    this.#closing ??= new Promise(resolve => {
      this.#emptied = resolve
      if (this.#open.size === 0) resolve()
    })
    if (!callback) return this.#closing
    void this.#closing.then(callback)
  }

  /** Aborts the open requests. */
  override destroy(error?: Error | null): Promise<void>
  override destroy(callback: () => void): void
  override destroy(error: Error | null, callback: () => void): void
  override destroy(first?: Error | null | (() => void), second?: () => void): Promise<void> | void {
    const callback = typeof first === 'function' ? first : second
    const error = first instanceof Error ? first : new errors.ClientDestroyedError()
    const closed = this.close()
    for (const exchange of this.#open) exchange.abort(error)
    if (!callback) return closed
    void closed.then(callback)
  }
}

async function serve(exchange: Exchange, { path, method, body }: Dispatcher.DispatchOptions): Promise<void> {
  try {
    const counter = await tokenizer()
    const { waitMs, answer } = await plan(path, method, body, counter)
    if (waitMs === 0) exchange.answer(answer)
    else if (waitMs < Infinity) exchange.later(waitMs, () => exchange.answer(answer))
  } catch (error) {
    exchange.abort(error instanceof Error ? error : new Error('The sandbox failed.', { cause: error }))
  }
}

async function plan(path: string, method: string, body: unknown, counter: Tokenizer): Promise<Plan> {
  const pathname = path.split('?', 1)[0]!
  const [, handle] = routes.find(([end]) => pathname.endsWith(end)) ?? []
  if (!handle || method !== 'POST') {
    const notFound = { type: 'invalid_request_error', code: 'unknown_url' }
    return { waitMs: 0, answer: errorResponse(404, `The sandbox does not serve ${method} ${pathname}.`, notFound) }
  }
  let json: unknown
  try {
    json = JSON.parse(body instanceof Uint8Array ? Buffer.from(body).toString() : String(body))
  } catch {
    return { waitMs: 0, answer: badRequest('The body is not JSON.', null) }
  }
  return handle(json, counter)
}
