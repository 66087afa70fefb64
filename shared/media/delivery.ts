import type { GatewayError } from '../base/errors.ts'
import { plausibleUsage, type Usage } from '../base/usage.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { FileServices } from '../files/file-services.ts'
import type { SyncKind, WorkKinds } from '../kinds/index.ts'
import type { Quantity } from '../kinds/sync-kind.ts'
import type { ProviderError } from '../providers/provider-error.ts'
import type { Work } from './work.ts'

/** One attempt to deliver a result to a client. */
export type Delivery<K extends SyncKind> = {
  services: FileServices
  organisationId: string
  environment: 'live' | 'test'
  client: ResponseWriter
  /** Aborted when the client has disconnected; the work may continue. */
  gone: AbortSignal
  /** Aborted with a GatewayError that ends the work while its client is still connected; delivery must throw it. */
  stopped: AbortSignal
  /** Time of the request, in epoch milliseconds. */
  startedMs: number
  input: WorkKinds[K]['input']
  work: Work<K>
  /** The price of a quantity for this client, in nano-dollars. */
  costNano(quantity: Quantity): number
  /** The response headers; with the cost if it is known before sending. */
  headers(costNano: number | null): Record<string, string>
  /** Must be called when the provider's answer starts. */
  onFirstByte(): void
  /** The public form of an error after the answer has started. */
  failureOf(error: ProviderError): GatewayError
  /** Sends an event, preceded by the response head on first use; false = wait for drain. */
  send(event: string): boolean
}

/** What was delivered; `error` = the delivery failed after it had started. */
export type DeliveryResult = { quantity: Quantity; error: ProviderError | null }

/** Waits until the client accepts more data or disconnects. */
export async function waitForDrain<K extends SyncKind>({ client, gone }: Delivery<K>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const listener = () => resolve()
  client.onDrain(listener)
  gone.addEventListener('abort', listener)
  if (gone.aborted) resolve()
  await promise
  gone.removeEventListener('abort', listener)
}

/** No image, sound or transcript has more tokens. */
const maxMediaTokens = 2_000_000

/**
 * The tokens that a provider states for one answer that it gave; null when that cannot be true, as no output at all cannot, so
 * that they are estimated.
 */
export function statedTokens(usage: Usage | null): Usage | null {
  if (!usage || usage.completion_tokens === 0) return null
  return plausibleUsage(usage, { prompt: maxMediaTokens, completion: maxMediaTokens })
}
